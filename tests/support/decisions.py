"""A ledger by hand, and transactions on a real broker with the decisions about them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from confluent_kafka import Message, Producer

from evensplit.core.delivery.decision_json import batch_key, encode_decision, last_key
from evensplit.core.delivery.terms import Decision, State, Transaction, Written
from evensplit.core.model import Range, SplitId
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import read_headers
from evensplit.testing import LocalKafka
from tests.support.census import lists
from tests.support.lanes import settings_of
from tests.support.transactions import ends

QUERY = "3e5f0c1a-query"


class Task:
    """Writes one transaction, and says what a task would have told of it."""

    def __init__(self, kafka: LocalKafka, topic: str, name: str = "") -> None:
        self._kafka, self._topic = kafka, topic
        self.name = name or f"task-{uuid.uuid4().hex[:8]}"

    def write(self, *partitions: int, records: int = 25) -> Transaction:
        """Write to these partitions, and leave the transaction open. Each has an epoch of its own."""
        settings = {"bootstrap.servers": self._kafka.bootstrap_servers, "transactional.id": self.name}
        own = {"transaction.timeout.ms": 600_000, "linger.ms": 0, "batch.num.messages": 10}
        self._producer = Producer({**settings, **own})
        self._producer.init_transactions(60)
        offsets: dict[int, list[int]] = {}

        def written(error: object, message: Message) -> None:
            assert error is None, error
            offsets.setdefault(message.partition() or 0, []).append(message.offset() or 0)

        self._producer.begin_transaction()
        for partition in partitions:
            for number in range(records):
                self._producer.produce(self._topic, b"%d" % number, partition=partition, on_delivery=written)
        assert self._producer.flush(60) == 0
        parts = tuple(
            Written(self._topic, partition, len(of), min(of), max(of)) for partition, of in sorted(offsets.items())
        )
        producer_id, epoch = self._identity(parts[0])
        return Transaction("east", self.name, producer_id, epoch, parts)

    def end(self, *, commit: bool = True) -> None:
        """Commit, or abort."""
        (self._producer.commit_transaction if commit else self._producer.abort_transaction)(60)

    def _identity(self, written: Written) -> tuple[int, int]:
        """Producer id and epoch, from the log: confluent-kafka does not tell them."""
        pool = Pool()
        try:
            place = Range(
                SplitId("east", written.topic, written.partition), written.offset_first, written.offset_last + 1
            )
            _, census = next(iter(read_headers([place], settings_of(self._kafka), pool=pool)))
        finally:
            pool.close()
        lines = lists(census)
        return lines["producer_ids"][0], lines["producer_epochs"][0]


def decided(batch: int, *transactions: Transaction, query: str = QUERY, state: State = State.DECIDED) -> Decision:
    if state is State.ABORTED:
        return Decision(query, batch, state, given_up=tuple(replace(one, written=(), bytes=0) for one in transactions))
    return Decision(query, batch, state, transactions)


def append(kafka: LocalKafka, ledger: str, decisions: Sequence[Decision]) -> None:
    """Write decisions to a ledger, under both keys, as a driver does."""
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"driver-{uuid.uuid4().hex}"}
    )
    producer.init_transactions(60)
    for decision in decisions:
        producer.begin_transaction()
        value = encode_decision(decision)
        for key in (last_key(decision.query), batch_key(decision.query, decision.batch)):
            producer.produce(ledger, value, key, partition=0)
        producer.commit_transaction(60)


def settled(kafka: LocalKafka, topic: str, partitions: int) -> bool:
    """Whether all transactions have their markers."""
    stable, behind = ends(kafka, topic, range(partitions))
    return stable == behind
