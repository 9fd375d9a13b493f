"""Where reading starts (and, in a bounded read, stops): strategies over observed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

EARLIEST = -2
"""In offset JSON, as in Spark: the first offset that the partition still has."""

LATEST = -1
"""In offset JSON, as in Spark: the end of the partition's log."""

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
    """At an offset for each partition; EARLIEST and LATEST (-2 and -1) stand for themselves."""

    offsets: Mapping[TopicPartition, int]


Strategy = Earliest | Latest | Specific


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a partition has: offsets `earliest` (inclusive) to `latest` (exclusive)."""

    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class Resolution:
    """Offsets found, and one sentence for each partition for which none could be."""

    offsets: Mapping[TopicPartition, int]
    problems: tuple[str, ...] = ()


def resolve(strategy: Strategy, bounds: Mapping[TopicPartition, Bounds]) -> Resolution:
    """The offset of each partition in `bounds` by `strategy`.

    A specific offset must lie between the log's start and its end, both included: at the end it waits there. As in
    Spark, specific offsets name exactly the partitions that are read; what is missing or unknown is a problem.
    """
    if isinstance(strategy, Earliest):
        return Resolution({key: found.earliest for key, found in bounds.items()})
    if isinstance(strategy, Latest):
        return Resolution({key: found.latest for key, found in bounds.items()})
    offsets: dict[TopicPartition, int] = {}
    problems: list[str] = []
    for key in sorted(bounds):
        found, wanted = bounds[key], strategy.offsets.get(key)
        if wanted is None:
            problems.append(f"{_name(key)} has no offset; expected one for every partition that is read")
        elif wanted == EARLIEST:
            offsets[key] = found.earliest
        elif wanted == LATEST:
            offsets[key] = found.latest
        elif found.earliest <= wanted <= found.latest:
            offsets[key] = wanted
        else:
            problems.append(
                f"{_name(key)} has no offset {wanted}; expected {found.earliest} (the start of its log) to "
                f"{found.latest} (its end)"
            )
    problems.extend(unknown(strategy, bounds))
    return Resolution(offsets, tuple(problems))


def unknown(strategy: Strategy, partitions: Iterable[TopicPartition]) -> tuple[str, ...]:
    """One sentence for each partition that `strategy` names and that is not among `partitions`."""
    if not isinstance(strategy, Specific):
        return ()
    read = frozenset(partitions)
    return tuple(
        f"{_name(key)} has an offset but is not read; expected only partitions that the subscription matches"
        for key in sorted(strategy.offsets)
        if key not in read
    )


def _name(key: TopicPartition) -> str:
    return f"topic {key[0]!r}, partition {key[1]}"
