"""What a process does in its first micro-batch it does not do again: connect, make clients, import."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from evensplit.spark.source import EvenSplitDataSource
from evensplit.spark.stream_reader import EvenSplitStreamReader
from evensplit.spark.task.task_reader import TaskReader
from evensplit.testing import LocalKafka
from tests.support.starting import started
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="sockets are looked up in /proc"),
]

PARTITIONS = 6
ROUNDS = 8


def watched(log: Path, port: int) -> type[EvenSplitDataSource]:
    """The source, and after each task a line in `log`: what its process has by then.

    Made here, so that it is sent to workers as a whole: they do not have the tests.
    """

    def note(where: str, rows: int = 0) -> None:
        import os
        import re

        from evensplit.kafka.fetch.connection_pool import POOL

        inodes = set()
        for descriptor in Path("/proc/self/fd").iterdir():
            try:
                inodes.update(re.findall(r"^socket:\[(\d+)\]$", str(descriptor.readlink())))
            except FileNotFoundError:
                # The one for listing the directory itself.
                continue
        ports = []
        for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]:
            columns = line.split()
            if int(columns[2].partition(":")[2], 16) == port and columns[9] in inodes:
                ports.append(int(columns[1].partition(":")[2], 16))
        said = {
            "process": f"{where} {os.getpid()}",
            "rows": rows,
            "ports": sorted(ports),
            "modules": sorted(sys.modules),
            "clients": [id(client) for client in POOL._clients.values()],
        }
        with log.open("a") as file:
            file.write(json.dumps(said) + "\n")

    class WatchedReader(EvenSplitStreamReader):
        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
            planned = super().partitions(start, end)
            note("driver")
            return planned

        def __reduce__(self) -> Any:
            return WatchedTask, ()

    class WatchedTask(TaskReader):
        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            rows = 0
            for batch in super().read(partition):
                rows += batch.num_rows
                yield batch
            note("worker", rows)

    class Watched(EvenSplitDataSource):
        @classmethod
        def name(cls) -> str:
            return "watched"

        def streamReader(self, schema: StructType) -> WatchedReader:  # noqa: N802
            return WatchedReader(self._parsed(), 2)

    return Watched


def test_later_batches_connect_to_nothing_and_import_nothing(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    east.create_topic(topic, PARTITIONS)
    log = tmp_path / "log"
    log.touch()
    spark.dataSource.register(watched(log, east.broker(0).port))
    producer = Producer({"bootstrap.servers": east.bootstrap_servers, "linger.ms": 0})
    frame = (
        spark.readStream.format("watched")
        .option("kafka.bootstrap.servers", east.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = started(writer.trigger(processingTime="20 milliseconds"))
    try:
        for number in range(1, ROUNDS + 1):
            for partition in range(PARTITIONS):
                producer.produce(topic, b"x", partition=partition)
            assert producer.flush(30) == 0
            wait_for(partial(has_read, query, log, number * PARTITIONS), within_s=120, what="the batch")
    finally:
        query.stop()
    by_process = defaultdict(list)
    for one in lines(log):
        by_process[one["process"]].append(one)
    workers = {name: said for name, said in by_process.items() if name.startswith("worker")}
    assert sum(len(said) for said in workers.values()) >= ROUNDS
    assert any(len(said) >= ROUNDS // 2 for said in workers.values())
    for first, *later in workers.values():
        # One for metadata and one for records.
        assert len(first["ports"]) == 2
        for one in later:
            assert one["ports"] == first["ports"]
            assert one["clients"] == first["clients"]
            assert sorted(set(one["modules"]) - set(first["modules"])) == []
    (driver,) = (said for name, said in by_process.items() if name.startswith("driver"))
    for one in driver[2:]:
        assert one["ports"] == driver[1]["ports"]
        assert sorted(set(one["modules"]) - set(driver[1]["modules"])) == []


def has_read(query: StreamingQuery, log: Path, rows: int) -> bool:
    error = query.exception()
    assert error is None, error
    return sum(int(one["rows"]) for one in lines(log)) == rows


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
