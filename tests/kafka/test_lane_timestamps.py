"""Timestamps that Kafka takes and columns of microseconds cannot hold."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from evensplit.core.model import Range, SplitId
from evensplit.errors import TimestampOutOfRange
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import read_ranges
from evensplit.spark.batch_reader import EvenSplitReader
from evensplit.spark.options.parse import parse_options
from evensplit.testing import LocalKafka
from tests.support.lanes import settings_of, values
from tests.support.records import Draft, produce

pytestmark = pytest.mark.kafka

NANOSECONDS = 1_700_000_000_000_000_000
MILLISECONDS = 1_700_000_000_000


@pytest.fixture
def filled(kafka: LocalKafka, topic: str) -> str:
    """Three records, one in each batch, and the second one's time is in nanoseconds."""
    kafka.create_topic(topic, config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    for value, time_ms in ((b"0", MILLISECONDS), (b"1", NANOSECONDS), (b"2", MILLISECONDS + 1)):
        produce(kafka.bootstrap_servers, topic, [Draft(value, timestamp_ms=time_ms)])
    return topic


def lane(
    kafka: LocalKafka,
    topic: str,
    pool: Pool,
    *,
    start: int = 0,
    columns: tuple[str, ...] = KAFKA_COLUMNS,
    null_timestamps: bool = False,
) -> Iterator[pa.RecordBatch]:
    ranges = [Range(SplitId("east", topic, 0), start, 3)]
    return read_ranges(ranges, settings_of(kafka), columns=columns, null_timestamps=null_timestamps, pool=pool)


def test_the_record_is_named_and_what_is_behind_it_can_be_read(kafka: LocalKafka, filled: str, pool: Pool) -> None:
    with pytest.raises(TimestampOutOfRange) as caught:
        list(lane(kafka, filled, pool))
    error = caught.value
    assert (error.cluster, error.topic, error.partition, error.offset) == ("east", filled, 0, 1)
    assert f"a record's timestamp is {NANOSECONDS} ms since 1970" in str(error)
    assert "onTimestampOverflow=null" in str(error)
    assert "damaged" not in str(error)
    assert values(lane(kafka, filled, pool, start=2)) == [b"2"]


def test_null_if_that_is_asked_for(kafka: LocalKafka, filled: str, pool: Pool) -> None:
    table = pa.Table.from_batches(lane(kafka, filled, pool, null_timestamps=True))
    table.validate(full=True)
    assert table.column("value").to_pylist() == [b"0", b"1", b"2"]
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    assert times == [1_000 * MILLISECONDS, None, 1_000 * (MILLISECONDS + 1)]


def test_it_is_not_looked_at_where_there_is_no_such_column(kafka: LocalKafka, filled: str, pool: Pool) -> None:
    columns = tuple(name for name in KAFKA_COLUMNS if name != "timestamp")
    assert values(lane(kafka, filled, pool, columns=columns)) == [b"0", b"1", b"2"]


def test_the_option_comes_to_the_task(kafka: LocalKafka, filled: str) -> None:
    def rows(**options: str) -> list[bytes]:
        given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": filled, "readers": "1"}
        reader = EvenSplitReader(parse_options({**given, **options}), 1)
        return [value for part in reader.partitions() for value in values(iter(reader.read(part)))]

    with pytest.raises(TimestampOutOfRange):
        rows()
    assert rows(onTimestampOverflow="null") == rows(columns="value") == [b"0", b"1", b"2"]
