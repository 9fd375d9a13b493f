"""One cluster that is written to: topics, the ledger, transactions, and what this user may do. Nothing is changed."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from evensplit.cli.doctor.cluster import (
    ADVERTISED,
    METADATA_CURE,
    NAMED_MAX,
    READ,
    WRITE,
    ClusterSettings,
    advertised,
    findings_of,
    metadata_of,
    step_deadline,
)
from evensplit.cli.doctor.findings import Doubt, Finding, Step, Wrong
from evensplit.core.text import counted, short, some
from evensplit.errors import BrokerError, UnsupportedBroker
from evensplit.kafka.admin.cluster_session import Session
from evensplit.kafka.produce.coordination.broker_settings import topic_setting
from evensplit.kafka.produce.coordination.coordinators import Coordinators, Question
from evensplit.kafka.produce.decisions.topic import (
    check_ledger,
    lacking_replicas,
    ledger_partitions,
    may_create,
    more_replicas,
)
from evensplit.kafka.produce.ledger import append_timeout_ms
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.kafka.wire.api import DESCRIBE_TRANSACTIONS, END_TXN, END_TXN_VERSION_1
from evensplit.kafka.wire.error_codes import (
    INVALID_PRODUCER_ID_MAPPING,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    describe_code,
)
from evensplit.kafka.wire.responses import RIGHTS_UNKNOWN, MetadataTopic
from evensplit.kafka.wire.transaction_requests import write_end_txn
from evensplit.kafka.wire.transaction_responses import EndTxn

if TYPE_CHECKING:
    from evensplit.spark.sink.options import WriteCluster, WriteOptions

OLD_SHARE = 0.5
"""From this share of its timeout on, an open transaction is one that nobody ends."""

_TOPIC = "check the option topic, create the topic, and allow this user Write and Describe on it (an ACL)"
_LEDGER = "allow this user Read, Write and Describe on the ledger's topic (ACLs), or name another one: option ledger"
_TIMEOUT = "lower kafka.transaction.timeout.ms, or raise transaction.max.timeout.ms of the brokers"
_AFTER = "write a batch to find out"


def sink_findings(options: WriteOptions, cluster: WriteCluster) -> Iterator[Finding]:
    """Each step for one cluster of a streaming query that writes, as it is taken."""
    look = _Look(options, cluster)
    try:
        yield from findings_of(ClusterSettings(cluster.id, cluster.client), look.session, look.first(), look.steps())
    finally:
        look.client.close()


class _Look:
    """What the cluster says, over one session, and one client for transactions."""

    def __init__(self, options: WriteOptions, cluster: WriteCluster) -> None:
        self._options = options
        self._cluster = cluster
        self._prefix = f"{options.id_prefix}."
        self._topics: dict[str, MetadataTopic] = {}
        self._rights_cure = (
            f"allow this user Write and Describe on the transactional ids that begin with {self._prefix!r} (an ACL "
            "with the pattern type PREFIXED)"
        )
        self.session = Session(cluster.id, cluster.client)
        self.client = TransactionClient(cluster.id, cluster.client)

    def first(self) -> Iterator[Step]:
        """What all others depend on."""
        yield Step("metadata", self._metadata, METADATA_CURE)
        yield Step("advertised addresses", partial(advertised, self.session), ADVERTISED)

    def steps(self) -> Iterator[Step]:
        """All others."""
        topic = self._options.topic
        yield Step("topics" if topic is None else f"topic {topic}", self._topic, _TOPIC)
        if not self._options.exactly_once:
            yield Step("idempotent writes", self._idempotent, _AFTER)
            return
        yield Step("transaction version", self._version, METADATA_CURE)
        yield Step("transaction timeout", self._timeout, _TIMEOUT)
        yield Step("transactional ids", self._ids, self._rights_cure)
        yield Step("open transactions", self._open, METADATA_CURE)
        if self._cluster.id == self._options.ledger_cluster:
            yield Step(f"ledger {self._options.ledger}", self._ledger, _LEDGER)

    def _metadata(self) -> str:
        names = [name for name in (self._options.topic, self._options.ledger) if name is not None]
        said, topics = metadata_of(self.session, dict.fromkeys(names))
        self._topics = {one.name: one for one in topics}
        return said

    def _topic(self) -> str:
        name = self._options.topic
        if name is None:
            return "the rows say to which topics they go: add -o topic=NAME to have one of them looked at"
        topic = self._topics.get(name)
        if topic is None or topic.error_code:
            raise Wrong("the brokers do not know it" if topic is None else describe_code(topic.error_code), _TOPIC)
        kept = self._in_sync(topic)
        if topic.authorized_operations == RIGHTS_UNKNOWN:
            raise Doubt(f"{kept}; the brokers do not say what this user may do (Kafka before 2.3)", _AFTER)
        if not topic.authorized_operations & WRITE:
            raise Wrong("this user may not Write to it", _TOPIC)
        return f"this user may Write to it; {kept}"

    def _in_sync(self, topic: MetadataTopic) -> str:
        """How many replicas the topic has, and has to have in sync. Raises Wrong or Doubt if these are too many."""
        replicas = min((part.replicas for part in topic.partitions), default=0)
        said = f"{counted(len(topic.partitions), 'partition')}, {counted(replicas, 'replica')}"
        setting = topic_setting(self.session, topic.name, "min.insync.replicas", step_deadline())
        if setting is None or not setting.isdecimal():
            return f"{said}; its min.insync.replicas may not be seen"
        said = f"{said}, min.insync.replicas={setting}"
        cure = f"give {topic.name} more replicas, or a lower min.insync.replicas"
        if int(setting) > replicas:
            raise Wrong(f"{said}: nothing can be written", cure)
        if 1 < int(setting) == replicas:
            raise Doubt(f"{said}: nothing can be written while any of its brokers is away", cure)
        return said

    def _idempotent(self) -> str:
        if not self._knows_transactions():
            raise Doubt(
                "brokers before Kafka 3.0 ask for IdempotentWrite on the cluster as well, and do not say whether this "
                "user may",
                "allow this user IdempotentWrite on the cluster (an ACL), or write a batch to find out",
            )
        return "whoever may Write to a topic may"

    def _knows_transactions(self) -> bool:
        """Whether brokers are Kafka 3.0 or later, by what they can be asked."""
        address = self.session.brokers[min(self.session.brokers)].address
        connection = self.session.connection(address, step_deadline())
        try:
            return connection.version(DESCRIBE_TRANSACTIONS) >= 0
        except UnsupportedBroker:
            return False

    def _version(self) -> str:
        if self.client.transaction_version() >= 2:
            return "2 (KIP-890): a late record of an earlier transaction cannot get into a later one"
        return "1; the brokers can have 2 from Kafka 4.0 on (the feature transaction.version)"

    def _timeout(self) -> str:
        own_ms, most_ms = self._cluster.producing.transaction_timeout_ms, self.client.timeout_max_ms()
        said = f"kafka.transaction.timeout.ms is {own_ms:,}"
        if self._cluster.id == self._options.ledger_cluster:
            said += f", and {append_timeout_ms(own_ms):,} for the ledger"
        if most_ms is None:
            raise Doubt(
                f"{said}; transaction.max.timeout.ms of the brokers may not be seen",
                "allow this user DescribeConfigs on the cluster (an ACL), or write a batch to find out",
            )
        if own_ms > most_ms:
            raise Wrong(f"{said}, and the brokers allow {most_ms:,} (transaction.max.timeout.ms)", _TIMEOUT)
        return f"{said}; the brokers allow {most_ms:,}"

    def _ids(self) -> str:
        # Brokers look at rights first. Nobody has this id, so there is nothing that could be ended.
        name = f"{self._prefix}doctor-{secrets.token_hex(8)}"
        question: Question[EndTxn] = Question(name, partial(write_end_txn, name, 0, 0, False))
        deadline = step_deadline()
        # The highest version is for clusters with transaction version 2 alone.
        asked = Coordinators(self.session, END_TXN, lambda one: one.error_code, deadline, lambda _: END_TXN_VERSION_1)
        asked.ask([question])
        try:
            code = question.given().error_code
        except BrokerError as error:
            code = error.code
        if code == TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise Wrong(f"this user may not Write and Describe ids that begin with {self._prefix!r}", self._rights_cure)
        if code != INVALID_PRODUCER_ID_MAPPING:
            raise Doubt(f"not known whether this user may use them: {describe_code(code)}", _AFTER)
        return f"this user may Write and Describe ids that begin with {self._prefix!r}"

    def _open(self) -> str:
        if not self._knows_transactions():
            raise Doubt("brokers before Kafka 3.0 do not list them", "upgrade the brokers if you can")
        now_ms = int(time.time() * 1000)
        found = sorted(self.client.states_open(self._prefix), key=lambda one: one.transaction_start_time_ms)
        if not found:
            return f"none under ids that begin with {self._prefix!r}"
        shown = [
            f"{short(one.transactional_id)}: open for {_seconds(now_ms - one.transaction_start_time_ms)} of "
            f"{_seconds(one.transaction_timeout_ms)}"
            for one in found
        ]
        said = some(shown, NAMED_MAX, "; ")
        if any(now_ms - one.transaction_start_time_ms > OLD_SHARE * one.transaction_timeout_ms for one in found):
            raise Doubt(
                said,
                "start the query again: it ends what it has left open. Until then, or until they expire, readers with "
                "read_committed wait",
            )
        return said

    def _ledger(self) -> str:
        name, deadline = self._options.ledger, step_deadline()
        partitions = ledger_partitions(self.session, name, deadline)
        if partitions is None:
            may_create(self.session, name, deadline)
            return "it is not there yet, and this user may create it"
        check_ledger(self.session, name, deadline)
        topic = self._topics[name]
        kept = self._in_sync(topic)
        rights = topic.authorized_operations
        if rights == RIGHTS_UNKNOWN:
            raise Doubt(f"{kept}; the brokers do not say what this user may do (Kafka before 2.3)", _AFTER)
        missing = [name for name, bit in (("Read", READ), ("Write", WRITE)) if not rights & bit]
        if missing:
            raise Wrong(f"this user may not {' and '.join(missing)} it", _LEDGER)
        if lacking := lacking_replicas(self.session, topic):
            raise Doubt(f"{kept}: {lacking}", more_replicas(name))
        policy = topic_setting(self.session, name, "cleanup.policy", deadline)
        if policy is None:
            raise Doubt(
                f"{kept}; its cleanup.policy may not be seen, and has to be compact",
                "allow this user DescribeConfigs on it (an ACL), or see for yourself",
            )
        return f"this user may Read and Write it; {kept}, cleanup.policy={policy}"


def _seconds(ms: int) -> str:
    return f"{max(0, ms) / 1000:,.0f} s"
