"""A task that fails while its process lives: it aborts what it has open, and nobody has to wait for that."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from evensplit.errors.writing import RowRefused
from evensplit.spark.sink.messages import TaskPlace
from evensplit.spark.sink.options import parse_writing
from evensplit.spark.sink.task import write_rows_in_transaction, write_rows_of_stream
from evensplit.testing import LocalKafka
from tests.support.transactions import ends
from tests.support.waiting import wait_for
from tests.support.written import struct_type, values

pytestmark = pytest.mark.kafka


def refused() -> pa.RecordBatch:
    return pa.record_batch({"value": ["x"], "topic": pa.array([None], pa.string())})


def interrupted() -> pa.RecordBatch:
    """As if Spark stopped the task, or what computes the rows were gone."""
    raise KeyboardInterrupt


def rows(kafka: LocalKafka, topic: str, fail: Callable[[], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows until some are in the log, and then what fails."""
    deadline = time.monotonic() + 60
    while not ends(kafka, topic)[1][0]:
        assert time.monotonic() < deadline
        yield pa.record_batch({"value": ["a value"] * 1_000, "topic": [topic] * 1_000})
    yield fail()


@pytest.mark.parametrize(
    "fail, error, stream",
    [
        pytest.param(refused, RowRefused, True, id="stream"),
        pytest.param(interrupted, KeyboardInterrupt, False, id="batch", marks=pytest.mark.slow),
    ],
)
def test_a_task_that_fails_leaves_no_transaction_open(
    kafka: LocalKafka,
    topic: str,
    fail: Callable[[], pa.RecordBatch],
    error: type[BaseException],
    stream: bool,
) -> None:
    kafka.create_topic(topic)
    kafka.create_topic(f"{topic}-ledger")
    given = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "kafka.batch.size": "1000",
        "kafka.transaction.timeout.ms": "600000",
        "ledger": f"{topic}-ledger",
        "delivery": "exactly-once",
    }
    options = parse_writing(given, struct_type("value string, topic string"), stream=stream)
    query, batches = uuid.uuid4().hex, rows(kafka, topic, fail)

    def write() -> None:
        if stream:
            write_rows_of_stream(options, TaskPlace(0, 0, query, 0, "run"), batches)
        else:
            write_rows_in_transaction(options, TaskPlace(0, 0), batches, query)

    with pytest.raises(error):
        write()
    wait_for(lambda: ends(kafka, topic)[0] == ends(kafka, topic)[1], within_s=30, what="the end of the transaction")
    assert values(kafka, topic) == []
