"""The ledger's topic on real brokers of both transaction versions: created, growing, deleted, and refused."""

from __future__ import annotations

from contextlib import closing
from functools import partial

import pytest
from kafka.admin import KafkaAdminClient, NewPartitions

from evensplit.core.delivery.orders import Appended
from evensplit.core.delivery.terms import Decision
from evensplit.errors import BrokerError, LedgerError
from evensplit.kafka.admin.calls import Calls
from evensplit.kafka.options.client import ClientSettings, parse_settings
from evensplit.kafka.produce.decisions.records import partition_of
from evensplit.kafka.produce.ledger import Ledger
from evensplit.testing import LocalKafka, Secured
from evensplit.testing.admin import changes, requests
from tests.support.clients import settings
from tests.support.ledgers import Make, decided
from tests.support.records import Draft, produce
from tests.support.replicas import all_in_sync
from tests.support.transactions import ends
from tests.support.waiting import wait_for

pytestmark = pytest.mark.kafka


def test_a_topic_that_is_there(make: Make, brokers: LocalKafka, topic: str, query: str) -> None:
    brokers.create_topic(topic, 5, config={"cleanup.policy": "compact"})
    ledger = make()
    ledger.prepare()
    for number in range(6):
        ledger.acquire(f"{query}{number}")
        assert ledger.append(decided(f"{query}{number}", number)) is Appended.THERE
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
        assert old.append(decided(one, 7)) is Appended.THERE
        wait_until_read(task, decided(one, 7))
        old.acquire(one)
        assert old.last(one) == decided(one, 7)
    add_partitions(brokers, topic, 4)
    new = make()
    for one in queries[:5]:
        new.acquire(one)
        assert new.last(one) == decided(one, 7)
        assert new.append(decided(one, 8)) is Appended.THERE
        # It does not know yet that the topic has grown, nor that it is fenced.
        assert old.append(decided(one, 8)) is Appended.NOT_THERE
        old.acquire(one)
        assert old.last(one) == decided(one, 8)
        assert old.append(decided(one, 9)) is Appended.THERE
        wait_until_read(task, decided(one, 9))
    # Of a query that begins afterwards, the old process finds what the new one has decided.
    new.acquire(queries[5])
    assert new.last(queries[5]) is None
    assert new.append(decided(queries[5], 0)) is Appended.THERE
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
    assert first.append(decided(query, 0)) is Appended.THERE
    first.acquire(query)
    add_partitions(brokers, topic, 3)
    assert first.append(decided(query, 1)) is Appended.THERE
    first.acquire(query)
    assert first.last(query) == decided(query, 1)
    second.acquire(query)
    assert second.last(query) == decided(query, 1)
    assert second.append(decided(query, 2)) is Appended.THERE
    assert first.append(decided(query, 2)) is Appended.NOT_THERE
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
    assert driver.append(decided(query, 0)) is Appended.THERE
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
    assert driver.append(decided(query, 1)) is Appended.THERE
    wait_for(lambda: task.read_decided(query) == decided(query, 1), what="the decision")


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
        assert ledger.append(decided(query, 0)) is Appended.THERE


@pytest.mark.slow
def test_a_higher_default_of_replicas_in_sync_is_kept(topic: str) -> None:
    defaults = {"default.replication.factor": "3", "min.insync.replicas": "3"}
    with (
        LocalKafka(brokers=3, properties=defaults) as running,
        closing(Ledger("east", settings(*running.bootstrap_servers.split(",")), topic, "p")) as ledger,
    ):
        ledger.prepare()
        address, name = running.addresses()[0], "min.insync.replicas"
        assert changes.topic_settings(address, topic, [name], timeout_s=10) == {name: "3"}


@pytest.mark.slow
def test_whoever_may_not_see_the_brokers_default_gets_enough_replicas(
    topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    security = Secured("SASL_PLAINTEXT", users={"alice": "secret"}, mechanisms=("PLAIN",), acls=True)
    with LocalKafka(brokers=3, security=security, properties={"default.replication.factor": "1"}) as running:
        running.allow("alice", topic="*", operations=("create", "describe", "read", "write"))
        own = as_alice(running)
        with closing(Ledger("east", own, topic, "p")) as ledger:
            ledger.prepare()
            with closing(Calls("east", own)) as calls, calls.call() as (session, deadline):
                (found,) = session.metadata([topic], deadline).topics
            assert [one.replicas for one in found.partitions] == [3]
            ledger.prepare()
        few = f"{topic}-few"
        running.create_topic(few, config={"cleanup.policy": "compact"})
        caplog.clear()
        for _ in range(2):
            with closing(Ledger("east", own, few, "p")) as ledger:
                ledger.prepare()
        said = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
        assert len(said) == 1
        assert "partition 0 has 1 replica, expected 3" in said[0]


def as_alice(running: LocalKafka) -> ClientSettings:
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
    return own


@pytest.mark.slow
def test_what_a_user_lacks_is_named(topic: str) -> None:
    security = Secured("SASL_PLAINTEXT", users={"alice": "secret"}, mechanisms=("PLAIN",), acls=True)
    with LocalKafka(security=security) as running:
        own = as_alice(running)
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
