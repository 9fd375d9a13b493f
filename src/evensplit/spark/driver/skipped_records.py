"""What tasks skipped because it was gone: found out on the driver, since tasks have no way to say it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from evensplit.core.batch.plan import batch_ranges
from evensplit.core.machine.data_loss import skipped
from evensplit.core.model import ClusterState, HandedOut, Loss, Range, Split, SplitId
from evensplit.core.state.state import EnumeratorState, Session, renamed_clusters
from evensplit.spark.poll.snapshot import ClusterSnapshot, PollResult

SURE_WITHIN = 3
"""For so many intervals a run that ends waits for an answer that confirms or denies that something is missing."""


@dataclass(slots=True)
class _Reading:
    """The ranges of one cluster in one batch, as far as nobody knows whether they were there to be read.

    `since`: looks up to this one were before they were read. `compared`: a later one has been compared with them.
    """

    ranges: tuple[Range, ...]
    topic_ids: Mapping[SplitId, str]
    handed_out: HandedOut
    since: int | None = None
    compared: bool = False

    def is_before(self, answer: ClusterSnapshot) -> bool:
        """Whether they had been read when `answer` was asked for."""
        return self.since is not None and answer.number > self.since

    def is_of_former(self, key: SplitId, state: EnumeratorState) -> bool:
        """Whether `state` knows that the topic was created anew since."""
        split = state.splits.get(key)
        return split is not None and bool(self.topic_ids[key]) and split.topic_id not in ("", self.topic_ids[key])

    def rename(self, cluster: str) -> None:
        """The cluster is called so now."""
        self.ranges = tuple(part._replace(split=part.split._replace(cluster=cluster)) for part in self.ranges)
        self.topic_ids = {key._replace(cluster=cluster): topic_id for key, topic_id in self.topic_ids.items()}


class _Missing(NamedTuple):
    """Since when something is missing, and from which discovery at first."""

    since_ms: int
    discovery: int


class SkippedRecords:
    """Compares the ranges that were handed out with what the clusters still have when they have been read.

    Only where tasks skip what is gone, or did so in the process before: otherwise a task that misses something fails,
    and the query with it.
    """

    def __init__(self, skips: bool) -> None:
        self._skips = skips
        self._done: tuple[EnumeratorState, EnumeratorState] | None = None
        self._readings: dict[str, list[_Reading]] = {}
        self._missing: dict[SplitId, _Missing] = {}
        self._clusters: Mapping[str, ClusterState] = {}

    @property
    def pending(self) -> bool:
        """Whether there is anything that no look has been asked for yet."""
        return any(one.since is None for readings in self._readings.values() for one in readings)

    def has_news(self, answers: Mapping[str, PollResult]) -> bool:
        """Whether there is an answer that is new enough for what was read; also if it says the same as an older one."""
        return any(
            isinstance(answer, ClusterSnapshot) and one.is_before(answer) and not one.compared
            for name, answer in answers.items()
            for one in self._readings.get(name, ())
        )

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The clusters that have not said, since ranges of them were read, whether all was there.

        Without those that were removed: they are not asked any more.
        """
        return tuple(sorted(name for name in self._readings if self._clusters[name].removed_at_ms is None))

    def settles(self, state: EnumeratorState) -> bool:
        """Whether more of what `state` says to be read has been looked at than it would tell another process."""
        uncompared = self.uncompared(state)
        return any(
            split.read_from is not None and split.read_from < uncompared.get(key, split.position or 0)
            for key, split in state.splits.items()
        )

    def uncompared(self, state: EnumeratorState) -> Mapping[SplitId, int]:
        """Where the oldest range of each split of `state` begins that no answer has been compared with yet.

        Of other incarnations, `state` cannot say it.
        """
        found: dict[SplitId, int] = {}
        for one in (one for readings in self._readings.values() for one in readings):
            for part in one.ranges:
                if part.split in state.splits and not one.is_of_former(part.split, state):
                    found[part.split] = min(part.start, found.get(part.split, part.start))
        return found

    def is_news_to(self, state: EnumeratorState, *, last: bool) -> bool:
        """Whether a state after `state` would tell another process more. `last`: of a run that ends."""
        return self.is_unsaid(state) or (last and self.settles(state))

    def is_unsaid(self, state: EnumeratorState) -> bool:
        """Whether another process would not know from `state` of all that is not compared yet.

        So it is after a batch that was planned when nothing could be skipped, or that covers others, was done again.
        """
        for key, begin in self.uncompared(state).items():
            split = state.splits[key]
            if begin < (split.position or 0) and (split.read_from is None or begin < split.read_from):
                return True
        return False

    def add(self, start: EnumeratorState, end: EnumeratorState) -> None:
        """The batch from `start` to `end` is handed out; perhaps once more."""
        if self._skips:
            self._note(batch_ranges(start, end), end, HandedOut.EARLIER)
        else:
            self._done = start, end

    def restore(self, state: EnumeratorState) -> None:
        """What `state` says to be read has been, by another process perhaps that did not come to look.

        What this process has handed out itself is known: it is compared once, or nothing of it can have been skipped.
        """
        read = [split for split in state.splits.values() if split.read_from is not None]
        if not read:
            return
        known: dict[SplitId, list[Range]] = {}
        handed_out = [part for readings in self._readings.values() for one in readings for part in one.ranges]
        for part in (*handed_out, *(batch_ranges(*self._done) if self._done is not None else ())):
            known.setdefault(part.split, []).append(part)
        parts = [part for split in read for part in _without(split, known.get(split.id, ()))]
        self._note(parts, state, HandedOut.BEFORE_RESTART)

    def _note(self, parts: Iterable[Range], end: EnumeratorState, handed_out: HandedOut) -> None:
        self._clusters = end.clusters
        by_cluster: dict[str, list[Range]] = {}
        for part in parts:
            by_cluster.setdefault(part.split.cluster, []).append(part)
        for name, ranges in by_cluster.items():
            readings = self._readings.setdefault(name, [])
            if readings and readings[-1].ranges == tuple(ranges):
                readings[-1].since, readings[-1].compared = None, False
            else:
                topic_ids = {part.split: end.splits[part.split].topic_id for part in ranges}
                readings.append(_Reading(tuple(ranges), topic_ids, handed_out))

    def asked(self, count: int) -> Mapping[str, int]:
        """The batches are read; `count` questions have been asked by now, and answers to later ones count.

        Returns the clusters that have to be asked anew, each with `count`.
        """
        anew: dict[str, int] = {}
        for name, readings in self._readings.items():
            for one in readings:
                if one.since is None:
                    one.since = anew[name] = count
        return anew

    @property
    def missing_since(self) -> tuple[int, ...]:
        """Since when, in ms, something that was read is missing from complete answers; once for each split."""
        return tuple(seen.since_ms for seen in self._missing.values())

    def waits(self, state: EnumeratorState) -> bool:
        """Whether something that was read is missing, and not for so long that no answer will say more about it."""
        session = state.session
        wait_ms = SURE_WITHIN * session.discovery_interval_ms
        return any((session.now_ms or 0) - since_ms < wait_ms for since_ms in self.missing_since)

    def losses(
        self, answers: Mapping[str, PollResult], state: EnumeratorState, asked_ms: Callable[[str], int] | None = None
    ) -> tuple[Loss, ...]:
        """What is not there any more, by the answers that are new enough; of the other clusters, later.

        One answer without a partition may be stale: what was read of it is deleted when a second complete one, an
        interval of `state` after the first, lacks it as well. Without a leader nobody knows what it still has.
        `asked_ms`: when the view of a cluster was asked for; None: now.
        """
        self._follow(state.clusters)
        found: list[Loss] = []
        for name, answer in sorted(answers.items()):
            if name not in self._readings or not isinstance(answer, ClusterSnapshot):
                continue
            listed = {SplitId(name, one.topic, one.partition): one.topic_id for one in answer.listing.partitions}
            # Of a topic that may be another one, nothing can be said yet.
            doubted = {topic for cluster, topic in state.session.doubts if cluster == name}
            starts = {SplitId(name, *key): start for key, start in answer.earliest.items() if key[0] not in doubted}
            at_ms = (state.session.now_ms or 0) if asked_ms is None else asked_ms(name)
            deleted = self._deleted(name, answer, listed, state.session, at_ms)
            settled = frozenset((*starts, *deleted))
            later: list[_Reading] = []
            for one in self._readings.pop(name):
                if not one.is_before(answer):
                    later.append(one)
                    continue
                sure = [part for part in one.ranges if part.split in settled]
                found.extend(skipped(sure, one.topic_ids, listed, starts, one.handed_out))
                one.compared = True
                one.ranges = tuple(
                    part
                    for part in one.ranges
                    if part.split not in settled and (part.split in listed or state.session.wants(part.split))
                )
                if one.ranges:
                    later.append(one)
            if later:
                self._readings[name] = later
            for key in deleted:
                del self._missing[key]
        return (*found, *self._of_former(state))

    def _of_former(self, state: EnumeratorState) -> Iterable[Loss]:
        """What was read of topics that are others in `state`: no answer will ever say more about it."""
        found: list[Loss] = []
        for name, readings in list(self._readings.items()):
            for one in readings:
                former = [part for part in one.ranges if one.since is not None and one.is_of_former(part.split, state)]
                if former:
                    ids = {part.split: state.splits[part.split].topic_id for part in former}
                    found.extend(skipped(former, one.topic_ids, ids, {}, one.handed_out))
                    one.ranges = tuple(part for part in one.ranges if part.split not in ids)
                    self._missing = {key: seen for key, seen in self._missing.items() if key not in ids}
            self._readings[name] = [one for one in readings if one.ranges]
        self._readings = {name: readings for name, readings in self._readings.items() if readings}
        return found

    def _follow(self, clusters: Mapping[str, ClusterState]) -> None:
        """Go by the names that `clusters` have now; what was read of one that is forgotten is nobody's loss."""
        for was, now in renamed_clusters(self._clusters, clusters).items():
            for one in (readings := self._readings.pop(was, [])):
                one.rename(now)
            if readings:
                self._readings.setdefault(now, []).extend(readings)
        self._clusters = clusters
        self._readings = {name: readings for name, readings in self._readings.items() if name in clusters}
        self._missing = {key: seen for key, seen in self._missing.items() if key.cluster in clusters}

    def _deleted(
        self, name: str, answer: ClusterSnapshot, listed: Collection[SplitId], session: Session, at_ms: int
    ) -> Collection[SplitId]:
        """What was read and is deleted, as `answer` is not the first to say; notes what is missing from it.

        It was asked for at `at_ms`. Only one for which others were asked confirms what was said before.
        """
        read = {part.split for one in self._readings[name] if one.is_before(answer) for part in one.ranges}
        lacking = {key for key in read.difference(listed) if session.wants(key)}
        self._missing = {key: seen for key, seen in self._missing.items() if key.cluster != name or key in lacking}
        if not answer.whole:
            return ()
        deleted: list[SplitId] = []
        for key in sorted(lacking):
            seen = self._missing.setdefault(key, _Missing(at_ms, answer.discovery))
            another = answer.turned and seen.discovery != answer.discovery
            if another and at_ms - seen.since_ms >= session.discovery_interval_ms:
                deleted.append(key)
        return deleted


def _without(split: Split, known: Iterable[Range]) -> Iterator[Range]:
    """The ranges of what was read of `split` that are not `known`."""
    begin, end = split.read_from or 0, split.position or 0
    for part in sorted(known):
        if begin < min(part.start, end):
            yield Range(split.id, begin, min(part.start, end))
        begin = max(begin, part.end)
    if begin < end:
        yield Range(split.id, begin, end)
