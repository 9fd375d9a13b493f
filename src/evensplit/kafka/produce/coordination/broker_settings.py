"""Settings of brokers and topics, asked for where that is permitted."""

from __future__ import annotations

from functools import partial

from evensplit.errors import ClusterError
from evensplit.kafka.admin.cluster_session import Session
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.wire.api import DESCRIBE_CONFIGS
from evensplit.kafka.wire.transaction_requests import write_describe_configs
from evensplit.kafka.wire.transaction_responses import BROKER, TOPIC, DescribeConfigs

TIMEOUT_MAX = "transaction.max.timeout.ms"


def transaction_timeout_max_ms(session: Session, deadline: Deadline) -> int | None:
    """The brokers' `transaction.max.timeout.ms`, the lowest of those that tell; None if none does."""
    session.metadata([], deadline)
    found: list[int] = []
    for node, broker in sorted(session.brokers.items()):
        build = partial(write_describe_configs, BROKER, str(node), [TIMEOUT_MAX])
        try:
            answer = session.connection(broker.address, deadline).request(DESCRIBE_CONFIGS, build, deadline)
        except ClusterError:
            continue
        value = _value(answer, TIMEOUT_MAX)
        if value is not None and value.isdecimal():
            found.append(int(value))
    return min(found, default=None)


def topic_setting(session: Session, topic: str, name: str, deadline: Deadline) -> str | None:
    """A setting of a topic; None where it may not be known."""
    return ask_topic_setting(session, topic, name, deadline)[0]


def ask_topic_setting(session: Session, topic: str, name: str, deadline: Deadline) -> tuple[str | None, int]:
    """A setting of a topic, None where the broker does not say it; and its error code, 0 for none."""
    build = partial(write_describe_configs, TOPIC, topic, [name])
    answer = session.ask_any(DESCRIBE_CONFIGS, build, deadline)
    return _value(answer, name), answer.results[0].error_code


def _value(answer: DescribeConfigs, name: str) -> str | None:
    return next((one.value for result in answer.results for one in result.configs if one.name == name), None)
