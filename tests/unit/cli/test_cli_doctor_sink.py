"""`evensplit doctor --sink`: what each step makes of what brokers say; what they do not say is a warning, or said."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from evensplit.cli.doctor import doctor as doctor_module
from evensplit.cli.doctor import sink as module
from evensplit.cli.doctor.cluster import READ, WRITE
from evensplit.cli.doctor.findings import Doubt, Wrong
from evensplit.cli.group import evensplit
from evensplit.errors import BrokerError, LedgerError
from evensplit.kafka.admin.cluster_session import Broker
from evensplit.kafka.produce.coordination.coordinators import Coordinators, Question
from evensplit.kafka.wire.error_codes import (
    INVALID_PRODUCER_ID_MAPPING,
    PRODUCER_FENCED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from evensplit.kafka.wire.responses import RIGHTS_UNKNOWN, MetadataPartition, MetadataTopic
from evensplit.kafka.wire.transaction_responses import TransactionState
from evensplit.spark.sink.options import parse_writing
from tests.support.written import struct_type

SCHEMA = struct_type("value string, key binary, topic string")
GIVEN = {"kafka.bootstrap.servers": "east:9092", "topic": "orders", "ledger": "decisions"}


def looking(**more: str) -> module._Look:
    options = parse_writing({**GIVEN, **more}, SCHEMA, stream=True)
    return module._Look(options, options.clusters[0])


def topic(name: str, rights: int = READ | WRITE, replicas: int = 3) -> MetadataTopic:
    return MetadataTopic(0, name, "id", False, [MetadataPartition(0, 0, 1, 5, replicas)], rights)


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, str]], None]:
    """Says what the settings of topics are."""

    def are(found: Mapping[str, str]) -> None:
        monkeypatch.setattr(module, "topic_setting", lambda session, name, key, deadline: found.get(key))

    are({"min.insync.replicas": "2", "cleanup.policy": "compact"})
    return are


Settings = Callable[[Mapping[str, str]], None]


def test_a_topic_and_what_may_be_done_to_it(settings: Settings) -> None:
    look = looking()
    with pytest.raises(Wrong, match="the brokers do not know it"):
        look._topic()
    look._topics = {"orders": topic("orders")}
    assert look._topic() == "this user may Write to it; 1 partition, 3 replicas, min.insync.replicas=2"
    look._topics = {"orders": topic("orders", READ)}
    with pytest.raises(Wrong, match="this user may not Write to it"):
        look._topic()
    look._topics = {"orders": topic("orders", RIGHTS_UNKNOWN)}
    with pytest.raises(Doubt, match="do not say what this user may do"):
        look._topic()


@pytest.mark.parametrize(
    "replicas, least, error, said",
    [
        (1, "2", Wrong, "1 replica, min.insync.replicas=2: nothing can be written"),
        (2, "2", Doubt, "nothing can be written while any of its brokers is away"),
        (1, "1", None, "1 replica, min.insync.replicas=1"),
        (3, None, None, "its min.insync.replicas may not be seen"),
    ],
)
def test_replicas_that_have_to_be_in_sync(
    settings: Settings, replicas: int, least: str | None, error: type[Wrong] | None, said: str
) -> None:
    settings({} if least is None else {"min.insync.replicas": least})
    look = looking()
    look._topics = {"orders": topic("orders", replicas=replicas)}
    if error is None:
        assert look._topic().endswith(said)
        return
    with pytest.raises(error) as caught:
        look._topic()
    assert type(caught.value) is error
    assert said in caught.value.found


def test_the_version_and_the_timeout_of_transactions() -> None:
    look: Any = looking()
    look.client = SimpleNamespace(transaction_version=lambda: 2, timeout_max_ms=lambda: 900_000)
    assert look._version().startswith("2 (KIP-890)")
    said = "kafka.transaction.timeout.ms is 900,000, and 15,000 for the ledger; the brokers allow 900,000"
    assert look._timeout() == said
    look.client = SimpleNamespace(transaction_version=lambda: 1, timeout_max_ms=lambda: 60_000)
    assert look._version().startswith("1; ")
    with pytest.raises(Wrong, match="and the brokers allow 60,000"):
        look._timeout()
    look.client = SimpleNamespace(timeout_max_ms=lambda: None)
    with pytest.raises(Doubt, match="may not be seen"):
        look._timeout()


@pytest.mark.parametrize(
    "code, error, said",
    [
        (INVALID_PRODUCER_ID_MAPPING, None, "this user may Write and Describe ids that begin with 'evensplit.'"),
        (TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Wrong, "this user may not Write and Describe ids"),
        (PRODUCER_FENCED, Doubt, "not known whether this user may use them: PRODUCER_FENCED"),
    ],
)
@pytest.mark.parametrize("found", [True, False])
def test_rights_on_transactional_ids(
    monkeypatch: pytest.MonkeyPatch, code: int, error: type[Wrong] | None, said: str, found: bool
) -> None:
    """Brokers can refuse either to say who the coordinator is, or to end a transaction. No id is asked for twice."""
    asked: list[str] = []

    def ask(self: object, questions: list[Question[Any]]) -> None:
        asked.append(questions[0].transactional_id)
        if found:
            questions[0].answer = SimpleNamespace(error_code=code)
        else:
            questions[0].trouble = BrokerError("default", "refused", code)

    monkeypatch.setattr(Coordinators, "ask", ask)
    look = looking()
    if error is None:
        assert look._ids() == look._ids() == said
        assert len(set(asked)) == 2
        return
    with pytest.raises(error) as caught:
        look._ids()
    assert type(caught.value) is error
    assert caught.value.found.startswith(said)


def opened(name: str, ago_s: float, timeout_s: float = 60) -> TransactionState:
    now_ms = int(time.time() * 1000)
    return TransactionState(0, name, "Ongoing", int(timeout_s * 1000), now_ms - int(ago_s * 1000), 1, 0)


def test_open_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._Look, "_knows_transactions", lambda self: True)
    look: Any = looking()
    found: list[TransactionState] = []
    look.client = SimpleNamespace(states_open=lambda prefix: found if prefix == "evensplit." else None)
    assert look._open() == "none under ids that begin with 'evensplit.'"
    found += [opened("evensplit.q.a-0", 5), opened("evensplit.q.a-1", 20)]
    assert look._open() == "evensplit.q.a-1: open for 20 s of 60 s; evensplit.q.a-0: open for 5 s of 60 s"
    found += [opened(f"evensplit.q.b-{number}", 40) for number in range(9)]
    with pytest.raises(Doubt, match=r"evensplit.q.b-0: open for 40 s of 60 s; .*; … 11 in all"):
        look._open()
    monkeypatch.setattr(module._Look, "_knows_transactions", lambda self: False)
    with pytest.raises(Doubt, match=r"before Kafka 3\.0 do not list them"):
        look._open()


def test_idempotent_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._Look, "_knows_transactions", lambda self: True)
    look = looking(delivery="at-least-once")
    assert [one.name for one in look.steps()] == ["topic orders", "idempotent writes"]
    assert look._idempotent() == "whoever may Write to a topic may"
    monkeypatch.setattr(module._Look, "_knows_transactions", lambda self: False)
    with pytest.raises(Doubt, match="IdempotentWrite on the cluster"):
        look._idempotent()


def test_the_ledger(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    look = looking()
    asked: list[str] = []
    monkeypatch.setattr(module, "ledger_partitions", lambda *_: None)
    monkeypatch.setattr(module, "may_create", lambda session, name, deadline: asked.append(name))
    assert look._ledger() == "it is not there yet, and this user may create it"
    assert asked == ["decisions"]
    monkeypatch.setattr(module, "ledger_partitions", lambda *_: 1)
    monkeypatch.setattr(module, "check_ledger", lambda *_: None)
    look._topics = {"decisions": topic("decisions")}
    assert look._ledger().endswith("3 replicas, min.insync.replicas=2, cleanup.policy=compact")
    look._topics = {"decisions": topic("decisions", 0)}
    with pytest.raises(Wrong, match="this user may not Read and Write it"):
        look._ledger()
    look._topics = {"decisions": topic("decisions", RIGHTS_UNKNOWN)}
    with pytest.raises(Doubt, match="do not say"):
        look._ledger()
    look._topics = {"decisions": topic("decisions")}
    settings({})
    with pytest.raises(Doubt, match=r"cleanup\.policy may not be seen"):
        look._ledger()

    def refuse(*_: object) -> None:
        raise LedgerError("it would forget")

    monkeypatch.setattr(module, "check_ledger", refuse)
    with pytest.raises(LedgerError):
        look._ledger()


def test_a_ledger_that_could_have_more_replicas(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings({"min.insync.replicas": "1", "cleanup.policy": "compact"})
    monkeypatch.setattr(module, "ledger_partitions", lambda *_: 1)
    monkeypatch.setattr(module, "check_ledger", lambda *_: None)
    look = looking()
    look._topics = {"decisions": topic("decisions", replicas=1)}
    look.session.brokers = {1: Broker(1, "east", 1)}
    assert look._ledger().endswith("1 replica, min.insync.replicas=1, cleanup.policy=compact")
    look.session.brokers = {number: Broker(number, "east", number) for number in range(1, 4)}
    with pytest.raises(Doubt) as caught:
        look._ledger()
    assert "1 replica, expected 3: nothing can be decided while its broker is away" in caught.value.found
    assert caught.value.cure == "give decisions more replicas, with kafka-reassign-partitions.sh"


def test_only_the_ledgers_cluster_has_one() -> None:
    clusters = '{"east": {"kafka.bootstrap.servers": "e:1"}, "west": {"kafka.bootstrap.servers": "w:1"}}'
    given = {"clusters": clusters, "cluster": "east", "ledgerCluster": "west"}
    options = parse_writing(given, SCHEMA, stream=True)
    east, west = (module._Look(options, cluster) for cluster in options.clusters)
    assert next(one.name for one in east.steps()) == "topics"
    assert "ledger evensplit-ledger" not in [one.name for one in east.steps()]
    assert "ledger evensplit-ledger" in [one.name for one in west.steps()]
    assert "add -o topic=NAME" in east._topic()


@pytest.mark.parametrize(
    "given, told",
    [
        ([], "--sink needs the options of the query"),
        (["-o", "kafka.bootstrap.servers=e:1", "-o", "subscribe=orders"], "subscribe is not an option for writing"),
        (["-o", "kafka.bootstrap.servers=e"], "expected host:port"),
    ],
)
def test_wrong_use(monkeypatch: pytest.MonkeyPatch, given: list[str], told: str) -> None:
    monkeypatch.setattr(doctor_module, "local_findings", lambda: iter(()))
    result = CliRunner().invoke(evensplit, ["doctor", "--sink", *given], env={"COLUMNS": "200"})
    assert result.exit_code == 2, result.output
    assert told in result.output


def test_behind_metadata_that_fails_nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evensplit.cli.doctor.cluster._server_steps", lambda cluster, address: iter(()))

    def refuse(*_: object) -> None:
        raise BrokerError("default", "no", 1)

    monkeypatch.setattr(module, "metadata_of", refuse)
    options = parse_writing(GIVEN, SCHEMA, stream=True)
    found = list(module.sink_findings(options, options.clusters[0]))
    assert [(one.step, str(one.status)) for one in found][1:4] == [
        ("metadata", "failed"),
        ("advertised addresses", "skipped"),
        ("topic orders", "skipped"),
    ]
    assert {one.found for one in found[2:]} == {"not looked at, since metadata failed"}
