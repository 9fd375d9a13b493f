"""Which of the partitions that were to join a transaction could not, and why."""

from __future__ import annotations

from typing import NamedTuple

from evensplit.kafka.produce.coordination.coordinators import may_change
from evensplit.kafka.wire.error_codes import OPERATION_NOT_ATTEMPTED
from evensplit.kafka.wire.transaction_responses import AddPartitionsToTxn


class NotAdded(NamedTuple):
    """A partition that could not join. `code`: Kafka's; 0 where all have joined."""

    code: int
    topic: str = ""
    partition: int = -1


def first_not_added(answer: AddPartitionsToTxn) -> NotAdded:
    """The partition that stands in the way, of all in an answer.

    Brokers add all or none, and say OPERATION_NOT_ATTEMPTED of those that could have joined. Of several others, one
    that never can comes first.
    """
    refused = [
        NotAdded(one.partition_error_code, topic.name, one.partition_index)
        for topic in answer.results_by_topic_v3_and_below
        for one in topic.results_by_partition
        if one.partition_error_code
    ]
    return min(refused, key=_rank, default=NotAdded(0))


def code_of_added(answer: AddPartitionsToTxn) -> int:
    """The code of `first_not_added`."""
    return first_not_added(answer).code


def place_of_added(answer: AddPartitionsToTxn) -> str:
    """Where `first_not_added` is, in an error."""
    one = first_not_added(answer)
    return f"topic {one.topic!r}, partition {one.partition}"


def _rank(one: NotAdded) -> int:
    if one.code == OPERATION_NOT_ATTEMPTED:
        return 2
    return 1 if may_change(one.code) else 0
