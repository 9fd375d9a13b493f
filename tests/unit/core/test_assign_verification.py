"""Whatever is changed about an assignment, `verify` notices."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from evensplit import Assignment, Certificate, Cluster, SplitId, assign
from evensplit.core.assign.terms import Reader
from evensplit.core.policies import POLICIES
from tests.support.assignments import Instance, loads_of, moves_of, random_instance, squares

EXACT = ("balanced", "sticky", "fair")
FAR_OFF = (10**6, -(10**6), 1 << 70)


def made(policy: str, *, weighted: bool, seeds: int = 6) -> Iterator[tuple[Instance, Assignment]]:
    """Assignments of many kinds of instances, each with something to change."""
    for seed in range(seeds):
        rng = random.Random(seed)
        instance = random_instance(rng, splits_max=14, readers_max=6)
        if weighted:
            instance = replace(instance, weight={split: rng.randint(1, 9) for split in instance.splits})
        yield instance, instance.assign(policy)


def with_certificate(result: Assignment, **changed: Any) -> Assignment:
    return replace(result, certificate=replace(result.certificate, **changed))


def changed_at(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])


def with_owner(result: Assignment, owner: dict[SplitId, Reader]) -> Assignment:
    return replace(result, owner=MappingProxyType(owner))


def put_right(instance: Instance, result: Assignment, owner: dict[SplitId, Reader]) -> Assignment:
    """Other owners, with everything that is counted from them counted anew: only the proof is left as it was."""
    loads = loads_of(instance, owner)
    moved = moves_of(instance, owner)
    certificate = replace(
        result.certificate, moved=moved, load_max=max(loads.values()), squares=squares(list(loads.values()))
    )
    return replace(
        result, owner=MappingProxyType(owner), loads=MappingProxyType(loads), moved=moved, certificate=certificate
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
class TestAnyOneChange:
    def test_of_an_owner(self, policy: str, weighted: bool) -> None:
        for instance, result in made(policy, weighted=weighted):
            for split, reader in result.owner.items():
                for other in (*instance.readers, "nobody", 99, None):
                    if other != reader:
                        broken = with_owner(result, {**result.owner, split: other})  # type: ignore[dict-item]
                        assert not broken.verify(), (instance, split, other)

    def test_of_which_splits_have_owners(self, policy: str, weighted: bool) -> None:
        for instance, result in made(policy, weighted=weighted):
            stranger = {**result.owner, SplitId("nowhere", "t", 0): instance.readers[0]}
            assert not with_owner(result, stranger).verify()
            for split in result.owner:
                without = {other: reader for other, reader in result.owner.items() if other != split}
                assert not with_owner(result, without).verify()
                renamed = {**without, SplitId("nowhere", "t", 0): result.owner[split]}
                assert not with_owner(result, renamed).verify()

    def test_of_what_is_counted(self, policy: str, weighted: bool) -> None:
        for instance, result in made(policy, weighted=weighted):
            for reader in instance.readers:
                for load in (result.loads[reader] + 1, result.loads[reader] - 1):
                    assert not replace(result, loads={**result.loads, reader: load}).verify()
                fewer = {other: load for other, load in result.loads.items() if other != reader}
                assert not replace(result, loads=fewer).verify()
            assert not replace(result, loads={**result.loads, "stranger": 0}).verify()
            assert not replace(result, moved=result.moved + 1).verify()
            assert not replace(result, unassigned=(*result.unassigned, SplitId("nowhere", "t", 0))).verify()
            if result.unassigned:
                assert not replace(result, unassigned=result.unassigned[1:]).verify()
            for split in result.owner:
                assert not replace(result, unassigned=tuple(sorted((*result.unassigned, split)))).verify()

    def test_of_a_bound(self, policy: str, weighted: bool) -> None:
        for _, result in made(policy, weighted=weighted):
            for name in ("load_max", "load_max_bound", "squares", "squares_bound", "moved", "moved_bound"):
                value = getattr(result.certificate, name)
                for other in (value - 1, value + 1, None, *FAR_OFF) if value is not None else (0, 1, result.moved):
                    assert not with_certificate(result, **{name: other}).verify(), (name, other, result)

    def test_of_what_was_followed(self, policy: str, weighted: bool) -> None:
        for _, result in made(policy, weighted=weighted):
            for other in {*POLICIES} - {policy}:
                assert not with_certificate(result, policy=other).verify()
            assert not with_certificate(result, weighted=not weighted).verify()

    @pytest.mark.parametrize("name", ["levels", "potentials"])
    def test_of_a_level_or_a_potential(self, policy: str, weighted: bool, name: str) -> None:
        """For the rules, other levels may give the very same bound, which is as good a proof."""
        for _, result in made(policy, weighted=weighted):
            values: tuple[int, ...] = getattr(result.certificate, name)
            changed: dict[str, Any]
            for place, value in enumerate(values):
                for other in (value - 1, value + 1, value + 2, *FAR_OFF):
                    changed = {name: changed_at(values, place, other)}
                    if policy in EXACT:
                        assert not with_certificate(result, **changed).verify(), (name, place, other, result)
                    for bound in ("squares_bound", "load_max_bound"):
                        changed[bound] = getattr(result.certificate, bound) + 1
                        assert not with_certificate(result, **changed).verify(), (name, place, other, result)
            for lengths in (values[1:], (*values, 0), (*values, *values), ()):
                if lengths != values:
                    assert not with_certificate(result, **{name: lengths}).verify(), (name, lengths, result)

    def test_of_a_witness(self, policy: str, weighted: bool) -> None:
        """Unless those that are left prove the same bound, which is as good a proof."""
        for instance, result in made(policy, weighted=weighted):
            certificate = result.certificate
            others = [place for place in range(len(instance.readers)) if place not in certificate.witness]
            for witness in [
                *((*certificate.witness, other) for other in others),
                (*certificate.witness, 99),
                (*certificate.witness, -1),
            ]:
                broken = with_certificate(result, witness=witness)
                if not weighted:
                    assert not broken.verify()
                # What a witness proves is true: none proves more than is so.
                raised = with_certificate(result, witness=witness, load_max_bound=certificate.load_max_bound + 1)
                assert not raised.verify()


@pytest.mark.lengthy
@pytest.mark.parametrize("policy", ["balanced", "sticky", "fair"])
def test_a_worse_assignment_is_noticed_with_all_its_figures_put_right(policy: str) -> None:
    noticed = 0
    for instance, result in made(policy, weighted=False, seeds=30):
        best = (result.certificate.squares, result.moved)
        for split in result.owner:
            for other in instance.able(split):
                changed = put_right(instance, result, {**result.owner, split: other})
                figures = (changed.certificate.squares, changed.moved)
                if figures <= best or (policy == "fair" and figures[0] == best[0]):
                    continue
                noticed += 1
                assert not changed.verify()
                certificate = changed.certificate
                claimed = replace(
                    certificate,
                    load_max_bound=certificate.load_max,
                    squares_bound=certificate.squares,
                    moved_bound=None if policy == "fair" else changed.moved,
                )
                for guess in guesses(instance, changed, claimed):
                    assert not replace(changed, certificate=guess).verify(), (instance, split, other)
    assert noticed > 100


def guesses(instance: Instance, changed: Assignment, claimed: Certificate) -> Iterator[Certificate]:
    """Levels and potentials that somebody might make up for an assignment that has none."""
    yield claimed
    loads = tuple(changed.loads.values())
    for levels in (loads, tuple(load + 1 for load in loads), tuple([max(loads)] * len(loads))):
        for potential in (0, 1, -1) if claimed.potentials else (None,):
            potentials = () if potential is None else tuple([potential] * len(loads))
            yield replace(claimed, levels=levels, potentials=potentials)


def test_a_plan_that_moves_more_than_it_must_is_noticed() -> None:
    """Two readers exchange a split each: as even as before, but nothing needed to move."""
    splits = [SplitId("c", "t", partition) for partition in range(4)]
    previous = {split: partition // 2 for partition, split in enumerate(splits)}
    result = assign(splits, 2, previous=previous)
    instance = Instance(tuple(splits), (0, 1), previous, {})
    exchanged = put_right(instance, result, {splits[0]: 1, splits[1]: 0, splits[2]: 0, splits[3]: 1})
    exchanged = with_certificate(exchanged, moved_bound=2)
    assert exchanged.problems() == ("the potentials do not prove that nothing as even moves fewer splits",)


def test_the_inputs_count_and_not_what_was_remembered_of_them() -> None:
    splits = [SplitId("c", "t", partition) for partition in range(4)]
    result = assign(splits, 2)
    other = replace(result.inputs, eligible={0: [Cluster("elsewhere")]})
    assert "may not read it" in replace(result, inputs=other).problems()[0]


def test_it_says_what_is_wrong() -> None:
    splits = [SplitId("c", "t", partition) for partition in range(3)]
    result = assign(splits, ["a", "b"])
    wrong = with_owner(replace(result, moved=7), {**result.owner, splits[0]: "b", splits[2]: "b"})
    assert wrong.problems() == (
        "loads are given as {'a': 2, 'b': 1}, but the owners make them {'a': 0, 'b': 3}",
        "moved is given as 7, but is 0",
        "the certificate's load_max is given as 2, but is 3",
        "the certificate's squares is given as 5, but is 9",
    )


@pytest.mark.parametrize("policy", ["balanced", "sticky", "fair"])
def test_the_solver_takes_no_part_in_it(monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    from evensplit.core.assign import assignment, proof
    from evensplit.core.assign.solver import levels, network, quotas

    result = random_instance(random.Random(3)).assign(policy)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the solver was asked")

    for module, names in {
        assignment: ("solve", "deal", "quotas", "certify", "balance_weights"),
        levels: ("water_levels",),
        quotas: ("water_levels", "quotas"),
        network: ("Network",),
        proof: ("water_levels", "optimal_levels", "weight_bound"),
    }.items():
        for name in names:
            monkeypatch.setattr(module, name, never)
    assert result.verify()


def test_numbers_of_numpy_are_numbers() -> None:
    splits = [SplitId("c", "t", partition) for partition in range(3)]
    weight = {split: np.int32(2) for split in splits}
    assert assign(splits, 2, weight=weight).verify()  # type: ignore[arg-type]
