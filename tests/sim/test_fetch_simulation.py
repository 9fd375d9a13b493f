"""The shipped reader over simulated brokers: many seeds, every law of reading."""

from __future__ import annotations

from collections import Counter

import pytest
from click.testing import CliRunner

from evensplit.cli.group import evensplit
from evensplit.kafka.fetch import response
from evensplit.testing.sim.fetch import FAULTS, FetchReport, FetchSimulationFailed, simulate_fetch
from tests.sim.planted_fetches import PLANTED_FETCHES
from tests.support.hash_seeds import printed_under

SEEDS_QUICK = 150
SEEDS = 4_000
SEEDS_MAX = 200

DIGESTS = """
from evensplit.testing.sim.fetch import simulate_fetch
print(*(f"{report.digest:08x}" for seed in range(20) for report in [simulate_fetch(seed)]))
"""


def simulated(seeds: range) -> list[FetchReport]:
    """A report for each of `seeds`; a broken law fails the test, with its story."""
    try:
        return [simulate_fetch(seed) for seed in seeds]
    except FetchSimulationFailed as failed:
        pytest.fail(str(failed), pytrace=False)


def test_every_law_of_reading_holds_and_every_fault_happens() -> None:
    """That the laws hold says something only where something was read, lost, and refused."""
    reports = simulated(range(SEEDS_QUICK))
    faults = sum((Counter(report.faults) for report in reports), Counter[str]())
    assert faults.keys() >= FAULTS.keys() - {"lagging"}
    ends = sum((Counter(report.ends) for report in reports), Counter[str]())
    assert ends["read"] > SEEDS_QUICK / 2
    assert {"DataLossError", "BatchTooLarge", "ClusterUnreachable"} <= ends.keys()
    assert sum(report.rows for report in reports) > 50 * SEEDS_QUICK
    assert sum(report.skipped for report in reports) > SEEDS_QUICK


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_every_law_of_reading_holds_for_many_seeds() -> None:
    simulated(range(SEEDS_QUICK, SEEDS))


def test_the_laws_hold_where_headers_are_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an answer has too many record batches, where to go on is known only once they are decoded."""
    monkeypatch.setattr(response, "BATCHES_WALKED_MAX", 1)
    simulated(range(60))


@pytest.mark.parametrize("name", PLANTED_FETCHES)
def test_the_simulator_finds_the_bug(name: str) -> None:
    """With the seed that is noted, by a law that it is about, and not in the reader as it is under the same seed."""
    planted = PLANTED_FETCHES[name]
    with planted.planted():
        failed = failure(planted.seed)
    assert failed is not None, "noted is another seed"
    print(f"{name}: seed {failed.seed}, law {failed.law}: {failed.detail}")
    assert failed.law in planted.laws, str(failed)
    assert failed.story
    assert failure(failed.seed) is None


def failure(seed: int) -> FetchSimulationFailed | None:
    try:
        simulate_fetch(seed)
    except FetchSimulationFailed as failed:
        return failed
    return None


def test_a_seed_gives_the_same_read_under_any_hash_seed() -> None:
    """Law S14, in another process and with other orders of sets."""
    found = printed_under(DIGESTS, "0", "4711")
    assert len(set(found[0].split())) > 15
    assert found[0] == found[1]


def test_one_seed_prints_its_schedule() -> None:
    done = CliRunner().invoke(evensplit, ["simulate", "--part", "fetch", "--seed", "3"])
    assert done.exit_code == 0, done.output
    report = simulate_fetch(3)
    assert done.output.startswith("\n".join(report.trace))
    assert "1 seed, " in done.output
    assert "every law held" in done.output


def test_a_failure_says_how_to_see_it_again() -> None:
    planted = PLANTED_FETCHES["aborted-delivered"]
    with planted.planted():
        failed = next(found for seed in range(SEEDS_MAX) if (found := failure(seed)) is not None)
    told = str(failed).splitlines()
    assert told[0].startswith(f"seed {failed.seed}, event ")
    assert "law F2 is broken" in told[0]
    assert told[-1] == f"again: evensplit simulate --part fetch --seed {failed.seed}"
