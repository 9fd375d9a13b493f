"""A cluster that dies or hangs does not hold up the others; it is reported, waited for, and in the end an error."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from pyspark.errors import PySparkException

import evensplit
from evensplit.observe.metrics import samples
from evensplit.observe.timeline import Kind
from evensplit.spark.listen.progress import batch_progress
from tests.support.clients import NOWHERE
from tests.support.driver import held_source, marks
from tests.support.fleets import Batches, begin
from tests.support.queries import committed, kept_progress, states
from tests.support.waiting import wait_for
from tests.support.world import World

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

OUTAGE_S = 20.0
CLUSTER_WAIT_S = 0.3
DEADLINE_S = 10.0
"""When a question without an answer is given up: what a batch would take if it waited for a cluster that is away."""


HOW = pytest.mark.parametrize("how", ["killed", "paused"])


@pytest.mark.slow
@pytest.mark.timeout(600)
@HOW
def test_the_other_cluster_goes_on_for_twenty_seconds(world: World, how: str) -> None:
    east, west = world.both(partitions=2)
    west.write(100)
    options: dict[str, Any] = {
        "clusterWait": f"{CLUSTER_WAIT_S * 1000:.0f}ms",
        "kafka.request.timeout.ms": f"{DEADLINE_S * 1000:.0f}",
        "commitGroup": world.name,
        "readers": 2,
    }
    with kept_progress(world.spark, 5000), world.running(**options) as batches:

        def read() -> int:
            return len(batches.values("east"))

        with east.written_on():
            wait_for(lambda: len(batches.values("west")) == 100, what="the first batch")
            # Not before it has caught up with what was written while it started.
            first = len(east.values)
            wait_for(lambda: read() >= first, what="what was written first")
            earlier, read_before, sent_before = len(batches.query.recentProgress), read(), len(east.values)
            begun = time.monotonic()
            west.cluster.kill_or_pause(how)
            wait_for(lambda: time.monotonic() - begun >= OUTAGE_S, what="the end of the outage")
            read_during, sent_during = read() - read_before, len(east.values) - sent_before
            reports = [one.report for event in batches.query.recentProgress for one in batch_progress(event)]
            west.cluster.come_back()
            west.write(100)
            batches.wait_for(west.values, "west", what="rows of the cluster that is back")
            last = len(east.values)
            wait_for(lambda: read() > last, what="what was written after that")
        batches.wait_for(east.values, "east", what="the rest of the stream")
        wait_for(lambda: west.group_offsets() == {0: 100, 1: 100}, what="commits to the cluster that is back")
        took_ms = [event["durationMs"].get("triggerExecution", 0) for event in batches.query.recentProgress[earlier:]]
    print(f"\n{how}: {read_during} of {sent_during} rows read; longest batch: {max(took_ms)} ms of {len(took_ms)}")
    # What was written in the last moments is read a batch later.
    assert read_during >= sent_during / 2
    assert max(took_ms) < DEADLINE_S / 2 * 1000
    assert any("west" in report.unreachable for report in reports)
    witnessed = [row[:4] for topic in (east, west) for row in topic.rows()]
    assert sorted(row.record for row in batches.rows) == witnessed


@pytest.mark.slow
@HOW
def test_a_cluster_that_dies_with_a_backlog_while_a_batch_is_written(world: World, how: str) -> None:
    """What it has is known from before. A batch that was to read that would fail, and with it the query."""
    east, west = world.both(partitions=2, records=400)
    # Long enough for the first answer of a busy machine: one that comes while a batch is read is believed as long as
    # nothing says why there is no later one.
    patience: dict[str, Any] = {"clusterWait": "3s", "kafka.request.timeout.ms": "20000"}
    with world.running(held=True, maxOffsetsPerTrigger=100, **patience) as batches:
        wait_for(lambda: batches.values("west") != [], what="a batch with records of both")
        read = batches.values("west")
        west.cluster.kill_or_pause(how)
        batches.gate.set()
        batches.wait_for(east.values, "east")
        assert batches.values("west") == read
        west.cluster.come_back()
        batches.wait_for(west.values, "west")


@pytest.mark.slow
def test_a_query_whose_only_cluster_dies_while_there_is_nothing_to_do(world: World) -> None:
    """There is no batch that could tell, but metrics and dashboard know, and know that it is back."""
    west = world.west.topic(partitions=2, records=10)
    recorder = evensplit.register(world.spark).recorder
    with world.running() as batches:

        def up() -> list[float]:
            own = [one for one in recorder.watched() if one.view.source.query_id == batches.query.id]
            return [one.value for one in samples(own) if one.name == "evensplit_cluster_up"]

        wait_for(lambda: up() == [1.0] and batches.values() == west.values, what="the first batch")
        west.cluster.kafka.kill()
        wait_for(lambda: up() == [0.0], what="a cluster that is seen to be away")
        west.cluster.kafka.start()
        wait_for(lambda: up() == [1.0], what="a cluster that is seen to be back")
        found = recorder.find(batches.query.id)
    assert found is not None
    told = [one.text for one in found.view.happenings if one.kind in (Kind.UNREACHABLE, Kind.REACHABLE)]
    assert told[0].startswith("cluster west does not answer: no broker could be asked.")
    assert told[-1] == "cluster west answers again"
    assert batches.numbers == [0]


@pytest.mark.slow
def test_a_cluster_that_dies_while_a_batch_reads_it(world: World) -> None:
    """What a batch reads is settled by then: the query fails, also when started again, until the cluster is back."""
    east, west = world.both(partitions=2, records=100)
    gates = world.directory / "gates"
    gates.mkdir()
    (gates / "logged").touch()
    world.spark.dataSource.register(held_source(gates))
    options = world.options(readers="3", **{"kafka.request.timeout.ms": "5000"})
    batches = Batches()
    query = begin(world.spark.readStream.format("held").options(**options).load(), world.checkpoint, batches)
    wait_for(lambda: marks(gates, "logged"), what="a batch in the offset log")
    west.cluster.kafka.kill()
    (gates / "logged").unlink()
    with pytest.raises(PySparkException, match="cluster 'west'"):
        query.awaitTermination(240)
    again = world.begin(**options)
    with pytest.raises(PySparkException, match="cluster 'west'"):
        again.query.awaitTermination(240)
    assert batches.rows == again.rows == []
    assert (len(states(world.checkpoint)), committed(world.checkpoint)) == (1, [])
    west.cluster.kafka.start()
    found = world.run(**options)
    assert found.values() == [*east.values, *west.values]
    assert len(found.of_batch(0)) == 200


@pytest.mark.slow
@HOW
def test_a_start_while_one_cluster_is_away(world: World, how: str) -> None:
    """With a state, a query starts with what is there, and goes on with the rest when that is back."""
    east, west = world.both(partitions=2, records=10)
    options: dict[str, Any] = {"commitGroup": world.name, "clusterWait": "300ms"}
    world.run(**options)
    late = west.write(10)
    before = states(world.checkpoint)[-1]
    west.cluster.kill_or_pause(how)
    with world.running(**options) as batches:
        for _ in range(2):
            east.write(10)
            batches.wait_for(east.values[10:])
        during = states(world.checkpoint)[-1]
        assert [during.splits[key] for key in west.splits] == [
            before.splits[key]._replace(first=None, since=0) for key in west.splits
        ]
        west.cluster.come_back()
        batches.wait_for(late, "west")
    assert batches.values("east") == east.values[10:]


@pytest.mark.slow
@pytest.mark.parametrize("allowed_ms", [8000, 0], ids=["for eight seconds", "not at all"])
def test_away_for_longer_than_allowed(world: World, allowed_ms: int) -> None:
    east, west = world.both(records=10)
    options: dict[str, Any] = {"unreachableTimeout": f"{allowed_ms}ms"}
    batches = world.begin(**options)
    batches.wait_for([*east.values, *west.values])
    west.cluster.kafka.pause()
    begun = time.monotonic()
    with pytest.raises(PySparkException, match="unreachableTimeout") as caught:
        batches.query.awaitTermination(240)
    assert time.monotonic() - begun >= allowed_ms / 1000
    assert "cluster 'west'" in str(caught.value)
    west.cluster.kafka.resume()
    late = west.write(10)
    assert world.run(**options).values() == late


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("streaming", marks=pytest.mark.slow),
        pytest.param("available now", marks=pytest.mark.slow),
        "batch",
    ],
)
def test_not_there_at_the_start(world: World, kind: str) -> None:
    """Without a state, nothing is logged before every cluster has answered."""
    topic = world.east.topic(records=10)
    servers = {"east": topic.cluster.servers, "west": NOWHERE}
    clusters = json.dumps({name: {"kafka.bootstrap.servers": one} for name, one in servers.items()})
    options = world.options(clusters=clusters, **{"kafka.request.timeout.ms": "3000"})
    reader = world.spark.read.format("evensplit").options(**options)
    trigger = {"availableNow": True} if kind == "available now" else None
    batches = None if kind == "batch" else world.begin(trigger, **options)
    begun = time.monotonic()
    with pytest.raises(PySparkException, match="cluster 'west'"):
        reader.load().collect() if batches is None else batches.query.awaitTermination(240)
    # Not the thirty seconds that are the default.
    assert time.monotonic() - begun < 30
    assert committed(world.checkpoint) == []
    if kind == "batch":
        rows = reader.option("allowUnreachable", "true").load().selectExpr("cluster", "offset").collect()
        assert sorted((row.cluster, row.offset) for row in rows) == [("east", offset) for offset in range(10)]


@pytest.mark.slow
def test_a_run_to_the_end_without_one_of_its_clusters(world: World) -> None:
    """AvailableNow needs every cluster, unless it may leave some out; what it leaves out keeps its positions."""
    east, west = world.both(records=10)
    # Even where nothing of what is removed is kept: it is not removed.
    options: dict[str, Any] = {"removedRetention": "0"}
    assert len(world.run(**options).rows) == 20
    late = [topic.write(10) for topic in (east, west)]
    west.cluster.kafka.pause()
    batches = world.begin({"availableNow": True}, **options)
    # Not before Spark has started what asks.
    begun = time.monotonic()
    with pytest.raises(PySparkException, match="cluster 'west'"):
        batches.query.awaitTermination(240)
    # Not the thirty seconds that are the default.
    assert time.monotonic() - begun < 30
    assert committed(world.checkpoint) == [0]
    without = world.run(**options, allowUnreachable="true")
    assert without.values() == late[0]
    reports = [one.report for event in without.query.recentProgress for one in batch_progress(event)]
    assert {report.left_out for report in reports} == {("west",)}
    last = states(world.checkpoint)[-1]
    assert last.clusters["west"].removed_at_ms is None
    assert {last.splits[key].position for key in west.splits} == {10}
    west.cluster.kafka.resume()
    assert world.run(**options).values() == late[1]
