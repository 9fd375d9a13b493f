"""Planted bugs of the host that ships: its coordinator, its pollers and Spark's stream reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import ModuleType
from typing import Any

from evensplit.core.batch.plan import BatchPlan, ReaderPlan
from evensplit.core.batch.tasks import plan_tasks
from evensplit.core.machine.events import BatchOpened
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.driver import coordinator
from evensplit.spark.driver.agenda import Agenda
from evensplit.spark.poll.cluster_query import ClusterQuery
from evensplit.spark.poll.log_bounds import LogStarts
from evensplit.spark.stream_reader import EvenSplitStreamReader
from evensplit.testing.sim import Rules
from tests.sim.planting import Planted, swapped


def in_host(name: str, other: object, module: ModuleType | type) -> Callable[[], AbstractContextManager[None]]:
    """Something of the host is another thing."""
    return partial(swapped, name, other, module)


def opened_before_all_polls(durable: int | None, _: int, repeated: Sequence[Any]) -> BatchOpened:
    """Polls that were sent before the tasks have read count as sent after it."""
    return BatchOpened(durable, 0, tuple(repeated))


def first_starts(starts: LogStarts, *, watched: bool) -> None:
    """Where logs begin is asked for once, although losses are declared."""
    _watch(starts, watched=False)


def last_range_dropped(plan: BatchPlan, **how: Any) -> Sequence[ReaderPlan]:
    """The last task of a batch lacks its last range."""
    *tasks, last = plan_tasks(plan, **how) or (ReaderPlan(0, ()),)
    return [*tasks, ReaderPlan(last.reader, last.ranges[:-1])]


def same_state_again(
    reader: EvenSplitStreamReader, offset: dict[str, Any], start: EnumeratorState | None = None
) -> EnumeratorState:
    """An offset is taken for the one before it, which need not be decoded."""
    known = reader._known
    return known[0][1] if known else _state(reader, offset, start)


_watch, _state = LogStarts.__init__, EvenSplitStreamReader._state

BUGS: Mapping[str, Planted] = {
    "news-missed": Planted(
        "an idle query sees nothing new",
        ("liveness",),
        Rules(),
        host=in_host("has_news", lambda *_, **__: False, Agenda),
    ),
    "compared-too-early": Planted(
        "a poll from before the reading says that all was there",
        ("S9", "liveness"),
        Rules(),
        host=in_host("BatchOpened", opened_before_all_polls, coordinator),
    ),
    "starts-looked-up-once": Planted(
        "what is deleted under a task is not noticed",
        ("S9", "liveness"),
        Rules(),
        host=in_host("__init__", first_starts, LogStarts),
    ),
    "end-of-the-new-topic": Planted(
        "a topic that is created anew within a poll lends its end to the one before",
        ("S9", "S12"),
        Rules(),
        host=in_host("_drop_replaced", lambda *_: None, ClusterQuery),
    ),
    "range-dropped": Planted(
        "a task lacks a range",
        ("S11",),
        Rules(),
        host=in_host("plan_tasks", last_range_dropped, coordinator),
    ),
    "offset-taken-for-another": Planted(
        "a batch goes on from an older offset",
        ("S3", "S10", "S11", "S15", "crash"),
        Rules(),
        host=in_host("_state", same_state_again, EvenSplitStreamReader),
    ),
}
"""Name -> bug."""
