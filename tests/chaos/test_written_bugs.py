"""`evensplit chaos --query kafka` finds bugs of the sink that are planted in it, and nothing where there are none.

One fault, `writing-kill`, brings out what goes wrong after a crash: the driver is killed as its tasks write, when a
batch is decided and no transaction ended yet, and when all are, and Spark does not know it. The job waits a little at
both places, so that it is hit there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from evensplit.testing.chaos import run as chaos
from evensplit.testing.chaos.checker.check import check
from evensplit.testing.chaos.checker.verdict import Verdict
from evensplit.testing.chaos.page.text import verdict_text
from evensplit.testing.chaos.plan import Plan, write_schedule
from evensplit.testing.chaos.schedule import Planned
from tests.support import sink_points

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

HOOKS = Path(sink_points.__file__).parent
SLOW = ("commit.Append.after", "commit.End.after")
SCHEDULE = (Planned(1, "writing-kill", 8.0, 0.0, 7),)
MINUTES = 0.2
FOUND_AGAIN = "of them decided before, and found again by the next driver"
ABORTED = "records of aborted transactions in the sink's topic"


@pytest.fixture(autouse=True)
def _queries_end() -> None:
    """Nothing here uses the session of the tests."""


@pytest.fixture
def points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job, and all that it starts, are slow at both places."""
    directory = tmp_path / "points"
    (directory / "hit").mkdir(parents=True)
    for point in SLOW:
        (directory / point).write_text("slow")
    monkeypatch.setenv("EVENSPLIT_SINK_POINTS", str(directory))
    monkeypatch.setenv("EVENSPLIT_SINK_BUG", "")
    monkeypatch.setenv("PYTHONPATH", str(HOOKS), prepend=os.pathsep)


@pytest.mark.usefixtures("points")
def test_nothing_is_found_where_there_is_no_bug(tmp_path: Path) -> None:
    write_schedule(tmp_path / "schedule.json", SCHEDULE)
    command = [sys.executable, "-m", "evensplit.cli", "chaos", "--query", "kafka", "--spark", "local"]
    command += ["--minutes", str(MINUTES), "--schedule", str(tmp_path / "schedule.json")]
    command += ["--directory", str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said, _ = process.communicate(timeout=600)
        finally:
            process.terminate()
    assert process.returncode in (0, 1), said
    # Other tests run beside this one.
    verdict = check(tmp_path / "run", bound_s=60.0)
    assert verdict.held, f"{verdict_text(verdict)}\n\nsee {tmp_path}"
    assert verdict.failed_faults == ()
    # It went through what the bugs are about.
    assert verdict.figures[ABORTED] > 0
    assert verdict.figures[FOUND_AGAIN] >= 2
    assert not [one for one in verdict.not_judged if one.startswith("writing")]


@pytest.mark.usefixtures("points")
@pytest.mark.parametrize(
    "bugs, schedule, kinds",
    [
        ("nothing-read", SCHEDULE, {"repeated"}),
        ("no-decision", SCHEDULE, {"repeated"}),
        ("decided-aborted", SCHEDULE, {"lost"}),
        ("twice,dropped", (), {"lost", "repeated"}),
    ],
)
def test_bugs_of_the_sink_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bugs: str, schedule: tuple[Planned, ...], kinds: set[str]
) -> None:
    monkeypatch.setenv("EVENSPLIT_SINK_BUG", bugs)
    verdict = _short(tmp_path, monkeypatch, schedule)
    found = {one.kind for one in verdict.findings}
    assert kinds <= found, f"{verdict_text(verdict)}\n\nsee {tmp_path}"


def _short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schedule: tuple[Planned, ...]) -> Verdict:
    """A run that gives the job less time at its end, since nothing has to be held."""
    monkeypatch.setattr(chaos, "PEACE_S", 20.0)
    monkeypatch.setattr(chaos, "GRACE_S", 0.0)
    monkeypatch.setattr(chaos, "SEEN_WITHIN_S", 20.0)
    plan = Plan(directory=tmp_path / "run", minutes=MINUTES, spark="local", queries=("kafka",), schedule=schedule)
    return check(chaos.run(plan), bound_s=10.0)
