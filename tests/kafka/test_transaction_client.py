"""The transactions of a cluster on real brokers of both versions: who is fenced, what expires, and what is found."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module

import pytest

from evensplit.core.delivery.orders import Ended, Fate
from evensplit.core.delivery.terms import Transaction, Written
from evensplit.errors import BrokerError
from evensplit.kafka.admin.calls import Calls
from evensplit.kafka.produce.coordination.broker_settings import topic_setting
from evensplit.kafka.produce.decisions.topic import create_ledger
from evensplit.kafka.produce.terms import Identity
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.kafka.wire.api import ADD_PARTITIONS_TO_TXN, END_TXN, INIT_PRODUCER_ID
from evensplit.testing import LocalKafka
from tests.support.clients import NOWHERE, settings
from tests.support.coordinating import Connect, connecting
from tests.support.delivered import QUICK_EXPIRY, VERSIONS, of_version, send, wait_until_ended, write
from tests.support.transactions import COMMITTED, Writer, ends, witness
from tests.support.waiting import wait_for

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def quick(version: int, request: pytest.FixtureRequest) -> Iterator[LocalKafka]:
    """A broker that sees soon what has expired."""
    if os.environ.get("EVENSPLIT_TEST_BOOTSTRAP"):
        pytest.skip("needs a broker with settings of its own")
    yield from of_version(version, request, QUICK_EXPIRY)


@pytest.fixture
def client(quick: LocalKafka, version: int) -> Iterator[TransactionClient]:
    made = TransactionClient("east", settings(quick.bootstrap_servers, timeout_ms=20_000))
    wait_for(lambda: made.transaction_version() == version, what="the version")
    yield made
    made.close()


@pytest.fixture
def connect() -> Iterator[Connect]:
    yield from connecting()


@pytest.fixture
def name() -> str:
    return f"p.{uuid.uuid4().hex[:12]}.slot"


def test_committed_and_aborted_and_ended_again(
    quick: LocalKafka, client: TransactionClient, topic: str, name: str
) -> None:
    quick.create_topic(topic, 3)
    kept, left = write(quick, client, topic, name, partitions=3), write(quick, client, topic, f"{name}2")
    left_ms = client.remaining_ms([kept, left], lambda _: 0)
    assert all(40_000 < (left_ms[one] or 0) <= 60_000 for one in (kept, left))
    assert client.end([kept], commit=True) == {kept: Ended.ENDED}
    assert client.end([left], commit=False) == {left: Ended.ENDED}
    # Ended again, it is as it was; otherwise, it is not said to be.
    assert client.end([kept, kept], commit=True) == {kept: Ended.ENDED}
    assert client.end([left], commit=False) == {left: Ended.ENDED}
    assert client.end([kept], commit=False) == {kept: Ended.UNCERTAIN}
    assert client.end([left], commit=True) == {left: Ended.UNCERTAIN}
    assert client.remaining_ms([kept, left], lambda _: 0) == {kept: None, left: None}
    assert client.look_up([kept, left]) == {kept: Fate.COMMITTED, left: Fate.ABORTED}
    assert [value for _, value in witness(quick, topic, COMMITTED, 2)] == [b"1", b"2"]
    # The next one under the id is another one.
    again = write(quick, client, topic, name)
    assert client.end([kept], commit=True) == {kept: Ended.UNCERTAIN}
    assert client.end([kept], commit=False) == {kept: Ended.UNCERTAIN}
    left_ms = client.remaining_ms([kept, again], lambda _: 0)
    assert left_ms[kept] is None
    assert left_ms[again] is not None
    assert client.end([again], commit=True) == {again: Ended.ENDED}
    assert client.look_up([kept, again]) == {kept: Fate.COMMITTED, again: Fate.COMMITTED}


def test_expired(quick: LocalKafka, client: TransactionClient, topic: str, name: str) -> None:
    quick.create_topic(topic)
    one = write(quick, client, topic, name, timeout_ms=1_000)
    other = write(quick, client, topic, f"{name}2", timeout_ms=1_000)
    wait_until_ended(client, one, other)
    assert client.end([one], commit=True) == {one: Ended.UNCERTAIN}
    assert client.end([other], commit=False)[other] in (Ended.UNCERTAIN, Ended.ENDED)
    assert client.look_up([one, other]) == {one: Fate.ABORTED, other: Fate.ABORTED}
    with pytest.raises(BrokerError, match=rf"transactional id '{name}': its transaction could not be ended: "):
        client.end_one(Identity(one.producer_id, one.epoch), name, commit=True)


def test_who_begins_later_fences(quick: LocalKafka, client: TransactionClient, topic: str, name: str) -> None:
    quick.create_topic(topic)
    one = write(quick, client, topic, name)
    later = client.init(name, 60_000)
    assert (later.producer_id, later.epoch > one.epoch) == (one.producer_id, True)
    # It was aborted before that returned.
    assert client.look_up([one]) == {one: Fate.ABORTED}
    assert client.end([one], commit=True) == {one: Ended.UNCERTAIN}
    with pytest.raises(BrokerError) as caught:
        send(client, (topic, 0), name, Identity(one.producer_id, one.epoch), sequence=2)
    assert caught.value.code in (47, 90)
    if client.transaction_version() < 2:
        with pytest.raises(BrokerError, match=r"could not be added to the transaction: .*: PRODUCER_FENCED"):
            client.add_partitions(Identity(one.producer_id, one.epoch), name, [(topic, 0)])
    assert client.init_idempotent().producer_id != one.producer_id


def test_one_producer_goes_on(quick: LocalKafka, client: TransactionClient, topic: str, name: str) -> None:
    """The identity of the next transaction, and where its sequence numbers begin, as the ledger has it."""
    quick.create_topic(topic)
    identity, sequence = client.init(name, 60_000), 0
    for _ in range(3):
        if client.transaction_version() < 2:
            client.add_partitions(identity, name, [(topic, 0)])
        send(client, (topic, 0), name, identity, sequence=sequence)
        after = client.end_one(identity, name, commit=True)
        # As after an answer that was lost.
        assert client.end_one(identity, name, commit=True) == after
        assert (after == identity) == (client.transaction_version() < 2)
        identity, sequence = after, sequence + 2 if after == identity else 0
    assert len(witness(quick, topic, COMMITTED)) == 6


def test_open_ones_are_listed(quick: LocalKafka, client: TransactionClient, topic: str, name: str) -> None:
    quick.create_topic(topic)
    first, second = write(quick, client, topic, f"{name}.1"), write(quick, client, topic, f"{name}.2")
    strange = write(quick, client, topic, f"x{name}")
    ended = write(quick, client, topic, f"{name}.3")
    assert client.end([ended], commit=True) == {ended: Ended.ENDED}
    wait_until_ended(client, ended)
    plain = {one: replace(one, written=()) for one in (first, second)}
    assert client.list_open(f"{name}.") == (plain[first], plain[second])
    assert client.end(client.list_open(f"{name}."), commit=False) == dict.fromkeys(plain.values(), Ended.ENDED)
    assert client.list_open(f"{name}.") == ()
    assert client.end([strange], commit=False) == {strange: Ended.ENDED}
    assert client.look_up([first, ended]) == {first: Fate.ABORTED, ended: Fate.COMMITTED}


def test_what_is_open_is_waited_for(quick: LocalKafka, client: TransactionClient, topic: str, name: str) -> None:
    quick.create_topic(topic)
    before = Writer(quick, topic)
    before.write(b"holds all up")
    one = write(quick, client, topic, name)
    assert client.end([one], commit=True) == {one: Ended.ENDED}
    hurried = TransactionClient("east", settings(quick.bootstrap_servers, timeout_ms=1_500))
    try:
        assert hurried.look_up([one]) == {one: Fate.OPEN}
        before.end(commit=True)
        assert hurried.look_up([one]) == {one: Fate.COMMITTED}
    finally:
        hurried.close()


def test_records_that_are_gone_tell_nothing(
    quick: LocalKafka, client: TransactionClient, topic: str, name: str
) -> None:
    quick.create_topic(topic, 2)
    one = write(quick, client, topic, name, partitions=2)
    client.end([one], commit=True)
    wait_for(lambda: client.look_up([one]) == {one: Fate.COMMITTED}, what="the commit")
    behind = ends(quick, topic, [0, 1])[1]
    quick.delete_records(topic, {0: behind[0]})
    # The other partition tells.
    assert client.look_up([one]) == {one: Fate.COMMITTED}
    quick.delete_records(topic, {1: behind[1]})
    assert client.look_up([one]) == {one: Fate.UNKNOWN}
    nowhere = replace(one, written=(Written(f"{topic}-none", 0, 1, 0, 0),))
    hurried = TransactionClient("east", settings(quick.bootstrap_servers, timeout_ms=1_000))
    assert hurried.look_up([nowhere]) == {nowhere: Fate.UNKNOWN}
    hurried.close()
    # Nor do another producer's in the same place.
    other = write(quick, client, topic, f"{name}2")
    client.end([other], commit=True)
    wait_for(lambda: client.look_up([other]) == {other: Fate.COMMITTED}, what="the commit")
    wrong = replace(other, producer_id=other.producer_id + 1000)
    assert client.look_up([wrong]) == {wrong: Fate.UNKNOWN}


def test_a_timeout_that_brokers_do_not_allow(client: TransactionClient, name: str) -> None:
    assert client.timeout_max_ms() == 900_000
    with pytest.raises(BrokerError, match=r"transaction\.max\.timeout\.ms, which is 900000, or raise that"):
        client.init(name, 900_001)


def test_what_is_about_to_expire_has_nothing_left(
    quick: LocalKafka, client: TransactionClient, topic: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick.create_topic(topic)
    one = write(quick, client, topic, name, timeout_ms=30_000)
    assert (client.remaining_ms([one], lambda _: 0)[one] or 0) > 10_000
    # By the broker's clock, whatever the one here says.
    monkeypatch.setattr("evensplit.kafka.produce.transactions.LEFT_STEPS_MS", (29_999,))
    wait_for(lambda: client.remaining_ms([one], lambda _: 0)[one] == 0, what="a transaction that is too old")
    client.end([one], commit=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "where, name, version",
    [
        ("coordination.coordinators", "FIND_COORDINATOR", 1),
        ("coordination.coordinators", "FIND_COORDINATOR", 3),
        *(("transactions", "INIT_PRODUCER_ID", version) for version in range(INIT_PRODUCER_ID.highest)),
        *(("transactions", "END_TXN", version) for version in range(END_TXN.highest)),
        *(("transactions", "ADD_PARTITIONS_TO_TXN", version) for version in range(ADD_PARTITIONS_TO_TXN.highest)),
        ("coordination.open_transactions", "LIST_TRANSACTIONS", 0),
        *(("coordination.broker_settings", "DESCRIBE_CONFIGS", version) for version in range(1, 4)),
        *(("decisions.topic", "CREATE_TOPICS", version) for version in range(2, 7)),
        *(("decisions.records", "PRODUCE", version) for version in range(3, 12)),
    ],
)
def test_versions_of_requests(
    kafka: LocalKafka, topic: str, monkeypatch: pytest.MonkeyPatch, where: str, name: str, version: int
) -> None:
    """Partitions are added in any case, which a broker of transaction version 2 does not mind."""
    module = import_module(f"evensplit.kafka.produce.{where}")
    monkeypatch.setattr(module, name, replace(getattr(module, name), highest=version))
    monkeypatch.setattr(TransactionClient, "transaction_version", lambda _: 1)
    client = TransactionClient("east", settings(kafka.bootstrap_servers, timeout_ms=20_000))
    if name == "CREATE_TOPICS":
        with Calls("east", client.settings).call() as (session, deadline):
            assert create_ledger(session, topic, deadline) == 1
            assert create_ledger(session, topic, deadline) == 1
            assert topic_setting(session, topic, "cleanup.policy", deadline) == "compact"
            session.close()
    else:
        kafka.create_topic(topic)
    assert client.timeout_max_ms() == 900_000
    one, other = (write(kafka, client, topic, f"{topic}.{number}") for number in range(2))
    assert client.list_open(f"{topic}.") == (replace(one, written=()), replace(other, written=()))
    assert set(client.remaining_ms([one, other], lambda _: 0)) == {one, other}
    assert client.end([one], commit=True) == {one: Ended.ENDED}
    assert client.end([other], commit=False) == {other: Ended.ENDED}
    assert client.look_up([one, other]) == {one: Fate.COMMITTED, other: Fate.ABORTED}
    client.close()


@pytest.mark.slow
def test_coordinators_that_die(topic: str) -> None:
    replicated = {"transaction.state.log.num.partitions": "6", "default.replication.factor": "3", **QUICK_EXPIRY}
    with LocalKafka(brokers=3, properties=replicated) as running:
        running.create_topic(topic, replication_factor=3)
        client = TransactionClient("east", settings(*running.bootstrap_servers.split(","), timeout_ms=60_000))
        written = [write(running, client, topic, f"{topic}.{number}") for number in range(12)]
        running.kill(1)
        assert client.end(written[:6], commit=True) == dict.fromkeys(written[:6], Ended.ENDED)
        running.start()
        running.kill(2)
        left_ms = client.remaining_ms(written, lambda _: 0)
        assert [left_ms[one] is None for one in written] == [True] * 6 + [False] * 6
        assert client.end(written, commit=False) == {
            one: Ended.UNCERTAIN if one in written[:6] else Ended.ENDED for one in written
        }
        found = client.look_up(written)
        assert [found[one] for one in written] == [Fate.COMMITTED] * 6 + [Fate.ABORTED] * 6
        client.close()


@pytest.mark.slow
def test_compaction_makes_nothing_committed(topic: str, connect: Connect) -> None:
    """What is known of an aborted transaction goes with its records, and then nothing is said of it."""
    with LocalKafka(properties={"log.cleaner.backoff.ms": "100", **QUICK_EXPIRY}) as running:
        at_once = {"min.cleanable.dirty.ratio": "0", "segment.ms": "200", "delete.retention.ms": "0"}
        running.create_topic(topic, config={"cleanup.policy": "compact", **at_once})
        client = connect(running.bootstrap_servers, timeout_ms=2_000)
        kept, left = write(running, client, topic, f"{topic}.0"), write(running, client, topic, f"{topic}.1")
        last = write(running, client, topic, f"{topic}.2")
        client.end([kept, last], commit=True)
        client.end([left], commit=False)
        wait_for(lambda: client.look_up([left]) == {left: Fate.ABORTED}, what="the abort")
        assert client.look_up([kept, last]) == {kept: Fate.COMMITTED, last: Fate.COMMITTED}
        # On a slow machine, all is compacted before the next look.
        seen = {Fate.ABORTED}

        def cleaned() -> bool:
            # Something new, under the same keys, lets the segment before it be closed.
            newer = write(running, client, topic, f"{topic}.3")
            client.end([newer], commit=True)
            found = client.look_up([kept, left])
            seen.add(found[left])
            assert found[kept] in (Fate.COMMITTED, Fate.UNKNOWN)
            return found == {kept: Fate.UNKNOWN, left: Fate.UNKNOWN}

        wait_for(cleaned, what="both transactions to be compacted away")
        assert seen == {Fate.ABORTED, Fate.UNKNOWN}


def test_nobody_answers() -> None:
    one = Transaction("east", "x", 1, 0, (Written("t", 0, 1, 0, 0),))
    client = TransactionClient("east", settings(NOWHERE, timeout_ms=300))
    for ask, expected in (
        (lambda: client.end([one], commit=True), Ended.UNANSWERED),
        (lambda: client.look_up([one]), Fate.UNKNOWN),
    ):
        assert ask() == {one: expected}
    client.close()
