"""Where reading starts (and, in a bounded read, stops): strategies over observed offsets.

A strategy is what the user said. `lookups` tells what has to be asked of the cluster before it can be followed,
`resolve` follows it. Both are about the partitions of one cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

EARLIEST = -2
"""In offset JSON, as in Spark: the first offset that the partition still has."""

LATEST = -1
"""In offset JSON, as in Spark: the end of the partition's log."""

NO_RECORD = -1
"""The answer to a look-up by time where no record is as young."""

TopicPartition = tuple[str, int]
"""Topic and partition number, within one cluster."""


@dataclass(frozen=True, slots=True)
class Earliest:
    """At the first offset that each partition still has."""


@dataclass(frozen=True, slots=True)
class Latest:
    """At the end of each partition's log, as it is when it is looked up."""


@dataclass(frozen=True, slots=True)
class Specific:
    """At an offset for each partition; EARLIEST and LATEST (-2 and -1) stand for themselves. The rest: `otherwise`."""

    offsets: Mapping[TopicPartition, int]
    otherwise: Strategy = Earliest()


@dataclass(frozen=True, slots=True)
class AtTime:
    """At the first record of this time (ms since 1970) or later.

    Where there is none: the end of the log (`latest`), or a problem (`error`).
    """

    timestamp_ms: int
    otherwise: Literal["latest", "error"]


@dataclass(frozen=True, slots=True)
class Ago:
    """At the first record that is at most so old when it is looked up; where there is none, at the end of the log."""

    duration_ms: int


@dataclass(frozen=True, slots=True)
class FromEnd:
    """So many offsets before the end of the log, but not before its start."""

    count: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The position that a consumer group has committed; for partitions without one, `otherwise`."""

    group: str
    otherwise: Strategy


@dataclass(frozen=True, slots=True)
class ByTopic:
    """A strategy for a single partition, a topic, or else `otherwise`: the most specific one holds."""

    topics: Mapping[str, Strategy]
    partitions: Mapping[TopicPartition, Strategy]
    otherwise: Strategy


@dataclass(frozen=True, slots=True)
class Demanded:
    """Every partition has to be named, so one that this strategy is asked for is a problem."""

    demand: str
    """Why, and what to do; it follows the missing partitions in a sentence."""
    otherwise: Strategy
    """For partitions of topics that are not in `topics`; and for all, where that is no problem."""
    topics: tuple[str, ...] = ()
    """The topics whose partitions have to be named; empty: all topics."""


Strategy = Earliest | Latest | Specific | AtTime | Ago | FromEnd | Committed | ByTopic | Demanded


@dataclass(frozen=True, slots=True)
class Bounds:
    """The readable offsets of a log."""

    earliest: int
    """The first one."""
    latest: int
    """The end (exclusive); under read_committed, the last stable offset."""
    log_end: int = 0
    """The log end offset, if that is after `latest`; 0 otherwise."""

    @property
    def end(self) -> int:
        """Where the log ends, with records of open transactions."""
        return max(self.latest, self.log_end)


@dataclass(frozen=True, slots=True)
class Lookups:
    """Look-ups that a cluster has to be asked for, in ascending order. False where there are none."""

    times: Mapping[TopicPartition, int]
    """Partition -> a time in ms: the first offset of that time or later is wanted."""
    groups: Mapping[str, tuple[TopicPartition, ...]]
    """Group -> the partitions whose committed offsets are wanted."""

    def __bool__(self) -> bool:
        return bool(self.times or self.groups)


@dataclass(frozen=True, slots=True)
class Found:
    """The results of `Lookups`."""

    times: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Partition -> its offset, NO_RECORD where there is none."""
    committed: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    """Group -> partition -> its offset, for partitions with a commit."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """Offsets by a strategy."""

    offsets: Mapping[TopicPartition, int]
    problems: tuple[str, ...] = ()
    """One sentence for each partition that has no offset."""
    out_of_range: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Specific or committed offsets that the log does not have. `offsets` has the start of the log there; the caller
    decides whether that is valid."""


def lookups(strategy: Strategy, keys: Iterable[TopicPartition], now_ms: int) -> Lookups:
    """Return the look-ups that `strategy` needs for `keys`, each partition at most once for each group.

    Args:
        now_ms: the time that durations are counted back from; never before 1970.
    """
    times: dict[TopicPartition, int] = {}
    groups: dict[str, list[TopicPartition]] = {}
    for key in sorted(keys):
        one = _of(strategy, key)
        while isinstance(one, Committed):
            groups.setdefault(one.group, []).append(key)
            one = _of(one.otherwise, key)
        if isinstance(one, AtTime):
            times[key] = one.timestamp_ms
        elif isinstance(one, Ago):
            times[key] = max(0, now_ms - one.duration_ms)
    return Lookups(times, {group: tuple(dict.fromkeys(groups[group])) for group in sorted(groups)})


def resolve(
    strategy: Strategy,
    bounds: Mapping[TopicPartition, Bounds],
    found: Found | None = None,
    read: Iterable[TopicPartition] | None = None,
) -> Resolution:
    """Find the offset of each partition in `bounds` by `strategy`.

    A specific or committed offset is valid from the log's start to its end, both included: at the end it waits there.
    An answer to a look-up by time that lies outside, since the log moved meanwhile, is drawn to the closer of the two.
    What `strategy` names and is not read is a problem (`unknown`), and so is what it has to name and does not; `read`
    has all that is read, where that is more than `bounds` has.

    `found` answers all that `lookups` asks; KeyError where it does not.
    """
    answers = Found() if found is None else found
    offsets: dict[TopicPartition, int] = {}
    problems: list[str] = []
    out_of_range: dict[TopicPartition, int] = {}
    unnamed: dict[str, list[TopicPartition]] = {}
    for key in sorted(bounds):
        log, one = bounds[key], _of(strategy, key)
        while isinstance(one, Committed) and key not in answers.committed[one.group]:
            one = _of(one.otherwise, key)
        if isinstance(one, Demanded):
            unnamed.setdefault(one.demand, []).append(key)
            continue
        if isinstance(one, AtTime) and one.otherwise == "error" and answers.times[key] == NO_RECORD:
            problems.append(
                f"{_name(key)} has no record at {one.timestamp_ms} (ms since 1970) or later (no offset matched from "
                "the request); expected one, or startingOffsetsByTimestampStrategy=latest, to start at its end"
            )
            continue
        wanted = _wanted(one, key, log, answers)
        if log.earliest <= wanted <= log.end:
            offsets[key] = wanted
        else:
            offsets[key], out_of_range[key] = log.earliest, wanted
    problems.extend(
        f"{listed(keys)} {'are' if len(keys) > 1 else 'is'} not named; {demand}" for demand, keys in unnamed.items()
    )
    problems.extend(unknown(strategy, bounds if read is None else read))
    return Resolution(offsets, tuple(problems), out_of_range)


def named_offset(strategy: Strategy, key: TopicPartition) -> int | None:
    """The offset that `strategy` names for `key` as a number; None where it is not known before it is looked for."""
    one = _of(strategy, key)
    offset = one.offsets[key] if isinstance(one, Specific) else NO_RECORD
    return offset if offset >= 0 else None


def stands_for(strategy: Strategy, key: TopicPartition, kind: type[Earliest | Latest], marker: int) -> bool:
    """Whether what `strategy` says of `key` is `kind`, or its `marker` in place of an offset."""
    one = _of(strategy, key)
    return isinstance(one, kind) or (isinstance(one, Specific) and one.offsets[key] == marker)


def unknown(strategy: Strategy, partitions: Iterable[TopicPartition]) -> tuple[str, ...]:
    """One sentence for each partition or topic that `strategy` names and that is not among `partitions`."""
    read = frozenset(partitions)
    topics = frozenset(topic for topic, _ in read)
    expected = "expected only what the subscription matches and the cluster has"
    named = sorted(frozenset(named_partitions(strategy)))
    named_topics = sorted(frozenset(_named_topics(strategy)))
    return (
        *(f"{_name(key)} has an offset but is not read; {expected}" for key in named if key not in read),
        *(f"topic {topic!r} is named but is not read; {expected}" for topic in named_topics if topic not in topics),
    )


def _of(strategy: Strategy, key: TopicPartition) -> Strategy:
    """The part of `strategy` that is about `key`: one that decides it, Committed, or Demanded of its topic."""
    while True:
        if isinstance(strategy, ByTopic):
            strategy = strategy.partitions.get(key, strategy.topics.get(key[0], strategy.otherwise))
        elif isinstance(strategy, Specific | Demanded) and not _is_about(strategy, key):
            strategy = strategy.otherwise
        else:
            return strategy


def _is_about(strategy: Specific | Demanded, key: TopicPartition) -> bool:
    if isinstance(strategy, Specific):
        return key in strategy.offsets
    return not strategy.topics or key[0] in strategy.topics


def _wanted(strategy: Strategy, key: TopicPartition, log: Bounds, answers: Found) -> int:
    """The offset that is asked for, whether the log has it or not; `strategy` is one that decides by itself."""
    if isinstance(strategy, Specific):
        offset = strategy.offsets[key]
        return {EARLIEST: log.earliest, LATEST: log.latest}.get(offset, offset)
    if isinstance(strategy, Committed):
        return answers.committed[strategy.group][key]
    if isinstance(strategy, FromEnd):
        return max(log.latest - strategy.count, log.earliest)
    if isinstance(strategy, AtTime | Ago):
        offset = answers.times[key]
        return log.latest if offset == NO_RECORD else min(max(offset, log.earliest), log.latest)
    return log.latest if isinstance(strategy, Latest) else log.earliest


def parts(strategy: Strategy) -> Iterator[Strategy]:
    """`strategy` and all strategies in it."""
    yield strategy
    if isinstance(strategy, ByTopic):
        for part in (*strategy.topics.values(), *strategy.partitions.values()):
            yield from parts(part)
    if isinstance(strategy, Specific | Committed | ByTopic | Demanded):
        yield from parts(strategy.otherwise)


def named_partitions(strategy: Strategy) -> Iterator[TopicPartition]:
    """The partitions that `strategy` names one by one, wherever in it."""
    for part in parts(strategy):
        if isinstance(part, Specific):
            yield from part.offsets
        elif isinstance(part, ByTopic):
            yield from part.partitions


def _named_topics(strategy: Strategy) -> Iterator[str]:
    for part in parts(strategy):
        if isinstance(part, ByTopic):
            yield from part.topics


def listed(keys: Iterable[TopicPartition]) -> str:
    """Partitions, in ascending order, in a sentence."""
    by_topic: dict[str, list[str]] = {}
    for topic, partition in keys:
        by_topic.setdefault(topic, []).append(str(partition))
    return "; ".join(
        f"topic {topic!r}, partition{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"
        for topic, numbers in by_topic.items()
    )


def _name(key: TopicPartition) -> str:
    return f"topic {key[0]!r}, partition {key[1]}"
