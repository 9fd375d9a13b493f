"""Coordinators of transactional ids that answer as a test says, and clients that ask them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from evensplit.core.delivery.terms import Transaction, Written
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.kafka.wire.api import (
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    Api,
)
from evensplit.testing.messages import read_request, response_class, write_response
from tests.support.clients import settings
from tests.support.scripted import HANG_UP, Scripted

ANSWERED: tuple[Api[Any], ...] = (INIT_PRODUCER_ID, END_TXN, ADD_PARTITIONS_TO_TXN)

Connect = Callable[..., TransactionClient]


def transaction(name: str) -> Transaction:
    return Transaction("east", name, 5, 3, (Written("t", 0, 1, 0, 0),))


ONE = transaction("g")


class Coordinating(Scripted):
    """The coordinator of every transactional id. It knows nothing of what else is asked about transactions.

    `codes`: of each EndTxn or InitProducerId in turn, and of FindCoordinator by that name. `ended`: what was to end.
    `adding`: of the partitions of each AddPartitionsToTxn, by topic and partition.
    """

    def __init__(self, codes: Sequence[int] = (), finding: Sequence[int] = ()) -> None:
        highest: dict[Api[Any], int] = {FIND_COORDINATOR: 3, INIT_PRODUCER_ID: 5, END_TXN: 5, ADD_PARTITIONS_TO_TXN: 3}
        super().__init__(group_codes={"FindCoordinator": finding}, highest=highest)
        self._answers = list(codes)
        self.ended: list[tuple[str, int, int, bool]] = []
        self.adding: list[dict[tuple[str, int], int]] = []

    def answer(self, key: int, version: int, request: bytes) -> bytes | None:
        api = next((one for one in ANSWERED if one.key == key), None)
        if api is None:
            return super().answer(key, version, request)
        self.asked.append(api.name)
        if api is ADD_PARTITIONS_TO_TXN:
            return self._added(version)
        code = self._answers.pop(0) if self._answers else 0
        if code == HANG_UP:
            return None
        if api is END_TXN:
            read = read_request(api, request, version)
            self.ended.append((read.transactional_id, read.producer_id, read.producer_epoch, read.committed))
        producer = {"producer_id": 5, "producer_epoch": 3} if api is INIT_PRODUCER_ID else {}
        return write_response(api, response_class(api)(version=version, error_code=code, **producer), version)

    def _added(self, version: int) -> bytes:
        kind = response_class(ADD_PARTITIONS_TO_TXN)
        topic_kind = kind.AddPartitionsToTxnTopicResult
        part_kind = topic_kind.AddPartitionsToTxnPartitionResult
        topics = [
            topic_kind(
                version=version,
                name=topic,
                results_by_partition=[part_kind(version=version, partition_index=number, partition_error_code=code)],
            )
            for (topic, number), code in self.adding.pop(0).items()
        ]
        return write_response(
            ADD_PARTITIONS_TO_TXN, kind(version=version, results_by_topic_v3_and_below=topics), version
        )


class Telling(Coordinating):
    """It knows one open transaction, `ONE`, and says that it began at this moment.

    - listings: the code of each ListTransactions in turn.
    - age_ms: how old it is by the broker's own clock; by default, as old as it may be asked to be. -1: not listed.
    - timeout_ms: how long it may be open.
    """

    def __init__(self, listings: Sequence[int] = (), age_ms: int = 1 << 62, timeout_ms: int = 60_000) -> None:
        super().__init__()
        self._age_ms = age_ms
        self._timeout_ms = timeout_ms
        self._highest |= {DESCRIBE_TRANSACTIONS: 0, LIST_TRANSACTIONS: 1}
        self._listings = list(listings)

    def answer(self, key: int, version: int, request: bytes) -> bytes | None:
        api = next((one for one in (DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS) if one.key == key), None)
        if api is None:
            return super().answer(key, version, request)
        self.asked.append(api.name)
        made = response_class(api)
        one = {"transactional_id": "g", "transaction_state": "Ongoing", "producer_id": 5}
        if api is DESCRIBE_TRANSACTIONS:
            times = {"transaction_timeout_ms": self._timeout_ms, "transaction_start_time_ms": int(time.time() * 1000)}
            more = {"error_code": 0, "producer_epoch": 3, "topics": []}
            state = made.TransactionState(version=version, **one, **times, **more)
            return write_response(api, made(version=version, transaction_states=[state]), version)
        code = self._listings.pop(0) if self._listings else 0
        if code == HANG_UP:
            return None
        is_older = read_request(api, request, version).duration_filter < self._age_ms
        listed = [made.TransactionState(version=version, **one)] if is_older and not code else []
        found = made(version=version, error_code=code, unknown_state_filters=[], transaction_states=listed)
        return write_response(api, found, version)


def connecting() -> Iterator[Connect]:
    """For a fixture: makes clients, and closes them in the end."""
    made: list[TransactionClient] = []

    def make(server: str, timeout_ms: int = 10_000) -> TransactionClient:
        made.append(TransactionClient("east", settings(server, timeout_ms=timeout_ms)))
        return made[-1]

    yield make
    for one in made:
        one.close()
