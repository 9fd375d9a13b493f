"""Coordinators of transactional ids that move, are busy, refuse, or do not answer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from evensplit.core.delivery.orders import Ended
from evensplit.errors import BrokerError, ClusterUnreachable
from evensplit.kafka.produce.terms import Identity, Unanswered
from tests.support.coordinating import ONE, Connect, Coordinating, connecting, transaction
from tests.support.scripted import HANG_UP

FORBIDDEN = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53): this user may not do that"


@pytest.fixture
def connect() -> Iterator[Connect]:
    yield from connecting()


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
