"""The slots of a simulated session, as whoever plans is told of them, and S20: how the number of readers follows."""

from __future__ import annotations

from evensplit.testing.sim.failure import Broken

FEWER_AFTER_MS = 60_000
"""For so long there have to be fewer slots before there are fewer readers."""


class SessionSlots:
    """What was answered in one process, and how many readers there were."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A process begins: it knows of no slots."""
        self._answers: list[tuple[int, int]] = []
        self._last: int | None = None
        self._readers: int | None = None
        self._since_ms = 0

    def answer(self, slots: int | None) -> int | None:
        """Answer that there are so many; None, or less than 1: that is not known now."""
        self._last = slots if slots is not None and slots > 0 else None
        return slots

    def check(self, before: int, readers: int, now_ms: int) -> None:
        """S20: raise `Broken` if the batch that begins now has another number of readers than it should have.

        More slots count at once. Fewer count when there have been fewer for a minute, and then the most that there were
        in that time. Where the number is not known, it stays as it was: `before`, in a process that has just begun.
        """
        was = self._readers if self._readers is not None else before
        if self._last is not None:
            self._answers.append((now_ms, self._last))
        expected = self._expected(was, now_ms)
        if readers != expected:
            raise Broken(
                "S20",
                f"there are {readers} readers, and there were {was}; expected {expected}, with {self._last} slots "
                f"after {[slots for _, slots in self._answers[-6:-1]]}",
            )
        if readers != self._readers:
            self._readers, self._since_ms = readers, now_ms

    def _expected(self, was: int, now_ms: int) -> int:
        if self._last is None:
            return was or 1
        if self._last >= was:
            return self._last
        fewer, since_ms = [self._last], now_ms
        for at_ms, slots in reversed(self._answers):
            if slots >= was or at_ms < self._since_ms:
                break
            fewer.append(slots)
            since_ms = at_ms
        return max(fewer) if now_ms - since_ms >= FEWER_AFTER_MS else was
