"""The number of readers of the next batch."""

from __future__ import annotations

import logging
from collections.abc import Callable

from evensplit.core.batch.reader_count import AUTO, ReaderCount, follow
from evensplit.core.state.state import READERS_MAX, EnumeratorState
from evensplit.spark.slots.asking import SlotsQuestion
from evensplit.spark.task.telling import Destination

log = logging.getLogger("evensplit")

AskSlots = Callable[[], int | None]
"""Returns how many tasks the session can run at once; None if that is not known."""


def asked_slots(told: int | None, to: Destination | None) -> AskSlots | None:
    """What asks the session at `to`; None if that is not wanted, or nobody is there. `told`: as in `ReaderNumber`."""
    return SlotsQuestion(to).ask if told == AUTO and to is not None else None


class ReaderNumber:
    """As the option `readers` says: a number, that of the checkpoint, or one that follows the session's slots (`AUTO`).

    Args:
        told: the option; None: it is not given.
        default: the number of a new query without it.
        slots: asks the session; None: nobody can be asked.
    """

    def __init__(self, told: int | None, default: int, slots: AskSlots | None = None) -> None:
        self._told = told
        self._default = default
        self._slots = slots
        self._count: ReaderCount | None = None
        self._is_silent = False

    def of(self, state: EnumeratorState, now_ms: int) -> int:
        """The number of readers of a batch that begins at `state` and is planned now."""
        if self._told is not None and self._told != AUTO:
            return self._told
        if self._told is None or self._slots is None:
            return state.readers or self._default
        slots = self._slots()
        self._say(slots, state)
        if self._count is None:
            # The executors of a session that has just begun may still be on their way.
            first = state.readers or (slots if slots else self._default)
            self._count = ReaderCount(first)
        self._count = follow(self._count, slots, now_ms, READERS_MAX)
        return self._count.readers

    def _say(self, slots: int | None, state: EnumeratorState) -> None:
        """Log once that nobody answers, and once that somebody does again."""
        if slots is None and not self._is_silent:
            log.warning(
                "readers=auto: the program that registered the session did not say how many tasks it runs at once; "
                "there are %d readers until it does",
                self._count.readers if self._count is not None else state.readers or self._default,
            )
        elif slots is not None and self._is_silent:
            log.info("readers=auto: the session runs %d tasks at once", slots)
        self._is_silent = slots is None
