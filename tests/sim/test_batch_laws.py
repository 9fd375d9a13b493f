"""The laws about whole batches: each finds what it is about without the help of another one."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from evensplit.core.machine.events import BatchOpened, ReadLogsPolled
from evensplit.core.model import Cause, ClusterState, HandedOut, Loss, Range, Split, SplitId, Topics
from evensplit.core.state.state import EnumeratorState, ReadRanges, Session
from evensplit.testing.sim import Rules, SimulationFailed, simulate
from evensplit.testing.sim.oracle.balance import Evenness
from evensplit.testing.sim.oracle.skipping import Owed
from evensplit.testing.sim.profile import profile
from evensplit.testing.sim.world import Log, SimTopic, World
from tests.sim.planted import PLANTED

SPLIT = SplitId("a", "c", 0)
PROFILE = profile(0, Random(0))
MOVED_WITHOUT_NEED = 665
"""A seed with which owners that follow each event move splits without need, before they move twice in a batch."""


def failure(seed: int, rules: Rules) -> SimulationFailed:
    with pytest.raises(SimulationFailed) as caught:
        simulate(seed, 400, rules)
    return caught.value


@pytest.mark.parametrize("silenced, says", [("_proven", "are enough"), ("_group", "would do")])
def test_two_witnesses_say_what_moved_without_need(monkeypatch: pytest.MonkeyPatch, silenced: str, says: str) -> None:
    """The closed form and the core's own proof, each when the other one is silent."""
    monkeypatch.setattr(Evenness, silenced, lambda *_, **__: None)
    failed = failure(MOVED_WITHOUT_NEED, PLANTED["with-each-event"].rules)
    assert failed.law == "S6"
    assert says in failed.detail


@pytest.mark.parametrize("scope", ["", "-per-cluster"])
def test_what_fair_owners_are_is_a_law_of_its_own(monkeypatch: pytest.MonkeyPatch, scope: str) -> None:
    """Owners that look at the past are as even as those that do not: only the fresh deal tells them apart."""
    planted = PLANTED[f"fair-remembers{scope}"]
    assert "in a fresh deal" in failure(planted.seed, planted.rules).detail
    monkeypatch.setattr(Evenness, "_promised", lambda *_: None)
    simulate(planted.seed, 400, planted.rules)


SKIPPED = Loss(SPLIT, Cause.AGED_OUT, 2, 8, 6)


@pytest.mark.parametrize(
    "declared",
    [(), (Loss(SPLIT, Cause.AGED_OUT, 3, 8, 5),), (Loss(SPLIT, Cause.AGED_OUT, 2, 4, 2),)],
    ids=["nothing", "later", "less"],
)
def test_less_than_what_was_skipped_is_not_enough(declared: tuple[Loss, ...]) -> None:
    owed = Owed(World(PROFILE, Random(0)))
    owed.skipped([SKIPPED])
    assert owed.logged(declared) == (SKIPPED,)
    assert "was never declared" in owed.unpaid(
        EnumeratorState(clusters={"a": ClusterState("a", ("a:9092",), initial=False)})
    )


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
    owed = Owed(World(PROFILE, Random(0)))
    owed.skipped([SKIPPED])
    assert owed.logged([declared]) == ()


def test_a_cluster_that_is_not_known_any_more_owes_nothing() -> None:
    owed = Owed(World(PROFILE, Random(0)))
    owed.skipped([SKIPPED])
    owed.told(BatchOpened(), EnumeratorState(), EnumeratorState())
    assert owed.logged(()) == ()


def to_compare(*ranges: Range, position: int = 8) -> EnumeratorState:
    """Of these ranges nobody has said yet whether they were skipped."""
    read = ReadRanges(ranges, {part.split: "id" for part in ranges}, HandedOut.EARLIER, 0)
    clusters = {"a": ClusterState("a", ("a:9092",), initial=False)}
    session = Session(read={"a": (read,)} if ranges else {})
    return EnumeratorState(clusters=clusters, splits={SPLIT: Split(SPLIT, "id", position=position)}, session=session)


@pytest.mark.parametrize(
    "topic_id, left, position, owes",
    [
        ("gone", (), 20, ()),
        ("", (), 20, (SKIPPED,)),
        ("there", (), 20, (SKIPPED,)),
        ("gone", (Range(SPLIT, 2, 8),), 20, (SKIPPED,)),
        ("gone", (), 21, (SKIPPED,)),
    ],
    ids=["believed", "no id", "the present id", "not believed", "a log that is too short"],
)
def test_what_a_broker_that_lags_says_to_be_there_is_not_owed(
    topic_id: str, left: tuple[Range, ...], position: int, owes: tuple[Loss, ...]
) -> None:
    """Nothing tells it from a true answer. Only that which settles it is an excuse."""
    world = World(PROFILE, Random(0))
    world.clusters["a"].topics["c"] = SimTopic("there", [Log(0, 20)])
    owed = Owed(world)
    owed.skipped([SKIPPED])
    polled = ReadLogsPolled("a", {SPLIT: topic_id}, {SPLIT: 0}, 1)
    owed.told(polled, to_compare(Range(SPLIT, 2, 8), position=position), to_compare(*left))
    assert owed.logged(()) == owes


@pytest.mark.parametrize("removed_at_ms, wanted, owes", [(None, True, (SKIPPED,)), (1, True, ()), (None, False, ())])
def test_what_is_not_kept_any_longer_is_not_owed(
    removed_at_ms: int | None, wanted: bool, owes: tuple[Loss, ...]
) -> None:
    """What is forgotten before it was removed still has to be declared."""
    owed = Owed(World(PROFILE, Random(0)))
    owed.skipped([SKIPPED])
    before = to_compare()
    removed = before.splits[SPLIT]._replace(removed_at_ms=removed_at_ms)
    subscriptions = {} if wanted else {"a": Topics(("b",))}
    session = replace(before.session, subscriptions=subscriptions)
    after = replace(before, splits={}, session=session)
    owed.told(BatchOpened(), replace(before, splits={SPLIT: removed}), after)
    assert owed.logged(()) == owes
