"""Limits of a batch, on offsets and on bytes: of all, of clusters and of topics. What is within them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from evensplit.core.model import Cluster, SplitId, Topic

OFFSETS, BYTES = "maxOffsetsPerTrigger", "maxBytesPerTrigger"
"""The options that the limits come from."""

ASSUMED_RECORD_BYTES = 16 << 10
"""The bytes of an offset, where nothing is known of any. Most records are shorter: a first batch that is too small does
no harm, and tells how long they are."""

COMPRESSION = 3
"""Rows are taken to have so many times the bytes that they have on a broker's disk. How well they are compressed is not
told; most logs have 1 to 9 times as many. So a first batch has a third of its limit at least, and three times as much
at most."""

GUESS_BYTES_MIN = 256
"""No offset is taken for shorter, as long as none was seen. Where records compress a hundredfold, this keeps the first
batch from being as many times too large; where they are shorter than that, it is too small, once."""

KNOWN_OFFSETS = 16
"""What was learned before counts like so many offsets: as nothing beside a batch of any size."""

_DIGITS = 6

Scope = Cluster | Topic
"""What a limit or a priority is of, if not of all."""


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that a batch has of one unit, at least 1 each."""

    batch: int | None = None
    """Of everything; None: no limit."""
    of: Mapping[Scope, int] = field(default_factory=dict)
    """Of clusters and topics. Of what is not named there is no limit."""

    def __bool__(self) -> bool:
        return self.batch is not None or bool(self.of)


@dataclass(frozen=True, slots=True)
class Priority:
    """Which splits come first where not all can be read. Of the names of a split, that of its topic counts first."""

    order: tuple[Scope, ...] = ()
    """Each is read before the next ones, and all of them before what is not named."""
    weights: Mapping[Scope, int] = field(default_factory=dict)
    """Shares of the limits, at least 1 each; used where there is no `order`."""
    others_weight: int = 1
    """The share of all that `weights` does not name, together."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How far a batch goes at most. Each limit holds beside the others."""

    offsets: Caps = field(default_factory=Caps)
    bytes: Caps = field(default_factory=Caps)
    """Of keys, values and headers, uncompressed."""
    priority: Priority = field(default_factory=Priority)

    def __bool__(self) -> bool:
        return bool(self.offsets) or bool(self.bytes)


def filled(
    positions: Mapping[SplitId, int],
    ends: Mapping[SplitId, int],
    limits: BatchLimits,
    record_bytes: Mapping[SplitId, int] | None = None,
) -> float:
    """How much of its tightest limit a batch takes that ends at `ends`; 1 is all of it, and 0 without any limit.

    It never falls when ends rise, and is more than 1 only where `fits` is false.
    """
    if not limits:
        return 0.0
    used = _used(positions, ends, limits, record_bytes or {})
    return max((taken / cap for taken, cap in used), default=0.0)


def fits(
    positions: Mapping[SplitId, int],
    ends: Mapping[SplitId, int],
    limits: BatchLimits,
    record_bytes: Mapping[SplitId, int] | None = None,
) -> bool:
    """Whether everything up to `ends` is within all limits; where it is, it is for any lower ends, too."""
    return all(taken <= cap for taken, cap in _used(positions, ends, limits, record_bytes or {}))


def full_sizes(known: Mapping[SplitId, int]) -> dict[SplitId, int]:
    """The bytes of an offset of each split, from those that are known; 0: not known.

    What is not known is as the average of the topic, or else of the cluster, or else of all that is known; or else
    ASSUMED_RECORD_BYTES. Averages are rounded up.
    """
    if all(known.values()):
        return dict(known)
    sums: dict[tuple[str, ...], tuple[int, int]] = {}
    for key, size in known.items():
        for scope in ((), key[:1], key[:2]) if size else ():
            count, total = sums.get(scope, (0, 0))
            sums[scope] = count + 1, total + size
    average = {scope: -(-total // count) for scope, (count, total) in sums.items()}
    usual = average.get((), ASSUMED_RECORD_BYTES)
    return {key: size or average.get(key[:2]) or average.get(key[:1]) or usual for key, size in known.items()}


def unmeasured(
    known: Mapping[SplitId, int], positions: Mapping[SplitId, int], latest: Mapping[SplitId, int]
) -> list[SplitId]:
    """The splits with something to read, in whose topics no split is `known`: sizes have to be guessed; ascending.

    Those of other topics are taken to be as the average of theirs, which tells more than what they have on a disk.
    """
    found = [key for key, at in positions.items() if not known.get(key) and latest.get(key, at) > at]
    topics = {key[:2] for key, size in known.items() if size} if found else ()
    return sorted(key for key in found if key[:2] not in topics)


def guessed(disk_bytes: int, offsets: int) -> int:
    """The bytes of an offset, from those that a log takes on a disk; 0 if it has no offsets, so that nothing is known.

    It is a first guess: too low for logs that are compressed very well; too high for those that are not compressed, or
    of which the oldest segment was deleted in part.
    """
    return max(GUESS_BYTES_MIN, COMPRESSION * disk_bytes // offsets) if offsets > 0 else 0


def learned(known: int, offsets: int, taken: int) -> int:
    """The bytes of an offset on average, after `offsets` of them, at least 1, had `taken` bytes together.

    What was `known` before, 0 for nothing, counts like KNOWN_OFFSETS of them. It is rounded to 6 binary digits, and is
    at least 1: so a state changes only where sizes do.
    """
    total, count = taken + known * KNOWN_OFFSETS, offsets + (KNOWN_OFFSETS if known else 0)
    unit = 1 << max(0, (total // count).bit_length() - _DIGITS)
    return max(1, (2 * total + count * unit) // (2 * count * unit) * unit)


def scoped(limits: BatchLimits) -> Iterator[tuple[bool, Scope | None, int]]:
    """All limits: whether it is in bytes, what it is of (None: all), and how much it is."""
    for is_bytes, caps in ((False, limits.offsets), (True, limits.bytes)):
        if caps.batch is not None:
            yield is_bytes, None, caps.batch
        for scope, cap in caps.of.items():
            yield is_bytes, scope, cap


def _used(
    positions: Mapping[SplitId, int],
    ends: Mapping[SplitId, int],
    limits: BatchLimits,
    record_bytes: Mapping[SplitId, int],
) -> Iterator[tuple[int, int]]:
    """Of each limit, how much a batch takes of it, and how much it is."""
    in_bytes = bool(limits.bytes)
    by_topic: dict[tuple[str, str], tuple[int, int]] = {}
    for key, end in ends.items():
        size = end - positions[key]
        if size > 0:
            offsets, taken = by_topic.get(key[:2], (0, 0))
            each = (record_bytes.get(key) or ASSUMED_RECORD_BYTES) if in_bytes else 0
            by_topic[key[:2]] = offsets + size, taken + size * each
    sums: dict[tuple[bool, Scope | None], int] = {}
    for (cluster, topic), both in by_topic.items():
        for scope in (None, Cluster(cluster), Topic(cluster, topic)):
            for is_bytes in (False, True):
                sums[is_bytes, scope] = sums.get((is_bytes, scope), 0) + both[is_bytes]
    for is_bytes, scope, cap in scoped(limits):
        yield sums.get((is_bytes, scope), 0), cap


def named(scope: Scope | None) -> str:
    """What a limit is of, as in `Held`."""
    if scope is None:
        return ""
    return scope.id if isinstance(scope, Cluster) else f"{scope.cluster}/{scope.name}"
