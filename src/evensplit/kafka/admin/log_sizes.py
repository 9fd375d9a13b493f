"""How many bytes logs have on the disks of their leaders, by DescribeLogDirs (KIP-113)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import BrokerError, ClusterError
from evensplit.kafka.admin.cluster_session import ATTEMPT_S, Session
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.wire.api import DESCRIBE_LOG_DIRS
from evensplit.kafka.wire.error_codes import CLUSTER_AUTHORIZATION_FAILED, describe_code
from evensplit.kafka.wire.requests import write_describe_log_dirs
from evensplit.kafka.wire.responses import LogDirs


def ask_for_bytes(
    session: Session, partitions: Collection[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, int]:
    """The bytes of the logs of `partitions`, of those whose leaders tell it.

    Raises a ClusterError if nothing was told and something went wrong: what that was first.
    """
    found: dict[TopicPartition, int] = {}
    errors: list[ClusterError] = []
    leaders = session.find_leaders(partitions, deadline, refresh=False, patience_s=ATTEMPT_S)
    limit = deadline.within(ATTEMPT_S)
    asked: list[Connection] = []
    for address, keys in leaders.by_address().items():
        try:
            connection = session.connection(address, limit)
            connection.send(DESCRIBE_LOG_DIRS, partial(write_describe_log_dirs, keys), limit)
            asked.append(connection)
        except ClusterError as error:
            errors.append(error)
    for connection in asked:
        try:
            response: LogDirs = connection.receive(limit)
        except ClusterError as error:
            errors.append(error)
            continue
        found.update(_told(response))
        errors.extend(_refused(session.cluster, code) for code in _codes(response))
    found = {key: size for key, size in found.items() if key in leaders.known}
    if errors and not found:
        raise errors[0]
    return found


def _told(response: LogDirs) -> Iterator[tuple[TopicPartition, int]]:
    for directory in response.results:
        for topic in directory.topics:
            for one in topic.partitions:
                if not one.is_future_key and one.partition_size >= 0:
                    yield (topic.name, one.partition_index), one.partition_size


def _codes(response: LogDirs) -> list[int]:
    """Kafka's codes for what went wrong."""
    if response.error_code:
        return [response.error_code]
    if not response.results:
        # A broker has one directory at least. Before version 3 this is how it refuses.
        return [CLUSTER_AUTHORIZATION_FAILED]
    return [one.error_code for one in response.results if one.error_code]


def _refused(cluster: str, code: int) -> BrokerError:
    return BrokerError(cluster, f"the sizes of its logs are not told: {describe_code(code)}", code)
