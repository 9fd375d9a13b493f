"""The laws of assignment, against an exact solver that shares nothing with ours."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evensplit import Assignment, Cluster, SplitId, assign
from evensplit.core.assign.assignment import owners
from evensplit.core.assign.terms import Reader
from evensplit.core.policies import POLICIES
from tests.support.assignment_strategies import instances
from tests.support.assignments import (
    Instance,
    least_largest_load,
    loads_of,
    moves_of,
    optimum,
    random_instance,
    squares,
)
from tests.support.hash_seeds import printed_under

EXACT = ("balanced", "sticky", "fair")


def check_is_consistent(instance: Instance, result: Assignment) -> None:
    """Each split is with somebody who may read it or with nobody, and everything said of it is so."""
    able = {split: instance.able(split) for split in sorted(instance.splits)}
    assert list(result.owner) == [split for split, readers in able.items() if readers]
    assert result.unassigned == tuple(split for split, readers in able.items() if not readers)
    assert all(result.owner[split] in able[split] for split in result.owner)
    assert list(result.loads.items()) == list(loads_of(instance, result.owner).items())
    assert result.moved == moves_of(instance, result.owner)
    assert result.problems() == ()
    assert result.verify()


def check_is_optimal(instance: Instance) -> None:
    """Evenness, and the moves for it, are those of the exact solver; and the proof holds."""
    result = instance.assign()
    check_is_consistent(instance, result)
    assert (squares(list(result.loads.values())), result.moved) == optimum(instance)
    assert result.certificate.even
    assert result.certificate.fewest_moves


def check_seeds(seeds: Iterable[int]) -> None:
    for seed in seeds:
        instance = random_instance(random.Random(seed))
        try:
            check_is_optimal(instance)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {instance}") from error


@pytest.mark.lengthy
def test_it_is_exactly_optimal() -> None:
    check_seeds(range(150))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_is_exactly_optimal_10000_times() -> None:
    check_seeds(range(10_000))


@pytest.mark.slow
def test_it_is_exactly_optimal_where_it_is_larger() -> None:
    for seed in range(150):
        check_is_optimal(random_instance(random.Random(seed), splits_max=150, readers_max=40))


@given(instances())
def test_it_is_exactly_optimal_on_small_problems(instance: Instance) -> None:
    check_is_optimal(instance)


@given(instances())
def test_sticky_moves_nothing_and_is_as_even_as_that_allows(instance: Instance) -> None:
    result = instance.assign("sticky")
    check_is_consistent(instance, result)
    assert result.moved == 0
    assert squares(list(result.loads.values())) == optimum(instance, policy="sticky")[0]


@given(instances())
def test_fair_is_as_even_as_possible_whatever_was_before(instance: Instance) -> None:
    result = instance.assign("fair")
    check_is_consistent(instance, result)
    assert squares(list(result.loads.values())) == optimum(instance, policy="fair")[0]
    assert result.owner == instance.assign("fair", previous={}).owner


@pytest.mark.lengthy
def test_sticky_and_fair_are_exact_on_larger_problems() -> None:
    for seed in range(150):
        instance = random_instance(random.Random(seed))
        for policy in ("sticky", "fair"):
            result = instance.assign(policy)
            check_is_consistent(instance, result)
            assert squares(list(result.loads.values())) == optimum(instance, policy=policy)[0], (seed, policy)


@given(instances(), st.sampled_from(["hash", "round-robin", "global"]))
def test_the_rules_never_claim_more_than_is_so(instance: Instance, policy: str) -> None:
    result = instance.assign(policy)
    check_is_consistent(instance, result)
    best, _ = optimum(instance)
    assert result.certificate.squares_bound == best
    assert result.certificate.even == (squares(list(result.loads.values())) == best)
    assert result.certificate.load_max_bound == max(instance.assign("fair").loads.values())
    assert result.certificate.moved_bound is None


@given(instances(), st.randoms(use_true_random=False), st.sampled_from(EXACT))
def test_order_is_of_no_matter(instance: Instance, rng: random.Random, policy: str) -> None:
    one, other = instance.assign(policy), instance.shuffled(rng).assign(policy)
    assert list(other.owner.items()) == list(one.owner.items())
    assert dict(other.loads) == dict(one.loads)
    assert other.certificate.squares == one.certificate.squares


@given(instances(), st.sampled_from(EXACT))
def test_owners_alone_are_the_same_owners(instance: Instance, policy: str) -> None:
    readers: Any = instance.readers
    bare = owners(instance.splits, readers, previous=instance.previous, eligible=instance.eligible, policy=policy)
    assert bare == instance.assign(policy).owner


@given(instances(), st.sampled_from([*EXACT, "hash", "round-robin", "global"]))
def test_a_second_run_changes_nothing(instance: Instance, policy: str) -> None:
    result = instance.assign(policy)
    again = instance.assign(policy, previous=result.owner)
    assert again.owner == result.owner
    assert again.moved == 0


@given(instances(weighted=True))
def test_a_second_run_with_weights_changes_nothing(instance: Instance) -> None:
    for policy in EXACT:
        result = instance.assign(policy)
        again = instance.assign(policy, previous=result.owner)
        assert again.owner == result.owner, policy


@pytest.mark.lengthy
def test_a_second_run_with_many_weights_changes_nothing() -> None:
    for seed in range(30):
        rng = random.Random(seed)
        instance = random_instance(rng, splits_max=60, readers_max=10)
        instance = replace(instance, weight={split: rng.randint(1, 1_000) for split in instance.splits})
        for policy in EXACT:
            result = instance.assign(policy)
            again = instance.assign(policy, previous=result.owner)
            assert again.owner == result.owner, (seed, policy)


@given(instances(splits_max=30), st.randoms(use_true_random=False), st.sampled_from(POLICIES), st.booleans())
def test_after_changes_is_the_same_as_anew(instance: Instance, rng: random.Random, policy: str, twice: bool) -> None:
    result, splits = instance.assign(policy), list(instance.splits)
    for turn in range(3):
        removed = rng.sample(splits, rng.randint(0, len(splits)))
        added = [SplitId("c0", f"new{turn}", number) for number in range(rng.randint(0, 4))]
        if twice:
            # What comes back is like what never was.
            added += [split for split in instance.splits if split not in splits][:2]
        splits = [*(split for split in splits if split not in removed), *added]
        before, result = result, result.after(added=added, removed=removed)
        anew = instance.assign(policy, splits=splits, previous=before.owner)
        assert list(result.owner.items()) == list(anew.owner.items())
        assert result == anew
        assert result.verify()


@given(instances(weighted=True))
def test_after_a_removal_weights_still_count(instance: Instance) -> None:
    before = instance.assign()
    gone = instance.splits[::2]
    after = before.after(removed=gone)
    assert after == instance.assign(
        splits=[split for split in instance.splits if split not in gone], previous=before.owner
    )


@given(instances(), st.integers(0, 5), st.sampled_from(["balanced", "sticky"]))
def test_a_reader_that_is_replaced_gives_exactly_its_splits(instance: Instance, place: int, policy: str) -> None:
    """Whatever the readers may read, if the new one may read the same."""
    before = instance.assign("balanced")
    gone = instance.readers[place % len(instance.readers)]
    new: Reader = "new" if isinstance(gone, str) else 1_000
    readers = tuple(new if reader == gone else reader for reader in instance.readers)
    eligible = {new if reader == gone else reader: own for reader, own in instance.eligible.items()}
    after = instance.assign(policy, readers=readers, eligible=eligible, previous=before.owner)
    changed = {split for split, reader in after.owner.items() if reader != before.owner[split]}
    assert changed == {split for split, reader in before.owner.items() if reader == gone}
    assert after.moved == 0
    assert sorted(after.loads.values()) == sorted(before.loads.values())


def spread_of(owner: dict[SplitId, Reader], readers: Iterable[Reader], scope: Any) -> int:
    """The largest difference between readers, over all clusters or all topics."""
    counts: dict[Any, Counter[Reader]] = {}
    for split, reader in owner.items():
        counts.setdefault(scope(split), Counter())[reader] += 1
    known = list(readers)
    return max((max(own[r] for r in known) - min(own[r] for r in known) for own in counts.values()), default=0)


@pytest.mark.parametrize("policy", EXACT)
@given(instance=instances(splits_max=30, restricted=False))
def test_each_cluster_and_each_topic_is_even_within_one(policy: str, instance: Instance) -> None:
    result = instance.assign(policy, previous={})
    owner = dict(result.owner)
    assert spread_of(owner, instance.readers, lambda split: split.cluster) <= 1
    assert spread_of(owner, instance.readers, lambda split: split[:2]) <= 1
    assert max(result.loads.values()) - min(result.loads.values()) <= 1


def test_each_cluster_and_each_topic_is_even_within_one_at_every_size() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        sizes = {
            (f"c{rng.randrange(4)}", f"t{rng.randrange(6)}"): rng.randint(1, 40) for _ in range(rng.randint(1, 12))
        }
        splits = [SplitId(*topic, partition) for topic, size in sizes.items() for partition in range(size)]
        readers = rng.randint(1, 60)
        owner = dict(assign(splits, readers).owner)
        assert spread_of(owner, range(readers), lambda split: split.cluster) <= 1, seed
        assert spread_of(owner, range(readers), lambda split: split[:2]) <= 1, seed


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.randoms(use_true_random=False))
def test_nothing_moves_for_the_spread_of_topics(topics: int, readers: int, each: int, rng: random.Random) -> None:
    """Loads are even already; each topic sits with as few readers as possible, and stays there."""
    splits = [SplitId("c", f"t{topic}", partition) for topic in range(topics) for partition in range(each * readers)]
    previous = {split: place * readers // len(splits) for place, split in enumerate(splits)}
    result = assign(rng.sample(splits, len(splits)), readers, previous=previous)
    assert dict(result.owner) == previous


@pytest.mark.lengthy
@settings(max_examples=60)
@given(instances(splits_max=6, weighted=True), st.sampled_from(EXACT))
def test_with_weights_the_bound_holds(instance: Instance, policy: str) -> None:
    """Against trying everything."""
    instance = replace(instance, readers=instance.readers[:3])
    instance = replace(
        instance, eligible={reader: own for reader, own in instance.eligible.items() if reader in instance.readers}
    )
    result = instance.assign(policy)
    check_is_consistent(instance, result)
    best = least_largest_load(instance, policy=policy)
    assert result.certificate.load_max_bound <= best <= result.certificate.load_max == max(result.loads.values())
    assert result.certificate.gap >= 0
    if policy == "sticky":
        assert result.moved == 0
    if policy != "sticky" and not instance.eligible:
        # Graham 1969: the heaviest first, each to the lightest reader.
        readers = len(instance.readers)
        assert 3 * readers * result.certificate.load_max <= (4 * readers - 1) * best


@given(instances(splits_max=14, weighted=True), st.sampled_from(["hash", "round-robin", "global"]))
def test_with_weights_the_rules_never_claim_more_than_is_so(instance: Instance, policy: str) -> None:
    result = instance.assign(policy)
    check_is_consistent(instance, result)
    assert result.owner == instance.assign(policy, weight=None).owner


@given(instances(weighted=True), st.randoms(use_true_random=False), st.sampled_from(EXACT))
def test_with_weights_order_is_of_no_matter(instance: Instance, rng: random.Random, policy: str) -> None:
    assert instance.shuffled(rng).assign(policy).owner == instance.assign(policy).owner


@given(instances(splits_max=12, restricted=True))
def test_weights_of_one_are_no_weights(instance: Instance) -> None:
    """The search for weights finds the least largest load where it is easy to find: nobody is restricted."""
    instance = replace(instance, eligible={})
    ones = dict.fromkeys(instance.splits, 1)
    assert max(instance.assign(weight=ones).loads.values()) == max(instance.assign().loads.values())


@pytest.mark.timeout(240)
@pytest.mark.parametrize("policy", EXACT)
def test_no_weights_make_it_search_for_long(policy: str) -> None:
    """Weights that invite endless exchanges: equal ones, powers, one giant, primes, all of them on one reader."""
    rng = random.Random(5)
    splits = [SplitId(f"c{number % 3}", f"t{number % 7}", number) for number in range(1_000)]
    for weights in (
        [1] * 1_000,
        [2 ** (number % 40) for number in range(1_000)],
        [10**15, *[1] * 999],
        [rng.randint(1, 10**6) for _ in range(1_000)],
        [997 if number % 2 else 991 for number in range(1_000)],
    ):
        began = time.process_time()
        result = assign(
            splits,
            20,
            previous=dict.fromkeys(splits, 0),
            eligible={reader: [Cluster(f"c{reader % 3}"), Cluster("c0")] for reader in range(1, 15)},
            weight=dict(zip(splits, weights, strict=True)),
            policy=policy,
        )
        assert result.verify()
        assert time.process_time() - began < 10


PROGRAM = """
import json, random, sys
from tests.support.assignments import random_instance
from dataclasses import replace
made = []
for seed in range(60):
    instance = random_instance(random.Random(seed))
    weight = {split: 1 + number % 7 for number, split in enumerate(instance.splits)}
    for policy in ("balanced", "sticky", "fair", "hash", "round-robin", "global"):
        for given in (None, weight):
            result = instance.assign(policy, weight=given)
            made.append([[*map(str, pair)] for pair in result.owner.items()])
            made.append(result.certificate.to_json())
print(json.dumps(made))
"""


@pytest.mark.lengthy
def test_the_hash_seed_is_of_no_matter() -> None:
    """Scopes come as frozensets, whose order is that of the hashes."""
    made = printed_under(PROGRAM, "0", "4242")
    assert len(json.loads(made[0])) == 60 * 6 * 2 * 2
    assert made[0] == made[1]
