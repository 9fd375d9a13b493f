"""The balanced assignment for readers that may all read everything: as even as possible, then the fewest moves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from evensplit.core.model import SplitId


def balance(splits: Sequence[SplitId], readers: int, previous: Mapping[SplitId, int]) -> dict[SplitId, int]:
    """Give every split one reader, as evenly as possible, moving as few as that allows.

    Args:
        splits: all splits to assign, each once, in any order.
        readers: how many readers there are, at least 1; they are numbered 0 .. readers - 1.
        previous: split -> the reader that owned it. Owners that do not exist (any more) and splits that are not in
            `splits` are void.

    Returns:
        split -> reader, with exactly the keys of `splits`, in their sorted order. Loads differ by at most one. The
        number of splits that leave a reader which still exists is the least that any such assignment needs:
        `sum(max(0, load - q)) - min(e, readers with load > q)`, where `q, e = divmod(splits, readers)`. Without a
        previous assignment, the splits of each cluster and of each topic are spread within one, too. The result does
        not depend on the order of `splits` or of `previous`.

    Raises:
        ValueError: fewer than one reader, or a split given twice.

    Laws: S5, S6. With q and e as above, an even assignment gives e readers q + 1 splits and the others q. A reader
    above q must shed down to q, or to q + 1 if it gets one of the e extra seats, so giving the seats to readers above q
    first saves one move each, and nothing else saves any.
    """
    if readers < 1:
        raise ValueError(f"there are {readers} readers; expected at least 1")
    ordered = sorted(splits)
    for left, right in pairwise(ordered):
        if left == right:
            raise ValueError(f"split {left} was given twice; expected each split once")
    owned: list[list[SplitId]] = [[] for _ in range(readers)]
    free: list[SplitId] = []
    for split in ordered:
        owner = previous.get(split, -1)
        (owned[owner] if 0 <= owner < readers else free).append(split)
    seats = _seats([len(own) for own in owned], len(ordered))
    for own, seat in zip(owned, seats, strict=True):
        free.extend(_shed(own, seat))
    _deal(sorted(free), owned, seats)
    return dict(sorted((split, reader) for reader, own in enumerate(owned) for split in own))


def _seats(loads: Sequence[int], splits: int) -> list[int]:
    """How many splits each reader gets: q each, and the extra ones first to whom they save a move."""
    quota, extra = divmod(splits, len(loads))
    seats = [quota] * len(loads)
    for reader in sorted(range(len(loads)), key=lambda reader: (-min(loads[reader], quota + 1), reader))[:extra]:
        seats[reader] += 1
    return seats


def _shed(own: list[SplitId], seat: int) -> list[SplitId]:
    """Take from `own` what is above `seat`: each time from the cluster, then the topic, that it has most of."""
    shed: list[SplitId] = []
    if len(own) <= seat:
        return shed
    clusters: dict[str, int] = defaultdict(int)
    topics: dict[tuple[str, str], list[SplitId]] = defaultdict(list)
    for split in own:
        clusters[split.cluster] += 1
        topics[split[:2]].append(split)
    while len(own) - len(shed) > seat:
        topic = max(topics, key=lambda name: (clusters[name[0]], len(topics[name]), name))
        shed.append(topics[topic].pop())
        clusters[topic[0]] -= 1
        if not topics[topic]:
            del topics[topic]
    gone = frozenset(shed)
    own[:] = [split for split in own if split not in gone]
    return shed


def _deal(free: Iterable[SplitId], owned: list[list[SplitId]], seats: Sequence[int]) -> None:
    """Hand out `free`, in order, to readers with room, going round, so that neighbours go to different readers."""
    room = [reader for reader in range(len(owned)) if len(owned[reader]) < seats[reader]]
    turn = 0
    for split in free:
        reader = room[turn]
        owned[reader].append(split)
        if len(owned[reader]) == seats[reader]:
            room.pop(turn)
        else:
            turn += 1
        turn = turn % len(room) if room else 0
