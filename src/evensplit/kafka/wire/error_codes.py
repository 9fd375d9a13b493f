"""Kafka's error codes: their names, whether to try again, and what to do about them.

The codes that this package acts on have a constant here. Names, and which codes are retriable, are kafka-python's,
which has all of them.

Source: Kafka's protocol guide, "Error Codes".
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

UNKNOWN_SERVER_ERROR = -1
OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
NOT_LEADER_FOR_PARTITION = 6
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
INVALID_TOPIC_EXCEPTION = 17
ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
TOPIC_AUTHORIZATION_FAILED = 29
GROUP_AUTHORIZATION_FAILED = 30
CLUSTER_AUTHORIZATION_FAILED = 31
UNSUPPORTED_SASL_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
UNSUPPORTED_VERSION = 35
SASL_AUTHENTICATION_FAILED = 58
GROUP_ID_NOT_FOUND = 69
UNKNOWN_LEADER_EPOCH = 75
OFFSET_NOT_AVAILABLE = 78

_GONE = "it was deleted, or this client may not see it"
_LEADERLESS = "see whether the partition has a leader and in-sync replicas"
_LIVE_GROUP = "the group has live consumers, and only they can commit its offsets; use a group of its own"
_FORBIDDEN = "this user may not do that; allow it the {} (an ACL)"

ADVICE: Mapping[int, str] = {
    UNKNOWN_TOPIC_OR_PARTITION: _GONE,
    LEADER_NOT_AVAILABLE: _LEADERLESS,
    NOT_LEADER_FOR_PARTITION: _LEADERLESS,
    OFFSET_NOT_AVAILABLE: _LEADERLESS,
    ILLEGAL_GENERATION: _LIVE_GROUP,
    UNKNOWN_MEMBER_ID: _LIVE_GROUP,
    REBALANCE_IN_PROGRESS: _LIVE_GROUP,
    TOPIC_AUTHORIZATION_FAILED: _FORBIDDEN.format("operations Describe and Read on the topic"),
    GROUP_AUTHORIZATION_FAILED: _FORBIDDEN.format("operations Describe and Read on the group"),
    CLUSTER_AUTHORIZATION_FAILED: _FORBIDDEN.format("operation Describe on the cluster"),
}
"""What it means and what to do, in one clause, for the codes that users meet."""


def error_name(code: int) -> str:
    """Kafka's name for an error code, such as `NOT_LEADER_FOR_PARTITION`; `UNKNOWN` if the code is not known."""
    return str(_found(code).message)


def is_retriable(code: int) -> bool:
    """Whether the same request may succeed later, perhaps at another broker."""
    return bool(_found(code).retriable)


def describe_code(code: int) -> str:
    """Name and number, followed by the advice if there is any: `NAME (3): advice`."""
    advice = ADVICE.get(code)
    return f"{error_name(code)} ({code})" + (f": {advice}" if advice else "")


@cache
def _found(code: int) -> Any:
    # Late, since loading kafka-python takes half a second, and most processes that import this never meet an error.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.errors import for_code
    return for_code(code)
