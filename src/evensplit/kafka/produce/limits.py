"""How long record batches of a topic may be.

A broker refuses those that are longer than the topic's `max.message.bytes`, for good. So batches are kept below it,
where it may be known: that takes the operation DescribeConfigs on the topic.
"""

from __future__ import annotations

import math
from typing import NamedTuple
from weakref import WeakKeyDictionary

from evensplit.errors import AuthenticationError, ClusterError
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.deadline import Clock
from evensplit.kafka.produce.coordination.broker_settings import ask_topic_setting
from evensplit.kafka.wire.error_codes import describe_code, is_retriable

NAME = "max.message.bytes"

KEPT_S = 600.0
"""For so long a process does not ask again, unless a batch was refused."""

PATIENCE_S = 5.0
"""So long it is waited for an answer: it is of no use but for topics whose limit is short."""

AGAIN_S = 30.0
"""After so long it asks again if there was no answer, which may have taken PATIENCE_S."""

_LESS = "Set kafka.batch.size to less than that, or raise it"
_DENIED = (
    f"{_LESS}; or allow this user the operation DescribeConfigs on the topic (an ACL), then batches are kept below it"
)


class _Limit(NamedTuple):
    """What was found out. `bytes_max`: None if the limit is not known; `advice`: for a batch that is too long."""

    bytes_max: int | None
    until_s: float
    advice: str


_known: WeakKeyDictionary[ClusterClient, dict[str, _Limit]] = WeakKeyDictionary()


def batch_bytes_max(client: ClusterClient, topic: str, clock: Clock) -> int | None:
    """How long batches of `topic` may become before they are compressed; None where the limit is not known.

    Codecs make what cannot be compressed a little longer, for which there is room.

    Raises:
        AuthenticationError: a broker does not let us in.
    """
    kept = _known.setdefault(client, {})
    limit = kept.get(topic)
    if limit is None or limit.until_s <= clock.now_s():
        limit = kept[topic] = _asked(client, topic, clock)
    return None if limit.bytes_max is None else max(limit.bytes_max - limit.bytes_max // 512 - 64, 1)


def outdate(client: ClusterClient, topic: str) -> str:
    """Ask again the next time: a batch was longer than allowed. Returns what to do about that, in a sentence."""
    kept = _known.setdefault(client, {})
    limit = kept.get(topic)
    if limit is None:
        return _LESS
    kept[topic] = limit._replace(until_s=-math.inf)
    return limit.advice


def _asked(client: ClusterClient, topic: str, clock: Clock) -> _Limit:
    try:
        with client.call(PATIENCE_S) as (session, deadline):
            found, code = ask_topic_setting(session, topic, NAME, deadline)
    except AuthenticationError:
        raise
    except ClusterError as error:
        return _unanswered(error.detail, clock)
    if is_retriable(code):
        return _unanswered(describe_code(code), clock)
    until_s = clock.now_s() + KEPT_S
    if not (found and found.isdecimal()):
        return _Limit(None, until_s, _DENIED)
    advice = (
        f"It was {int(found):,} when it was asked for last: retry, which asks again. If that does not help: {_LESS}"
    )
    return _Limit(int(found), until_s, advice)


def _unanswered(why: str, clock: Clock) -> _Limit:
    advice = f"{_LESS}. Batches are kept below it where brokers say it, and when they were asked none did: {why}"
    return _Limit(None, clock.now_s() + AGAIN_S, advice)
