"""Queries that go on from checkpoints that were edited: what they read again, never read, and count."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from tests.support.commands import invoke
from tests.support.queries import committed, run_available, stream, written
from tests.support.records import Draft, produce
from tests.support.starting import started
from tests.support.waiting import wait_for
from tests.support.written import values

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("no_query_left")]


class Job:
    """A query of one topic with two partitions, into files."""

    def __init__(self, spark: SparkSession, broker: LocalKafka, topic: str, place: Path) -> None:
        self.spark, self.broker, self.topic = spark, broker, topic
        self.checkpoint, self.sink = place / "checkpoint", place / "sink"
        self._sent = 0
        broker.create_topic(topic, partitions=2)

    def send(self, count: int) -> None:
        """So many records more, in turns to both partitions."""
        numbers = range(self._sent, self._sent + count)
        drafts = [Draft(b'{"n": %d}' % number, partition=number % 2) for number in numbers]
        produce(self.broker.bootstrap_servers, self.topic, drafts)
        self._sent += count

    def run(self, **options: object) -> Counter[tuple[int, int]]:
        """Read what there is. Returns how often each offset is in the sink, by partition and offset."""
        given = {"subscribe": self.topic, "startingOffsets": "earliest", **options}
        run_available(stream(self.spark, self.broker.bootstrap_servers, **given), self.checkpoint, self.sink)
        return Counter((partition, offset) for _, partition, offset, _ in written(self.spark, self.sink))

    def edit(self, command: str, *arguments: object) -> str:
        """Edit its checkpoint. Returns what was shown."""
        return invoke(command, self.checkpoint, *arguments, "--yes", "--assume-stopped")[0]


@pytest.fixture
def job(spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path) -> Job:
    return Job(spark, east, topic, tmp_path)


def test_what_is_rewound_is_there_twice_and_what_is_skipped_never(job: Job) -> None:
    job.send(100)
    assert len(job.run()) == 100
    job.send(100)
    job.edit("skip", f"{job.topic}/1:55-59")
    job.edit("rewind", "--to", json.dumps({job.topic: {"0": 30}}))
    found = job.run()
    assert sorted(key for key, times in found.items() if times > 1) == [(0, offset) for offset in range(30, 50)]
    assert max(found.values()) == 2
    assert {(part, at) for part in (0, 1) for at in range(100)} - set(found) == {(1, at) for at in range(55, 60)}
    assert committed(job.checkpoint) == [0, 1, 2]


@pytest.mark.slow
def test_a_record_that_cannot_be_read_is_skipped_and_nothing_else(job: Job) -> None:
    job.send(20)
    produce(job.broker.bootstrap_servers, job.topic, [Draft(b"poison", partition=0)])
    job.send(20)
    typed = {"value.format": "json", "value.schema": "n bigint", "onDecodeError": "fail"}
    frame = stream(job.spark, job.broker.bootstrap_servers, subscribe=job.topic, startingOffsets="earliest", **typed)
    with pytest.raises(Exception, match=r"offset 10\b"):
        run_available(frame, job.checkpoint, job.sink)
    assert committed(job.checkpoint) == []
    shown = job.edit("skip", f"{job.topic}/0:10")
    assert "Batch 0 was begun and not finished" in shown
    run_available(frame, job.checkpoint, job.sink)
    rows = Counter((partition, offset) for _, partition, offset, _ in written(job.spark, job.sink))
    assert rows == Counter(
        {(part, at): 1 for part in (0, 1) for at in range(20 + (part == 0)) if (part, at) != (0, 10)}
    )


@pytest.mark.slow
def test_state_goes_on_through_an_edit(job: Job) -> None:
    """Aggregations keep a state for each batch, so that of the edit must be one, too."""
    counts: dict[int, int] = {}

    def run() -> None:
        frame = stream(job.spark, job.broker.bootstrap_servers, subscribe=job.topic, startingOffsets="earliest")
        query = started(
            frame.groupBy("partition")
            .count()
            .writeStream.outputMode("complete")
            .foreachBatch(lambda rows, _: counts.update({row.partition: row["count"] for row in rows.collect()}))
            .option("checkpointLocation", str(job.checkpoint))
            .trigger(availableNow=True)
        )
        assert query.awaitTermination(240)

    job.send(40)
    run()
    assert counts == {0: 20, 1: 20}
    shown = job.edit("rewind", "--to", "batch:0", "--only", f"default/{job.topic}/1")
    assert "The query keeps state: what is read again counts there once more" in shown
    run()
    assert counts == {0: 20, 1: 40}
    job.send(20)
    job.edit("skip", f"{job.topic}/0:20-24")
    run()
    assert counts == {0: 25, 1: 50}


@pytest.mark.slow
def test_a_query_that_runs_and_an_edit_do_not_both_get_their_batch(job: Job) -> None:
    """Whoever comes second fails, and nothing is lost."""
    job.send(10)
    frame = stream(job.spark, job.broker.bootstrap_servers, subscribe=job.topic, startingOffsets="earliest")
    query = started(
        frame.selectExpr("topic", "partition", "offset", "cast(value as string) as value")
        .writeStream.format("json")
        .option("path", str(job.sink))
        .option("checkpointLocation", str(job.checkpoint))
        .trigger(processingTime="100 milliseconds")
    )
    wait_for(lambda: committed(job.checkpoint) == [0])
    told = invoke("rewind", job.checkpoint, "--to", "batch:0", "--yes", code=1)[1]
    assert "a query may still run on" in told
    job.edit("rewind", "--to", "batch:0")
    job.send(10)
    with pytest.raises(Exception, match=r"(?i)concurrent|multiple streaming"):
        query.awaitTermination(120)
    found = job.run()
    assert found == Counter({(part, at): 2 if at < 5 else 1 for part in (0, 1) for at in range(10)})


@pytest.mark.slow
def test_a_fork_and_its_origin_both_go_on(job: Job, tmp_path: Path) -> None:
    job.send(20)
    job.run()
    invoke("fork", job.checkpoint, tmp_path / "second", "--yes", "--assume-stopped")
    job.send(20)
    assert len(job.run()) == 40
    found: Counter[tuple[int, int]] = Counter()
    frame = stream(job.spark, job.broker.bootstrap_servers, subscribe=job.topic)
    query = started(
        frame.select("partition", "offset")
        .writeStream.foreachBatch(lambda rows, _: found.update((row.partition, row.offset) for row in rows.collect()))
        .option("checkpointLocation", str(tmp_path / "second"))
        .trigger(availableNow=True)
    )
    assert query.awaitTermination(240)
    assert found == Counter({(part, at): 1 for part in (0, 1) for at in range(10, 20)})


@pytest.mark.slow
def test_a_query_that_moves_writes_nothing_twice(job: Job, tmp_path: Path) -> None:
    """The driver died when the sink had the batch, and Spark had not noted that it is done."""
    servers, output = job.broker.bootstrap_servers, f"{job.topic}-copies"
    job.broker.create_topic(output, partitions=1)

    def run(checkpoint: Path) -> Counter[str]:
        rows = stream(job.spark, servers, subscribe=job.topic, startingOffsets="earliest")
        writer = rows.selectExpr("string(value) AS value").writeStream.format("evensplit").option("topic", output)
        query = started(
            writer.option("kafka.bootstrap.servers", servers)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
        )
        assert query.awaitTermination(240)
        return Counter(values(job.broker, output))

    job.send(6)
    assert run(job.checkpoint) == Counter({f'{{"n": {number}}}': 1 for number in range(6)})
    for name in ("0", ".0.crc"):
        (job.checkpoint / "commits" / name).unlink()
    job.edit("fork", tmp_path / "moved", "--same-query")
    job.send(2)
    assert run(tmp_path / "moved") == Counter({f'{{"n": {number}}}': 1 for number in range(8)})


@pytest.mark.slow
def test_a_cluster_with_a_new_name_goes_on_and_one_that_is_dropped_begins_anew(
    job: Job, west: LocalKafka, tmp_path: Path
) -> None:
    west.create_topic(job.topic, partitions=1)
    produce(west.bootstrap_servers, job.topic, [Draft(b"w")] * 5)

    def run(**servers: LocalKafka) -> Counter[tuple[str, int, int]]:
        clusters = {
            name: {"kafka.bootstrap.servers": one.bootstrap_servers, "startingOffsets": "earliest"}
            for name, one in servers.items()
        }
        frame = (
            job.spark.readStream.format("evensplit")
            .option("clusters", json.dumps(clusters))
            .option("subscribe", job.topic)
            .load()
        )
        query = started(
            frame.select("cluster", "partition", "offset")
            .writeStream.format("json")
            .option("path", str(job.sink))
            .option("checkpointLocation", str(job.checkpoint))
            .trigger(availableNow=True)
        )
        assert query.awaitTermination(240)
        rows = job.spark.read.schema("cluster string, partition int, offset long").json(str(job.sink)).collect()
        return Counter((row.cluster, row.partition, row.offset) for row in rows)

    job.send(10)
    run(one=job.broker, two=west)
    job.edit("rename-cluster", "one", "eins")
    job.send(10)
    found = run(eins=job.broker, two=west)
    assert {key for key in found if key[0] == "eins"} == {("eins", part, at) for part in (0, 1) for at in range(5, 10)}
    assert max(found.values()) == 1
    job.edit("drop", "two")
    found = run(eins=job.broker, two=west)
    assert {key: times for key, times in found.items() if times > 1} == {("two", 0, at): 2 for at in range(5)}
