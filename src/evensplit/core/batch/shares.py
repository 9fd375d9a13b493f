"""Share a batch out among splits, within its limits.

All splits of a topic have the same limits above them. So what is decided is, for each topic, which part of what there
is to read of it is read: it rises for all topics at once, until a limit is reached; then that limit's topics stay where
they are, and the others go on. That is max-min fair in proportion to what there is to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from evensplit.core.batch.limits import (
    ASSUMED_RECORD_BYTES,
    BYTES,
    OFFSETS,
    BatchLimits,
    Priority,
    Scope,
    named,
    scoped,
)
from evensplit.core.model import Cluster, Held, SplitId, Topic

_DENOMINATOR_MAX = 1 << 64
_NONE: tuple[Held, ...] = ()


class Shares(NamedTuple):
    """A batch within limits."""

    ends: dict[SplitId, int]
    """Split -> end (exclusive), ascending, for the splits of which something is read."""
    held: tuple[Held, ...]
    """The limits without which more would be read; ascending."""


@dataclass(slots=True)
class _Group:
    """Topics whose parts that are read rise together."""

    weight: int
    part: Fraction = Fraction(0)
    size: int = 0
    """What there is to read of those that still rise, in the unit that shares are of."""


@dataclass(slots=True)
class _Limit:
    number: int
    held: Held
    left: int
    is_bytes: bool
    size: dict[int, int] = field(default_factory=dict)
    """Group -> what there is to read of its topics that still rise."""


@dataclass(slots=True)
class _Topic:
    splits: list[tuple[SplitId, int, int, int]] = field(default_factory=list)
    """Each with what there is to read of it, what is read at least, and the bytes of an offset."""
    offsets: int = 0
    bytes: int = 0
    limits: list[_Limit] = field(default_factory=list)


def share(
    positions: Mapping[SplitId, int],
    latest: Mapping[SplitId, int],
    limits: BatchLimits,
    record_bytes: Mapping[SplitId, int] | None = None,
    at_least: Mapping[SplitId, int] | None = None,
) -> Shares:
    """How far each split is read in the next batch.

    Args:
        positions: split -> the next offset to read.
        latest: split -> the end of its log. Splits that are not named (their cluster does not answer) read nothing.
        record_bytes: split -> the bytes of one of its offsets; see `full_sizes`. Used with limits in bytes only.
        at_least: split -> an end up to which it is read in any case. What is left of the limits is shared.

    Returns:
        Ends, never beyond `latest`. Each split gets its part of what there is, rounded down, but at least one offset of
        each split is read. So no small split starves, and each limit may be exceeded by one offset of each split that
        it is for. With a limit on the offsets of the batch alone, that is how Spark's own Kafka source shares it.

        With an `order`, what is not read of the first goes to the next one. With `weights`, a group that needs less
        than its share leaves the rest to the others, in proportion to theirs.

    Laws: S12.
    """
    begin = positions if at_least is None else _begins(positions, latest, at_least)
    behind = {key: latest[key] - begin[key] for key in sorted(begin) if key in latest}
    behind = {key: size for key, size in behind.items() if size > 0}
    if not limits:
        read, held = behind, _NONE
    else:
        topics, all_limits = _topics(positions, begin, behind, limits, record_bytes or {})
        _use(all_limits, positions, begin, record_bytes or {})
        read, held = _fill(topics, limits)
    ends = {key: begin[key] + read[key] for key in behind if read[key]}
    if at_least is not None:
        ends = {key: ends.get(key, end) for key, end in begin.items() if ends.get(key, end) > positions[key]}
    return Shares(ends, held)


def _begins(
    positions: Mapping[SplitId, int], latest: Mapping[SplitId, int], at_least: Mapping[SplitId, int]
) -> dict[SplitId, int]:
    """Up to where each split is read in any case, ascending."""
    return {key: max(positions[key], min(at_least.get(key, 0), latest.get(key, 0))) for key in sorted(positions)}


def _topics(
    positions: Mapping[SplitId, int],
    begin: Mapping[SplitId, int],
    behind: Mapping[SplitId, int],
    limits: BatchLimits,
    record_bytes: Mapping[SplitId, int],
) -> tuple[dict[Topic, _Topic], dict[tuple[bool, Scope | None], _Limit]]:
    """What there is to read of each topic, and the limits."""
    own = {
        (is_bytes, scope): _Limit(number, Held(BYTES if is_bytes else OFFSETS, named(scope)), cap, is_bytes)
        for number, (is_bytes, scope, cap) in enumerate(scoped(limits))
    }
    by_name: dict[tuple[str, str], _Topic] = {}
    for key, size in behind.items():
        name = key.cluster, key.topic
        topic = by_name.get(name)
        if topic is None:
            topic = by_name[name] = _Topic()
        each = record_bytes.get(key) or ASSUMED_RECORD_BYTES
        topic.splits.append((key, size, int(begin[key] == positions[key]), each))
        topic.offsets += size
        topic.bytes += size * each
    topics = {Topic(*name): topic for name, topic in by_name.items()}
    for scope, topic in topics.items():
        above = (None, Cluster(scope.cluster), scope)
        topic.limits = [own[one] for one in ((unit, at) for unit in (False, True) for at in above) if one in own]
    return topics, own


def _use(
    limits: Mapping[tuple[bool, Scope | None], _Limit],
    positions: Mapping[SplitId, int],
    begin: Mapping[SplitId, int],
    record_bytes: Mapping[SplitId, int],
) -> None:
    """Take from the limits what is read in any case."""
    if begin is positions:
        return
    for key, end in begin.items():
        size = end - positions[key]
        if size <= 0:
            continue
        for scope in (None, Cluster(key.cluster), Topic(key.cluster, key.topic)):
            for is_bytes in (False, True):
                limit = limits.get((is_bytes, scope))
                if limit is not None:
                    limit.left -= size * (record_bytes.get(key) or ASSUMED_RECORD_BYTES) if is_bytes else size


def _fill(topics: Mapping[Topic, _Topic], limits: BatchLimits) -> tuple[dict[SplitId, int], tuple[Held, ...]]:
    """How many offsets of each split are read, and the limits that keep some from being read to the end."""
    priority, in_bytes = limits.priority, bool(limits.bytes)
    read: dict[SplitId, int] = {}
    held: set[Held] = set()
    for tier in _tiers(topics, priority):
        groups = [_Group(weight) for weight, _ in tier]
        rising: dict[int, list[_Topic]] = {number: list(own) for number, (_, own) in enumerate(tier)}
        _Tier(groups, rising, in_bytes).fill(read, held)
    return read, tuple(sorted(held))


def _tiers(topics: Mapping[Topic, _Topic], priority: Priority) -> list[list[tuple[int, list[_Topic]]]]:
    """The topics in the order in which they are read: tier after tier, each of groups with weights."""

    def place(topic: Topic, named: Mapping[Scope, int]) -> int:
        return named.get(topic, named.get(Cluster(topic.cluster), len(named)))

    if priority.order:
        ranks: Mapping[Scope, int] = {scope: number for number, scope in enumerate(priority.order)}
        weights = None
    else:
        ranks = {scope: number for number, scope in enumerate(priority.weights)}
        weights = [*priority.weights.values(), priority.others_weight]
    by_rank: dict[int, list[_Topic]] = {}
    for name, topic in topics.items():
        by_rank.setdefault(place(name, ranks), []).append(topic)
    if weights is None:
        return [[(1, by_rank[rank])] for rank in sorted(by_rank)]
    return [[(weights[rank], by_rank[rank]) for rank in sorted(by_rank)]]


class _Tier:
    """Topics that rise at the same time, in groups."""

    def __init__(self, groups: list[_Group], rising: dict[int, list[_Topic]], in_bytes: bool) -> None:
        self._groups = groups
        self._rising = rising
        self._in_bytes = in_bytes
        self._limits: dict[int, _Limit] = {}
        for number, topics in rising.items():
            for topic in topics:
                groups[number].size += topic.bytes if in_bytes else topic.offsets
                for limit in topic.limits:
                    size = topic.bytes if limit.is_bytes else topic.offsets
                    limit.size[number] = limit.size.get(number, 0) + size
                    self._limits[limit.number] = limit

    def fill(self, read: dict[SplitId, int], held: set[Held]) -> None:
        """Let all rise, until each is read to its end or kept back by a limit."""
        while any(self._rising.values()):
            speeds = {
                number: Fraction(self._groups[number].weight, self._groups[number].size)
                if len(self._groups) > 1
                else Fraction(1)
                for number, topics in self._rising.items()
                if topics
            }
            ends = {number: (1 - self._groups[number].part) / speed for number, speed in speeds.items()}
            full = {limit.number: self._time_until_full(limit, speeds) for limit in self._limits.values()}
            step = max(Fraction(0), min(*ends.values(), *full.values()) if full else min(ends.values()))
            for number, speed in speeds.items():
                self._groups[number].part += step * speed
            reached = {place: self._limits[place] for place, time in full.items() if time <= step}
            for number in speeds:
                self._stop(number, reached, ends[number] <= step, read, held)
            for place in [place for place, limit in self._limits.items() if not limit.size]:
                del self._limits[place]

    def _time_until_full(self, limit: _Limit, speeds: Mapping[int, Fraction]) -> Fraction:
        taken = sum((self._groups[number].part * size for number, size in limit.size.items()), Fraction(0))
        speed = sum((speeds[number] * size for number, size in limit.size.items()), Fraction(0))
        return (limit.left - taken) / speed

    def _stop(
        self, number: int, reached: Mapping[int, _Limit], is_end: bool, read: dict[SplitId, int], held: set[Held]
    ) -> None:
        """Settle what is read of the topics of a group that are at their end, or under a limit that is reached."""
        group, left = self._groups[number], []
        for topic in self._rising[number]:
            why = [limit for limit in topic.limits if limit.number in reached]
            if not (is_end or why):
                left.append(topic)
                continue
            above, below = group.part.numerator, group.part.denominator
            offsets = taken = 0
            for key, size, least, each in topic.splits:
                read[key] = most = min(size, max(least, above * size // below))
                offsets += most
                taken += most * each
            group.size -= topic.bytes if self._in_bytes else topic.offsets
            for limit in topic.limits:
                limit.left -= taken if limit.is_bytes else offsets
                limit.size[number] -= topic.bytes if limit.is_bytes else topic.offsets
                if not limit.size[number]:
                    del limit.size[number]
            if offsets < topic.offsets:
                held.update(limit.held for limit in why)
        self._rising[number] = left
        if group.part.denominator > _DENOMINATOR_MAX:
            # Exact, its digits would grow with each step.
            group.part = Fraction(int(group.part * _DENOMINATOR_MAX), _DENOMINATOR_MAX)
