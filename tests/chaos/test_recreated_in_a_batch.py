"""A topic is deleted and created anew while a batch reads it, or before a batch that was logged is read again.

Offsets mean nothing in the new topic: none of its records may come in the place of one of the old topic.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.query import StreamingQuery

from evensplit.core.model import Cause, HandedOut, Loss
from evensplit.core.state.state import EnumeratorState, new_losses
from evensplit.spark.listen.progress import batch_progress
from evensplit.testing import LocalKafka
from tests.support.fleets import uncommit
from tests.support.queries import committed, states, stream
from tests.support.records import Draft, produce
from tests.support.starting import started
from tests.support.waiting import wait_for
from tests.support.world import Topic, World

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

OLD = 30_000
VALUE_BYTES = 5_000
"""150 MB once they are decompressed: more than fits into the sockets from a reading task to a sink that hangs, each of
which may hold 36 MB. On the way from the broker they are small, and few come at a time."""

FETCH_BYTES = 4_096

TIMEOUT_MS = 5_000
QUIET_S = 1.5
QUIET_BYTES = 5_000
"""A broker that sends less than so much in that time sends no records."""

needs_proc = pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="/proc tells what the broker sends")


class Hanging:
    """A sink whose tasks wait, with their first row in the hand, until the gate is there. Rows go to files."""

    def __init__(self, directory: Path) -> None:
        self._rows, self._gate, self._begun = directory / "rows", directory / "gate", directory / "begun"
        self._rows.mkdir()

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Write the rows of a batch."""
        place, gate, begun = str(self._rows / f"{number}"), str(self._gate), str(self._begun)

        def write(rows: Iterable[Row]) -> None:
            import time
            import uuid
            from pathlib import Path

            with Path(f"{place}-{uuid.uuid4()}").open("w") as out:
                for count, (offset, value) in enumerate(rows):
                    if not count:
                        Path(begun).touch()
                        until = time.monotonic() + 120
                        while not Path(gate).exists() and time.monotonic() < until:
                            time.sleep(0.02)
                    out.write(f"{offset} {value[:3]} {value[3:9]}\n")

        # All of each value is handed to the sink: what is short would all fit into its buffers.
        frame.selectExpr("offset", "cast(value as string)").foreachPartition(write)

    @property
    def hangs(self) -> bool:
        return self._begun.exists()

    def open_gate(self) -> None:
        self._gate.touch()

    def rows(self) -> dict[int, list[tuple[int, str, int]]]:
        """Batch -> offset, tag and number of each of its rows, in the order in which they came.

        A task that still writes may have written half of a line.
        """
        found: dict[int, list[tuple[int, str, int]]] = {}
        for path in sorted(self._rows.iterdir()):
            own = found.setdefault(int(path.name.partition("-")[0]), [])
            lines, _, _ = path.read_text().rpartition("\n")
            for line in lines.splitlines():
                offset, tag, number = line.split()
                own.append((int(offset), tag, int(number)))
        return found


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Hanging]:
    made = Hanging(tmp_path)
    yield made
    made.open_gate()


def fill(topic: Topic, tag: bytes, count: int) -> None:
    drafts = (Draft(b"%s%06d" % (tag, n) + b"." * (VALUE_BYTES - 9)) for n in range(count))
    produce(topic.cluster.servers, topic.name, drafts, codec="lz4", linger_ms=20)


def old(count: int) -> list[tuple[int, str, int]]:
    """The first rows of the old topic."""
    return [(n, "old", n) for n in range(count)]


def sent_bytes(kafka: LocalKafka) -> int:
    """How much the broker has written to files and sockets."""
    counters = Path(f"/proc/{kafka.broker(0).pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in counters if line.startswith("wchar:"))


def wait_until_nothing_is_fetched(kafka: LocalKafka) -> None:
    """All buffers on the way from the broker to the sink are full."""
    last, since_s = sent_bytes(kafka), time.monotonic()

    def is_quiet() -> bool:
        nonlocal last, since_s
        now, now_s = sent_bytes(kafka), time.monotonic()
        if now - last > QUIET_BYTES:
            last, since_s = now, now_s
        return now_s - since_s >= QUIET_S

    wait_for(is_quiet, what="a broker that sends nothing")


def declared(checkpoint: Path) -> list[Loss]:
    """What was declared, once each, by the offset log."""
    found: list[Loss] = []
    before = EnumeratorState()
    for state in states(checkpoint):
        found.extend(new_losses(before, state))
        before = state
    return found


def hanging_query(world: World, topic: Topic, sink: Hanging, *, fatal: bool) -> StreamingQuery:
    """A query whose first batch is all of the topic, and hangs in the sink."""
    fill(topic, b"old", OLD)
    options: dict[str, Any] = {"readers": 1, "discoveryInterval": "300ms", "kafka.request.timeout.ms": TIMEOUT_MS}
    options |= {"failOnDataLoss": fatal, "kafka.max.partition.fetch.bytes": FETCH_BYTES}
    query = started(
        stream(world.spark, topic.cluster.servers, subscribe=topic.name, startingOffsets="earliest", **options)
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(world.checkpoint))
        .trigger(processingTime="50 milliseconds")
    )
    wait_for(lambda: sink.hangs or query.exception(), what="the first row of the first batch")
    assert query.exception() is None
    wait_until_nothing_is_fetched(topic.cluster.kafka)
    return query


@needs_proc
@pytest.mark.parametrize("count", [OLD, OLD + OLD // 2], ids=["as large", "larger"])
def test_rows_of_a_topic_that_is_created_anew_are_not_mixed(world: World, sink: Hanging, count: int) -> None:
    """The batch ends with what had been fetched, which is declared; and all of the new topic comes after it."""
    topic = world.default.topic()
    query = hanging_query(world, topic, sink, fatal=False)
    topic.recreate()
    fill(topic, b"new", count)
    sink.open_gate()

    def has_all() -> bool:
        error = query.exception()
        if error is not None:
            raise error
        return sum(len(own) for number, own in sink.rows().items() if number) >= count

    wait_for(has_all, what="the rows of the new topic")
    query.processAllAvailable()
    query.stop()
    batches = sink.rows()
    first = batches.pop(0)
    assert 0 < len(first) < OLD, "some of it had not been fetched when the topic was deleted"
    assert first == old(len(first))
    assert [row for number in sorted(batches) for row in batches[number]] == [(n, "new", n) for n in range(count)]
    # The driver cannot tell how much of the batch had been read, so all of it may be lost.
    (split,) = topic.splits
    assert declared(world.checkpoint) == [Loss(split, Cause.RECREATED, 0, None, OLD, HandedOut.EARLIER)]
    told = [batch.end.losses for event in query.recentProgress for batch in batch_progress(event)]
    assert any(loss.cause is Cause.RECREATED for losses in told for loss in losses)


@needs_proc
@pytest.mark.parametrize("count", [OLD, OLD + OLD // 2], ids=["as large", "larger"])
def test_a_topic_that_is_created_anew_ends_the_batch(world: World, sink: Hanging, count: int) -> None:
    """With failOnDataLoss=true, before a row of the new topic is handed out; the error says what to do."""
    topic = world.default.topic()
    query = hanging_query(world, topic, sink, fatal=True)
    topic.recreate()
    fill(topic, b"new", count)
    sink.open_gate()
    with pytest.raises(PySparkException) as caught:
        query.awaitTermination(120)
    error = str(caught.value)
    assert "DataLossError" in error
    assert f"cluster 'default', topic '{topic.name}', partition 0" in error
    assert "the topic was deleted and created anew" in error
    assert "failOnDataLoss=false" in error
    (first,) = sink.rows().values()
    assert first == old(len(first))
    assert len(first) < OLD
    assert committed(world.checkpoint) == []


@pytest.mark.parametrize("fatal", [True, False], ids=["failOnDataLoss", "declared"])
@pytest.mark.parametrize("count", [60, 400], ids=["smaller", "larger"])
def test_a_logged_batch_of_a_topic_that_was_created_anew(world: World, fatal: bool, count: int) -> None:
    """It cannot be read again. Without failOnDataLoss it is skipped, declared, and the new topic read instead."""
    topic = world.default.topic(partitions=2)
    for _ in range(2):
        values = topic.write(100)
        # Where losses are declared, an empty batch would come last.
        assert world.run().values() == values
    assert committed(world.checkpoint) == [0, 1]
    uncommit(world.checkpoint, 1)
    topic.recreate(records=count)
    if fatal:
        error = world.fail(failOnDataLoss=True)
        assert "DataLossError" in error
        assert f"cluster 'default', topic '{topic.name}', partition" in error
        assert "the topic was deleted and created anew" in error
        assert "set failOnDataLoss=false, or start with a new checkpoint" in error
        assert committed(world.checkpoint) == [0]
        return
    batches = world.run(failOnDataLoss=False)
    assert batches.of_batch(1) == []
    assert batches.values() == topic.values
    assert min(row.offset for row in batches.rows) == 0
    # Each partition had 50 offsets in either batch. What came after them is not known to a process that never saw the
    # end.
    losses = (50, None, 50, HandedOut.EARLIER), (100,)
    lost = [Loss(split, Cause.RECREATED, *one) for split in topic.splits for one in losses]
    assert sorted(declared(world.checkpoint)) == lost
    # It is said once, and nothing comes again.
    assert world.run(failOnDataLoss=False).rows == []
    assert len(declared(world.checkpoint)) == len(lost)
