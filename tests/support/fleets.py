"""Queries over several clusters: their options, and a sink that knows which batch and which task brought what."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from tests.support.starting import started
from tests.support.waiting import wait_for

QUICK = {"discoveryInterval": "300ms", "clusterWait": "20s", "kafka.request.timeout.ms": "5000"}
"""Options with which changes are seen soon, and a cluster is given up after 5 s, not because it is slow to answer."""


class Received(NamedTuple):
    """One record as a batch wrote it. `task`: the number of the Spark task."""

    cluster: str
    topic: str
    partition: int
    offset: int
    value: int
    batch: int
    task: int

    @property
    def record(self) -> tuple[str, str, int, int]:
        """Which record it is."""
        return self[:4]


class Batches:
    """A sink for `foreachBatch`: what each batch brought, in the order in which they came.

    `numbers`: the batches, one entry for each time that one was written. While `gate` is clear, every batch waits
    before it is done, its rows being there already.
    """

    query: StreamingQuery
    """The one that hands them over, once `begin` has started it."""

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
        self.rows.extend(Received(row[0], row[1], row[2], row[3], int(row[4]), number, row[5]) for row in found)
        self.numbers.append(number)
        assert self.gate.wait(120), "the gate was never opened"

    def values(self, cluster: str | None = None) -> list[int]:
        """The values that came, of one cluster or of all, ascending; twice what came twice."""
        return sorted(row.value for row in self.rows if cluster in (None, row.cluster))

    def check(self) -> None:
        """Raise what ended the query, if anything did."""
        error = self.query.exception()
        if error is not None:
            raise error

    def wait_for(self, values: Iterable[int], cluster: str | None = None, *, what: str = "") -> None:
        """Wait until just these values are there, of one cluster or of all."""
        wanted = sorted(values)

        def there() -> bool:
            self.check()
            return self.values(cluster) == wanted

        try:
            wait_for(there, what=what or f"{len(wanted)} values of {cluster or 'all clusters'}")
        except AssertionError as error:
            seen, expected = Counter(self.values(cluster)), Counter(wanted)
            error.add_note(f"missing: {sorted((expected - seen).elements())}")
            error.add_note(f"not expected: {sorted((seen - expected).elements())}")
            raise

    def of_batch(self, number: int) -> list[tuple[str, str, int, int]]:
        """The records of one batch."""
        return sorted(row.record for row in self.rows if row.batch == number)


def fleet(spark: SparkSession, **options: object) -> DataFrame:
    """A streaming DataFrame of the source, with a column `cluster`."""
    given = {**QUICK, "includeCluster": "true", **options}
    return spark.readStream.format("evensplit").options(**{name: str(one) for name, one in given.items()}).load()


def begin(frame: DataFrame, checkpoint: Path, batches: Batches, **trigger: object) -> StreamingQuery:
    """Start a query that hands its batches to `batches`; every 50 ms unless `trigger` says otherwise."""
    wanted: dict[str, Any] = trigger or {"processingTime": "50 milliseconds"}
    writer = frame.writeStream.foreachBatch(batches).option("checkpointLocation", str(checkpoint))
    batches.query = started(writer.trigger(**wanted))
    return batches.query


def uncommit(checkpoint: Path, number: int) -> None:
    """Make batch `number` one that was logged and not committed, as a crash leaves it.

    Spark keeps a hidden checksum beside each file, and takes one without its file for a sign of another query.
    """
    (checkpoint / "commits" / f"{number}").unlink()
    (checkpoint / "commits" / f".{number}.crc").unlink(missing_ok=True)
