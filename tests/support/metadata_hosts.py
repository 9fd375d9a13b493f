"""A coordinator over clusters in memory that a metadata service names."""

from __future__ import annotations

from collections.abc import Mapping

from evensplit.core.state.offset_strategies import Latest
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import MetadataError
from evensplit.kafka.admin.protocol import ClusterPort
from evensplit.metadata import ClusterMetadata, Metadata
from evensplit.spark.driver.coordinator import Coordinator
from evensplit.spark.options.parse import ClusterOptions, parse_options
from evensplit.spark.poll.scheduler import Scheduler
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock
from tests.support.waiting import wait_for


class Service:
    """Answers with what it holds, or fails with it."""

    def __init__(self, answer: Metadata | Exception) -> None:
        self.answer = answer

    def read(self) -> Metadata:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self) -> None:
        self.answer = MetadataError("closed", ["it is closed"])


def kafka(name: str, *topics: str, records: int = 10) -> FakeKafka:
    """A cluster with topics of one partition."""
    found = FakeKafka(name)
    for topic in topics:
        found.create_topic(topic)
        found.append(topic, 0, records)
    return found


def cluster(name: str, *topics: str, starting: str | None = None) -> ClusterMetadata:
    return ClusterMetadata(name, (f"{name}:9092",), topics, starting_offsets=starting)


def host(fakes: Mapping[str, FakeKafka], service: Service, clock: Clock, **options: str) -> Coordinator:
    def connect(wanted: ClusterOptions) -> ClusterPort:
        return fakes[wanted.id]

    return Coordinator(
        parse_options({"metadata": "f.yaml", "discoveryInterval": "10s", **options}),
        readers_default=1,
        starting_default=Latest(),
        connect=connect,
        opened=lambda _: service,
        scheduler=Scheduler(clock, clock),
    )


def go_on(one: Coordinator, state: EnumeratorState, clock: Clock, times: int = 6) -> EnumeratorState:
    """Batch after batch, longer apart than what is missing has to be missing for."""
    for _ in range(times):
        clock.now_s += 11
        wait_for(lambda: one.has_news() or True)
        state = one.plan(state, limited=False)
    return state


def active(state: EnumeratorState) -> list[str]:
    return [str(key) for key, split in state.splits.items() if split.active]
