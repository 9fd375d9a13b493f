"""Detects outdated metadata, as from a broker that is cut off from the others.

Metadata about a topic id only grows: its partitions (there is no way to take one away) and the epochs of
their leaders (KIP-320). Of two ids of one topic, one answer cannot tell which is the older one: that is for the core,
which compares several answers (`core/machine/identity.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from evensplit.core.text import short
from evensplit.kafka.wire.responses import Metadata


@dataclass(slots=True)
class _Topic:
    """One topic, by its id."""

    answer: int
    """The number of the last answer that had it."""

    epochs: dict[int, int] = field(default_factory=dict)
    """The latest leader epoch of each partition."""


class Newest:
    """The newest that metadata has said, as far as one can tell.

    Without topic ids, from brokers before Kafka 2.8, nothing can be told. It holds at most twice as many topics as the
    largest answer had.
    """

    def __init__(self) -> None:
        # By name and id.
        self._topics: dict[tuple[str, str], _Topic] = {}
        self._answers = 0
        self._largest = 0

    def take(self, response: Metadata) -> str:
        """Take in a metadata response, unless it is older than what was taken in; then this says what shows that."""
        told: list[tuple[str, str, dict[int, int]]] = []
        for topic in response.topics:
            found = topic.topic_id
            if found and not topic.error_code:
                epochs = {one.partition_index: one.leader_epoch for one in topic.partitions}
                if older := self._outdated(topic.name, found, epochs):
                    return older
                told.append((topic.name, found, epochs))
        self._answers += 1
        self._largest = max(self._largest, len(response.topics))
        for name, found, epochs in told:
            known = self._topics.setdefault((name, found), _Topic(self._answers))
            known.answer = self._answers
            if epochs != known.epochs:
                # A partition that is about to be deleted has -2.
                known.epochs = {number: max(epoch, known.epochs.get(number, 0)) for number, epoch in epochs.items()}
        self._forget()
        return ""

    def _outdated(self, name: str, found: str, epochs: dict[int, int]) -> str:
        known = self._topics.get((name, found))
        if known is None or epochs == known.epochs:
            return ""
        for number, expected in known.epochs.items():
            if number not in epochs:
                return f"topic {short(name)!r}: expected {len(known.epochs)} partitions or more, found {len(epochs)}"
            if 0 <= epochs[number] < expected:
                where = f"topic {short(name)!r}, partition {number}"
                return f"{where}: expected leader epoch {expected} or a later one, found {epochs[number]}"
        return ""

    def _forget(self) -> None:
        count = len(self._topics) - 2 * self._largest
        if count > 0:
            for name in sorted(self._topics, key=lambda topic: self._topics[topic].answer)[:count]:
                del self._topics[name]
