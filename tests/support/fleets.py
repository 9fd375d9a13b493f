"""Queries over several clusters: their options, and a sink that knows which batch and which task brought what."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from evensplit.testing import LocalKafka
from tests.support.starting import started

QUICK = {"discoveryInterval": "300ms", "clusterWait": "20s", "kafka.request.timeout.ms": "5000"}
"""Options with which changes are seen soon, and a cluster is given up after 5 s, not because it is slow to answer."""


class Received(NamedTuple):
    """One record as a batch wrote it. `task`: the number of the Spark task; `at_s`: when, by the monotonic clock."""

    cluster: str
    topic: str
    partition: int
    offset: int
    value: int
    batch: int
    task: int
    at_s: float

    @property
    def record(self) -> tuple[str, str, int, int]:
        """Which record it is."""
        return self[:4]


class Batches:
    """A sink for `foreachBatch`: what each batch brought, in the order in which they came.

    `numbers`: the batches, one entry for each time that one was written. While `gate` is clear, every batch waits
    before it is done, its rows being there already.
    """

    def __init__(self) -> None:
        self.rows: list[Received] = []
        self.numbers: list[int] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Take the rows of a batch."""
        found = frame.select(
            "cluster", "topic", "partition", "offset", F.expr("cast(value as string)"), F.spark_partition_id()
        ).collect()
        at_s = time.monotonic()
        self.rows.extend(Received(row[0], row[1], row[2], row[3], int(row[4]), number, row[5], at_s) for row in found)
        self.numbers.append(number)
        assert self.gate.wait(120), "the gate was never opened"

    def values(self, cluster: str | None = None) -> list[int]:
        """The values that came, of one cluster or of all, ascending; twice what came twice."""
        return sorted(row.value for row in self.rows if cluster in (None, row.cluster))

    def of_batch(self, number: int) -> list[tuple[str, str, int, int]]:
        """The records of one batch."""
        return sorted(row.record for row in self.rows if row.batch == number)

    def per_partition(self) -> Counter[tuple[str, str, int]]:
        """How many records of each partition came."""
        return Counter(row.record[:3] for row in self.rows)


def clusters(brokers: Mapping[str, LocalKafka], own: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """The option `clusters`. `own`: what some clusters have for themselves."""
    said = own or {}
    return json.dumps(
        {
            name: {"kafka.bootstrap.servers": one.bootstrap_servers, **said.get(name, {})}
            for name, one in brokers.items()
        }
    )


def fleet(spark: SparkSession, **options: object) -> DataFrame:
    """A streaming DataFrame of the source, with a column `cluster`."""
    given = {**QUICK, "includeCluster": "true", **options}
    return spark.readStream.format("evensplit").options(**{name: str(one) for name, one in given.items()}).load()


def begin(frame: DataFrame, checkpoint: Path, batches: Batches, **trigger: object) -> StreamingQuery:
    """Start a query that hands its batches to `batches`; every 50 ms unless `trigger` says otherwise."""
    wanted: dict[str, Any] = trigger or {"processingTime": "50 milliseconds"}
    writer = frame.writeStream.foreachBatch(batches).option("checkpointLocation", str(checkpoint))
    return started(writer.trigger(**wanted))


def run(frame: DataFrame, checkpoint: Path) -> Batches:
    """Read what is available now, and end."""
    batches = Batches()
    assert begin(frame, checkpoint, batches, availableNow=True).awaitTermination(240), "the query did not end"
    return batches


@contextmanager
def running(frame: DataFrame, checkpoint: Path, batches: Batches, **trigger: object) -> Iterator[StreamingQuery]:
    """A query that runs in the block, and is stopped at its end; an error that ended it before is raised there."""
    query = begin(frame, checkpoint, batches, **trigger)
    try:
        yield query
        error = query.exception()
        if error is not None:
            raise error
    finally:
        batches.gate.set()
        query.stop()


def metadata_document(brokers: Mapping[str, LocalKafka], topics: Iterable[str]) -> list[dict[str, Any]]:
    """One stream of all these clusters, as metadata services serve it."""
    named = [
        {"clusterId": name, "bootstrapServers": one.bootstrap_servers, "topics": [*topics]}
        for name, one in brokers.items()
    ]
    return [{"streamId": "numbers", "clusterMetadataList": named}]


def write_metadata(path: Path, brokers: Mapping[str, LocalKafka], topics: Iterable[str]) -> None:
    """Put the metadata there, all at once."""
    beside = path.with_name(f".{path.name}")
    beside.write_text(json.dumps(metadata_document(brokers, topics)))
    beside.replace(path)


def uncommit(checkpoint: Path, number: int) -> None:
    """Make batch `number` one that was logged and not committed, as a crash leaves it.

    Spark keeps a hidden checksum beside each file, and takes one without its file for a sign of another query.
    """
    (checkpoint / "commits" / f"{number}").unlink()
    (checkpoint / "commits" / f".{number}.crc").unlink(missing_ok=True)
