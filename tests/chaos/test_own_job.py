"""`evensplit chaos --job`: the job of the guide to testing, as a user would write it, through a killed driver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from evensplit.testing.chaos.checker.check import check
from evensplit.testing.chaos.history import events as ev
from evensplit.testing.chaos.history.recorder import read_history
from evensplit.testing.chaos.page.text import verdict_text
from evensplit.testing.chaos.plan import write_schedule
from evensplit.testing.chaos.schedule import Planned
from tests.support.pages import DOCS, blocks

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_job_of_ones_own_is_run_killed_and_judged(tmp_path: Path) -> None:
    (block,) = [one for one in blocks(DOCS / "howto/testing.md") if one.file == "my_job.py"]
    (tmp_path / "my_job.py").write_text(block.code)
    write_schedule(tmp_path / "schedule.json", [Planned(1, "driver-kill", 5.0, 0.0, 1)])
    directory = tmp_path / "run"
    command = [sys.executable, "-m", "evensplit.cli", "chaos", "--job", f"{sys.executable} {tmp_path / 'my_job.py'}"]
    command += ["--spark", "local", "--minutes", "0.2", "--schedule", str(tmp_path / "schedule.json")]
    command += ["--directory", str(directory)]
    # Brokers and Spark are ended by the command itself, also when it is told to stop.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said, _ = process.communicate(timeout=500)
        finally:
            process.terminate()
    assert process.returncode in (0, 1), said
    # Other tests run beside this one.
    verdict = check(directory, bound_s=60.0)
    assert verdict.held, f"{verdict_text(verdict)}\n\nsee {directory}"
    assert verdict.failed_faults == ()
    assert len([one for one in read_history(directory / "history") if isinstance(one, ev.JobStarted)]) == 2
    assert verdict.figures["records delivered"]["parquet"] > 1_000
