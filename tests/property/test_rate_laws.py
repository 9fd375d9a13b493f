"""Owners by work: who may read what, how many moves, what each is worth; order and repetition change nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.assign.by_rate import RateOwners, by_rate
from evensplit.core.assign.rate_proof import RateProof, problems, prove
from evensplit.core.model import Cluster, Readable, SplitId, Topic

split_ids = st.builds(SplitId, st.sampled_from(["a", "b"]), st.sampled_from(["t", "u"]), st.integers(0, 9))


@st.composite
def instances(draw: st.DrawFn) -> dict[str, object]:
    splits = sorted(draw(st.sets(split_ids, min_size=1, max_size=24)))
    readers = tuple(range(draw(st.integers(1, 6))))
    named = st.sampled_from([Cluster("a"), Cluster("b"), Topic("a", "t"), Topic("b", "u"), splits[0], splits[-1]])
    return {
        "splits": splits,
        "readers": readers,
        "weight": {split: draw(st.integers(1, 5000)) for split in splits},
        "previous": draw(st.dictionaries(st.sampled_from(splits), st.integers(0, 7))),
        "eligible": draw(st.dictionaries(st.sampled_from(readers), st.sets(named).map(tuple), max_size=3)),
        "capacity": draw(st.dictionaries(st.sampled_from(readers), st.integers(1, 5))),
        "per_cluster": draw(st.booleans()),
        "gain_percent": draw(st.integers(0, 30)),
        "moves_max": draw(st.none() | st.integers(0, 5)),
    }


def solved(instance: Mapping[str, object], **changed: object) -> RateOwners:
    given = {**instance, **changed}
    return by_rate(given.pop("splits"), given.pop("readers"), given.pop("weight"), **given)  # type: ignore[arg-type]


def may_read(instance: Mapping[str, object], reader: int, split: SplitId) -> bool:
    eligible: Mapping[int, tuple[Readable, ...]] = instance["eligible"]  # type: ignore[assignment]
    named = {split, Topic(split.cluster, split.topic), Cluster(split.cluster)}
    return reader not in eligible or not named.isdisjoint(eligible[reader])


def valid(instance: Mapping[str, object]) -> dict[SplitId, int]:
    """The previous owners that are there and may still read what they have."""
    previous: Mapping[SplitId, int] = instance["previous"]  # type: ignore[assignment]
    readers: tuple[int, ...] = instance["readers"]  # type: ignore[assignment]
    return {key: one for key, one in previous.items() if one in readers and may_read(instance, one, key)}


def levels(instance: Mapping[str, object], owner: Mapping[SplitId, int]) -> dict[int, float]:
    load = dict.fromkeys(instance["readers"], 0)  # type: ignore[call-overload]
    for split, reader in owner.items():
        load[reader] += instance["weight"][split]  # type: ignore[index]
    return {one: load[one] / instance["capacity"].get(one, 1) for one in load}  # type: ignore[attr-defined]


@given(instances())
def test_every_split_has_one_owner_that_may_read_it_and_moves_are_bounded(instance: dict[str, object]) -> None:
    found = solved(instance).owner
    for split in instance["splits"]:  # type: ignore[attr-defined]
        able = [one for one in instance["readers"] if may_read(instance, one, split)]  # type: ignore[attr-defined]
        assert found.get(split) in (able or [None])
    moved = sum(found[split] != owner for split, owner in valid(instance).items())
    most: int | None = instance["moves_max"]  # type: ignore[assignment]
    assert most is None or moved <= most


@given(instances(), st.randoms(use_true_random=False))
def test_neither_order_nor_a_second_run_changes_it(instance: dict[str, object], shuffle: random.Random) -> None:
    found = solved(instance)
    for name in ("weight", "previous", "eligible", "capacity"):
        items = list(instance[name].items())  # type: ignore[attr-defined]
        shuffle.shuffle(items)
        instance[name] = dict(items)
    assert solved(instance) == found


@given(instances(), st.integers(0, 30))
def test_where_loads_are_level_more_moves_change_nothing(instance: dict[str, object], moves_max: int) -> None:
    found = solved(instance)
    if found.level:
        assert solved(instance, previous=found.owner, moves_max=moves_max).owner == found.owner
        most: int | None = instance["moves_max"]  # type: ignore[assignment]
        if most is not None:
            assert solved(instance, moves_max=most + moves_max) == found


@given(instances())
def test_any_number_of_moves_makes_the_highest_reader_that_is_touched_lower_or_none(
    instance: dict[str, object],
) -> None:
    """So no two owners alternate, however often they are decided."""
    before = solved(instance, moves_max=0).owner
    instance["splits"] = sorted(before)
    if not before:
        return
    after = solved(instance, previous=before, moves_max=None, per_cluster=False).owner
    touched = {reader for key in before if before[key] != after[key] for reader in (before[key], after[key])}
    if touched:
        was, now = levels(instance, before), levels(instance, after)
        assert max(now[one] for one in touched) < max(was[one] for one in touched)


@given(st.integers(2, 6), st.data())
def test_equal_splits_go_where_that_is_worth_it(readers: int, data: st.DataObject) -> None:
    """At the end no reader could give as many of them as that takes to the lowest ones."""
    counts = data.draw(st.lists(st.integers(0, 12), min_size=readers, max_size=readers))
    clusters = data.draw(st.lists(st.sampled_from("abc"), min_size=sum(counts), max_size=sum(counts)))
    gain_percent = data.draw(st.integers(0, 40))
    owners = [reader for reader, count in enumerate(counts) for _ in range(count)]
    splits = [SplitId(cluster, "t", number) for number, cluster in enumerate(clusters)]
    found = by_rate(
        sorted(splits),
        range(readers),
        dict.fromkeys(splits, 1),
        previous=dict(zip(splits, owners, strict=True)),
        eligible={},
        capacity={},
        per_cluster=False,
        gain_percent=gain_percent,
        moves_max=1000,
    )
    counts = [sum(one == reader for one in found.owner.values()) for reader in range(readers)]
    least = Fraction(len(splits) * gain_percent, 100 * readers)
    highest = max(counts)
    # The highest load that is lower by more than the gain, and whether the others have room for what is above it.
    lower = ceil(highest - least) - 1
    room = sum(max(0, lower - count) for count in counts)
    mean = Fraction(len(splits), readers)
    assert highest <= mean + least or lower < 0 or highest - lower > room


@given(instances(), st.integers(1, 12))
def test_moves_are_worth_the_gain_together(instance: dict[str, object], moves_max: int) -> None:
    """The highest level of the readers that give or take splits falls by more than the gain."""
    placed = solved(instance, moves_max=0, per_cluster=False).owner
    if not placed:
        return
    instance["splits"] = sorted(placed)
    after = solved(instance, previous=placed, moves_max=moves_max, per_cluster=False).owner
    moved = [split for split in placed if after[split] != placed[split]]
    touched = {reader for split in moved for reader in (placed[split], after[split])}
    if not touched:
        return
    was, now = levels(instance, placed), levels(instance, after)
    room = sum(instance["capacity"].get(one, 1) for one in instance["readers"])  # type: ignore[attr-defined]
    mean = sum(instance["weight"][split] for split in placed) / room  # type: ignore[index]
    least = instance["gain_percent"] / 100 * mean  # type: ignore[operator]
    assert max(was[one] for one in touched) - max(now[one] for one in touched) > least * (1 - 1e-9)


@given(st.integers(2, 8), st.integers(20, 60), st.integers(1, 200), st.integers(2, 30))
def test_however_small_they_are_splits_move_where_together_they_are_worth_it(
    readers: int, each: int, weight: int, gain_percent: int
) -> None:
    """One reader has all the splits, which are alike: at the end none is above the mean by more than the gain."""
    splits = [SplitId("a", "t", number) for number in range(readers * each)]
    given = {"previous": dict.fromkeys(splits, 0), "eligible": {}, "capacity": {}, "per_cluster": False}
    weights = dict.fromkeys(splits, weight)
    found = by_rate(splits, range(readers), weights, **given, gain_percent=gain_percent, moves_max=None)  # type: ignore[arg-type]
    counts = [sum(one == reader for one in found.owner.values()) for reader in range(readers)]
    assert max(counts) <= each * (1 + gain_percent / 100) + 1


@given(instances())
def test_no_owners_are_below_the_bound(instance: dict[str, object]) -> None:
    """All owners there can be, of a few splits over a few readers."""
    splits = instance["splits"] = sorted(instance["splits"])[:5]  # type: ignore[call-overload]
    readers = instance["readers"] = instance["readers"][:3]  # type: ignore[index]
    instance["eligible"] = {one: able for one, able in instance["eligible"].items() if one in readers}  # type: ignore[attr-defined]
    able = [[one for one in readers if may_read(instance, one, split)] for split in splits]
    if not all(able):
        return
    rest = [instance[name] for name in ("readers", "weight", "eligible", "capacity")]
    proof = prove(solved(instance).owner, *rest)  # type: ignore[arg-type]
    every = (dict(zip(splits, owners, strict=True)) for owners in product(*able))
    best = min(max(levels(instance, owner).values()) for owner in every)
    assert float(proof.bound) <= best * (1 + 1e-9)


@given(st.integers(1, 7), st.integers(1, 500), st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_where_all_bring_the_same_some_owners_are_at_the_bound(count: int, weight: int, rooms: list[int]) -> None:
    splits, readers, capacity = (
        [SplitId("a", "t", at) for at in range(count)],
        range(len(rooms)),
        dict(enumerate(rooms)),
    )
    weights = dict.fromkeys(splits, weight)
    proof = prove(dict.fromkeys(splits, 0), readers, weights, {}, capacity)
    every = (Counter(owners) for owners in product(readers, repeat=count))
    best = min(max(Fraction(weight * loads[one], capacity[one]) for one in readers) for loads in every)
    assert proof.bound == best


def test_two_of_the_heaviest_share_a_reader() -> None:
    weights = {SplitId("a", "t", at): weight for at, weight in enumerate((60, 50, 40, 1))}
    owner = {key: at % 2 for at, key in enumerate(weights)}
    proof = prove(owner, (0, 1), weights, {}, {})
    assert proof == RateProof(Fraction(100), Fraction(90), (0, 1), 3)
    assert problems(proof, owner, (0, 1), weights, {}, {}) == ()
    for wrong in (replace(proof, heaviest=2), replace(proof, heaviest=4), replace(proof, bound=Fraction(89))):
        (said,) = problems(wrong, owner, (0, 1), weights, {}, {})
        assert said.startswith("the bound is given as")


@given(instances(), st.integers(1, 100))
def test_the_proof_holds_by_a_check_that_searches_for_nothing_and_another_one_does_not(
    instance: dict[str, object], more: int
) -> None:
    owner = solved(instance).owner
    rest = [instance[name] for name in ("readers", "weight", "eligible", "capacity")]
    proof = prove(owner, *rest)  # type: ignore[arg-type]
    assert problems(proof, owner, *rest) == ()  # type: ignore[arg-type]
    assert proof.bound <= proof.level_max
    for wrong in (
        replace(proof, bound=proof.bound + more),
        replace(proof, level_max=proof.level_max + more),
        replace(proof, bound=proof.bound + more, witness=tuple(instance["readers"]), heaviest=len(owner) + more),  # type: ignore[arg-type]
        replace(proof, witness=(*proof.witness, -more)),
    ):
        assert len(problems(wrong, owner, *rest)) == 1  # type: ignore[arg-type]
