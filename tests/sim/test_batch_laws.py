"""The laws about whole batches: each finds what it is about without the help of another one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from evensplit.core.model import Cause, HandedOut, Loss, Range, Split, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim import Rules, SimulationFailed, simulate
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.lookout import Lookout
from evensplit.testing.sim.oracle.balance import Evenness
from evensplit.testing.sim.oracle.laws import Laws
from evensplit.testing.sim.skipping import Skips, check_declared
from tests.sim.planted import PLANTED

SPLIT = SplitId("a", "c", 0)


def failure(seed: int, rules: Rules) -> SimulationFailed:
    with pytest.raises(SimulationFailed) as caught:
        simulate(seed, 400, rules)
    return caught.value


@pytest.mark.parametrize("silenced, says", [("_proven", "are enough"), ("_group", "would do")])
def test_two_witnesses_say_what_moved_without_need(monkeypatch: pytest.MonkeyPatch, silenced: str, says: str) -> None:
    """The closed form and the core's own proof, each when the other one is silent."""
    monkeypatch.setattr(Evenness, silenced, lambda *_, **__: None)
    planted = PLANTED["with-each-event"]
    failed = failure(planted.seed, planted.rules)
    assert failed.law == "S6"
    assert says in failed.detail


@pytest.mark.parametrize("scope", ["", "-per-cluster"])
def test_what_fair_owners_are_is_a_law_of_its_own(monkeypatch: pytest.MonkeyPatch, scope: str) -> None:
    """Owners that look at the past are as even as those that do not: only the fresh deal tells them apart."""
    planted = PLANTED[f"fair-remembers{scope}"]
    assert "in a fresh deal" in failure(planted.seed, planted.rules).detail
    monkeypatch.setattr(Evenness, "_promised", lambda *_: None)
    simulate(planted.seed, 400, planted.rules)


def test_what_tasks_skip_is_declared_by_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has nothing but the state. Were that not looked at itself, the loss would still be missed."""
    monkeypatch.setattr(Laws, "_read_from", lambda *_: None)
    failed = failure(31, PLANTED["read-from-forgotten"].rules)
    assert failed.law == "S9"
    assert failed.detail.startswith("tasks have skipped")
    assert any("a session begins" in line for line in failed.story)


def test_a_process_that_says_again_what_was_skipped_breaks_a_law(monkeypatch: pytest.MonkeyPatch) -> None:
    noticed = Skips.losses

    def again(skips: Skips, runs: Mapping[SplitId, tuple[int, int]]) -> tuple[Loss, ...]:
        kept = dict(skips.read)
        found = noticed(skips, runs)
        skips.read = kept
        return found

    monkeypatch.setattr(Skips, "losses", again)
    failed = failure(1, Rules())
    assert failed.law == "S9"
    assert "this process has done so before" in failed.detail


class _Gone(Lookout):
    """Nothing is there any more."""

    def __init__(self) -> None:
        pass

    def left(self, *_: object) -> tuple[Mapping[SplitId, str], Mapping[SplitId, int]]:
        return {}, {}


def test_a_batch_that_was_done_again_is_not_looked_for_twice() -> None:
    """Done again, it has all since the last offset that was written down; the state has its last part only."""
    state = EnumeratorState(splits={SPLIT: Split(SPLIT, "c.1", position=9, read_from=5)})
    whole = Loss(SPLIT, Cause.DELETED, 2, None, 7, HandedOut.EARLIER)
    skips = Skips(Rules(), _Gone())
    skips.add([Range(SPLIT, 2, 9)], state)
    skips.restore(state)
    assert skips.losses({}) == (whole,)
    skips.begin()
    skips.restore(state)
    assert skips.losses({}) == (Loss(SPLIT, Cause.DELETED, 5, None, 4, HandedOut.EARLIER),)


@pytest.mark.parametrize(
    "declared", [(), (Loss(SPLIT, Cause.AGED_OUT, 3, 8, 5),), (Loss(SPLIT, Cause.AGED_OUT, 2, 4, 2),)]
)
def test_less_than_what_was_skipped_is_not_enough(declared: tuple[Loss, ...]) -> None:
    skipped = Loss(SPLIT, Cause.AGED_OUT, 2, 8, 6)
    with pytest.raises(Broken, match="tasks have skipped"):
        check_declared([skipped], EnumeratorState(losses=declared))


@pytest.mark.parametrize(
    "declared",
    [
        Loss(SPLIT, Cause.AGED_OUT, 2, 8, 6),
        Loss(SPLIT, Cause.AGED_OUT, 2, 20, 18),
        Loss(SPLIT, Cause.DELETED, 1, None, 9),
        Loss(SPLIT, Cause.RECREATED, 2, None, None),
    ],
)
def test_more_than_what_was_skipped_may_be_declared(declared: Loss) -> None:
    check_declared([Loss(SPLIT, Cause.AGED_OUT, 2, 8, 6)], EnumeratorState(losses=(declared,)))
