"""Several recorders as one: those of the sessions that a process has."""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import ReferenceType, ref

from evensplit.core.model import SplitId
from evensplit.explain.split_history import SplitHistory
from evensplit.observe.recorder import RUNS, Begun, Recorder, SourceStatus
from evensplit.observe.source_view import Source


class RecorderGroup:
    """What the page shows, whoever has recorded it, for as long as that is kept elsewhere. Safe for several threads."""

    def __init__(self, *recorders: Recorder) -> None:
        self._lock = threading.Lock()
        self._known: tuple[ReferenceType[Recorder], ...] = tuple(map(ref, recorders))

    def add(self, recorder: Recorder) -> bool:
        """Show what `recorder` has as well; whether that is new."""
        with self._lock:
            left = tuple(one for one in self._known if one() is not None)
            if any(one() is recorder for one in left):
                return False
            self._known = (*left, ref(recorder))
            return True

    def watched(self) -> tuple[SourceStatus, ...]:
        """All sources: those that run last, and of these the one that was heard of last.

        One that two recorders know is as the later of the two has it.
        """
        found: dict[tuple[str, int], SourceStatus] = {}
        for recorder in self._recorders():
            for one in recorder.watched():
                key = (one.view.source.query_id, one.view.source.number)
                found.pop(key, None)
                found[key] = one
        return tuple(sorted(found.values(), key=lambda one: (one.stage in RUNS, one.heard_ms or 0)))

    def begun(self) -> tuple[Begun, ...]:
        """All queries without a batch; of each recorder the one that was started last at the end."""
        return tuple(one for recorder in self._recorders() for one in recorder.begun())

    def story(self, source: Source, split: SplitId, wanted: Callable[[], bool] | None = None) -> SplitHistory | None:
        """What became of a split, by the last recorder that knows it; see `Recorder.story`."""
        for recorder in reversed(self._recorders()):
            told = recorder.story(source, split, wanted)
            if told is not None:
                return told
        return None

    def _recorders(self) -> list[Recorder]:
        return [found for one in self._known if (found := one()) is not None]
