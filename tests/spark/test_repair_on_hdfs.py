"""Queries whose checkpoints are on HDFS and edited over WebHDFS: Spark's own client goes on from what is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensplit.checkpoint.files import numbers_in
from evensplit.checkpoint.places.place import place
from evensplit.testing import LocalKafka
from tests.support import stores
from tests.support.commands import invoke
from tests.support.queries import stream
from tests.support.records import Draft, produce
from tests.support.starting import started

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.timeout(1_800),
    pytest.mark.usefixtures("no_query_left"),
]

RECORDS = [Draft(b'{"n": 1}', partition=number % 2) for number in range(40)]
TYPED = {"value.format": "json", "value.schema": "n bigint", "onDecodeError": "fail"}
BAD = 20
"""The offset of what nobody can read, in partition 0."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[stores.Hdfs]:
    with stores.hdfs() as found:
        yield found


def test_a_query_goes_on_from_what_was_edited_and_copied(
    spark: SparkSession, east: LocalKafka, topic: str, cluster: stores.Hdfs, tmp_path: Path
) -> None:
    def run(checkpoint: object) -> Counter[tuple[int, int]]:
        """Read what there is. Returns how often each offset was read, by partition and offset."""
        found: Counter[tuple[int, int]] = Counter()
        query = started(
            stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest", **TYPED)
            .writeStream.foreachBatch(
                lambda rows, _: found.update((row.partition, row.offset) for row in rows.toLocalIterator())
            )
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
        )
        assert query.awaitTermination(240)
        return found

    def all_of(*partitions: int) -> Counter[tuple[int, int]]:
        """Each offset that can be read, once."""
        ends = {0: 41, 1: 40}
        return Counter((part, at) for part in partitions for at in range(ends[part]) if (part, at) != (0, BAD))

    def edit(command: str, *arguments: object) -> str:
        return invoke(command, f"{cluster.web}/first", *arguments, "--yes", "--assume-stopped")[0]

    def done(name: str) -> int:
        """How many batches, of which none is left out."""
        found = sorted(numbers_in(place(f"{cluster.web}/{name}/commits")))
        assert found == list(range(len(found)))
        return len(found)

    first, second, local = f"{cluster.rpc}/first", f"{cluster.rpc}/second", tmp_path / "local"
    east.create_topic(topic, partitions=2)
    produce(east.bootstrap_servers, topic, [*RECORDS, Draft(b"poison", partition=0), *RECORDS])
    with pytest.raises(Exception, match=rf"offset {BAD}\b"):
        run(first)
    assert done("first") == 0
    # The file of a batch that is not done is replaced, and then it is the query that goes on with it.
    assert "was begun and not finished" in edit("skip", f"{topic}/0:{BAD}")
    assert run(first) == all_of(0, 1)
    # One more batch is a new file.
    before = done("first")
    assert "goes back" in edit("rewind", "--to", "batch:0", "--only", f"default/{topic}/1")
    edit("undo")
    edit("rewind", "--to", "batch:0", "--only", f"default/{topic}/1")
    for copy in (f"{cluster.web}/second", local):
        invoke("fork", f"{cluster.web}/first", copy, "--yes", "--assume-stopped")
    for checkpoint in (first, second, local):
        assert run(checkpoint) == all_of(1)
    assert done("second") == done("first") > before
    produce(east.bootstrap_servers, topic, RECORDS[:2])
    for checkpoint in (first, second, local):
        assert run(checkpoint) == {(0, 41): 1, (1, 40): 1}
