"""What the oracle believes of the ids of topics, by the laws alone: one answer is no answer, and no id comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from evensplit.core.machine.events import PartitionsListed
from evensplit.core.model import Split, SplitId

ANSWERS_MIN, WAIT_MS_MAX = 2, 2_000
"""So many answers in a row name a new id, the last one so long after the first, or an interval if that is shorter.

Or the known one, the last one so long after the doubt began.
"""

Topic = tuple[str, str]


class Said(NamedTuple):
    """A topic is said to have another id: by answers in a row, as many as `times`, or `denied` by so many in a row.

    The first of those in a row at `since_ms`, the first of all at `begun_ms`.
    """

    topic_id: str
    times: int
    answer: int
    since_ms: int
    begun_ms: int
    denied: int


@dataclass(slots=True)
class TopicIds:
    """`former`: topic -> ids that it had before in this session. `doubted`: what is said of topics and not believed."""

    former: dict[Topic, dict[str, bool]] = field(default_factory=dict)
    doubted: dict[Topic, Said] = field(default_factory=dict)

    def is_doubted(self, key: SplitId) -> bool:
        """Whether what is said of a split counts for nothing."""
        return (key.cluster, key.topic) in self.doubted

    def note_former(self, key: SplitId, topic_id: str) -> None:
        """The topic of a split had that id, and has another one."""
        self.former.setdefault((key.cluster, key.topic), {})[topic_id] = True

    def rename(self, was: str, now: str) -> None:
        """A cluster has another name."""
        self.former = {(now if name == was else name, topic): ids for (name, topic), ids in self.former.items()}
        self.doubted = {key: said for key, said in self.doubted.items() if key[0] != was}

    def remove(self, cluster: str) -> None:
        """A cluster is not read any more: what was not believed of it is of no interest."""
        self.doubted = {topic: said for topic, said in self.doubted.items() if topic[0] != cluster}

    def look(
        self,
        event: PartitionsListed,
        splits: Mapping[SplitId, Split],
        known: Mapping[SplitId, str],
        marks: Mapping[SplitId, int],
        asked_ms: int,
        interval_ms: int,
    ) -> bool:
        """Take in an answer; whether it is one of a broker that lags behind, since it names a former id."""
        cluster, lags = event.cluster, False
        wait_ms = min(interval_ms, WAIT_MS_MAX)
        listed = {one.topic: one.topic_id for one in event.partitions}
        named = {one.topic: one.topic_id for one in event.seen if one.topic_id and one.topic not in listed} | listed
        read = self._read(event, splits, known, marks)
        other = self._others(event, splits, known, marks, named, read)
        for topic, topic_id in named.items():
            said, former = self.doubted.pop((cluster, topic), None), self.former.get((cluster, topic), {})
            if topic in other:
                if said is None or said.topic_id != topic_id:
                    said = Said(topic_id, 1, event.answer, asked_ms, asked_ms, 0)
                elif event.answer > said.answer and event.asked.turned:
                    since_ms = said.since_ms if said.times else asked_ms
                    said = Said(topic_id, said.times + 1, event.answer, since_ms, said.begun_ms, 0)
                lags = lags or topic_id in former
                few = said.times < ANSWERS_MIN or not event.asked.turned or topic not in listed
                if topic_id in former or few or asked_ms - said.since_ms < wait_ms:
                    self.doubted[cluster, topic] = said
                else:
                    # Also of its splits that this answer does not list, since they have no leader.
                    of = self.former.setdefault((cluster, topic), {})
                    of.update({one: True for one in read.get(topic, ()) if one != topic_id})
            elif said is not None and topic not in listed:
                self.doubted[cluster, topic] = said
            elif said is not None and said.topic_id not in former:
                if event.answer > said.answer:
                    said = said._replace(times=0, answer=event.answer, denied=said.denied + 1)
                if said.denied < ANSWERS_MIN or asked_ms - said.begun_ms < wait_ms:
                    self.doubted[cluster, topic] = said
        if event.complete:
            seen = [one.topic for one in event.seen]
            for key in [key for key in self.doubted if key[0] == cluster and key[1] not in (*named, *seen)]:
                del self.doubted[key]
        return lags

    @staticmethod
    def _read(
        event: PartitionsListed,
        splits: Mapping[SplitId, Split],
        known: Mapping[SplitId, str],
        marks: Mapping[SplitId, int],
    ) -> Mapping[str, list[str]]:
        """Topic -> the ids of its splits that are read or, where there is none, of those that are away."""
        active: dict[str, list[str]] = {}
        away: dict[str, list[str]] = {}
        for key, split in splits.items():
            if key.cluster == event.cluster and key in marks and known[key] and not split.finished:
                (active if split.active else away).setdefault(key.topic, []).append(known[key])
        return away | active

    def _others(
        self,
        event: PartitionsListed,
        splits: Mapping[SplitId, Split],
        known: Mapping[SplitId, str],
        marks: Mapping[SplitId, int],
        named: Mapping[str, str],
        read_ids: Mapping[str, list[str]],
    ) -> Mapping[str, bool]:
        """The topics that an answer names with other ids than those of what was read of them, or with former ones."""
        other: dict[str, bool] = {}
        for topic, topic_id in named.items():
            ids = read_ids.get(topic) or [topic_id]
            if topic_id and (topic_id not in ids or topic_id in self.former.get((event.cluster, topic), {})):
                other[topic] = True
        for one in (*event.partitions, *(one for one in event.seen if one.topic_id == named.get(one.topic))):
            key = SplitId(event.cluster, one.topic, one.partition)
            listed, former = splits.get(key), self.former.get((event.cluster, one.topic), {})
            read = listed is not None and listed.active and not listed.finished and key in marks
            # Others of its topic may have the listed id; of that of this one nobody knows whether it is the older one.
            if read and one.topic_id and known[key] and known[key] not in (one.topic_id, *former):
                other[one.topic] = True
        return other
