"""Makes the next batch while the caller works on the last one, in a second thread, where a processor is idle.

Decompressing is as much work as Java has with the rows. Where nothing else runs, both can go on at the same time; where
all processors are busy, a second thread only takes time from the others. Which it is, the kernel tells: how long the
threads of this process were ready to run and had to wait for a processor (`run_delay` in /proc/…/schedstat).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

Batch = TypeVar("Batch")

WAIT_SHARE_MAX = 0.1
"""Above this share of the time that threads waited for a processor, none counts as idle."""

GAIN_SHARE_MIN = 0.1
"""Below this share of the time that could be saved, a second thread is not worth it."""

WEIGHT = 0.2
"""How much the last batch counts in an average over them."""

_THREADS = Path("/proc/self/task")


def waited_s() -> float | None:
    """For how long threads of this process have waited for a processor, in all; None where it is not known."""
    ran_ns = waited_ns = 0
    try:
        for thread in _THREADS.iterdir():
            # A thread may end meanwhile.
            with suppress(FileNotFoundError, ProcessLookupError):
                ran, waited, _ = map(int, (thread / "schedstat").read_text().split())
                ran_ns, waited_ns = ran_ns + ran, waited_ns + waited
    except (OSError, ValueError):
        return None
    # A kernel that does not count, or that has no such file, has nothing that ran either.
    return waited_ns / 1e9 if ran_ns else None


class Spare:
    """Whether making the next batch ahead would save time, by how the last ones went.

    `made`, `used` are told how long batches took to make, and to be worked on.
    """

    def __init__(self, waited_s: Callable[[], float | None] = waited_s, clock: Callable[[], float] = time.monotonic):
        self._waited_s = waited_s
        self._clock = clock
        self._last: tuple[float | None, float] = None, 0.0
        self._waits = 1.0
        self._make_s = self._use_s = 0.0

    def made(self, took_s: float) -> None:
        """A batch was made."""
        self._make_s += WEIGHT * (took_s - self._make_s)

    def used(self, took_s: float) -> None:
        """The caller came back for the next one."""
        self._use_s += WEIGHT * (took_s - self._use_s)

    def is_there(self) -> bool:
        """Whether a processor is idle, and the two take long enough that doing them at once saves time."""
        if min(self._make_s, self._use_s) < GAIN_SHARE_MIN * (self._make_s + self._use_s):
            return False
        waited, now = self._waited_s(), self._clock()
        (before, since), self._last = self._last, (waited, now)
        if waited is None or before is None or now <= since:
            return False
        # A thread that has ended takes what it had waited with it.
        share = max(0.0, waited - before) / (now - since)
        self._waits += WEIGHT * (share - self._waits)
        return self._waits <= WAIT_SHARE_MAX


class LookAhead(Generic[Batch]):
    """`batches`, in their order, each made ahead or when it is asked for.

    Closing it early waits for the batch that is being made, as long as that waits for brokers at most, and closes
    `batches`.
    """

    def __init__(self, batches: Iterator[Batch], spare: Spare) -> None:
        self._batches = batches
        self._spare = spare

    def __iter__(self) -> Iterator[Batch]:
        pool: ThreadPoolExecutor | None = None
        ahead: Future[Batch | None] | None = None
        try:
            while True:
                batch = self._next() if ahead is None else ahead.result()
                ahead = None
                if batch is None:
                    return
                if self._spare.is_there():
                    pool = pool or ThreadPoolExecutor(1, "evensplit-ahead")
                    ahead = pool.submit(self._next)
                given_s = time.monotonic()
                yield batch
                self._spare.used(time.monotonic() - given_s)
        finally:
            if pool is not None:
                pool.shutdown()
            close = getattr(self._batches, "close", None)
            if close is not None:
                close()

    def _next(self) -> Batch | None:
        began_s = time.monotonic()
        batch = next(self._batches, None)
        self._spare.made(time.monotonic() - began_s)
        return batch
