"""Several recorders as one: those of the sessions that a process has."""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import ReferenceType, ref

from evensplit.core.model import SplitId
from evensplit.explain.split_history import SplitHistory
from evensplit.observe.recorder import RUNS, Begun, Recorder, SourceStatus
from evensplit.observe.sinks import SinkStatus, SinkView
from evensplit.observe.source_view import Source


class RecorderGroup:
    """Several recorders as one, each for as long as it lives: they are held weakly. Safe for several threads."""

    def __init__(self, *recorders: Recorder) -> None:
        self._lock = threading.Lock()
        self._known: tuple[ReferenceType[Recorder], ...] = tuple(map(ref, recorders))

    def add(self, recorder: Recorder) -> bool:
        """Add `recorder`; return whether it is new."""
        with self._lock:
            left = tuple(one for one in self._known if one() is not None)
            if any(one() is recorder for one in left):
                return False
            self._known = (*left, ref(recorder))
            return True

    def watched(self) -> tuple[SourceStatus, ...]:
        """All sources, ended ones first, then by when they were last heard of.

        If two recorders have the same source, it is as in the one added later.
        """
        found: dict[tuple[str, int], SourceStatus] = {}
        for recorder in self._recorders():
            for one in recorder.watched():
                key = (one.view.source.query_id, one.view.source.number)
                found.pop(key, None)
                found[key] = one
        return tuple(sorted(found.values(), key=lambda one: (one.stage in RUNS, one.heard_ms or 0)))

    def begun(self) -> tuple[Begun, ...]:
        """All queries without a batch, by recorder, in the order of their starts."""
        return tuple(one for recorder in self._recorders() for one in recorder.begun())

    def sinks(self) -> tuple[SinkStatus, ...]:
        """All queries that write, each as in the recorder that was added last."""
        return tuple(
            {one.view.query_id: one for recorder in self._recorders() for one in recorder.sinks.all()}.values()
        )

    def sink(self, query_id: str) -> SinkView | None:
        """What a query has written, by its id; None if it has told nothing."""
        return next((one.view for one in self.sinks() if one.view.query_id == query_id), None)

    def story(self, source: Source, split: SplitId, wanted: Callable[[], bool] | None = None) -> SplitHistory | None:
        """The history of a split, from the latest recorder that has it; see `Recorder.story`."""
        for recorder in reversed(self._recorders()):
            told = recorder.story(source, split, wanted)
            if told is not None:
                return told
        return None

    def _recorders(self) -> list[Recorder]:
        return [found for one in self._known if (found := one()) is not None]
