"""How long record batches of a topic may be.

A broker refuses those that are longer than the topic's `max.message.bytes`, for good. So batches are kept below it,
where it may be known: that takes the operation DescribeConfigs on the topic.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from evensplit.errors import AuthenticationError, ClusterError
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.deadline import Clock
from evensplit.kafka.produce.coordination.broker_settings import topic_setting

NAME = "max.message.bytes"

KEPT_S = 600.0
"""For so long a process does not ask again, unless a batch was refused."""

PATIENCE_S = 5.0
"""So long it is waited for an answer: it is of no use but for topics whose limit is short."""

_known: WeakKeyDictionary[ClusterClient, dict[str, tuple[float, int | None]]] = WeakKeyDictionary()


def batch_bytes_max(client: ClusterClient, topic: str, clock: Clock) -> int | None:
    """How long batches of `topic` may become before they are compressed; None where the limit may not be known.

    Codecs make what cannot be compressed a little longer, for which there is room.

    Raises:
        AuthenticationError: a broker does not let us in.
    """
    kept = _known.setdefault(client, {})
    now_s = clock.now_s()
    until_s, limit = kept.get(topic, (now_s, None))
    if until_s <= now_s:
        limit = _asked(client, topic)
        kept[topic] = now_s + KEPT_S, limit
    return None if limit is None else max(limit - limit // 512 - 64, 1)


def forget(client: ClusterClient, topic: str) -> None:
    """Ask again the next time: the limit is not what it was."""
    _known.get(client, {}).pop(topic, None)


def _asked(client: ClusterClient, topic: str) -> int | None:
    try:
        with client.call(PATIENCE_S) as (session, deadline):
            found = topic_setting(session, topic, NAME, deadline)
    except AuthenticationError:
        raise
    except ClusterError:
        return None
    return int(found) if found and found.isdecimal() else None
