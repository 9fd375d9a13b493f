"""A cluster that dies or hangs holds nobody up; it is missed, waited for, and in the end an error."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import evensplit
from evensplit.observe.metrics import samples
from evensplit.observe.timeline import Kind
from evensplit.spark.listen.progress import batch_progress
from evensplit.testing import LocalKafka
from tests.support.clients import NOWHERE
from tests.support.driver import held_source, marks
from tests.support.fleets import Batches, begin, clusters, fleet, run, running
from tests.support.group_offsets import group_offsets
from tests.support.queries import committed, kept_progress, states
from tests.support.records import consume, numbers
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

OUTAGE_S = 20.0
CLUSTER_WAIT_S = 0.3
DEADLINE_S = 10.0
"""When a question that nobody answers is given up: what a batch would take if it waited for a cluster that is away."""


@pytest.fixture
def mortal(west: LocalKafka) -> Iterator[LocalKafka]:
    """The cluster `west`, to be killed and paused: at the end it is there again."""
    yield west
    west.resume()
    west.start()


class Stream:
    """Writes numbers to one partition of a cluster, 100 a second, until told to stop. `sent`: how many so far."""

    def __init__(self, broker: LocalKafka, topic: str) -> None:
        self.sent = 0
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1, "acks": "all"})
        self._topic = topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(120)

    def _write(self) -> None:
        while not self._ended.wait(0.05):
            for _ in range(5):
                self._producer.produce(self._topic, value=b"%d" % self.sent, partition=0)
                self.sent += 1
            self._producer.flush(60)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["killed", "paused"])
def test_the_other_cluster_goes_on_for_twenty_seconds(
    spark: SparkSession, east: LocalKafka, mortal: LocalKafka, topic: str, checkpoint: Path, how: str
) -> None:
    brokers = {"east": east, "west": mortal}
    for broker in brokers.values():
        broker.create_topic(topic, 2)
    numbers(mortal.bootstrap_servers, topic, range(1000, 1100), partitions=2)
    own = {"clusters": clusters(brokers), "subscribe": topic, "startingOffsets": "earliest", "readers": 2}
    own |= {"clusterWait": f"{CLUSTER_WAIT_S * 1000:.0f}ms", "kafka.request.timeout.ms": f"{DEADLINE_S * 1000:.0f}"}
    frame = fleet(spark, **own, commitGroup=topic)
    batches = Batches()

    def read() -> int:
        return len(batches.values("east"))

    with kept_progress(spark, 5000), running(frame, checkpoint, batches) as query:
        with Stream(east, topic) as written:
            wait_for(lambda: len(batches.values("west")) == 100, what="the first batch")
            # Not before it has caught up with what was written while it started.
            first = written.sent
            wait_for(lambda: read() >= first, what="what was written first")
            earlier, read_before, sent_before = len(query.recentProgress), read(), written.sent
            begun = time.monotonic()
            if how == "killed":
                mortal.kill()
            else:
                mortal.pause()
            wait_for(lambda: time.monotonic() - begun >= OUTAGE_S, what="the end of the outage")
            read_during, sent_during = read() - read_before, written.sent - sent_before
            reports = [one.report for event in query.recentProgress for one in batch_progress(event)]
            if how == "killed":
                mortal.start()
            else:
                mortal.resume()
            numbers(mortal.bootstrap_servers, topic, range(1100, 1200), partitions=2)
            wait_for(lambda: len(batches.values("west")) == 200, what="rows of the cluster that is back")
            last = written.sent
            wait_for(lambda: read() > last, what="what was written after that")
        wait_for(lambda: read() == written.sent, what="the rest of the stream")
        back = {(topic, 0): 100, (topic, 1): 100}
        wait_for(lambda: group_offsets(mortal, topic, topic, 2) == back, what="commits to the cluster that is back")
        took_ms = [event["durationMs"].get("triggerExecution", 0) for event in query.recentProgress[earlier:]]
    print(f"\n{how}: {read_during} of {sent_during} rows read; longest batch: {max(took_ms)} ms of {len(took_ms)}")
    # What was written in the last moments is read a batch later.
    assert read_during >= sent_during / 2
    assert max(took_ms) < DEADLINE_S / 2 * 1000
    assert any("west" in report.unreachable for report in reports)
    assert batches.values("east") == list(range(written.sent))
    assert batches.values("west") == list(range(1000, 1200))
    for name, broker in brokers.items():
        witnessed = [
            (name, topic, one.partition, one.offset) for one in consume(broker.bootstrap_servers, topic, [0, 1])
        ]
        assert sorted(row.record for row in batches.rows if row.cluster == name) == witnessed


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "paused"])
def test_a_cluster_that_dies_with_a_backlog_while_a_batch_is_written(
    spark: SparkSession, east: LocalKafka, mortal: LocalKafka, topic: str, checkpoint: Path, how: str
) -> None:
    """What it has is known from before. A batch that was to read that would fail, and with it the query."""
    for broker, first in ((east, 0), (mortal, 1000)):
        broker.create_topic(topic, 2)
        numbers(broker.bootstrap_servers, topic, range(first, first + 400), partitions=2)
    own = {"clusters": clusters({"east": east, "west": mortal}), "subscribe": topic, "startingOffsets": "earliest"}
    # Long enough for the first answer of a busy machine: one that comes while a batch is read is believed if nobody
    # says why there is no later one.
    own |= {"clusterWait": "3s", "kafka.request.timeout.ms": "20000"}
    batches = Batches()
    batches.gate.clear()
    with running(fleet(spark, **own, maxOffsetsPerTrigger=100), checkpoint, batches):
        wait_for(lambda: batches.values("west") != [], what="a batch with records of both")
        read = batches.values("west")
        if how == "killed":
            mortal.kill()
        else:
            mortal.pause()
        batches.gate.set()
        wait_for(lambda: batches.values("east") == list(range(400)), what="the others")
        assert batches.values("west") == read
        mortal.start()
        mortal.resume()
        wait_for(lambda: batches.values("west") == list(range(1000, 1400)), what="the one that is back")


@pytest.mark.slow
def test_a_query_whose_only_cluster_dies_while_there_is_nothing_to_do(
    spark: SparkSession, mortal: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """There is no batch that could tell, but metrics and dashboard know, and know that it is back."""
    mortal.create_topic(topic, 2)
    numbers(mortal.bootstrap_servers, topic, range(10), partitions=2)
    recorder = evensplit.register(spark).recorder
    frame = fleet(spark, clusters=clusters({"west": mortal}), subscribe=topic, startingOffsets="earliest")

    def up() -> list[float]:
        own = [one for one in recorder.watched() if one.view.source.query_id == query.id]
        return [one.value for one in samples(own) if one.name == "evensplit_cluster_up"]

    with running(frame, checkpoint, batches := Batches()) as query:
        wait_for(lambda: up() == [1.0] and batches.values() == list(range(10)), what="the first batch")
        mortal.kill()
        wait_for(lambda: up() == [0.0], what="a cluster that is seen to be away")
        mortal.start()
        wait_for(lambda: up() == [1.0], what="a cluster that is seen to be back")
        found = recorder.find(query.id)
    assert found is not None
    told = [one.text for one in found.view.happenings if one.kind in (Kind.UNREACHABLE, Kind.REACHABLE)]
    assert told[0].startswith("cluster west does not answer: no broker could be asked.")
    assert told[-1] == "cluster west answers again"
    assert batches.numbers == [0]


@pytest.mark.slow
def test_a_cluster_that_dies_while_a_batch_reads_it(
    spark: SparkSession, east: LocalKafka, mortal: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    """What a batch reads is settled by then: the query fails, also when started again, until the cluster is back."""
    brokers = {"east": east, "west": mortal}
    for place, broker in enumerate(brokers.values()):
        broker.create_topic(topic, 2)
        numbers(broker.bootstrap_servers, topic, range(100 * place, 100 * place + 100), partitions=2)
    gates = tmp_path / "gates"
    gates.mkdir()
    (gates / "logged").touch()
    spark.dataSource.register(held_source(gates))
    own = {"clusters": clusters(brokers), "subscribe": topic, "startingOffsets": "earliest", "readers": "3"}
    own["kafka.request.timeout.ms"] = "5000"
    batches = Batches()
    query = begin(spark.readStream.format("held").options(**own).load(), checkpoint, batches)
    wait_for(lambda: marks(gates, "logged"), what="a batch in the offset log")
    mortal.kill()
    (gates / "logged").unlink()
    with pytest.raises(PySparkException, match="cluster 'west'"):
        query.awaitTermination(240)
    frame = fleet(spark, **own)
    with pytest.raises(PySparkException, match="cluster 'west'"):
        begin(frame, checkpoint, batches).awaitTermination(240)
    assert batches.rows == []
    assert (len(states(checkpoint)), committed(checkpoint)) == (1, [])
    mortal.start()
    again = run(frame, checkpoint)
    assert again.values() == list(range(200))
    assert len(again.of_batch(0)) == 200


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "paused"])
def test_a_start_while_one_cluster_is_away(
    spark: SparkSession, east: LocalKafka, mortal: LocalKafka, topic: str, checkpoint: Path, how: str
) -> None:
    """With a state, a query starts with what is there, and goes on with the rest when that is back."""
    brokers = {"east": east, "west": mortal}
    for place, broker in enumerate(brokers.values()):
        broker.create_topic(topic, 2)
        numbers(broker.bootstrap_servers, topic, range(100 * place, 100 * place + 10), partitions=2)
    own = {"clusters": clusters(brokers), "subscribe": topic, "startingOffsets": "earliest", "commitGroup": topic}
    own["clusterWait"] = "300ms"
    run(fleet(spark, **own), checkpoint)
    numbers(mortal.bootstrap_servers, topic, range(110, 120), partitions=2)
    before = states(checkpoint)[-1]
    if how == "killed":
        mortal.kill()
    else:
        mortal.pause()
    batches = Batches()
    with running(fleet(spark, **own), checkpoint, batches):
        for start in (10, 20):
            numbers(east.bootstrap_servers, topic, range(start, start + 10), partitions=2)
            wait_for(lambda at=start: batches.values() == list(range(10, at + 10)))  # type: ignore[misc]
        during = states(checkpoint)[-1]
        assert [during.splits[key] for key in before.splits if key.cluster == "west"] == [
            split._replace(first=None, since=0) for key, split in before.splits.items() if key.cluster == "west"
        ]
        if how == "killed":
            mortal.start()
        else:
            mortal.resume()
        wait_for(lambda: batches.values("west") == list(range(110, 120)), within_s=120)
    assert batches.values("east") == list(range(10, 30))


@pytest.mark.slow
@pytest.mark.parametrize("allowed_ms", [8000, 0], ids=["for eight seconds", "not at all"])
def test_away_for_longer_than_allowed(
    spark: SparkSession, east: LocalKafka, mortal: LocalKafka, topic: str, checkpoint: Path, allowed_ms: int
) -> None:
    brokers = {"east": east, "west": mortal}
    for broker in brokers.values():
        broker.create_topic(topic)
        numbers(broker.bootstrap_servers, topic, range(10))
    own = {"clusters": clusters(brokers), "subscribe": topic, "startingOffsets": "earliest"}
    frame = fleet(spark, **own, unreachableTimeout=f"{allowed_ms}ms")
    batches = Batches()
    query = begin(frame, checkpoint, batches)
    wait_for(lambda: len(batches.rows) == 20)
    mortal.pause()
    begun = time.monotonic()
    with pytest.raises(PySparkException, match="unreachableTimeout") as caught:
        query.awaitTermination(240)
    assert time.monotonic() - begun >= allowed_ms / 1000
    assert "cluster 'west'" in str(caught.value)
    mortal.resume()
    numbers(mortal.bootstrap_servers, topic, range(10, 20))
    assert run(frame, checkpoint).values("west") == list(range(10, 20))


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("streaming", marks=pytest.mark.slow),
        pytest.param("available now", marks=pytest.mark.slow),
        "batch",
    ],
)
def test_not_there_at_the_start(spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path, kind: str) -> None:
    """Without a state, nothing is logged before every cluster has answered."""
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(10))
    own = {
        "clusters": json.dumps(
            {
                "east": {"kafka.bootstrap.servers": east.bootstrap_servers},
                "west": {"kafka.bootstrap.servers": NOWHERE},
            }
        ),
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.request.timeout.ms": 3000,
    }
    read = spark.read.format("evensplit").options(**{name: str(one) for name, one in own.items()})

    trigger = {"availableNow": True} if kind == "available now" else {}
    query = None if kind == "batch" else begin(fleet(spark, **own), checkpoint, Batches(), **trigger)
    begun = time.monotonic()
    with pytest.raises(PySparkException, match="cluster 'west'"):
        read.load().collect() if query is None else query.awaitTermination(240)
    # Not the thirty seconds that are the default.
    assert time.monotonic() - begun < 30
    assert committed(checkpoint) == []
    if kind == "batch":
        rows = read.option("allowUnreachable", "true").load().selectExpr("cluster", "offset").collect()
        assert sorted((row.cluster, row.offset) for row in rows) == [("east", offset) for offset in range(10)]


@pytest.mark.slow
def test_a_run_to_the_end_without_one_of_its_clusters(
    spark: SparkSession, east: LocalKafka, mortal: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """AvailableNow needs every cluster, unless it may leave some out; what it leaves out keeps its positions."""
    brokers = {"east": east, "west": mortal}
    for start in (0, 10):
        for broker in brokers.values():
            if start == 0:
                broker.create_topic(topic)
            numbers(broker.bootstrap_servers, topic, range(start, start + 10))
        own = {"clusters": clusters(brokers), "subscribe": topic, "startingOffsets": "earliest"}
        # Even where nothing of what is removed is kept: it is not removed.
        own |= {"removedRetention": "0"}
        if start == 0:
            assert len(run(fleet(spark, **own), checkpoint).rows) == 20
    mortal.pause()
    query = begin(fleet(spark, **own), checkpoint, Batches(), availableNow=True)
    # Not before Spark has started what asks.
    begun = time.monotonic()
    with pytest.raises(PySparkException, match="cluster 'west'"):
        query.awaitTermination(240)
    # Not the thirty seconds that are the default.
    assert time.monotonic() - begun < 30
    assert committed(checkpoint) == [0]
    batches = Batches()
    query = begin(fleet(spark, **own, allowUnreachable="true"), checkpoint, batches, availableNow=True)
    assert query.awaitTermination(240)
    assert (batches.values("east"), batches.values("west")) == (list(range(10, 20)), [])
    reports = [one.report for event in query.recentProgress for one in batch_progress(event)]
    assert {report.left_out for report in reports} == {("west",)}
    last = states(checkpoint)[-1]
    assert last.clusters["west"].removed_at_ms is None
    assert {split.position for key, split in last.splits.items() if key.cluster == "west"} == {10}
    mortal.resume()
    again = run(fleet(spark, **own), checkpoint)
    assert (again.values("east"), again.values("west")) == ([], list(range(10, 20)))
