"""What readers have elsewhere settles ties, and nothing else; and so clusters on their own add up evenly."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit import SplitId, assign
from evensplit.core.assign import assign_by_cluster, by_cluster, owners
from evensplit.core.assign.terms import Reader
from tests.support.assignment_strategies import instances
from tests.support.assignments import Instance, optimum, optimum_beside, random_instance, squares

EXACT = st.sampled_from(["balanced", "sticky", "fair"])
RULES = st.sampled_from(["hash", "round-robin", "global"])
amounts = st.lists(st.integers(0, 4), min_size=6, max_size=6)


def base_of(instance: Instance, had: list[int]) -> dict[Reader, int]:
    """One amount for each reader; those with 0 are left out."""
    return {reader: amount for reader, amount in zip(instance.readers, had, strict=False) if amount}


def check_beside(instance: Instance, base: Mapping[Reader, int], policy: str) -> None:
    """As even and with as few moves as without `base`, and of all that is so, with the least of it."""
    free, found = instance.assign(policy), instance.assign(policy, base=base)
    assert found.problems() == ()
    assert found.certificate.levels == free.certificate.levels
    assert found.certificate.squares == free.certificate.squares
    if policy != "fair":
        assert found.moved == free.moved
    beside = sum(load * base.get(reader, 0) for reader, load in found.loads.items())
    moved = 0 if policy == "fair" else found.moved
    assert (found.certificate.squares, moved, beside) == optimum_beside(instance, base, policy=policy)


@given(instances(), amounts, EXACT)
def test_it_changes_neither_levels_nor_moves_and_is_least(instance: Instance, had: list[int], policy: str) -> None:
    check_beside(instance, base_of(instance, had), policy)


@pytest.mark.lengthy
def test_it_is_least_on_larger_problems() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        instance = random_instance(rng)
        base = {reader: rng.choice([0, 0, 1, 2, 7]) for reader in instance.readers}
        for policy in ("balanced", "sticky", "fair"):
            try:
                check_beside(instance, base, policy)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, {policy}, {base}: {instance}") from error


@given(instances(restricted=False), amounts)
def test_the_extra_seats_of_a_fresh_deal_go_to_the_least_then_by_number(instance: Instance, had: list[int]) -> None:
    base = base_of(instance, had)
    found = instance.assign("balanced", previous={}, base=base)
    quota, extra = divmod(len(instance.splits), len(instance.readers))
    first = sorted(instance.readers, key=lambda reader: (base.get(reader, 0), str(reader)))[:extra]
    assert {reader for reader, load in found.loads.items() if load > quota} == set(first)


@given(instances(), amounts, st.randoms(use_true_random=False), EXACT)
def test_order_is_of_no_matter(instance: Instance, had: list[int], rng: random.Random, policy: str) -> None:
    base = base_of(instance, had)
    shuffled = dict(rng.sample(list(base.items()), len(base)))
    found = instance.assign(policy, base=base)
    assert list(instance.shuffled(rng).assign(policy, base=shuffled).owner.items()) == list(found.owner.items())


@given(instances(), amounts, amounts, EXACT)
def test_a_second_run_changes_nothing(instance: Instance, had: list[int], later: list[int], policy: str) -> None:
    """Even if by then readers have something else elsewhere, since moves come first; but `fair` knows no moves."""
    first = instance.assign(policy, base=base_of(instance, had))
    again = instance.assign(policy, previous=first.owner, base=base_of(instance, had if policy == "fair" else later))
    assert again.owner == first.owner
    assert first.after() == again.after()


@given(instances(), st.integers(1, 9), EXACT)
def test_the_same_for_all_is_nothing(instance: Instance, amount: int, policy: str) -> None:
    assert instance.assign(policy, base=dict.fromkeys(instance.readers, amount)) == instance.assign(policy)


@given(instances(), amounts, RULES)
def test_rules_do_not_look_at_it(instance: Instance, had: list[int], policy: str) -> None:
    assert instance.assign(policy, base=base_of(instance, had)) == instance.assign(policy)


@given(instances(weighted=True), amounts, EXACT)
def test_weights_do_not_look_at_it(instance: Instance, had: list[int], policy: str) -> None:
    assert instance.assign(policy, base=base_of(instance, had)) == instance.assign(policy)


@given(instances(), amounts, EXACT)
def test_owners_alone_are_the_same_owners(instance: Instance, had: list[int], policy: str) -> None:
    base, given_ = base_of(instance, had), (instance.splits, instance.readers)
    bare = owners(*given_, previous=instance.previous, eligible=instance.eligible, policy=policy, base=base)
    assert bare == instance.assign(policy, base=base).owner


@given(st.lists(st.integers(0, 20), max_size=12), st.integers(1, 12), EXACT)
def test_clusters_that_are_dealt_afresh_add_up_evenly(sizes: list[int], readers: int, policy: str) -> None:
    splits = [
        SplitId(f"c{cluster:02}", f"t{number % 2}", number // 2)
        for cluster, size in enumerate(sizes)
        for number in range(size)
    ]
    found = by_cluster(splits, readers, policy=policy)
    total = Counter(dict.fromkeys(range(readers), 0)) + Counter(found.values())
    loads = [total[reader] for reader in range(readers)]
    assert max(loads) - min(loads) <= 1
    assert list(found) == sorted(splits)


@given(instances(splits_max=30), st.randoms(use_true_random=False), EXACT)
def test_each_cluster_is_as_even_and_moves_as_few_as_alone(instance: Instance, rng: random.Random, policy: str) -> None:
    given_ = {"previous": instance.previous, "eligible": instance.eligible, "policy": policy}
    proven = assign_by_cluster(instance.splits, instance.readers, **given_)  # type: ignore[arg-type]
    assert list(proven) == sorted({split.cluster for split in instance.splits})
    for cluster, found in proven.items():
        alone = replace(instance, splits=tuple(split for split in instance.splits if split.cluster == cluster))
        moved = optimum(alone, policy=policy)[1] if policy != "fair" else 0
        assert (squares(list(found.loads.values())), moved) == optimum(alone, policy=policy)
        assert policy == "fair" or found.moved == moved
        assert found.verify()
    bare = by_cluster(instance.splits, instance.readers, **given_)  # type: ignore[arg-type]
    assert bare == {split: owner for found in proven.values() for split, owner in found.owner.items()}
    other = instance.shuffled(rng)
    assert bare == by_cluster(
        other.splits, other.readers, previous=other.previous, eligible=other.eligible, policy=policy
    )
    assert bare == by_cluster(
        instance.splits, instance.readers, previous=bare, eligible=instance.eligible, policy=policy
    )


@given(instances(splits_max=30), RULES)
def test_rules_deal_each_cluster_as_if_it_were_the_only_one(instance: Instance, policy: str) -> None:
    found = by_cluster(
        instance.splits, instance.readers, previous=instance.previous, eligible=instance.eligible, policy=policy
    )
    for cluster in {split.cluster for split in instance.splits}:
        own = [split for split in instance.splits if split.cluster == cluster]
        alone = assign(
            own, instance.readers, previous=instance.previous, eligible=instance.eligible, policy=policy
        ).owner
        assert {split: owner for split, owner in found.items() if split.cluster == cluster} == alone
