"""The enumerator in the simulated world: many seeds, every law after every event."""

from __future__ import annotations

import pickle
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from random import Random
from typing import get_args

import pytest

from evensplit.core.machine.events import Event, PartitionsListed
from evensplit.core.model import Split, SplitId
from evensplit.core.policies import POLICIES
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import EvenSplitError
from evensplit.testing.sim import FAULTS, Report, Rules, SimulationFailed, simulate
from evensplit.testing.sim.lookout import Lookout
from evensplit.testing.sim.oracle import laws
from evensplit.testing.sim.profile import profile
from evensplit.testing.sim.world import World
from tests.sim.planted import PLANTED
from tests.support.hash_seeds import printed_under

SEEDS_QUICK = 8
SEEDS = 540
EVENTS = 2_000
PROCESSES = 2

DIGESTS = """
from evensplit.testing.sim import simulate
print(*(f"{seed}:{report.digest:08x}:{report.events}" for seed in range(6) for report in [simulate(seed, 300)]))
"""


def simulated(seeds: range) -> list[Report]:
    """A report for each of `seeds`; a broken law fails the test, with its story."""
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        try:
            return list(pool.map(simulate, seeds, [EVENTS] * len(seeds), chunksize=5))
        except SimulationFailed as failed:
            pool.shutdown(cancel_futures=True)
            pytest.fail(str(failed), pytrace=False)


@pytest.mark.timeout(600)
def test_every_law_holds_after_every_event() -> None:
    reports = simulated(range(SEEDS_QUICK))
    assert [report.seed for report in reports] == list(range(SEEDS_QUICK))
    assert all(report.events >= EVENTS for report in reports)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_every_law_holds_for_many_seeds_and_they_go_everywhere() -> None:
    """Every fault, event, policy and law has its share; otherwise that the laws hold would say little."""
    reports = simulated(range(SEEDS))
    assert all(report.events >= EVENTS for report in reports)
    for fault in FAULTS:
        with_it = sum(fault in report.profile.faults for report in reports)
        assert SEEDS / 5 < with_it < SEEDS * 4 / 5
    kinds = sum((Counter(report.kinds) for report in reports), Counter[str]())
    assert kinds.keys() == {event.__name__ for event in get_args(Event)}
    assert min(kinds.values()) >= SEEDS / 10
    assert {report.profile.policy for report in reports} == frozenset(POLICIES)
    assert sum(report.sessions for report in reports) > 4 * SEEDS
    assert sum(report.batches for report in reports) > 50 * SEEDS
    assert max(report.largest for report in reports) > 24
    edits = sum((Counter(report.edits) for report in reports), Counter[str]())
    for command in ("rewind", "skip", "drop", "rename-cluster", "fork", "undo", "other"):
        assert edits[command] >= SEEDS / 20, edits
    for law in reports[0].checks:
        assert sum(report.checks[law] for report in reports) > SEEDS


def test_a_seed_gives_the_same_run_under_any_hash_seed() -> None:
    """Law S14: chosen by the seed alone, in another process and with other orders of sets."""
    found = printed_under(DIGESTS, "0", "1", "4711")
    assert found[0].count(":") == 12
    assert found[0] == found[1] == found[2]


def test_seeds_differ() -> None:
    assert len({simulate(seed, 100).digest for seed in range(10)}) == 10


def test_a_failure_says_which_law_and_what_led_to_it() -> None:
    with pytest.raises(SimulationFailed) as caught:
        simulate(0, 2_000, PLANTED["later-by-strategy"].rules)
    failed = caught.value
    assert isinstance(failed, EvenSplitError)
    told = str(failed)
    assert f"seed 0, event {failed.event}: law S4 is broken" in told
    assert "evensplit simulate --seed 0 --events 2000" in told
    assert "finale" not in told.splitlines()[0]
    assert any("ResolveStart" in line for line in failed.story)
    again = pickle.loads(pickle.dumps(failed))
    assert (again.seed, again.law, again.event, again.events) == (0, "S4", failed.event, 2_000)
    assert str(again) == told


def test_a_failure_in_the_finale_says_so_and_is_seen_again_by_its_hint() -> None:
    """The finale begins after the events that were asked for, so a run of more events is another one."""
    rules = PLANTED["later-by-strategy"].rules
    found: list[SimulationFailed] = []
    for seed in range(300):
        try:
            simulate(seed, 20, rules)
        except SimulationFailed as failed:
            if failed.event > 20:
                found.append(failed)
        if len(found) == 3:
            break
    assert len(found) == 3
    for one in found:
        told = str(one).splitlines()
        assert told[0].startswith(f"seed {one.seed}, event {one.event} (in the finale, after 20): law {one.law}")
        assert told[-1] == f"again: evensplit simulate --seed {one.seed} --events 20"
        with pytest.raises(SimulationFailed) as again:
            simulate(one.seed, one.events, rules)
        assert str(again.value) == str(one)


def test_a_reader_that_still_reads_what_was_forgotten_breaks_a_law() -> None:
    """It is told as any other failure is, though the state does not have the split any more."""
    with pytest.raises(SimulationFailed) as caught:
        simulate(305, 60, PLANTED["not-revoked"].rules)
    assert caught.value.law == "S2"
    assert "which is not its own any more" in caught.value.detail
    assert any("Forget(" in line for line in caught.value.story)


def test_where_nothing_goes_wrong_the_starts_of_all_logs_are_told() -> None:
    """A start that nobody asks for keeps open what was skipped, and the offset from coming to rest (seed 301208)."""
    random = Random(1)
    chosen = profile(1, random)
    world = World(chosen, random)
    name, cluster = next((name, one) for name, one in world.clusters.items() if one.topics)
    listed = PartitionsListed(name, world.listing(cluster))
    keys = {SplitId(name, one.topic, one.partition): one.topic_id for one in listed.partitions}
    state = EnumeratorState(splits={key: Split(key, topic_id) for key, topic_id in keys.items()})
    lookout = Lookout(world, chosen, random)
    calm = [lookout.look(listed, state, frozenset()) for _ in range(50)]
    assert all(one.ends.keys() == one.starts.keys() == keys.keys() for one in calm)
    faulty = [lookout.look(listed, state, frozenset({"unreachable"})) for _ in range(50)]
    assert any(one.starts.keys() < keys.keys() for one in faulty)


def test_the_core_checks_every_state_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every event is followed by the checks from scratch, but those that were refused as impossible."""
    checked: list[EnumeratorState] = []

    def counted(state: EnumeratorState) -> tuple[str, ...]:
        checked.append(state)
        return ()

    monkeypatch.setattr(laws, "check", counted)
    report = simulate(3, 200)
    assert len(checked) == sum(report.kinds.values()) == report.checks["S1 S2 S3 S4 S6 S10 of every state"]


def test_what_raises_is_a_failure_too() -> None:
    def broken(state: object, event: object) -> object:
        raise ZeroDivisionError("by zero")

    with pytest.raises(SimulationFailed, match="SettingsChanged raised ZeroDivisionError"):
        simulate(0, 10, Rules(step=broken))  # type: ignore[arg-type]
