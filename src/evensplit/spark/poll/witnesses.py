"""What each broker of one cluster has said of the ids of topics: who lags behind, only several of them can tell."""

from __future__ import annotations

from collections.abc import Mapping

from evensplit.kafka.admin.protocol import Listing

IDS_MAX = 8
"""So many ids are remembered of one topic by one broker."""

Words = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Broker -> topic -> the ids by which it has named it, the last one by now; empty where it did not know the topic."""


class Witnesses:
    """Takes in the answers of one cluster. A look at what is said again costs a comparison."""

    def __init__(self) -> None:
        self.words: Words = {}
        self._last: dict[str, Mapping[str, str]] = {}

    def hear(self, listing: Listing) -> Words:
        """All words so far, with those of another answer; where nobody knows who gave it, it adds none."""
        broker = listing.broker
        said = {one.topic: one.topic_id for one in listing.partitions}
        if broker and said != self._last.get(broker):
            self._last[broker] = said
            before = self.words.get(broker, {})
            now = {topic: _then(before.get(topic, ()), said.get(topic, "")) for topic in {**before, **said}}
            # Mostly, all say the same.
            self.words = {**self.words, broker: next((one for one in self.words.values() if one == now), now)}
        return self.words


def _then(before: tuple[str, ...], topic_id: str) -> tuple[str, ...]:
    return before if before[-1:] == (topic_id,) else (*before, topic_id)[-IDS_MAX:]
