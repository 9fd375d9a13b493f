"""Coordinators of transactional ids that move, are busy, refuse, or do not answer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from evensplit.core.delivery.orders import Ended
from evensplit.core.delivery.terms import LEFT_MIN_MS, TIMEOUT_MIN_MS, Transaction, Written
from evensplit.errors import BrokerError, ClusterUnreachable
from evensplit.kafka.produce.terms import Identity, Unanswered
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

FORBIDDEN = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53): this user may not do that"

Connect = Callable[..., TransactionClient]


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


@pytest.fixture
def connect() -> Iterator[Connect]:
    made: list[TransactionClient] = []

    def make(server: str, timeout_ms: int = 10_000) -> TransactionClient:
        made.append(TransactionClient("east", settings(server, timeout_ms=timeout_ms)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def transaction(name: str) -> Transaction:
    return Transaction("east", name, 5, 3, (Written("t", 0, 1, 0, 0),))


ONE = transaction("g")


@pytest.mark.parametrize(
    "codes, searches",
    [
        ((), 1),
        # Busy, not yet loaded, or broken for a moment: the same one is asked again.
        ((51, 14, 51, -1, 7), 1),
        ((16, 15), 3),
        ((HANG_UP, HANG_UP), 3),
    ],
)
def test_asked_again_until_it_has_ended(connect: Connect, codes: tuple[int, ...], searches: int) -> None:
    script = Coordinating(codes)
    with script as server:
        client = connect(server)
        assert client.end([ONE], commit=True) == {ONE: Ended.ENDED}
        assert script.ended == [("g", 5, 3, True)] * (1 + len([one for one in codes if one != HANG_UP]))
        assert script.asked.count("FindCoordinator") == searches
        client.close()


@pytest.mark.parametrize("code", [47, 48, 49, 53, 90, 120])
def test_what_is_not_to_be_asked_again_is_uncertain(connect: Connect, code: int) -> None:
    with Coordinating([code]) as server:
        client = connect(server)
        assert client.end([ONE], commit=True) == {ONE: Ended.UNCERTAIN}
        client.close()


@pytest.mark.parametrize("codes, finding", [([51] * 10_000, ()), ((), [15] * 10_000)])
def test_until_the_deadline(connect: Connect, codes: list[int], finding: list[int]) -> None:
    with Coordinating(codes, finding) as server:
        client = connect(server, timeout_ms=1_000)
        assert client.end([ONE], commit=False) == {ONE: Ended.UNANSWERED}
        said = r"'g': .*(51|15)\).*; retried in vain within 1000 ms \(kafka\.request\.timeout\.ms\)"
        with pytest.raises(BrokerError, match=said):
            client.init("g", 60_000)
        with pytest.raises(BrokerError, match=r"; retried in vain within 900 ms\n"):
            client.end_one(Identity(5, 3), "g", commit=True, timeout_s=0.9)
        client.close()


def test_all_at_once(connect: Connect) -> None:
    """More than are under way at a time; each has an answer of its own."""
    every = [transaction(f"p.{number}") for number in range(250)]
    script = Coordinating([51 if number % 3 else 90 for number in range(250)])
    with script as server:
        client = connect(server)
        found = client.end(every, commit=True)
        assert [found[one] for one in every] == [
            Ended.ENDED if number % 3 else Ended.UNCERTAIN for number in range(250)
        ]
        assert sorted(set(script.ended)) == sorted((one.transactional_id, 5, 3, True) for one in every)
        assert len(script.ended) == 250 + len([number for number in range(250) if number % 3])
        client.close()


def test_identities(connect: Connect) -> None:
    with Coordinating([51, 51, 14]) as server:
        client = connect(server)
        assert client.init("g", 60_000) == client.init_idempotent() == Identity(5, 3)
        # A broker that says nothing of features has transactions of version 1.
        assert client.transaction_version() == 1
        client.close()


@pytest.mark.parametrize(
    "codes, finding, said",
    [
        (
            [53],
            (),
            "no producer id could be had: TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53): this user may not do that",
        ),
        (
            (),
            [53],
            "its coordinator is not known: TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53): this user may not do that",
        ),
        ([50], (), "do not allow a transaction timeout of 60000 ms: lower kafka.transaction.timeout.ms"),
    ],
)
def test_final_refusals(connect: Connect, codes: list[int], finding: list[int], said: str) -> None:
    with Coordinating(codes, finding) as server:
        client = connect(server)
        with pytest.raises(BrokerError) as caught:
            client.init("g", 60_000)
        assert f"cluster 'east': transactional id 'g': {said}" in str(caught.value).replace("the brokers ", "")
        client.close()


def test_a_user_who_may_not_write(connect: Connect) -> None:
    with Coordinating([31]) as server:
        client = connect(server)
        with pytest.raises(
            BrokerError, match=r"allow it the operation Write on the topic, or, before Kafka 2\.8, Idem"
        ):
            client.init_idempotent()
        client.close()


def test_brokers_before_3_0(connect: Connect) -> None:
    """Nothing is known of open transactions, but what their tasks have told."""
    with Coordinating() as server:
        client = connect(server)
        assert client.remaining_ms([ONE], lambda one: one.epoch * 100) == {ONE: 300}
        assert client.list_open("g") == ()
        client.close()


@pytest.mark.parametrize("listings", [(), (HANG_UP,), (14, 14), (14, HANG_UP, 14)])
def test_how_old_they_are_is_asked_again(connect: Connect, listings: tuple[int, ...]) -> None:
    """The coordinator dies after it has said what is open; the next one takes over other transactions meanwhile."""
    with Telling(listings) as server:
        client = connect(server)
        assert client.remaining_ms([ONE], lambda _: 1) == {ONE: 0}
        client.close()


@pytest.mark.parametrize(
    "timeout_ms, age_ms, left_ms",
    [
        (60_000, 0, 25_000),
        (60_000, 39_000, 20_000),
        (60_000, 44_000, 15_000),
        (60_000, 49_000, 10_000),
        (60_000, 51_500, 8_000),
        (60_000, 53_000, 6_500),
        (60_000, 53_600, 0),
        (TIMEOUT_MIN_MS, 0, 6_500),
    ],
)
@pytest.mark.parametrize("wrong_s", [-3600, 3600])
def test_how_old_they_are_by_their_coordinators_clock(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, timeout_ms: int, age_ms: int, left_ms: int, wrong_s: int
) -> None:
    """Whatever the clock here says; and one that has just begun can be decided."""
    with Telling(age_ms=age_ms, timeout_ms=timeout_ms) as server:
        client = connect(server)
        right = time.time
        monkeypatch.setattr("evensplit.kafka.produce.transactions.time.time", lambda: right() + wrong_s)
        found = client.remaining_ms([ONE], lambda _: 1)[ONE]
        assert found is not None
        assert max(left_ms - 1_500, 0) <= found <= left_ms
        assert left_ms == 0 or found >= LEFT_MIN_MS
        client.close()


def test_one_that_has_called_it_old_and_loads_then(connect: Connect) -> None:
    """It is not taken for young by the clock here. That is waited for a bit, and then not any more."""
    with Telling([0, *([14] * 10_000)], age_ms=59_000) as server:
        client = connect(server, timeout_ms=3_000)
        assert client.remaining_ms([ONE], lambda _: 1) == {ONE: 0}
        client.close()


def test_what_a_coordinator_lists_no_more_is_not_taken_for_young(connect: Connect) -> None:
    with Telling(age_ms=-1) as server:
        client = connect(server, timeout_ms=1_000)
        with pytest.raises(ClusterUnreachable, match="'g': its coordinator lists its transaction no more"):
            client.remaining_ms([ONE], lambda _: 1)
        client.close()


def test_how_old_they_are_is_not_told_until_the_deadline(connect: Connect) -> None:
    with Telling([HANG_UP] * 10_000) as server:
        client = connect(server, timeout_ms=1_000)
        said = r"instead of answering ListTransactions|did not answer within 1000 ms"
        with pytest.raises(ClusterUnreachable, match=said):
            client.remaining_ms([ONE], lambda _: 1)
        client.close()


def test_one_that_loads_lists_nothing_yet(connect: Connect) -> None:
    with Telling([14, 14]) as server:
        client = connect(server)
        assert client.list_open("g") == (Transaction("east", "g", 5, 3, ()),)
        client.close()


def test_one_that_loads_for_long_is_not_waited_for(connect: Connect) -> None:
    with Telling([14] * 10_000) as server:
        client = connect(server, timeout_ms=400)
        assert client.list_open("g") == ()
        assert (client.remaining_ms([ONE], lambda _: 1)[ONE] or 0) > 50_000
        client.close()


def test_nobody_answers(connect: Connect) -> None:
    with Coordinating([HANG_UP] * 10_000) as server:
        client = connect(server, timeout_ms=200)
        assert client.end([ONE], commit=True) == {ONE: Ended.UNANSWERED}
        with pytest.raises(ClusterUnreachable, match=r"id 'g': its coordinator did not answer within 200 ms"):
            client.init("g", 60_000)
        client.close()


def test_what_is_asked_once_is_not_asked_again_without_an_answer(connect: Connect) -> None:
    """Busy is an answer. Nobody knows what becomes of a request that has none."""
    script = Coordinating([51, HANG_UP])
    with script as server:
        client = connect(server)
        with pytest.raises(Unanswered, match="'g'"):
            client.init("g", 60_000, once=True)
        assert script.asked.count("InitProducerId") == 2
        assert client.init("g", 60_000, once=True) == Identity(5, 3)
        client.close()


def test_what_was_never_sent_is_not_unanswered(connect: Connect) -> None:
    script = Coordinating(finding=[HANG_UP] * 10_000)
    with script as server:
        client = connect(server, timeout_ms=200)
        with pytest.raises(ClusterUnreachable) as caught:
            client.init("g", 60_000, once=True)
        assert not isinstance(caught.value, Unanswered)
        assert "InitProducerId" not in script.asked
        client.close()


NEW, OLD, DENIED = ("new", 0), ("old", 0), ("denied", 3)


def test_partitions_that_are_not_there_yet_are_added_later(connect: Connect) -> None:
    """Of the others, brokers say that they did not try."""
    script = Coordinating()
    script.adding = [{OLD: 55, NEW: 3}, {OLD: 0, NEW: 0}]
    with script as server:
        client = connect(server)
        client.add_partitions(Identity(5, 3), "g", [OLD, NEW])
        assert script.asked.count("AddPartitionsToTxn") == 2
        client.close()


@pytest.mark.parametrize(
    "codes, said",
    [
        (
            {OLD: 55, NEW: 3, DENIED: 29},
            r"'g': partitions could not be added to the transaction: topic 'denied', partition 3: TOPIC_AUTHORIZATION_"
            r"FAILED \(29\): .*Describe and Write",
        ),
        ({OLD: 55}, r"'g': partitions could not be added .*: topic 'old', partition 0: OPERATION_NOT_ATTEMPTED \(55\)"),
    ],
)
def test_partition_that_stands_in_the_way_is_named(
    connect: Connect, codes: dict[tuple[str, int], int], said: str
) -> None:
    script = Coordinating()
    script.adding = [codes]
    with script as server:
        client = connect(server)
        with pytest.raises(BrokerError, match=said):
            client.add_partitions(Identity(5, 3), "g", list(codes))
        client.close()


def test_partition_that_stays_away_is_named(connect: Connect) -> None:
    script = Coordinating()
    script.adding = [{OLD: 55, NEW: 3}] * 10_000
    with script as server:
        client = connect(server, timeout_ms=200)
        with pytest.raises(BrokerError, match=r"'g': AddPartitionsToTxn .*: topic 'new', partition 0: UNKNOWN_TOPIC"):
            client.add_partitions(Identity(5, 3), "g", [OLD, NEW])
        client.close()


KEEPING = """
import sys
from evensplit.kafka.options.client import ClientSettings
from evensplit.spark.sink.clients import transaction_client
print(transaction_client("east", ClientSettings((sys.argv[1],))).transaction_version())
"""


def test_a_process_closes_what_it_keeps_when_it_ends() -> None:
    with Coordinating() as server:
        ended = subprocess.run(
            [sys.executable, "-W", "always::ResourceWarning", "-c", KEEPING, server],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            timeout=60,
            check=True,
        )
    assert ended.stdout == "1\n"
    assert "ResourceWarning" not in ended.stderr
