"""Planted bugs of the host that ships: its coordinator, its pollers and Spark's stream reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import ModuleType
from typing import Any

from evensplit.core.batch.plan import BatchPlan, ReaderPlan
from evensplit.core.batch.tasks import plan_tasks
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.driver import coordinator
from evensplit.spark.driver.agenda import Agenda
from evensplit.spark.micro_batches import MicroBatches
from evensplit.spark.poll.pace import Pace
from evensplit.testing.sim import Rules
from tests.sim.planting import Planted, swapped


def in_host(name: str, other: object, module: ModuleType | type) -> Callable[[], AbstractContextManager[None]]:
    """Something of the host is another thing."""
    return partial(swapped, name, other, module)


def last_range_dropped(plan: BatchPlan, **how: Any) -> Sequence[ReaderPlan]:
    """The last task of a batch lacks its last range."""
    *tasks, last = plan_tasks(plan, **how) or (ReaderPlan(0, ()),)
    return [*tasks, ReaderPlan(last.reader, last.ranges[:-1])]


def same_state_again(
    batches: MicroBatches, offset: dict[str, Any], start: EnumeratorState | None = None
) -> EnumeratorState:
    """An offset is taken for the one before it, which need not be decoded."""
    known = batches._known
    return known[0][1] if known else _state(batches, offset, start)


_state = MicroBatches._state


def rests_as_it_hung(pace: Pace, least_s: float, factor: float, most_s: float) -> float:
    """A cluster that hung is left alone for many times as long."""
    return DUE_IN_S(pace, least_s, factor, most_s) + (3_600.0 if pace.ended_at > 0 else 0.0)


DUE_IN_S = Pace.due_in_s

BUGS: Mapping[str, Planted] = {
    "news-missed": Planted(
        "an idle query sees nothing new",
        ("liveness",),
        Rules(),
        seed=4,
        host=in_host("has_news", lambda *_, **__: False, Agenda),
    ),
    "rests-for-an-hour": Planted(
        "a cluster is left alone for an hour",
        ("liveness",),
        Rules(),
        seed=5,
        host=in_host("due_in_s", rests_as_it_hung, Pace),
        like="evensplit, before: a cluster that hung is read late",
    ),
    "range-dropped": Planted(
        "a task lacks a range",
        ("S11",),
        Rules(),
        seed=4,
        host=in_host("plan_tasks", last_range_dropped, coordinator),
    ),
    "offset-taken-for-another": Planted(
        "a batch goes on from an older offset",
        ("S11", "S15"),
        Rules(),
        seed=4,
        host=in_host("_state", same_state_again, MicroBatches),
    ),
}
"""Name -> bug."""
