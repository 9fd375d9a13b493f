"""Drivers and executors that are killed: each record still arrives once."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from evensplit.testing import LocalKafka
from evensplit.testing.process.sessions import command_line, kill_session, session_members
from tests.support.driver import Drivers, marks
from tests.support.queries import committed, offset_files, run_available, stream, written
from tests.support.records import numbers
from tests.support.starting import started
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def gates(tmp_path: Path) -> Path:
    """A directory with the gate of every task of a driver process, which is shut."""
    path = tmp_path / "gates"
    path.mkdir()
    (path / "tasks").touch()
    return path


@pytest.fixture
def driver(east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path, gates: Path) -> Iterator[Any]:
    """Starts driver processes; what is left of them is killed at the end."""
    drivers = Drivers(tmp_path)

    def start(master: str, **options: object) -> subprocess.Popen[bytes]:
        own = {"kafka.bootstrap.servers": east.bootstrap_servers, "subscribe": topic, "startingOffsets": "earliest"}
        return drivers.start(
            master=master, options={**own, **options}, checkpoint=checkpoint, sink=tmp_path / "out", gates=gates
        )

    yield start
    drivers.close()


@pytest.mark.slow
def test_a_driver_killed_in_a_later_batch(
    spark: SparkSession, east: LocalKafka, topic: str, driver: Any, gates: Path, checkpoint: Path, tmp_path: Path
) -> None:
    """Between the offset log and the commit. For the first batch and other points of it, see `test_killed_drivers`."""
    east.create_topic(topic, partitions=3)
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest")
    numbers(east.bootstrap_servers, topic, range(1000), partitions=3)
    run_available(frame, checkpoint, tmp_path / "out")
    numbers(east.bootstrap_servers, topic, range(1000, 2000), partitions=3)
    process = driver("local[2]")
    wait_for(lambda: marks(gates, "tasks"), within_s=240, what="a task that has rows")
    assert len(offset_files(checkpoint)) == 2
    assert committed(checkpoint) == [0]
    kill_session(process.pid)
    numbers(east.bootstrap_servers, topic, range(2000, 3000), partitions=3)
    run_available(frame, checkpoint, tmp_path / "out")
    rows = written(spark, tmp_path / "out")
    assert sorted(int(row[3]) for row in rows) == list(range(3000))
    assert len({row[:3] for row in rows}) == len(rows)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_executor_killed_while_it_reads(
    spark: SparkSession, east: LocalKafka, topic: str, driver: Any, gates: Path, tmp_path: Path
) -> None:
    """Two executor processes of a real (if local) Spark cluster; one dies holding rows, its task runs elsewhere."""
    east.create_topic(topic, partitions=4)
    numbers(east.bootstrap_servers, topic, range(20_000), partitions=4)
    process = driver("local-cluster[2,1,1024]", readers=2)

    def executors() -> list[int]:
        return [pid for pid in session_members(process.pid) if "CoarseGrainedExecutorBackend" in command_line(pid)]

    wait_for(lambda: len(marks(gates, "tasks")) == 2, within_s=300, what="rows on both executors")
    victim = executors()[0]
    os.kill(victim, signal.SIGKILL)
    (gates / "tasks").unlink()
    assert process.wait(240) == 0, (tmp_path / "driver-0.log").read_text()[-3000:]
    assert sorted(int(row[3]) for row in written(spark, tmp_path / "out")) == list(range(20_000))


def naive_source(asked: Path, gate: Path) -> type[DataSource]:
    """The obvious way to write this source: the strategy is resolved in `initialOffset`.

    It leaves a mark at `asked` when that was called, and plans its first batch when `gate` is there. Made here, so that
    Spark pickles it by value.
    """
    from evensplit.core.state.codec import decode, encode
    from evensplit.core.state.state import EnumeratorState
    from evensplit.errors import CheckpointError
    from evensplit.spark.source import EvenSplitDataSource
    from evensplit.spark.stream_reader import EvenSplitStreamReader

    class NaiveReader(EvenSplitStreamReader):
        def initialOffset(self) -> dict[str, Any]:  # noqa: N802
            start = encode(self.batches._coordinator.plan(EnumeratorState(), limited=False))
            asked.touch()
            return start

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
            wait_for(gate.exists)
            before = decode(start).splits

            def with_rows() -> dict[str, Any] | None:
                # What it knows of the cluster may be a moment old, from before the records that came after the start.
                after = super(NaiveReader, self).latestOffset(start, limit)
                new = any(split.position != before[key].position for key, split in decode(after).splits.items())
                return after if new else None

            return wait_for(with_rows) or start

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
            try:
                return super().partitions(start, end)
            except CheckpointError:
                return []

    class NaiveSource(EvenSplitDataSource):
        @classmethod
        def name(cls) -> str:
            return "naive"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            return NaiveReader(self._parsed(), 1)

    return NaiveSource


@pytest.mark.parametrize("name", ["evensplit", "naive"])
def test_a_crash_before_the_first_commit_does_not_move_the_start(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path, name: str
) -> None:
    """Spark does not keep the initial offset. A source that resolves "latest" there is asked again after the crash, and
    answers with a later offset: what lies between is lost. The naive source is here to show that this test can fail."""
    asked, gate = tmp_path / "asked", tmp_path / "gate"
    if name == "naive":
        spark.dataSource.register(naive_source(asked, gate))
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(100))
    reader = spark.readStream.format(name).option("kafka.bootstrap.servers", east.bootstrap_servers)
    frame = reader.option("subscribe", topic).option("startingOffsets", "latest").load()
    seen: list[int] = []
    broken = True

    def write(rows: DataFrame, _: int) -> None:
        if broken:
            raise RuntimeError("the sink is broken")
        seen.extend(int(row.v) for row in rows.selectExpr("cast(value as string) v").collect())

    def start() -> StreamingQuery:
        return started(frame.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint)))

    query = start()
    wait_for(lambda: asked.exists() or offset_files(checkpoint), what="a resolved start")
    numbers(east.bootstrap_servers, topic, range(100, 110))
    gate.touch()
    with pytest.raises(PySparkException, match="the sink is broken"):
        query.awaitTermination(240)
    assert committed(checkpoint) == []
    numbers(east.bootstrap_servers, topic, range(110, 115))
    broken = False
    query = start()
    wait_for(lambda: 114 in seen)
    query.stop()
    assert sorted(seen) == (list(range(100, 115)) if name == "evensplit" else list(range(110, 115)))
