"""A coordinator over clusters in memory, driven as Spark drives it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from evensplit.core.batch.plan import plan_batch
from evensplit.core.machine.enumerator import Step, step
from evensplit.core.machine.events import Event
from evensplit.core.machine.invariants import check
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.offset_strategies import Earliest, Latest
from evensplit.core.state.state import EnumeratorState
from evensplit.kafka.admin.protocol import ClusterPort
from evensplit.spark.driver.coordinator import Coordinator
from evensplit.spark.options.parse import ClusterOptions, SourceOptions, parse_options
from evensplit.spark.poll.scheduler import Scheduler
from evensplit.spark.stream_reader import EvenSplitStreamReader
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock
from tests.support.waiting import wait_for


class Source:
    """A coordinator over fakes, driven as Spark drives it.

    `clock`: the time, in s, instead of the real one; `monotonic`: the one that is never set back, if it is another.
    """

    def __init__(
        self,
        *clusters: FakeKafka,
        start: object = "earliest",
        batch: bool = False,
        each: Mapping[str, Mapping[str, str]] | None = None,
        clock: Callable[[], float] | None = None,
        monotonic: Callable[[], float] | None = None,
        advance: Callable[[EnumeratorState, Event], Step] = step,
        **options: str,
    ) -> None:
        self.fakes = {cluster.cluster: cluster for cluster in clusters}
        named: dict[str, dict[str, str]] = {name: {"kafka.bootstrap.servers": f"{name}:9092"} for name in self.fakes}
        for name, own in (each or {}).items():
            named[name].update(own)
        wanted = {} if {"assign", "subscribe"} & options.keys() else {"subscribePattern": "t"}
        given = {"clusters": json.dumps(named), "discoveryInterval": "1ms", **wanted, **options}
        self.coordinator = Coordinator(
            parse_options(given),
            readers_default=2,
            starting_default=Earliest() if start == "earliest" else Latest(),
            connect=self.connect,
            batch=batch,
            scheduler=Scheduler(clock or time.time, monotonic or clock or time.monotonic),
            advance=advance,
        )

    def connect(self, options: ClusterOptions) -> ClusterPort:
        fake = self.fakes[options.id]
        return fake.isolated() if options.settings.read_committed else fake

    def plan(self, start: EnumeratorState, **how: Any) -> EnumeratorState:
        state = self.coordinator.plan(start, limited=how.pop("limited", False), **how)
        assert check(state) == ()
        return state


class Counted(Coordinator):
    """A coordinator that counts how often it `planned`."""

    planned = 0

    def plan(self, *given: Any, **how: Any) -> EnumeratorState:
        self.planned += 1
        return super().plan(*given, **how)


def reader_over(cluster: FakeKafka, options: SourceOptions, clock: Clock) -> tuple[EvenSplitStreamReader, Counted]:
    """A stream reader over a fake, as Spark calls it, and its coordinator."""
    host = Counted(
        options,
        readers_default=1,
        starting_default=Earliest(),
        connect=lambda _: cluster,
        scheduler=Scheduler(clock, clock),
    )
    return EvenSplitStreamReader(options, 1, lambda *_: host), host


def idle_until(one: Coordinator, state: EnumeratorState, done: Callable[[EnumeratorState], bool]) -> EnumeratorState:
    """Ask as an idle query does, and plan only if there is news, until `done`."""

    def asked() -> EnumeratorState | None:
        nonlocal state
        if one.has_news():
            state = one.plan(state, limited=False)
        return state if done(state) else None

    found = wait_for(asked)
    assert isinstance(found, EnumeratorState)
    return found


def plan_news(source: Source, start: EnumeratorState) -> EnumeratorState:
    """Plan after `start` until there is something new."""

    def planned() -> EnumeratorState | None:
        state = source.plan(start)
        return None if state is start else state

    found = wait_for(planned, what="something new")
    assert found is not None
    return found


def ranges(start: EnumeratorState, end: EnumeratorState) -> dict[str, tuple[int, int]]:
    """The ranges of the batch: split -> (start, end)."""
    return {str(part.split): part[1:] for plan in plan_batch(start, end).readers for part in plan.ranges}


def restored(state: EnumeratorState) -> EnumeratorState:
    """The state as a checkpoint restores it."""
    return decode(encode(state))


NONE = EnumeratorState()
"""Before the first batch."""
