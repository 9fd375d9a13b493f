"""The schedule of a run: the same for the same seed, with calms between spells, and every nemesis in its turn."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.errors import ChaosError
from evensplit.testing.chaos.nemesis.registry import NEMESES
from evensplit.testing.chaos.plan import read_schedule, write_schedule
from evensplit.testing.chaos.schedule import CALM_S, COMPANY_MAX, FIRST_CALM_S, Kind, Planned, make_schedule

RESOURCES = ("brokers", "network", "topics", "spark")
KINDS = [Kind(f"{resource}-{number}", resource) for resource in RESOURCES for number in range(5)]
DEADLY = Kind("driver-kill", "spark", ends_process=True)


def spells(schedule: tuple[Planned, ...]) -> list[list[Planned]]:
    """The faults that have no calm between them, together."""
    found: list[list[Planned]] = []
    end_s = 0.0
    for one in schedule:
        if not found or one.begins_s > end_s + CALM_S:
            found.append([])
        found[-1].append(one)
        end_s = max(end_s, one.begins_s + one.lasts_s)
    return found


@given(seed=st.integers(0, 10_000), minutes=st.floats(2, 120))
def test_spells_of_faults_alternate_with_calms(seed: int, minutes: float) -> None:
    schedule = make_schedule(seed, minutes, [*KINDS, DEADLY])
    assert schedule == make_schedule(seed, minutes, [*KINDS, DEADLY])
    assert [one.number for one in schedule] == list(range(1, len(schedule) + 1))
    assert schedule[0].begins_s >= FIRST_CALM_S
    assert max(one.begins_s + one.lasts_s for one in schedule) <= minutes * 60
    kinds = {kind.name: kind for kind in [*KINDS, DEADLY]}
    for spell in spells(schedule):
        assert len(spell) <= COMPANY_MAX
        assert len({kinds[one.nemesis].resource for one in spell}) == len(spell)
        for one in spell:
            low, high = kinds[one.nemesis].lasts_s
            assert low <= one.lasts_s <= high


def test_every_nemesis_has_its_turn_before_one_comes_again() -> None:
    names = [one.nemesis for one in make_schedule(7, 60, KINDS)]
    counts = [names.count(kind.name) for kind in KINDS]
    assert min(counts) >= 1
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("seed", range(20))
def test_each_process_is_ended_early_in_a_long_run_and_lives_for_the_rest(seed: int) -> None:
    kinds = [one.kind for one in NEMESES.values()]
    names = {kind.name for kind in kinds if kind.ends_process}
    assert names == {
        *("driver-kill", "restart-changed", "source-kill"),
        *("python-worker-kill", "executor-kill", "worker-kill", "writing-kill"),
        # All queries end by them, and each query has a process of the source.
        *("access-withdrawn", "password-rotated", "cluster-twice"),
    }
    planned = make_schedule(seed, 60, kinds)
    ends = [one for one in planned if one.nemesis in names]
    assert {one.nemesis for one in ends} == names
    # Then there are twenty minutes, and ten of them to get warm.
    assert max(one.begins_s + one.lasts_s for one in ends) < 60 * 60 - 30 * 60


def test_processes_are_ended_at_any_time_of_a_short_run() -> None:
    short = [one.begins_s for seed in range(20) for one in make_schedule(seed, 10, [DEADLY])]
    assert max(short) > 10 * 60 * 0.6


def test_a_schedule_is_kept_and_read_again(tmp_path: Path) -> None:
    schedule = make_schedule(7, 10, KINDS)
    write_schedule(tmp_path / "schedule.json", schedule)
    assert read_schedule(tmp_path / "schedule.json") == schedule


@pytest.mark.parametrize("text", ["", '{"faults": []}', '[{"nemesis": "cut"}]'])
def test_another_file_is_no_schedule(tmp_path: Path, text: str) -> None:
    file = tmp_path / "schedule.json"
    file.write_text(text)
    with pytest.raises(ChaosError, match=r"expected the schedule\.json of a run"):
        read_schedule(file)
