"""The ledger on real brokers of both transaction versions: who may append, what is read, and which topics will do."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient, NewPartitions

from evensplit.core.delivery.decision_json import REMEMBERED
from evensplit.core.delivery.terms import Decision, State
from evensplit.errors import BrokerError, ClusterUnreachable, LedgerError
from evensplit.kafka.options.client import parse_settings
from evensplit.kafka.produce.decisions import log as ledger_log
from evensplit.kafka.produce.decisions.records import partition_of
from evensplit.kafka.produce.ledger import Ledger
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.testing import LocalKafka, Secured
from evensplit.testing.admin import requests
from tests.support.clients import settings
from tests.support.delivered import QUICK_EXPIRY, agree_on_version_1, write
from tests.support.records import Draft, consume, produce
from tests.support.replicas import all_in_sync
from tests.support.transactions import ends
from tests.support.waiting import wait_for

pytestmark = pytest.mark.kafka

Make = Callable[..., Ledger]


@pytest.fixture(scope="module", params=[2, pytest.param(1, marks=pytest.mark.slow)])
def brokers(request: pytest.FixtureRequest) -> Iterator[LocalKafka]:
    if request.param == 2:
        yield request.getfixturevalue("kafka")
        return
    if os.environ.get("EVENSPLIT_TEST_BOOTSTRAP"):
        pytest.skip("needs a broker of its own")
    with LocalKafka() as running:
        agree_on_version_1(running)
        yield running


@pytest.fixture
def make(brokers: LocalKafka, topic: str) -> Iterator[Make]:
    made: list[Ledger] = []

    def one(**changes: Any) -> Ledger:
        given = {"topic": topic, "prefix": "p", "timeout_ms": 20_000, **changes}
        own = settings(brokers.bootstrap_servers, timeout_ms=given.pop("timeout_ms"))
        made.append(Ledger("east", own, **given))
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.fixture
def query() -> str:
    return str(uuid.uuid4())


def decided(query: str, batch: int, state: State = State.DECIDED) -> Decision:
    return Decision(query, batch, state, (), 1_000 + batch)


def test_one_process_after_the_other(make: Make, brokers: LocalKafka, topic: str, query: str) -> None:
    first, second = make(), make()
    first.prepare()
    second.prepare(timeout_ms=900_000)
    assert first.last(query) is None
    first.acquire(query)
    assert first.last(query) is None
    assert first.append(decided(query, 0))
    first.acquire(query)
    assert first.append(decided(query, 1))
    first.acquire(query)
    assert first.last(query) == decided(query, 1)
    wait_for(lambda: second.read_decided(query) == decided(query, 1), what="the second decision")
    second.acquire(query)
    assert second.last(query) == decided(query, 1)
    # The first one does not know yet that it is fenced.
    assert first.last(query) == decided(query, 1)
    assert not first.append(decided(query, 2))
    assert second.append(decided(query, 2, State.ABORTED))
    second.acquire(query)
    assert second.append(decided(query, 2))
    second.acquire(query)
    first.acquire(query)
    assert first.last(query) == decided(query, 2)
    assert not second.append(decided(query, 3))
    assert first.append(decided(query, 3))
    with pytest.raises(LedgerError, match="was not acquired"):
        second.append(decided(query, 4))
    # The marker of the last one comes a moment after the answer.
    wait_for(lambda: second.read_decided(query) == decided(query, 3), what="the last decision")
    assert first.history(query) == second.history() == [decided(query, batch) for batch in range(4)]
    keys = {record.key for record in consume_all(brokers, topic)}
    assert keys == {query.encode(), *(f"{query}/{batch}".encode() for batch in range(4))}


def consume_all(brokers: LocalKafka, topic: str) -> list[Any]:
    """All records; the log is made to end with one, for the consumer to find its end."""
    produce(brokers.bootstrap_servers, topic, [Draft(b"", key=b"end")])
    return [one for one in consume(brokers.bootstrap_servers, topic, [0]) if one.key != b"end"]


def test_old_batches_are_deleted(make: Make, brokers: LocalKafka, topic: str, query: str) -> None:
    ledger = make()
    ledger.prepare()
    for batch in (0, 1, REMEMBERED, REMEMBERED + 2):
        ledger.acquire(query)
        assert ledger.append(decided(query, batch))
    wait_for(lambda: ledger.read_decided(query) == decided(query, REMEMBERED + 2), what="the last decision")
    assert [one.batch for one in ledger.history(query)] == [REMEMBERED, REMEMBERED + 2]
    deleted = [one.key for one in consume_all(brokers, topic) if one.value is None]
    assert deleted == [f"{query}/{batch}".encode() for batch in range(3)]
    # A gap that is longer than what is remembered, and much longer.
    for batch in (10 * REMEMBERED, 10**15):
        ledger.acquire(query)
        assert ledger.append(decided(query, batch))
    wait_for(lambda: ledger.read_decided(query) == decided(query, 10**15), what="the last decision")
    assert [one.batch for one in ledger.history(query)] == [10**15]


def test_of_many_that_acquire_at_once_each_batch_has_one_winner(make: Make, query: str) -> None:
    ledgers = [make() for _ in range(4)]
    ledgers[0].prepare()

    def decide(ledger: Ledger) -> list[int]:
        won = []
        for _ in range(8):
            ledger.acquire(query)
            last = ledger.last(query)
            batch = 0 if last is None else last.batch + 1
            if ledger.append(decided(query, batch)):
                won.append(batch)
        return won

    with ThreadPoolExecutor(4) as threads:
        won = [batch for one in threads.map(decide, ledgers) for batch in one]
    assert len(won) == len(set(won)) > 0
    late = make()
    late.acquire(query)
    last = late.last(query)
    assert last is not None
    # One that was told False may be there all the same.
    assert set(won) <= {one.batch for one in late.history(query)} == set(range(last.batch + 1))


def test_another_query_with_an_open_transaction(make: Make, brokers: LocalKafka, topic: str, query: str) -> None:
    ledger, hurried = make(), make(timeout_ms=1_500)
    ledger.prepare()
    ledger.acquire(query)
    assert ledger.append(decided(query, 0))
    wait_for(lambda: ledger.read_decided(query) == decided(query, 0), what="the first decision")
    ledger.acquire(query)
    assert ledger.last(query) == decided(query, 0)
    client = TransactionClient("east", settings(brokers.bootstrap_servers))
    open_one = write(brokers, client, topic, f"p.{uuid.uuid4()}")
    assert ledger.append(decided(query, 1))
    # A task sees what is before it, and a driver waits for it.
    late = make()
    assert late.read_decided(query) == decided(query, 0)
    hurried.acquire(query)
    held_up = (
        rf"'{topic}', partition 0: a transaction is open from offset 3 on.* 1500 ms \(kafka\.request\.timeout\.ms\)"
        r".*abort what it has left after 15 s"
    )
    with pytest.raises(ClusterUnreachable, match=held_up):
        hurried.last(query)
    late.acquire(query)
    with ThreadPoolExecutor() as background:
        reading = background.submit(late.last, query)
        client.end([open_one], commit=True)
        assert reading.result(60) == decided(query, 1)
    assert late.read_decided(query) == decided(query, 1)
    client.close()


def test_an_append_that_was_left_open_is_aborted(make: Make, brokers: LocalKafka, topic: str, query: str) -> None:
    ledger = make()
    ledger.prepare()
    ledger.acquire(query)
    assert ledger.append(decided(query, 0))
    ledger.acquire(query)
    assert ledger.last(query) == decided(query, 0)
    client = TransactionClient("east", settings(brokers.bootstrap_servers))
    open_one = write(brokers, client, topic, ledger.transactional_id(query))
    assert ledger.append(decided(query, 1)) is False
    ledger.acquire(query)
    assert ledger.last(query) == decided(query, 0)
    assert client.remaining_ms([open_one], lambda _: 0) == {open_one: None}
    client.close()


class Killed(BaseException):
    """The process ends here."""


def left_open(ledger: Ledger, query: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver is killed in its append."""

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    ledger.acquire(query)
    with monkeypatch.context() as patched:
        patched.setattr(TransactionClient, "end_one", killed)
        with pytest.raises(Killed):
            ledger.append(decided(query, batch))


@pytest.mark.parametrize("given_ms, expected_ms", [(900_000, 15_000), (7_000, 7_000)])
def test_an_append_is_open_for_seconds_at_most(
    make: Make, brokers: LocalKafka, query: str, monkeypatch: pytest.MonkeyPatch, given_ms: int, expected_ms: int
) -> None:
    ledger = make(transaction_timeout_ms=given_ms)
    ledger.prepare(given_ms)
    left_open(ledger, query, 0, monkeypatch)
    client = TransactionClient("east", settings(brokers.bootstrap_servers))
    (state,) = client.states_open(ledger.transactional_id(query))
    assert state.transaction_timeout_ms == expected_ms
    client.close()
    ledger.acquire(query)
    assert ledger.last(query) is None


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
def test_a_driver_that_is_killed_in_its_append_holds_up_others_for_that_long(
    topic: str, query: str, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Brokers allow less than an append would have."""
    with LocalKafka(properties={"transaction.max.timeout.ms": "4000", **QUICK_EXPIRY}) as running:
        if version == 1:
            agree_on_version_1(running)
        own = settings(running.bootstrap_servers, timeout_ms=20_000)
        killed, other = (Ledger("east", own, topic, "p", transaction_timeout_ms=3_000) for _ in range(2))
        with pytest.raises(LedgerError, match="brokers allow 4000 at most"):
            killed.prepare(9_000)
        killed.prepare(3_000)
        left_open(killed, "other", 0, monkeypatch)
        begun_s = time.monotonic()
        other.acquire(query)
        assert other.last(query) is None
        assert time.monotonic() - begun_s < 15
        assert other.append(decided(query, 0))
        killed.close()
        other.close()


def test_found_from_the_end_backwards(
    make: Make, brokers: LocalKafka, topic: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_log, "FIRST_OFFSETS", 2)
    one, other = make(), make()
    one.prepare()
    one.acquire(query)
    assert one.append(decided(query, 7))
    for batch in range(5):
        one.acquire("other")
        assert one.append(decided("other", batch))
    assert other.read_decided("none") is None
    assert other.read_decided(query) == decided(query, 7)
    wait_for(lambda: other.read_decided("other") == decided("other", 4), what="the last decision")
    one.acquire(query)
    assert one.append(decided(query, 8))
    wait_for(lambda: other.read_decided(query) == decided(query, 8), what="the new decision")
    assert other.read_decided("none") is None
    assert make().read_decided("other") == decided("other", 4)


def test_a_topic_that_is_there(make: Make, brokers: LocalKafka, topic: str, query: str) -> None:
    brokers.create_topic(topic, 5, config={"cleanup.policy": "compact"})
    ledger = make()
    ledger.prepare()
    for number in range(6):
        ledger.acquire(f"{query}{number}")
        assert ledger.append(decided(f"{query}{number}", number))
    for number in range(6):
        ledger.acquire(f"{query}{number}")
        assert make().last(f"{query}{number}") == decided(f"{query}{number}", number)
    wait_for(lambda: [one.batch for one in make().history()] == list(range(6)), what="all decisions")
    # As other producers spread keys.
    used = [partition_of(f"{query}{number}".encode(), 5) for number in range(6)]
    _, behind = ends(brokers, topic, range(5))
    assert [number for number in range(5) if behind[number]] == sorted(set(used))


def add_partitions(brokers: LocalKafka, topic: str, count: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=brokers.bootstrap_servers)
    admin.create_partitions({topic: NewPartitions(total_count=count)})
    admin.close()
    wait_for(lambda: len(ends(brokers, topic, range(count))[1]) == count, what="partitions")


def wait_until_read(task: Ledger, decision: Decision) -> None:
    """The marker of an append comes a moment after the answer."""
    wait_for(lambda: task.read_decided(decision.query) == decision, what=f"{decision}")


def test_a_topic_that_gets_more_partitions(make: Make, brokers: LocalKafka, topic: str, query: str) -> None:
    """Decisions are found where they are, by processes that were there before and by new ones."""
    queries = [f"{query}{number}" for number in range(6)]
    assert {partition_of(one.encode(), 4) for one in queries} != {0}
    old, task = make(), make()
    old.prepare()
    for one in queries[:5]:
        old.acquire(one)
        assert old.append(decided(one, 7))
        wait_until_read(task, decided(one, 7))
        old.acquire(one)
        assert old.last(one) == decided(one, 7)
    add_partitions(brokers, topic, 4)
    new = make()
    for one in queries[:5]:
        new.acquire(one)
        assert new.last(one) == decided(one, 7)
        assert new.append(decided(one, 8))
        # It does not know yet that the topic has grown, nor that it is fenced.
        assert not old.append(decided(one, 8))
        old.acquire(one)
        assert old.last(one) == decided(one, 8)
        assert old.append(decided(one, 9))
        wait_until_read(task, decided(one, 9))
    # Of a query that begins afterwards, the old process finds what the new one has decided.
    new.acquire(queries[5])
    assert new.last(queries[5]) is None
    assert new.append(decided(queries[5], 0))
    wait_until_read(task, decided(queries[5], 0))
    old.acquire(queries[5])
    assert old.last(queries[5]) == decided(queries[5], 0)
    for reader in (old, new, make()):
        assert [one.batch for one in reader.history(queries[0])] == [7, 8, 9]
        assert [(one.query, one.batch) for one in reader.history()] == sorted(
            [(one, batch) for one in queries[:5] for batch in (7, 8, 9)] + [(queries[5], 0)]
        )


def test_a_topic_that_grows_while_a_query_is_held(make: Make, brokers: LocalKafka, topic: str, query: str) -> None:
    first, second = make(), make()
    first.prepare()
    first.acquire(query)
    assert first.append(decided(query, 0))
    first.acquire(query)
    add_partitions(brokers, topic, 3)
    assert first.append(decided(query, 1))
    first.acquire(query)
    assert first.last(query) == decided(query, 1)
    second.acquire(query)
    assert second.last(query) == decided(query, 1)
    assert second.append(decided(query, 2))
    assert not first.append(decided(query, 2))
    first.acquire(query)
    assert first.last(query) == decided(query, 2)


def test_a_decision_that_is_too_long(make: Make, brokers: LocalKafka, topic: str, query: str) -> None:
    brokers.create_topic(topic, config={"cleanup.policy": "compact", "max.message.bytes": "100"})
    ledger = make()
    ledger.prepare()
    ledger.acquire(query)
    with pytest.raises(LedgerError, match=rf"about batch 3 of query {query} is longer than max\.message\.bytes"):
        ledger.append(decided(query, 3))
    ledger.acquire(query)
    assert ledger.last(query) is None


def test_a_topic_that_forgets(make: Make, brokers: LocalKafka, topic: str) -> None:
    brokers.create_topic(topic, config={"cleanup.policy": "compact,delete"})
    with pytest.raises(LedgerError, match=rf"'{topic}' has cleanup\.policy=compact,delete, expected compact"):
        make().prepare()


def test_a_topic_that_is_missing_or_not_ours(make: Make, brokers: LocalKafka, topic: str, query: str) -> None:
    with pytest.raises(LedgerError, match="does not exist"):
        make().read_decided(query)
    with pytest.raises(LedgerError, match=r"'no topic' cannot be used: INVALID_TOPIC \(17\)"):
        make(topic="no topic").prepare()
    ledger = make()
    with pytest.raises(LedgerError, match=r"brokers allow 900000 at most \(transaction\.max\.timeout\.ms\)"):
        ledger.prepare(timeout_ms=900_001)
    ledger.prepare()
    produce(brokers.bootstrap_servers, topic, [Draft(b"{}", key=query.encode())])
    wait_for(lambda: ends(brokers, topic)[0] == [1], what="the record")
    with pytest.raises(LedgerError, match="has something in it that is not ours"):
        ledger.read_decided(query)


def test_a_topic_that_is_deleted(make: Make, brokers: LocalKafka, topic: str, query: str) -> None:
    """Whoever needs it says so, and can be told to make it anew."""
    brokers.create_topic(topic, 3, config={"cleanup.policy": "compact"})
    driver, task = make(timeout_ms=3_000), make(timeout_ms=3_000)
    driver.prepare()
    driver.acquire(query)
    assert driver.append(decided(query, 0))
    wait_for(lambda: task.read_decided(query) is not None, what="the decision")
    driver.acquire(query)
    assert driver.exists()
    brokers.delete_topic(topic)
    gone = rf"topic '{topic}' is gone, and with it what was decided\. Start the query again"
    with pytest.raises(LedgerError, match=gone):
        driver.append(decided(query, 1))
    with pytest.raises(LedgerError, match=gone):
        task.read_decided(query)
    assert not driver.exists()
    with pytest.raises(LedgerError, match="does not exist"):
        task.read_decided(query)
    driver.prepare()
    assert task.read_decided(query) is None
    driver.acquire(query)
    assert driver.last(query) is None
    assert driver.append(decided(query, 1))
    wait_for(lambda: task.read_decided(query) == decided(query, 1), what="the decision")


def test_a_forked_process_acquires_anew(make: Make, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = make()
    ledger.prepare()
    ledger.acquire(query)
    assert ledger.append(decided(query, 0))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(LedgerError, match="was not acquired"):
        ledger.append(decided(query, 1))


@pytest.mark.slow
def test_a_topic_that_cannot_be_created(topic: str) -> None:
    with LocalKafka(properties={"default.replication.factor": "2"}) as running:
        own = settings(running.bootstrap_servers)
        ledger = Ledger("east", own, topic, "p")
        with pytest.raises(
            LedgerError, match=r"cannot be created: INVALID_REPLICATION_FACTOR \(38\).* --create --topic"
        ):
            ledger.prepare()
        ledger.close()


@pytest.mark.slow
@pytest.mark.parametrize("by_default, replicas", [(1, 2), (2, 2)])
def test_no_single_broker_has_all_decisions(topic: str, query: str, by_default: int, replicas: int) -> None:
    """Kafka's own default is one replica: nothing could be decided while its broker is down."""
    with (
        LocalKafka(brokers=2, properties={"default.replication.factor": str(by_default)}) as running,
        closing(Ledger("east", settings(*running.bootstrap_servers.split(",")), topic, "p")) as ledger,
    ):
        ledger.prepare()
        ledger.acquire(query)
        (partition,) = requests.metadata(running.addresses()[0], [topic], timeout_s=10).topics[0].partitions
        assert len(partition.replica_nodes) == replicas
        for name in (topic, "__transaction_state"):
            wait_for(partial(all_in_sync, running, name), what="two replicas in sync")
        running.kill(partition.leader_id)
        assert ledger.append(decided(query, 0))


@pytest.mark.slow
def test_what_a_user_lacks_is_named(topic: str) -> None:
    security = Secured("SASL_PLAINTEXT", users={"alice": "secret"}, mechanisms=("PLAIN",), acls=True)
    with LocalKafka(security=security) as running:
        login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";'
        own, problems, _ = parse_settings(
            {
                "bootstrap.servers": running.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": login,
            },
            theirs=(),
        )
        assert own is not None, problems
        ledger = Ledger("east", own, topic, "p")
        with pytest.raises(LedgerError, match="allow it the operations Read and Write on the topic"):
            ledger.prepare()
        running.allow("alice", topic=topic, operations=("describe", "read", "write"))
        with pytest.raises(LedgerError, match=r"allow it the operation Create on the topic .*Create it yourself"):
            ledger.prepare()
        other = f"{topic}-read"
        running.create_topic(other, config={"cleanup.policy": "compact"})
        running.allow("alice", topic=other, operations=("describe", "read"))
        running.allow("alice", transactional_id="p.q", operations=("describe", "write"))
        only_read = Ledger("east", own, other, "p")
        only_read.prepare()
        only_read.acquire("q")
        with pytest.raises(BrokerError, match=rf"topic '{other}'.* allow it the operations Describe and Write on the"):
            only_read.append(decided("q", 0))
        only_read.close()
        ledger.close()
