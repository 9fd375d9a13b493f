"""The topic of the ledger: created where it is missing, and checked where it is there."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from evensplit.core.text import counted
from evensplit.errors import ClusterError, ClusterUnreachable, LedgerError
from evensplit.kafka.admin.cluster_session import Backoff, Session
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.produce.coordination.broker_settings import topic_setting
from evensplit.kafka.wire.api import CREATE_TOPICS
from evensplit.kafka.wire.error_codes import (
    INVALID_REPLICATION_FACTOR,
    NOT_CONTROLLER,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
    describe_code,
    is_retriable,
)
from evensplit.kafka.wire.responses import MetadataTopic
from evensplit.kafka.wire.transaction_requests import write_create_topic
from evensplit.kafka.wire.transaction_responses import CreatedTopic

MESSAGE_BYTES_MAX = 16 << 20
"""How long a decision may be in the ledger: room for millions of partitions, compressed."""

CONFIG = {"cleanup.policy": "compact", "max.message.bytes": str(MESSAGE_BYTES_MAX)}
"""What the topic is created with, however many replicas it has."""

REPLICAS = 3
"""How many there are at least, if there are so many brokers: one that is gone for good must not take decisions along.

Kafka's own default is 1. Where the brokers' default is known and higher, it is kept; before Kafka 2.4 there is none.
"""

_IN_SYNC = "min.insync.replicas"
_IN_SYNC_MIN = 2
"""With three replicas or more, a decision that counts is on so many brokers, or on more if that is their default."""

_POLICY = "cleanup.policy"
_TO_USE = "operations Read and Write on the topic"
_TO_CREATE = "operation Create on the topic"

_warned: set[tuple[str, str]] = set()
"""Of which topics, by cluster, this process has warned."""

log = logging.getLogger("evensplit")


def ledger_partitions(session: Session, topic: str, deadline: Deadline) -> int | None:
    """How many partitions the topic has; None if it is missing.

    Raises:
        LedgerError: it may not be seen, or is otherwise not to be used.
        ClusterUnreachable: no broker answered in time, or it has a partition without a leader until the deadline.
    """
    backoff = Backoff(session.settings)
    while True:
        found = session.metadata([topic], deadline).topics
        one = found[0] if found else MetadataTopic(UNKNOWN_TOPIC_OR_PARTITION, topic, "", False, [], 0)
        if one.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            return None
        if not one.error_code and one.partitions and all(part.leader_id >= 0 for part in one.partitions):
            return len(one.partitions)
        if one.error_code and not is_retriable(one.error_code):
            raise LedgerError(f"{_where(session, topic)} cannot be used: {describe_code(one.error_code, _TO_USE)}")
        backoff.pause(deadline)
        if deadline.passed:
            raise ClusterUnreachable(session.cluster, f"the ledger's topic {topic!r} has partitions without a leader")


class _Wanted(NamedTuple):
    """How the topic is to be created. `by_default`: with as many replicas as brokers say, and not with `replicas`."""

    replicas: int
    by_default: bool
    config: Mapping[str, str]


def create_ledger(session: Session, topic: str, deadline: Deadline) -> int:
    """Create the topic, or find that another process has just done so. Returns how many partitions it has.

    Raises:
        LedgerError: it cannot be created; it says how to do it by hand.
        ClusterUnreachable: no broker answered in time, or the topic is nowhere to be seen.
    """
    wanted = _wanted(session, topic, deadline)
    answer = _settled(session, topic, deadline, wanted)
    if not answer.error_code:
        log.warning("cluster %r: created the topic %r, in which this query's decisions are", session.cluster, topic)
    elif answer.error_code != TOPIC_ALREADY_EXISTS:
        raise _not_created(session, topic, answer, wanted)
    backoff = Backoff(session.settings)
    while (found := ledger_partitions(session, topic, deadline)) is None:
        backoff.pause(deadline)
        if deadline.passed:
            raise ClusterUnreachable(session.cluster, f"the ledger's topic {topic!r} was created, and is not seen yet")
    return found


def may_create(session: Session, topic: str, deadline: Deadline) -> None:
    """See whether the topic could be created as `create_ledger` does, without doing so. Raises the same."""
    wanted = _wanted(session, topic, deadline)
    answer = _settled(session, topic, deadline, wanted, only_checked=True)
    if answer.error_code not in (0, TOPIC_ALREADY_EXISTS):
        raise _not_created(session, topic, answer, wanted)


def _wanted(session: Session, topic: str, deadline: Deadline) -> _Wanted:
    """What to ask for, by what brokers say that they would do by themselves.

    Those that do not say it (without the right DescribeConfigs, or before Kafka 2.4) may have one replica in mind.
    """
    told = _settled(session, topic, deadline, _Wanted(_replicas(session), True, CONFIG), only_checked=True)
    replicas = max(told.replication_factor, _replicas(session))
    # By default they want more replicas than there are brokers, as while some are away. Fewer are no cure for that.
    refused = told.error_code == INVALID_REPLICATION_FACTOR
    in_sync = next((one.value for one in told.configs if one.name == _IN_SYNC), "")
    kept = in_sync.isdecimal() and int(in_sync) >= _IN_SYNC_MIN
    more = {} if kept or replicas < REPLICAS else {_IN_SYNC: str(_IN_SYNC_MIN)}
    wanted = _Wanted(replicas, refused or told.replication_factor == replicas, {**CONFIG, **more})
    if is_retriable(told.error_code):
        raise _not_created(session, topic, told, wanted)
    return wanted


def _not_created(session: Session, topic: str, answer: CreatedTopic, wanted: _Wanted) -> LedgerError:
    config = " ".join(f"--config {name}={value}" for name, value in wanted.config.items())
    why = describe_code(answer.error_code, _TO_CREATE)
    said = f" ({answer.error_message})" if answer.error_message else ""
    return LedgerError(
        f"{_where(session, topic)} does not exist, and cannot be created: {why}{said}. Create it yourself: "
        f"kafka-topics.sh --create --topic {topic} --partitions 1 --replication-factor {wanted.replicas} {config}"
    )


def _settled(
    session: Session, topic: str, deadline: Deadline, wanted: _Wanted, *, only_checked: bool = False
) -> CreatedTopic:
    """What brokers answer, asked again until the deadline if that may change."""
    backoff = Backoff(session.settings)
    while True:
        answer = _create(session, topic, deadline, wanted, only_checked=only_checked)
        if not is_retriable(answer.error_code):
            return answer
        backoff.pause(deadline)
        if deadline.passed:
            return answer


def _create(
    session: Session,
    topic: str,
    deadline: Deadline,
    wanted: _Wanted,
    *,
    only_checked: bool,
) -> CreatedTopic:
    """Ask the brokers until one does not name the controller, as none does in a cluster without ZooKeeper."""
    timeout_ms = max(int(deadline.remaining_s * 500), 1)
    trouble: ClusterError | None = None
    told: CreatedTopic | None = None
    session.metadata([], deadline)
    build = partial(
        write_create_topic,
        topic,
        1,
        wanted.replicas,
        wanted.config,
        timeout_ms,
        by_default=wanted.by_default,
        only_checked=only_checked,
    )
    for node in sorted(session.brokers):
        share = deadline.within(deadline.remaining_s / 2)
        try:
            connection = session.connection(session.brokers[node].address, share)
            answer = connection.request(CREATE_TOPICS, build, share).topics[0]
        except ClusterUnreachable as error:
            trouble = error
            continue
        if answer.error_code != NOT_CONTROLLER:
            return answer
        told = answer
    if told is None:
        raise trouble or ClusterUnreachable(session.cluster, "no broker is known")
    return told


def check_ledger(session: Session, topic: str, deadline: Deadline) -> None:
    """Refuse a topic that forgets decisions. Where its settings may not be seen, they are not checked.

    Raises:
        LedgerError: its records are not kept by key.
        ClusterUnreachable: no broker answered in time.
    """
    policy = topic_setting(session, topic, _POLICY, deadline)
    if policy is None:
        log.info("cluster %r: the settings of topic %r may not be seen; it has to be compacted", session.cluster, topic)
    elif [part.strip() for part in policy.split(",")] != ["compact"]:
        raise LedgerError(
            f"{_where(session, topic)} has {_POLICY}={policy}, expected compact: it would forget which batches were "
            f"decided. Change that: kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config "
            f"{_POLICY}=compact; or name another topic"
        )


def warn_if_lacking(session: Session, topic: str, deadline: Deadline) -> None:
    """Warn of a topic that could have more replicas, once in this process. Raises ClusterUnreachable."""
    if (session.cluster, topic) in _warned:
        return
    for found in session.metadata([topic], deadline).topics:
        if lacking := lacking_replicas(session, found):
            _warned.add((session.cluster, topic))
            log.warning("%s, %s; %s", _where(session, topic), lacking, more_replicas(topic))


def lacking_replicas(session: Session, topic: MetadataTopic) -> str:
    """What it means that a ledger's topic has fewer replicas than it could have, in a clause; empty if it has enough.

    The session has to have the cluster's metadata.
    """
    wanted = _replicas(session)
    few = sorted((one.replicas, one.partition_index) for one in topic.partitions if one.replicas < wanted)
    if not few:
        return ""
    replicas, number = few[0]
    others = f" (and {counted(len(few) - 1, 'more partition')} too few)" if len(few) > 1 else ""
    away = "its broker is away" if replicas == 1 else "both (or one, if min.insync.replicas is 2) are away"
    return (
        f"partition {number} has {counted(replicas, 'replica')}, expected {wanted}{others}: nothing can be decided "
        f"while {away}"
    )


def more_replicas(topic: str) -> str:
    """What to do if replicas are lacking."""
    return f"give {topic} more replicas, with kafka-reassign-partitions.sh"


def _replicas(session: Session) -> int:
    """How many the topic is to have at least, by the brokers that are known."""
    return min(REPLICAS, len(session.brokers))


def _where(session: Session, topic: str) -> str:
    return f"cluster {session.cluster!r}: the ledger's topic {topic!r}"
