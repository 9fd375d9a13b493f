"""How old metadata is: a broker that is cut off from the others goes on to say what was true before.

What is told of a topic, by its id, only grows: its partitions (there is no way to take one away) and the epochs of
their leaders (KIP-320). And an id that another one has replaced never comes back (KIP-516).
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

FORMER_IDS_MAX = 16
"""So many ids of one topic that was created anew again and again are remembered, the latest ones."""


def topic_id(topic: Any) -> str:
    """The id of a topic in a metadata response, as text; empty where the broker has none."""
    if not topic.topic_id or not topic.topic_id.int:
        return ""
    return base64.urlsafe_b64encode(topic.topic_id.bytes).rstrip(b"=").decode()


@dataclass(slots=True)
class _Topic:
    """What is known of one topic. `answer`: the number of the last answer that had it."""

    topic_id: str
    answer: int
    former: tuple[str, ...] = ()
    epochs: dict[int, int] = field(default_factory=dict)


class Newest:
    """The newest that metadata has said, as far as one can tell.

    Without topic ids, from brokers before Kafka 2.8, nothing can be told. It holds at most twice as many topics as the
    largest answer had.
    """

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self._answers = 0
        self._largest = 0

    def outdates(self, response: Any) -> str:
        """What shows that a metadata response is older than what was taken in; empty if nothing does."""
        for topic in response.topics:
            known = self._topics.get(topic.name)
            if known is None or topic.error_code:
                continue
            found = topic_id(topic)
            if found in known.former:
                return f"topic {topic.name!r}: expected topic id {known.topic_id}, found {found}, which it had before"
            if found != known.topic_id:
                continue
            epochs = known.epochs
            for one in topic.partitions:
                if 0 <= one.leader_epoch < epochs.get(one.partition_index, 0):
                    expected = epochs[one.partition_index]
                    return (
                        f"topic {topic.name!r}, partition {one.partition_index}: expected leader epoch {expected} or a "
                        f"later one, found {one.leader_epoch}"
                    )
            if len(topic.partitions) < len(epochs):
                count = len(topic.partitions)
                return f"topic {topic.name!r}: expected {len(epochs)} partitions or more, found {count}"
        return ""

    def take(self, response: Any) -> None:
        """Take in a metadata response that nothing outdates."""
        self._answers += 1
        self._largest = max(self._largest, len(response.topics))
        for topic in response.topics:
            found = topic_id(topic)
            if topic.error_code or not found:
                continue
            known = self._topics.get(topic.name)
            if known is None:
                known = self._topics[topic.name] = _Topic(found, self._answers)
            elif known.topic_id != found:
                former = (*known.former, known.topic_id)[-FORMER_IDS_MAX:]
                known = self._topics[topic.name] = _Topic(found, self._answers, former)
            known.answer = self._answers
            epochs = known.epochs
            for one in topic.partitions:
                # A partition that is about to be deleted has -2.
                if one.leader_epoch > epochs.get(one.partition_index, -1):
                    epochs[one.partition_index] = one.leader_epoch
                else:
                    epochs.setdefault(one.partition_index, 0)
        if len(self._topics) > 2 * self._largest:
            oldest = sorted(self._topics, key=lambda name: self._topics[name].answer)
            for name in oldest[: len(oldest) - 2 * self._largest]:
                del self._topics[name]
