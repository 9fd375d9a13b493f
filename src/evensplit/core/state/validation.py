"""Checks of values in a document that may be damaged; the errors say what was expected and what was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, repeat, starmap
from operator import ge, itemgetter
from typing import Any, TypeGuard, TypeVar

from evensplit.core.model import Cause, Cluster, HandedOut, Loss, Readable, SplitId, Topic
from evensplit.core.text import short

T = TypeVar("T", bound=tuple[Any, ...])


COUNT_MAX = 2**63 - 1
PARTITION_MAX = 2**31 - 1
EXPECTED_OFFSETS = f"expected offsets of at least 0 and at most {COUNT_MAX}, of partitions from 0 to {PARTITION_MAX}"
"""The most that a number in a document is: nothing that is counted, and no offset or time of Kafka's, is more."""


def is_count(value: object) -> TypeGuard[int]:
    """Whether it is a whole number of at least 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def count(value: object, what: str, most: int = COUNT_MAX) -> int:
    """Return `value`, a whole number from 0 to `most`; otherwise raise ValueError, in which it is called `what`."""
    if not is_count(value) or value > most:
        raise ValueError(f"{what} is {short(repr(value))}, expected a whole number from 0 to {most}")
    return value


def count_or_none(value: object, what: str) -> int | None:
    """As `count`, or None."""
    return None if value is None else count(value, what)


def counts(values: Iterable[Any], what: str) -> int:
    """Return the highest of `values`, which have to be whole numbers from 0 to COUNT_MAX; -1 if there are none."""
    listed = list(values)
    if set(map(type, listed)) <= {int}:
        highest = max(listed, default=-1)
        if not listed or (min(listed) >= 0 and highest <= COUNT_MAX):
            return highest
    raise ValueError(f"{what} has other values than whole numbers from 0 to {COUNT_MAX}")


def present(column: Sequence[Any]) -> Sequence[Any]:
    """Return a column without its None."""
    return [one for one in column if one is not None] if None in column else column


def flag(value: object) -> bool:
    """Return `value`, which has to be true or false."""
    if not isinstance(value, bool):
        raise TypeError(f"a flag is {value!r}, expected true or false")
    return value


def wrong_offsets(offsets: Mapping[SplitId, int], said: str) -> list[str]:
    """One phrase for each offset, or number of a partition, that there cannot be: `east/orders/0 was reported at -1`.

    `said`: what was said of them, such as `was reported at`.
    """
    if not offsets:
        return []
    numbers, values = [*map(itemgetter(2), offsets)], offsets.values()
    if min(*numbers, *values, 0) == 0 and max(numbers) <= PARTITION_MAX and max(values) <= COUNT_MAX:
        return []
    wrong = [key for key, at in offsets.items() if not (0 <= at <= COUNT_MAX and 0 <= key.partition <= PARTITION_MAX)]
    return [f"{key} {said} {offsets[key]}" for key in sorted(wrong)]


def in_order(keys: Iterable[Any], what: str) -> None:
    """Raise ValueError unless `keys` ascend, each once."""
    if any(starmap(ge, pairwise(keys))):
        raise ValueError(f"{what} are not in order")


def decode_pairs(pairs: Iterable[Any], what: str) -> tuple[tuple[int, int], ...]:
    """Return pairs of numbers of at least 0, in the order of the first ones."""
    found = tuple((count(key, what), count(value, what)) for key, value in pairs)
    in_order((key for key, _ in found), what)
    return found


def word(value: object) -> str:
    """Return `value`, which has to be text."""
    if not isinstance(value, str):
        raise TypeError(f"a name is {value!r}, expected text")
    return value


def encode_pins(eligible: Mapping[int, Sequence[Readable]]) -> list[list[Any]]:
    """Return one `[readers, clusters, topics and splits]` for each group of readers that may read the same."""
    groups: dict[tuple[Readable, ...], list[int]] = {}
    for reader in sorted(eligible):
        groups.setdefault(tuple(eligible[reader]), []).append(reader)
    return [[readers, [encode_readable(one) for one in pins]] for pins, readers in groups.items()]


def decode_pins(groups: Iterable[Any]) -> dict[int, tuple[Readable, ...]]:
    """Reverse `encode_pins`; ascending by reader."""
    found: dict[int, tuple[Readable, ...]] = {}
    for readers, pins in groups:
        readable = tuple(map(decode_readable, pins))
        found.update((count(reader, "a pinned reader"), readable) for reader in readers)
    return {reader: found[reader] for reader in sorted(found)}


def encode_readable(readable: Readable) -> list[str | int]:
    """Return a cluster, a topic or a split as the list of its names."""
    if isinstance(readable, Cluster):
        return [readable.id]
    if isinstance(readable, Topic):
        return [readable.cluster, readable.name]
    return [*readable]


def decode_readable(names: Sequence[Any]) -> Readable:
    """Reverse `encode_readable`."""
    if len(names) == 1:
        return Cluster(word(names[0]))
    if len(names) == 2:
        return Topic(word(names[0]), word(names[1]))
    cluster, topic, partition = names
    return SplitId(word(cluster), word(topic), count(partition, "a pinned partition"))


def encode_loss(loss: Loss) -> list[Any]:
    """Return the fields of a loss as a list."""
    fields = [*loss.split, loss.cause.value, loss.position, loss.found, loss.offsets_max]
    return fields if loss.handed_out is None else [*fields, loss.handed_out.value]


def decode_loss(
    cluster: object,
    topic: object,
    partition: object,
    cause: str,
    position: object,
    found: object,
    offsets_max: object,
    handed_out: str | None = None,
) -> Loss:
    """Reverse `encode_loss`, whose fields these are."""
    split = SplitId(word(cluster), word(topic), count(partition, "the partition of a loss"))
    return Loss(
        split,
        Cause(cause),
        count(position, "the position of a loss"),
        count_or_none(found, "what was found at a loss"),
        count_or_none(offsets_max, "the size of a loss"),
        None if handed_out is None else HandedOut(handed_out),
    )


def named(kind: type[T], rows: Iterable[tuple[Any, ...]]) -> Iterator[T]:
    """Make named tuples of `kind` from the fields of each of `rows`, which have to be as many as `kind` has.

    For tens of thousands of tuples, a call in Python for each is most of their cost.
    """
    return map(tuple.__new__, repeat(kind), rows)
