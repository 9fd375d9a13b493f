"""The clusters, topics and queries of one test, so that it tells its story without addresses and settings."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from evensplit.core.model import SplitId
from evensplit.testing import LocalKafka
from tests.support.fleet_file import FleetCluster, FleetFile
from tests.support.fleets import Batches, begin, fleet
from tests.support.group_offsets import group_offsets
from tests.support.live import LiveQuery, Row
from tests.support.records import Draft, consume, produce
from tests.support.relay import Relay


class Topic:
    """A topic, and the numbers that the test writes to it: none of them twice in a test, whatever the topic."""

    def __init__(self, cluster: Cluster, name: str, partitions: int, numbers: Iterator[int]) -> None:
        self.cluster = cluster
        self.name = name
        self.partitions = partitions
        self.values: list[int] = []
        """All numbers that were written since it was created."""
        self._numbers = numbers
        self.create(partitions)

    def create(self, partitions: int) -> None:
        self.cluster.kafka.create_topic(self.name, partitions)
        self.partitions = partitions
        self.values = []

    def delete(self) -> None:
        self.cluster.kafka.delete_topic(self.name)

    def recreate(self, *, partitions: int | None = None, records: int = 0) -> None:
        """Delete it and create it anew, with as many partitions as before unless `partitions` says otherwise."""
        self.delete()
        self.create(partitions or self.partitions)
        self.write(records)

    def grow(self, partitions: int) -> None:
        """Let it have so many partitions."""
        self.cluster.kafka.add_partitions(self.name, partitions)
        self.partitions = partitions

    def write(
        self, count: int, *, partition: int | None = None, timestamps_ms: Sequence[int] | None = None
    ) -> list[int]:
        """Write `count` numbers to `partition`, or one after the other to each; those numbers."""
        values = list(islice(self._numbers, count))
        times: Sequence[int | None] = timestamps_ms or [None] * count
        drafts = [
            Draft(
                b"%d" % value,
                partition=place % self.partitions if partition is None else partition,
                timestamp_ms=timestamp_ms,
            )
            for place, (value, timestamp_ms) in enumerate(zip(values, times, strict=True))
        ]
        produce(self.cluster.servers, self.name, drafts)
        self.values.extend(values)
        return values

    @contextmanager
    def written_on(self) -> Iterator[None]:
        """In the block, a hundred records a second are written to it."""
        over = threading.Event()

        def write_on() -> None:
            while not over.wait(0.2):
                self.write(20)

        writing = threading.Thread(target=write_on)
        writing.start()
        try:
            yield
        finally:
            over.set()
            writing.join(120)

    def rows(self) -> list[Row]:
        """All that is in it now, as another client reads it."""
        records = consume(self.cluster.servers, self.name, range(self.partitions))
        return [
            Row(self.cluster.name, self.name, one.partition, one.offset, (one.value or b"").decode()) for one in records
        ]

    @property
    def splits(self) -> list[SplitId]:
        return [SplitId(self.cluster.name, self.name, partition) for partition in range(self.partitions)]

    def group_offsets(self) -> dict[int, int]:
        """Partition -> what the group of the topic's name has committed."""
        found = group_offsets(self.cluster.kafka, self.name, self.name, self.partitions)
        return {partition: offset for (_, partition), offset in found.items()}


class Cluster:
    """Brokers under the id by which the query knows them. `prefix`: how the names of their topics begin."""

    def __init__(self, name: str, kafka: LocalKafka, prefix: str, numbers: Iterator[int], stack: ExitStack) -> None:
        self.name = name
        self.kafka = kafka
        self._prefix = prefix
        self._numbers = numbers
        self._stack = stack

    @property
    def servers(self) -> str:
        return self.kafka.bootstrap_servers

    def topic(self, suffix: str = "", *, partitions: int = 1, records: int = 0) -> Topic:
        """A new topic, with so many records."""
        made = Topic(self, f"{self._prefix}-{suffix}" if suffix else self._prefix, partitions, self._numbers)
        made.write(records)
        return made

    def relay(self) -> Relay:
        """Another way to it."""
        return self._stack.enter_context(Relay(self.kafka.addresses()[0]))

    def kill_or_pause(self, how: str) -> None:
        """`how`: "killed" or "paused"."""
        if how == "killed":
            self.kafka.kill()
        else:
            self.kafka.pause()

    def come_back(self) -> None:
        """Whatever became of the brokers, they answer again."""
        self.kafka.resume()
        self.kafka.start()


class World:
    """One test's world. Brokers and the Spark session are taken from the fixtures of the same names when it needs them.

    A query reads what the metadata name, once the test has published any. Without, it reads `name` in all `clusters`.
    """

    def __init__(self, fixture: Callable[[str], Any], directory: Path, name: str) -> None:
        self.directory = directory
        self.checkpoint = directory / "checkpoint"
        self.name = name
        self.metadata = FleetFile(directory / "fleet.yaml")
        self.clusters: dict[str, Cluster] = {}
        self._fixture = fixture
        self._numbers = count()
        self._stack = ExitStack()

    def close(self) -> None:
        self._stack.close()

    @property
    def spark(self) -> SparkSession:
        found = self._fixture("spark")
        assert isinstance(found, SparkSession)
        return found

    @property
    def east(self) -> Cluster:
        return self._shared("east", "east")

    @property
    def west(self) -> Cluster:
        return self._shared("west", "west")

    @property
    def default(self) -> Cluster:
        """The brokers of `east`, for queries that name bootstrap servers and no clusters."""
        return self._shared("default", "east")

    def _shared(self, name: str, fixture: str) -> Cluster:
        if name not in self.clusters:
            self._stack.callback(self.cluster(name, self._fixture(fixture)).come_back)
        return self.clusters[name]

    def cluster(self, name: str, kafka: LocalKafka) -> Cluster:
        """Another cluster, whose brokers are the test's own."""
        made = self.clusters[name] = Cluster(name, kafka, self.name, self._numbers, self._stack)
        return made

    def both(self, *, partitions: int = 1, records: int = 0) -> tuple[Topic, Topic]:
        """The topic `name` in each of two clusters."""
        return (
            self.east.topic(partitions=partitions, records=records),
            self.west.topic(partitions=partitions, records=records),
        )

    def publish(self, *topics: Topic, servers: str = "", **more: Any) -> None:
        """Let the metadata name these topics, and no others of their clusters. `more`: as a `FleetCluster` has it."""
        for cluster in {topic.cluster.name: topic.cluster for topic in topics}.values():
            names = [topic.name for topic in topics if topic.cluster is cluster]
            self.metadata.clusters[cluster.name] = FleetCluster(servers or cluster.servers, names, **more)
        self.metadata.write()

    def options(self, **more: Any) -> dict[str, Any]:
        """The options of a query. `own`: what some clusters have for themselves. None stands for no option."""
        own: Mapping[str, Mapping[str, Any]] = more.pop("own", {})
        # Small as they are, batches are read by all readers.
        found: dict[str, Any] = {"startingOffsets": "earliest", "readerOffsetsMin": 1}
        if "metadata" not in more and self.metadata.clusters:
            found["metadata"] = self.metadata.path
        elif "metadata" not in more:
            if "subscribePattern" not in more:
                found["subscribe"] = self.name
            if [*self.clusters] == ["default"]:
                found["kafka.bootstrap.servers"] = self.default.servers
            else:
                clusters = self.clusters.items()
                found["clusters"] = json.dumps(
                    {name: {"kafka.bootstrap.servers": one.servers, **own.get(name, {})} for name, one in clusters}
                )
        return {name: value for name, value in {**found, **more}.items() if value is not None}

    def live(self, *, held: bool = False, **options: Any) -> LiveQuery:
        """A query whose rows are compared with what another client reads."""
        return LiveQuery(self.spark, self.checkpoint, held=held, **self.options(**options))

    def frame(self, **options: Any) -> DataFrame:
        return fleet(self.spark, **self.options(**options))

    def begin(
        self,
        trigger: Mapping[str, Any] | None = None,
        checkpoint: Path | None = None,
        /,
        *,
        held: bool = False,
        **options: Any,
    ) -> Batches:
        """Start a query; every 50 ms, and with the checkpoint of the test, unless it is said otherwise."""
        batches = Batches()
        if held:
            batches.gate.clear()
        begin(self.frame(**options), checkpoint or self.checkpoint, batches, **(trigger or {}))
        return batches

    @contextmanager
    def running(self, *, held: bool = False, **options: Any) -> Iterator[Batches]:
        """A query that runs in the block, and is stopped at its end; an error that ended it before is raised there."""
        batches = self.begin(held=held, **options)
        try:
            yield batches
            batches.check()
        finally:
            batches.gate.set()
            batches.query.stop()

    def run(self, checkpoint: Path | None = None, /, **options: Any) -> Batches:
        """Read what is available now, and end."""
        batches = self.begin({"availableNow": True}, checkpoint, **options)
        assert batches.query.awaitTermination(240), "the query did not end"
        return batches

    def fail(self, **options: Any) -> str:
        """Run a query to the end that it comes to by an error, before it has brought a row; the error."""
        batches = self.begin({"availableNow": True}, **options)
        with pytest.raises(PySparkException) as caught:
            batches.query.awaitTermination(240)
        assert batches.rows == []
        return str(caught.value)
