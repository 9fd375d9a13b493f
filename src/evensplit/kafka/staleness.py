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

    def take(self, response: Any) -> str:
        """Take in a metadata response, unless it is older than what was taken in; then this says what shows that."""
        told: list[tuple[str, str, dict[int, int]]] = []
        for topic in response.topics:
            found = topic_id(topic)
            if found and not topic.error_code:
                epochs = {one.partition_index: one.leader_epoch for one in topic.partitions}
                if older := self._outdated(topic.name, found, epochs):
                    return older
                told.append((topic.name, found, epochs))
        self._answers += 1
        self._largest = max(self._largest, len(response.topics))
        for name, found, epochs in told:
            known = self._topics.get(name)
            if known is None:
                known = self._topics[name] = _Topic(found, self._answers)
            elif known.topic_id != found:
                former = (*known.former, known.topic_id)[-FORMER_IDS_MAX:]
                known = self._topics[name] = _Topic(found, self._answers, former)
            known.answer = self._answers
            if epochs != known.epochs:
                # A partition that is about to be deleted has -2.
                known.epochs = {number: max(epoch, known.epochs.get(number, 0)) for number, epoch in epochs.items()}
        self._forget()
        return ""

    def _outdated(self, name: str, found: str, epochs: dict[int, int]) -> str:
        known = self._topics.get(name)
        if known is None or (epochs == known.epochs and found == known.topic_id):
            return ""
        if found in known.former:
            return f"topic {name!r}: expected topic id {known.topic_id}, found {found}, which it had before"
        if found != known.topic_id:
            return ""
        for number, expected in known.epochs.items():
            if number not in epochs:
                return f"topic {name!r}: expected {len(known.epochs)} partitions or more, found {len(epochs)}"
            if 0 <= epochs[number] < expected:
                return (
                    f"topic {name!r}, partition {number}: expected leader epoch {expected} or a later one, found "
                    f"{epochs[number]}"
                )
        return ""

    def _forget(self) -> None:
        count = len(self._topics) - 2 * self._largest
        if count > 0:
            for name in sorted(self._topics, key=lambda name: self._topics[name].answer)[:count]:
                del self._topics[name]
