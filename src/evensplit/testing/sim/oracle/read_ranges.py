"""What the oracle knows of ranges that tasks have read, and what of them has to be declared as perhaps skipped (S9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from evensplit.core.machine.events import BatchOpened, BatchPlanned, ReadLogsPolled
from evensplit.core.model import Cause, HandedOut, Loss, Range, SplitId
from evensplit.core.state.state import EnumeratorState

TURNS_MIN = 2
"""So many polls in a row, each of another broker, deny that a topic has another id."""

WAIT_MS_MAX = 2_000
"""The last of these is so long after the first, or an interval if that is shorter."""


@dataclass(frozen=True, slots=True)
class ReadPart:
    """Offsets of one split that one batch read."""

    split: SplitId
    topic_id: str
    start: int
    end: int
    handed_out: HandedOut
    polls: int | None
    """Later polls were sent when it had been read; None: it may be being read."""

    def was_read_before(self, poll: int) -> bool:
        """Whether `poll` was sent after it had been read."""
        return self.polls is not None and self.polls < poll


class Denied(NamedTuple):
    """How many polls in a row named a topic by its known id since, and when the first one was sent that did, in ms."""

    known: str
    times: int = 0
    since_ms: int | None = None


@dataclass(slots=True)
class ReadParts:
    """What was read in this session, as far as no poll has said whether it was all there."""

    parts: list[ReadPart] = field(default_factory=list)
    missing: dict[SplitId, int] = field(default_factory=dict)
    """Splits that the last complete polls lacked -> when the first of these was sent, in ms."""
    compared: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Cluster -> the last poll that counted, and the last discovery."""
    opened: bool = False
    others: dict[tuple[str, str], Denied] = field(default_factory=dict)
    """Topics that a poll named by another id."""

    def planned(self, event: BatchPlanned, before: EnumeratorState) -> None:
        """A batch reads on from where its splits stand, and its tasks skip what is gone."""
        for key in sorted(event.ends):
            split = before.splits[key]
            if split.position is not None and event.ends[key] > split.position:
                end = event.ends[key]
                self.parts.append(ReadPart(key, split.topic_id, split.position, end, HandedOut.EARLIER, None))

    def batch_opened(
        self,
        event: BatchOpened,
        before: EnumeratorState,
        skips: Mapping[SplitId, Iterable[tuple[int, int]]],
        *,
        declares: bool,
    ) -> None:
        """The tasks have read. A new process knows of the batch before by what the state says.

        `skips`: what commands have left out of that batch.
        """
        self.parts = [replace(one, polls=event.polls) if one.polls is None else one for one in self.parts]
        if self.opened:
            return
        self.opened = True
        done_again: dict[SplitId, list[Range]] = {}
        for part in event.repeated:
            done_again.setdefault(part.split, []).append(part)
            if declares and part.split in before.splits:
                topic_id = before.splits[part.split].topic_id
                one = ReadPart(part.split, topic_id, part.start, part.end, HandedOut.EARLIER, event.polls)
                self.parts.append(one)
        for key, split in before.splits.items():
            if split.read_from is not None and split.position is not None:
                offsets = range(split.read_from, split.position)
                left_out = (Range(key, *part) for part in skips.get(key, ()))
                for start, end in _left(offsets, [*done_again.get(key, ()), *left_out]):
                    one = ReadPart(key, split.topic_id, start, end, HandedOut.BEFORE_RESTART, event.polls)
                    self.parts.append(one)

    def polled(
        self,
        event: ReadLogsPolled,
        asked_ms: int,
        interval_ms: int,
        is_wanted: Callable[[SplitId], bool],
        is_doubted: Callable[[SplitId], bool],
        is_short: Callable[[SplitId], bool],
        known: Mapping[SplitId, str],
    ) -> list[Loss]:
        """What this poll says to be gone. A split that it lacks is gone by another discovery, an interval later.

        `known`: the topic ids by which splits are read.
        """
        counted, discovery = self.compared.get(event.cluster, (0, 0))
        ours = [one for one in self.parts if one.split.cluster == event.cluster]
        before = [one for one in ours if one.was_read_before(event.answer)]
        if event.answer <= counted or not before:
            return []
        self.compared[event.cluster] = event.answer, event.discovery or discovery
        lacking = {one.split: True for one in before if one.split not in event.listed and is_wanted(one.split)}
        for key in [key for key in self.missing if key.cluster == event.cluster and key not in lacking]:
            del self.missing[key]
        deleted: dict[SplitId, bool] = {}
        if event.discovery and event.discovery != discovery:
            for key in lacking:
                again, since_ms = key in self.missing, self.missing.setdefault(key, asked_ms)
                deleted[key] = again and event.asked.turned and asked_ms - since_ms >= interval_ms
        found: list[Loss] = []
        doubted = {one.split: True for one in before if is_doubted(one.split)}
        listed = {one.split: True for one in before if one.split in event.listed and one.split not in doubted}
        for key in doubted:
            self.others.pop(key[:2], None)
        for topic in {one.split[:2]: True for one in before}:
            if topic in self.others and not any(one.split[:2] == topic and one.split in event.listed for one in before):
                self.others[topic] = self.others[topic]._replace(times=0)
        anew = {key[:2]: True for key in listed if known.get(key) and event.listed[key] not in ("", known[key])}
        lagging = self._lagging(event, listed, known, asked_ms, min(interval_ms, WAIT_MS_MAX))
        told_of = {
            key: True
            for key in listed
            if key in event.starts and key not in lagging and not (is_short(key) and key[:2] not in anew)
        }
        for one in before:
            key = one.split
            told = key in told_of
            if told or deleted.get(key):
                self.parts.remove(one)
                self.missing.pop(key, None)
                found.extend(_gone(one, event.listed.get(key), event.starts.get(key, 0)))
            elif key not in event.listed and not is_wanted(key):
                self.parts.remove(one)
        left = {one.split[:2]: True for one in self.parts}
        for topic in [topic for topic in self.others if topic[0] == event.cluster and topic not in left]:
            self.others[topic] = Denied(self.others[topic].known)
        return found

    def _lagging(
        self,
        event: ReadLogsPolled,
        keys: Iterable[SplitId],
        known: Mapping[SplitId, str],
        asked_ms: int,
        wait_ms: int,
    ) -> Mapping[SplitId, bool]:
        """The splits that a poll names by their known ids, which may be an old answer: another id was named before."""
        same: list[SplitId] = []
        other: dict[tuple[str, str], str] = {}
        for key in keys:
            ours, theirs = known.get(key, ""), event.listed[key]
            if not (ours and theirs):
                continue
            if ours != theirs:
                other[key[:2]] = ours
            elif key[:2] in self.others and self.others[key[:2]].known == ours:
                same.append(key)
        for topic in {key[:2]: True for key in same if key[:2] not in other}:
            denied = self.others[topic]
            since_ms = asked_ms if denied.since_ms is None else denied.since_ms
            times = denied.times + event.asked.turned
            if event.asked.turned and times >= TURNS_MIN and asked_ms - since_ms >= wait_ms:
                del self.others[topic]
            else:
                self.others[topic] = Denied(denied.known, times, since_ms)
        self.others |= {topic: Denied(ours) for topic, ours in other.items()}
        return {key: True for key in same if key[:2] in self.others}

    def recreated(self, known: Mapping[SplitId, str]) -> list[Loss]:
        """What was read of topics of which `known` has other ids by now."""
        former = [one for one in self.parts if one.polls is not None and _is_former(one, known)]
        for one in former:
            self.parts.remove(one)
            self.missing.pop(one.split, None)
            self.others.pop(one.split[:2], None)
        return [_whole(one, Cause.RECREATED) for one in former]

    def oldest(self, known: Mapping[SplitId, str]) -> Mapping[SplitId, int]:
        """Split -> where the oldest range of its present incarnation begins."""
        found: dict[SplitId, int] = {}
        for one in self.parts:
            if one.split in known and not _is_former(one, known):
                found[one.split] = min(one.start, found.get(one.split, one.start))
        return found

    def rename(self, was: str, now: str) -> None:
        """A cluster has another name."""
        self.parts = [
            replace(one, split=one.split._replace(cluster=now)) if one.split.cluster == was else one
            for one in self.parts
        ]
        self._forget_polls(was)

    def remove(self, cluster: str) -> None:
        """A cluster is not asked any more: what it says when it is back begins anew."""
        self.others = {topic: Denied(one.known) if topic[0] == cluster else one for topic, one in self.others.items()}

    def forget(self, cluster: str) -> None:
        """A cluster is not known any more."""
        self.parts = [one for one in self.parts if one.split.cluster != cluster]
        self.others = {topic: named for topic, named in self.others.items() if topic[0] != cluster}
        self.missing = {key: at for key, at in self.missing.items() if key.cluster != cluster}

    def _forget_polls(self, cluster: str) -> None:
        self.compared.pop(cluster, None)
        self.others = {topic: named for topic, named in self.others.items() if topic[0] != cluster}
        self.missing = {key: at for key, at in self.missing.items() if key.cluster != cluster}


def _left(offsets: range, done: Iterable[Range]) -> Iterable[tuple[int, int]]:
    """The runs of `offsets` that are in none of `done`."""
    left = [at for at in offsets if not any(part.start <= at < part.end for part in done)]
    runs: list[tuple[int, int]] = []
    for at in left:
        if runs and runs[-1][1] == at:
            runs[-1] = runs[-1][0], at + 1
        else:
            runs.append((at, at + 1))
    return runs


def _is_former(one: ReadPart, known: Mapping[SplitId, str]) -> bool:
    return bool(one.topic_id) and known.get(one.split, "") not in ("", one.topic_id)


def _whole(one: ReadPart, cause: Cause) -> Loss:
    return Loss(one.split, cause, one.start, None, one.end - one.start, one.handed_out)


def _gone(one: ReadPart, listed: str | None, log_start: int) -> Iterable[Loss]:
    if listed is None:
        yield _whole(one, Cause.DELETED)
    elif one.topic_id and listed and listed != one.topic_id:
        yield _whole(one, Cause.RECREATED)
    elif log_start > one.start:
        lost = min(log_start, one.end) - one.start
        yield Loss(one.split, Cause.AGED_OUT, one.start, log_start, lost, one.handed_out)
