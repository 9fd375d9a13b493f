"""`evensplit simulate`: what it prints when all is well, and when it is not."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from evensplit.cli import night
from evensplit.cli.group import evensplit
from evensplit.testing.process.sessions import kill_session, session_members
from evensplit.testing.sim import Report, SimulationFailed, simulate
from evensplit.testing.sim.delivery import simulate_delivery
from evensplit.testing.sim.fetch import simulate_fetch
from tests.sim.planted import PLANTED
from tests.sim.planted_deliveries import PLANTED_DELIVERIES
from tests.support.waiting import wait_for


def test_one_seed_is_summed_up() -> None:
    done = CliRunner().invoke(evensplit, ["simulate", "--seed", "3", "--events", "200"])
    assert done.exit_code == 0, done.output
    assert "1 seed, " in done.output
    assert "every law held" in done.output
    report = simulate(3, 200)
    assert f"{report.events} events, finale included" in done.output
    assert f"driver starts: {report.sessions}," in done.output
    assert f"digest {report.digest:08x}" in done.output


def test_the_help_says_that_a_finale_follows() -> None:
    done = CliRunner().invoke(evensplit, ["simulate", "--help"])
    assert "a part without faults follows" in " ".join(done.output.split())


def test_many_seeds_run_in_processes() -> None:
    done = CliRunner().invoke(evensplit, ["simulate", "--seeds", "6", "--events", "50", "--processes", "2"])
    assert done.exit_code == 0, done.output
    assert "6 seeds, " in done.output
    assert "damaged-checkpoint" in done.output


def test_a_broken_law_is_told_with_its_story(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(seed: int, events: int) -> Report:
        return simulate(seed, events, PLANTED["later-by-strategy"].rules)

    monkeypatch.setattr(night, "simulate", planted)
    done = CliRunner().invoke(evensplit, ["simulate", "--seed", "3", "--events", "400"])
    assert done.exit_code == 1
    with pytest.raises(SimulationFailed) as caught:
        planted(3, 400)
    assert caught.value.where in done.output
    assert "law S4 is broken" in caught.value.where
    assert "again: evensplit simulate --seed 3 --events 400" in done.output
    assert "ResolveStart" in done.output


def test_deliveries_are_summed_up() -> None:
    asked = ["simulate", "--part", "delivery", "--seed", "3", "--processes", "1"]
    done = CliRunner().invoke(evensplit, [*asked, "--seeds", "2", "--format", "json"])
    assert done.exit_code == 0, done.output
    told, reports = json.loads(done.stdout), [simulate_delivery(seed) for seed in (3, 4)]
    assert (told["seeds"], told["rows"]) == (2, sum(one.rows for one in reports))
    assert told["runs"] == sum(told["ends"].values()) == sum(one.runs for one in reports)
    assert told["digests"] == [f"{one.digest:08x}" for one in reports]
    done = CliRunner().invoke(evensplit, asked, env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    assert reports[0].trace[-1] in done.output
    assert f"1 seed, {reports[0].rows:,} rows: every law held" in done.output
    assert f"driver starts: {reports[0].runs}," in done.output


def test_a_delivery_that_breaks_a_law_says_how_to_see_it_again() -> None:
    planted = PLANTED_DELIVERIES["superseded-writes"]
    asked = ["simulate", "--part", "delivery", "--seed", str(planted.seed), "--processes", "1"]
    with planted.planted():
        done = CliRunner().invoke(evensplit, asked)
    assert done.exit_code == 1
    assert f"again: evensplit simulate --part delivery --seed {planted.seed}" in done.output


def test_nonsense_is_refused() -> None:
    done = CliRunner().invoke(evensplit, ["simulate", "--seeds", "0"])
    assert done.exit_code == 2
    assert "0 is not in the range" in done.output


def test_a_night_counts_what_was_done_and_goes_on_after_a_broken_law(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(seed: int, events: int) -> Report:
        return simulate(seed, events, PLANTED["later-by-strategy"].rules if seed == 3 else None)

    monkeypatch.setattr(night, "simulate", planted)
    asked = ["simulate", "--part", "all", "--seed", "3", "--seeds", "2", "--minutes", "9", "--processes", "1"]
    done = CliRunner().invoke(evensplit, [*asked, "--events", "400", "--format", "json"])
    assert done.exit_code == 1, done.output
    told = json.loads(done.stdout)
    host, fetch, delivery = told["parts"]
    assert not told["held"]
    assert [one["law"] for one in host["found"]] == ["S4"]
    assert host["found"][0]["again"] == "again: evensplit simulate --seed 3 --events 400"
    assert (host["seeds"], host["events"]) == (2, simulate(4, 400).events)
    assert fetch["events"] == sum(simulate_fetch(seed).events for seed in (3, 4)) > 50
    assert fetch["found"] == []
    assert delivery["events"] == sum(simulate_delivery(seed).events for seed in (3, 4)) > 50
    assert delivery["found"] == []
    assert sum(delivery["faults"].values()) == sum(sum(simulate_delivery(seed).faults.values()) for seed in (3, 4))


def test_the_processes_of_a_night_end_with_it_when_it_is_killed() -> None:
    command = [sys.executable, "-m", "evensplit.cli", "simulate", "--minutes", "9", "--processes", "2"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            # Python's own process for what they share is the fourth one.
            wait_for(lambda: len(list(session_members(process.pid))) == 4, what="two processes at work")
            process.kill()
            wait_for(lambda: not set(session_members(process.pid)) - {process.pid}, what="their end")
        finally:
            kill_session(process.pid)


def test_a_night_ends_when_its_time_is_over() -> None:
    done = CliRunner().invoke(evensplit, ["simulate", "--part", "fetch", "--minutes", "0.001", "--processes", "1"])
    assert done.exit_code == 0, done.output
    assert "fetch" in done.output
