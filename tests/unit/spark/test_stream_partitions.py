"""What Spark calls on the driver, without Spark: `partitions` is a function of two offsets, and idleness is cheap."""

from __future__ import annotations

import json
import pickle
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from evensplit.core.model import Cluster, ClusterState, Readable, Split, SplitId
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.observation import decode_report
from evensplit.core.state.offset_strategies import Earliest, TopicPartition
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CheckpointError, CheckpointForeign, ClusterUnreachable
from evensplit.kafka.columns import COLUMNS, KAFKA_COLUMNS
from evensplit.kafka.fetch.columns import row_schema
from evensplit.spark.driver.agenda import Wait
from evensplit.spark.driver.coordinator import Coordinator
from evensplit.spark.options.parse import parse_options
from evensplit.spark.source import EvenSplitDataSource
from evensplit.spark.stream_reader import EvenSplitStreamReader
from evensplit.spark.task.partition import ReaderPartition
from evensplit.spark.task.task_reader import TaskReader
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.brokers import Held
from tests.support.clocks import Clock
from tests.support.hosts import reader_over
from tests.support.waiting import SLACK_S, wait_for


def offsets(*, readers: int = 2, east: int = 10, west: int = 20, first: int | None = None) -> dict[str, Any]:
    """An offset document over two clusters of one partition each."""
    splits = [
        Split(SplitId("east", "t", 0), "id-e", east, first, 0),
        Split(SplitId("west", "t", 0), "id-w", west, first, 1),
    ]
    clusters = {
        name: ClusterState(name, (f"{name}:9092",), initial=False, discovered=True, kafka_id=kafka_id)
        for name, kafka_id in (("east", "kafka-e"), ("west", ""))
    }
    by_id = MappingProxyType({split.id: split for split in splits})
    found = json.loads(json.dumps(encode(EnumeratorState(readers, MappingProxyType(clusters), by_id, begun=True))))
    assert isinstance(found, dict)
    return found


def reader(**options: str) -> EvenSplitStreamReader:
    clusters = {name: {"kafka.bootstrap.servers": f"{name}:9092"} for name in ("east", "west")}
    return EvenSplitStreamReader(parse_options({"clusters": json.dumps(clusters), "subscribe": "t", **options}), 1)


def work(one: EvenSplitStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What each task would do."""
    found = []
    for partition in one.partitions(start, end):
        assert isinstance(partition, ReaderPartition)
        servers = {name: settings.bootstrap_servers for name, settings in partition.settings.items()}
        found.append((partition.reader, partition.ranges, servers, dict(partition.topic_ids)))
    return found


def test_one_partition_for_each_reader_with_work() -> None:
    assert work(reader(), offsets(), offsets(east=15, west=20)) == [
        (0, ((SplitId("east", "t", 0), 10, 15),), {"east": ("east:9092",)}, {("east", "t"): "id-e"})
    ]


def test_the_first_batch_begins_at_the_first_positions() -> None:
    assert [one[1][0][1:] for one in work(reader(), {}, offsets(first=4))] == [(4, 10), (4, 20)]


def test_a_batch_without_offsets_has_no_partitions() -> None:
    assert reader().partitions(offsets(), offsets()) == []


def test_a_replay_is_the_same_under_other_options() -> None:
    """Law S11: other readers, limits and addresses, and a cluster that has left the options."""
    expected = work(reader(), {}, offsets(first=0))
    moved = json.dumps({"east": {"kafka.bootstrap.servers": "elsewhere:1", "kafka.client.id": "x"}})
    other = reader(clusters=moved, readers="7", maxOffsetsPerTrigger="1", startingOffsets="latest")
    replayed = work(other, {}, offsets(first=0))
    assert [one[:2] for one in replayed] == [one[:2] for one in expected]
    assert replayed[0][2] == {"east": ("east:9092", "elsewhere:1")}, "where it was planned, before where it may be now"


def test_a_replay_is_shared_out_as_it_was_whatever_the_options_say_by_now() -> None:
    """Law S11: plan, tasks and pins are those of the offset."""
    for plan in ("whole", "level", "owners"):
        state = decode(offsets(east=90_000, west=20, first=0))
        pins: dict[int, tuple[Readable, ...]] = {1: (Cluster("west"),)}
        settings = Settings(plan=plan, tasks_min=3, task_offsets_max=50_000)
        for eligible in ({}, pins):
            end = json.loads(json.dumps(encode(replace(state, settings=settings, eligible=eligible))))
            expected = work(reader(), {}, end)
            assert len(expected) == 3
            other = reader(plan="owners", minPartitions="1", maxRecordsPerPartition="9", pin='{"0": ["west"]}')
            assert work(other, {}, end) == expected
            numbers = [one.task for one in other.partitions({}, end) if isinstance(one, ReaderPartition)]
            assert numbers == list(range(len(expected)))


def test_the_settings_that_are_no_addresses_come_from_todays_options() -> None:
    moved = json.dumps({"east": {"kafka.bootstrap.servers": "elsewhere:1", "kafka.client.id": "today"}})
    partitions = reader(clusters=moved).partitions({}, offsets(first=0))
    settings = [one.settings for one in partitions if isinstance(one, ReaderPartition)]
    assert settings[0]["east"].client_id == "today"


def test_tasks_wait_for_as_long_as_the_options_say() -> None:
    """Spark's kafkaConsumer.pollTimeoutMs is about tasks alone; what the driver asks has Kafka's own timeout."""
    options = {"kafkaConsumer.pollTimeoutMs": "700", "kafka.request.timeout.ms": "9000"}
    one = reader(**options)
    found = [part.settings for part in one.partitions({}, offsets(first=0)) if isinstance(part, ReaderPartition)]
    assert [(name, of.progress_timeout_ms) for each in found for name, of in each.items()] == [
        ("east", 700),
        ("west", 700),
    ]
    assert {cluster.settings.request_timeout_ms for cluster in one._options.clusters} == {9000}
    del options["kafkaConsumer.pollTimeoutMs"]
    (plain, _) = reader(**options).partitions({}, offsets(first=0))
    assert isinstance(plain, ReaderPartition)
    assert plain.settings["east"].request_timeout_ms == 9000


def test_a_task_that_gets_nothing_says_what_it_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        clusters = json.dumps({"east": {"kafka.bootstrap.servers": server}})
        one = reader(clusters=clusters, **{"kafkaConsumer.pollTimeoutMs": "300", "kafka.request.timeout.ms": "60000"})
        state = decode(offsets(first=0, west=0))
        moved = {**state.clusters, "east": replace(state.clusters["east"], bootstrap_servers=(server,))}
        (task,) = one.partitions({}, encode(replace(state, clusters=MappingProxyType(moved))))
        began = time.monotonic()
        with pytest.raises(ClusterUnreachable):
            list(one.read(task))
        assert time.monotonic() - began < 0.3 + SLACK_S


def test_tasks_know_what_each_of_their_clusters_calls_itself() -> None:
    """As the checkpoint has it, wherever today's options lead; nothing where that is not known."""
    moved = json.dumps({"east": {"kafka.bootstrap.servers": "elsewhere:1"}})
    partitions = reader(clusters=moved).partitions({}, offsets(first=0))
    found = [one.cluster_ids for one in partitions if isinstance(one, ReaderPartition)]
    assert found == [{"east": "kafka-e"}, {"west": ""}]


def test_partitions_and_readers_can_be_pickled() -> None:
    one = reader()
    assert one.initialOffset() == {}
    for partition in one.partitions({}, offsets(first=0)):
        assert vars(pickle.loads(pickle.dumps(partition))) == vars(partition)
    task = pickle.dumps(one)
    assert isinstance(pickle.loads(task), TaskReader)
    assert len(task) < 100, "a task is told nothing of options"


def test_a_foreign_offset_is_never_an_empty_state() -> None:
    with pytest.raises(CheckpointForeign):
        reader().partitions({"t": {"0": 1}}, offsets())


def test_an_idle_query_neither_decodes_nor_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    one = reader()
    start = offsets()
    planned: list[EnumeratorState] = []

    class Idle:
        def new_wait(self) -> Wait:
            return Wait(0, 1.0, lambda: 0.0)

        def plan(self, state: EnumeratorState, **_: Any) -> EnumeratorState:
            planned.append(state)
            return state

        def await_news(self, wait: Wait) -> bool:
            return False

    monkeypatch.setattr(one.batches, "_coordinator", Idle())
    limit = one.getDefaultReadLimit()
    assert all(one.latestOffset(start, limit) is start for _ in range(5))
    assert len(planned) == 1
    assert one.latestOffset(offsets(east=11), limit) == offsets(east=11)
    assert len(planned) == 2


def test_a_batch_that_cannot_be_planned_again_keeps_nothing_from_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, clock = FakeKafka("default"), Clock()
    cluster.create_topic("t")
    options = parse_options({"kafka.bootstrap.servers": "e:9092", "subscribe": "t"})
    one, _ = reader_over(cluster, options, clock)
    limit = one.getDefaultReadLimit()
    ends: list[dict[str, Any]] = [{}]
    for _ in range(2):
        clock.now_s += 1
        cluster.append("t", 0, 5)
        ends.append(json.loads(json.dumps(one.latestOffset(ends[-1], limit))))
    another, _ = reader_over(cluster, options, clock)
    with pytest.raises(CheckpointError):
        another.partitions(ends[2], ends[1])
    cluster.append("t", 0, 5)
    after = decode(another.latestOffset(ends[2], limit))
    assert [split.position for split in after.splits.values()] == [15]


class Far(FakeKafka):
    """A cluster that takes its time."""

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, complete: bool = True, undecided: bool = False
    ) -> Mapping[TopicPartition, int]:
        found = super().list_offsets(wanted, complete=complete, undecided=undecided)
        time.sleep(0.06)
        return found


def test_nothing_has_changed_only_after_a_question_that_came_later() -> None:
    """Also where a look takes so long that the cluster is left in peace for longer than others."""
    cluster = Far("default")
    cluster.create_topic("t")
    options = parse_options({"kafka.bootstrap.servers": "d:9092", "subscribe": "t"})
    host = Coordinator(options, readers_default=1, starting_default=Earliest(), connect=lambda _: cluster)
    one = EvenSplitStreamReader(options, 1, lambda *_: host)
    limit = one.getDefaultReadLimit()
    offset = one.latestOffset({}, limit)
    for _ in range(3):
        assert one.latestOffset(offset, limit) is offset
        cluster.append("t", 0, 1)
        after = one.latestOffset(offset, limit)
        assert after is not offset
        offset = after
    one.stop()


@pytest.mark.usefixtures("no_waiting")
def test_an_idle_query_retains_what_is_gone_and_forgets_it_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is news as well: the second answer without a topic is like the first one."""
    cluster = FakeKafka("default")
    for topic in "tu":
        cluster.create_topic(topic)
        cluster.append(topic, 0, 5)
    options = parse_options({"kafka.bootstrap.servers": "e:9092", "subscribePattern": "[tu]"})
    clock = Clock()
    one, host = reader_over(cluster, options, clock)
    offset: dict[str, Any] = {}
    found: list[dict[str, str]] = []

    def ask(times: int, seconds: float) -> None:
        """Ask again and again, over so many seconds; what is given out is read back as Spark does."""
        nonlocal offset
        for _ in range(times):
            clock.now_s += seconds / times
            given = one.latestOffset(offset, one.getDefaultReadLimit())
            if given != offset:
                offset = json.loads(json.dumps(given))
                found.append({key.topic: split.lifecycle for key, split in decode(offset).splits.items()})

    ask(20, 20)
    cluster.delete_topic("u")
    ask(20, 20)
    assert found == [{"t": "assigned", "u": "assigned"}]
    ask(40, 40)
    assert found[1:] == [{"t": "assigned", "u": "retained"}]
    ask(20, 6 * 24 * 60 * 60)
    assert found[2:] == []
    ask(20, 2 * 24 * 60 * 60)
    assert found[2:] == [{"t": "assigned"}]
    assert host.planned <= 8


@pytest.mark.usefixtures("no_waiting")
def test_an_idle_query_reports_a_cluster_that_is_late_and_plans_nothing_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A slow cluster is late again and again, and a plan of many thousand splits takes long."""
    cluster = Held("default", "t")
    options = parse_options({"kafka.bootstrap.servers": "e:9092", "subscribe": "t", "clusterWait": "0"})
    clock = Clock()
    one, host = reader_over(cluster, options, clock)
    limit = one.getDefaultReadLimit()
    offset = json.loads(json.dumps(one.latestOffset({}, limit)))

    def reported() -> Mapping[str, str]:
        clock.now_s += 0.1
        assert one.latestOffset(offset, limit) is offset
        report = one.reportLatestOffset() or {}
        assert one.reportLatestOffset() is report, "it is written once"
        return decode_report(report).unreachable

    late = {"default": "cluster 'default': it has not answered within 1 s; asked at e:9092"}
    reported()
    before = host.planned
    for _ in range(3):
        cluster.may.clear()
        wait_for(lambda: reported() == late, what="a cluster that is late")
        cluster.may.set()
        wait_for(lambda: not reported(), what="its answer")
    assert host.planned == before


@pytest.mark.parametrize("chosen", [*((name,) for name in COLUMNS), KAFKA_COLUMNS, COLUMNS])
def test_spark_and_the_lane_mean_the_same_columns(chosen: tuple[str, ...]) -> None:
    options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", "columns": ",".join(chosen)}
    of_spark: pa.Schema = to_arrow_schema(EvenSplitDataSource(options).schema(), timezone="UTC")
    assert of_spark.equals(row_schema(chosen))
    assert of_spark.names == list(chosen)
