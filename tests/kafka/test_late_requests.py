"""What a task that failed has sent, and what comes to the broker when it has aborted already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from evensplit.errors import BrokerError, RowRefused
from evensplit.kafka.produce.terms import Identity
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.kafka.wire.error_codes import INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
from evensplit.spark.sink.clients import transaction_client
from evensplit.spark.sink.messages import TaskPlace
from evensplit.spark.sink.options import parse_writing
from evensplit.spark.sink.task import write_rows_in_transaction
from evensplit.testing import LocalKafka
from tests.support.delivered import VERSIONS, of_version, send
from tests.support.transactions import ends
from tests.support.written import struct_type

pytestmark = pytest.mark.kafka

AS_BEFORE_3_6 = {"transaction.partition.verification.enable": "false"}
"""Brokers append what comes late without asking the coordinator whether there is a transaction."""


@pytest.fixture(params=VERSIONS)
def broker(request: pytest.FixtureRequest) -> Iterator[LocalKafka]:
    yield from of_version(request.param, request, AS_BEFORE_3_6)


def test_late_records_of_a_task_that_failed_are_refused(
    broker: LocalKafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic(topic)
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic, "delivery": "exactly-once"}
    given["kafka.batch.size"] = "1"
    options = parse_writing(given, struct_type("value BINARY, partition INT"), stream=False)
    begun: list[tuple[str, Identity]] = []
    init = TransactionClient.init

    def noted(self: TransactionClient, name: str, *args: Any, **kwargs: Any) -> Identity:
        begun.append((name, init(self, name, *args, **kwargs)))
        return begun[-1][1]

    def batches() -> Iterator[pa.RecordBatch]:
        for partition in (0, 0, 99):
            yield pa.record_batch([pa.array([b"a"]), pa.array([partition], pa.int32())], names=["value", "partition"])

    monkeypatch.setattr(TransactionClient, "init", noted)
    with pytest.raises(RowRefused):
        write_rows_in_transaction(options, TaskPlace(0, 1), batches(), topic)
    (stable,), (end,) = ends(broker, topic)
    assert stable == end
    client = transaction_client("default", options.clusters[0].client)
    for sequence in range(3):
        with pytest.raises(BrokerError) as caught:
            send(client, (topic, 0), *begun[0], sequence=sequence)
        assert caught.value.code in (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED)
    assert ends(broker, topic) == ([end], [end])
