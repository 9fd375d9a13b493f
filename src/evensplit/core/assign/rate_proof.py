"""How far owners by work are from the best there can be: a bound that no owners go below, which anybody can check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from evensplit.core.model import Readable, SplitId, scopes


@dataclass(frozen=True, slots=True)
class RateProof:
    """What is proven of owners by work.

    `level_max`: the largest load of a reader, as a part of its capacity.
    `bound`: what that is at least, whoever has what.
    `witness`: the readers that prove it, ascending: they have to read so much, together. Empty where a single split
    brings as much as `bound` for the reader that takes the most.
    """

    level_max: Fraction
    bound: Fraction
    witness: tuple[int, ...]

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
    able = _able(owner, readers, eligible)
    load = dict.fromkeys(readers, 0)
    total: dict[tuple[int, ...], int] = {}
    heaviest = Fraction(0)
    for split, reader in owner.items():
        load[reader] += weight[split]
        total[able[split]] = total.get(able[split], 0) + weight[split]
        heaviest = max(heaviest, Fraction(weight[split], max(room[one] for one in able[split])))
    level_max = max((Fraction(load[one], room[one]) for one in readers), default=Fraction(0))
    found: list[tuple[Fraction, tuple[int, ...]]] = [(heaviest, ())]
    for group in sorted({*total, tuple(sorted(readers))} if owner else ()):
        among = frozenset(group)
        inside = sum(amount for others, amount in total.items() if among.issuperset(others))
        found.append((Fraction(inside, sum(room[one] for one in group)), group))
    bound, witness = max(found)
    return RateProof(level_max, bound, witness)


def problems(
    proof: RateProof,
    owner: Mapping[SplitId, int],
    readers: Sequence[int],
    weight: Mapping[SplitId, int],
    eligible: Mapping[int, tuple[Readable, ...]],
    capacity: Mapping[int, int],
) -> tuple[str, ...]:
    """One sentence for each thing that is not as `proof` says; looks at its witness, and searches for nothing."""
    able = _able(owner, readers, eligible)
    wrong = [f"reader {owner[key]} may not read {key}" for key in owner if owner[key] not in able[key]]
    levels = [Fraction(sum(weight[key] for key in owner if owner[key] == one), capacity.get(one, 1)) for one in readers]
    if proof.level_max != max(levels, default=0):
        wrong.append(f"the largest load is given as {proof.level_max}, but is {max(levels, default=0)}")
    if proof.witness:
        inside = sum(weight[key] for key in owner if set(able[key]) <= set(proof.witness))
        bound = Fraction(inside, sum(capacity.get(one, 1) for one in proof.witness))
    else:
        singles = (Fraction(weight[key], max(capacity.get(one, 1) for one in able[key])) for key in owner)
        bound = max(singles, default=Fraction(0))
    if proof.bound != bound:
        wrong.append(f"the bound is given as {proof.bound}; the splits give {bound}")
    return tuple(wrong)


def _able(
    splits: Mapping[SplitId, int], readers: Sequence[int], eligible: Mapping[int, tuple[Readable, ...]]
) -> dict[SplitId, tuple[int, ...]]:
    """Split -> the readers that may read it, ascending."""
    everything = tuple(reader for reader in sorted(readers) if reader not in eligible)
    named = {reader: frozenset(eligible[reader]) for reader in readers if reader in eligible}
    if not named:
        return dict.fromkeys(splits, everything)
    found: dict[SplitId, tuple[int, ...]] = {}
    for split in splits:
        own = [reader for reader, readable in named.items() if not readable.isdisjoint(scopes(split))]
        found[split] = tuple(sorted((*everything, *own)))
    return found
