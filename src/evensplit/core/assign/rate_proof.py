"""How far owners by work are from the best there can be: a bound that no owners go below, which anybody can check."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import accumulate
from math import ceil

from evensplit.core.model import Readable, SplitId, Topic, scopes

LOOKS_MAX = 100_000
"""So often it is looked up how many of the heaviest splits go below a bound: a limit on the time."""


@dataclass(frozen=True, slots=True)
class RateProof:
    """What is proven of owners by work.

    `level_max`: the largest load of a reader, as a part of its capacity.
    `bound`: what that is at least, whoever has what.
    `witness`: the readers that prove it, ascending: they have to read so much, together. Empty where a single split
    brings as much as `bound` for the reader that takes the most.
    `heaviest`: that many of the splits that only `witness` may read prove it, the heaviest ones, by their number: as
    long as each reader is below `bound`, they have room for fewer, even of the lightest of these. 0: what all of them
    bring proves it.
    """

    level_max: Fraction
    bound: Fraction
    witness: tuple[int, ...]
    heaviest: int = 0

    @property
    def gap(self) -> float:
        """How far the largest load is above the bound, as a part of the bound; 0.0 where nothing can be better."""
        return float(self.level_max / self.bound - 1) if self.bound else 0.0


def prove(
    owner: Mapping[SplitId, int],
    readers: Sequence[int],
    weight: Mapping[SplitId, int],
    eligible: Mapping[int, tuple[Readable, ...]],
    capacity: Mapping[int, int],
) -> RateProof:
    """The proof for `owner`, which has each split that some reader may read. Arguments: see `by_rate`."""
    room = {reader: capacity.get(reader, 1) for reader in readers}
    able, group_of = _able(owner, readers, eligible)
    load = dict.fromkeys(readers, 0)
    weights: list[list[int]] = [[] for _ in able]
    for split, reader in owner.items():
        load[reader] += weight[split]
        weights[group_of[split]].append(weight[split])
    level_max = max((Fraction(load[one], room[one]) for one in readers), default=Fraction(0))
    singles = (Fraction(max(own), max(room[one] for one in able[at])) for at, own in enumerate(weights))
    found: list[tuple[Fraction, tuple[int, ...]]] = [(max(singles, default=Fraction(0)), ())]
    inside: dict[tuple[int, ...], list[int]] = {}
    members = [frozenset(group) for group in able]
    for group in sorted({*able, tuple(sorted(readers))} if owner else ()):
        among = frozenset(group)
        inside[group] = [one for at, own in enumerate(weights) if members[at] <= among for one in own]
        found.append((Fraction(sum(inside[group]), sum(room[one] for one in group)), group))
    bound, witness = max(found)
    heaviest = 0
    for group, own in inside.items():
        higher, number = _by_number(sorted(own, reverse=True), [room[one] for one in group], bound)
        if number:
            bound, witness, heaviest = higher, group, number
    return RateProof(level_max, bound, witness, heaviest)


def problems(
    proof: RateProof,
    owner: Mapping[SplitId, int],
    readers: Sequence[int],
    weight: Mapping[SplitId, int],
    eligible: Mapping[int, tuple[Readable, ...]],
    capacity: Mapping[int, int],
) -> tuple[str, ...]:
    """One sentence for each thing that is not as `proof` says; looks at its witness, and searches for nothing."""
    able, group_of = _able(owner, readers, eligible)
    members, among = [frozenset(group) for group in able], frozenset(proof.witness)
    wrong = [f"reader {owner[key]} may not read {key}" for key in owner if owner[key] not in members[group_of[key]]]
    load = dict.fromkeys(readers, 0)
    for key, reader in owner.items():
        load[reader] = load.get(reader, 0) + weight[key]
    level_max = max((Fraction(load[one], capacity.get(one, 1)) for one in readers), default=Fraction(0))
    if proof.level_max != level_max:
        wrong.append(f"the largest load is given as {proof.level_max}, but is {level_max}")
    within = [group <= among for group in members]
    inside = [weight[key] for key in owner if within[group_of[key]]]
    strange = sorted({*proof.witness} - {*readers})
    if strange or len(among) < len(proof.witness) or not 0 <= proof.heaviest <= len(inside):
        wrong.append(
            f"readers {proof.witness} and {proof.heaviest} splits are named; expected readers that there are, each "
            f"once, and at most the {len(inside)} splits that only these may read"
        )
        return tuple(wrong)
    if proof.heaviest:
        sums = list(accumulate(sorted(sorted(inside, reverse=True)[: proof.heaviest])))
        room = [proof.bound * capacity.get(one, 1) for one in proof.witness]
        below = sum(bisect_left(sums, ceil(each)) for each in room)
        if not below < proof.heaviest <= sum(bisect_right(sums, int(each)) for each in room):
            wrong.append(f"the bound is given as {proof.bound}; the {proof.heaviest} heaviest splits do not give it")
        return tuple(wrong)
    if proof.witness:
        bound = Fraction(sum(inside), sum(capacity.get(one, 1) for one in proof.witness))
    else:
        most = [max((capacity.get(one, 1) for one in group), default=1) for group in able]
        bound = max((Fraction(weight[key], most[group_of[key]]) for key in owner), default=Fraction(0))
    if proof.bound != bound:
        wrong.append(f"the bound is given as {proof.bound}; the splits give {bound}")
    return tuple(wrong)


def _by_number(weights: Sequence[int], room: Sequence[int], bound: Fraction) -> tuple[Fraction, int]:
    """A bound above `bound` by the number of the heaviest of `weights` (descending), and that number; 0: none is.

    Of any `number` splits, a reader below a level has room for as many as the lightest of them that fit. Where all
    readers have room for fewer than there are, some reader has at least that level. All looks are exact.
    """
    total = [0, *accumulate(weights)]
    readers = sorted(Counter(room).items())
    looks = max(1, LOOKS_MAX // max(1, len(readers)))
    numbers = range(1, len(weights) + 1)
    best, limits = 0, [int(bound * each) for each, _ in readers]
    for number in (*numbers[:looks], *numbers[looks:][-1:]):
        # Of the `number` heaviest, the lightest `count` bring total[number] - total[number - count].
        most = total[number]
        counts = [number - bisect_left(total, most - limit, 0, number) for limit in limits]
        fit = sum(count * many for count, (_, many) in zip(counts, readers, strict=True))
        if fit >= number:
            continue
        best = number
        waiting = [
            (Fraction(most - total[number - count - 1], each), each, count + 1, many)
            for count, (each, many) in zip(counts, readers, strict=True)
        ]
        heapify(waiting)
        while fit < number:
            bound, each, count, many = heappop(waiting)
            fit += many
            if count < number:
                heappush(waiting, (Fraction(most - total[number - count - 1], each), each, count + 1, many))
        limits = [int(bound * each) for each, _ in readers]
    return bound, best


def _able(
    splits: Mapping[SplitId, int], readers: Sequence[int], eligible: Mapping[int, tuple[Readable, ...]]
) -> tuple[list[tuple[int, ...]], dict[SplitId, int]]:
    """The readers that may read the same splits, ascending, each once; and split -> its place among these.

    A topic is looked up once, and a split on its own only where a reader is pinned to it by its number.
    """
    named: dict[Readable, list[int]] = {}
    for reader in sorted(readers):
        for readable in eligible.get(reader, ()):
            named.setdefault(readable, []).append(reader)
    everything = frozenset(reader for reader in readers if reader not in eligible)
    able: dict[tuple[int, ...], int] = {}
    known: dict[Readable, int] = {}
    group_of: dict[SplitId, int] = {}
    for split in splits:
        alike = split if split in named else Topic(split.cluster, split.topic)
        if alike not in known:
            own = everything.union(*(named.get(one, ()) for one in scopes(split)))
            known[alike] = able.setdefault(tuple(sorted(own)), len(able))
        group_of[split] = known[alike]
    return list(able), group_of
