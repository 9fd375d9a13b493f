"""Limits in bytes, over a real broker: values of 50 B to 50 KB, some of them compressed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from evensplit.testing import LocalKafka
from tests.support.queries import stream
from tests.support.records import Draft, produce

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("no_query_left")]

LIMIT = 1 << 20
LENGTHS = (50, 500, 5_000, 50_000)


def test_batches_come_near_a_limit_in_bytes(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """Within a fifth, after three batches. The session has not registered the source, or has: both work."""
    east.create_topic(topic, partitions=len(LENGTHS))
    for partition, length in enumerate(LENGTHS):
        # As many bytes in each partition.
        drafts = [Draft(b"x" * length, partition=partition)] * (2 * LIMIT // length)
        produce(east.bootstrap_servers, topic, drafts)
    sizes: list[int] = []

    def take(frame: DataFrame, _: int) -> None:
        row = frame.agg(F.sum(F.octet_length("value"))).first()
        sizes.append(0 if row is None else row[0] or 0)

    options = {"subscribe": topic, "startingOffsets": "earliest", "maxBytesPerTrigger": LIMIT}
    frame = stream(spark, east.bootstrap_servers, **options)
    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    assert writer.trigger(availableNow=True).start().awaitTermination(240)
    found = [size for size in sizes if size]
    assert sum(found) == sum(length * (2 * LIMIT // length) for length in LENGTHS)
    assert len(found) > 5
    # Of logs that are not compressed, the first batch is a third of the limit.
    assert 0.25 * LIMIT <= found[0] <= 0.4 * LIMIT, found
    assert all(0.8 * LIMIT <= size <= 1.2 * LIMIT for size in found[3:-1]), found
