"""`evensplit chaos --source kafka`: Spark's own Kafka source, in its own environment, through a killed driver."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from evensplit.testing.chaos.checker.check import check
from evensplit.testing.chaos.history import events as ev
from evensplit.testing.chaos.history.recorder import read_history
from evensplit.testing.chaos.plan import write_schedule
from evensplit.testing.chaos.schedule import Planned
from tests.support.peer_query import PYTHON

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

QUERIES = ("foreach-batch", "counted")


def test_it_reads_both_clusters_and_goes_on_after_a_killed_driver(tmp_path: Path) -> None:
    write_schedule(tmp_path / "schedule.json", [Planned(1, "driver-kill", 5.0, 0.0, 1)])
    directory = tmp_path / "run"
    command = [str(PYTHON), "-m", "evensplit.cli", "chaos", "--source", "kafka", "--spark", "local", "--minutes", "0.2"]
    command += ["--schedule", str(tmp_path / "schedule.json"), "--directory", str(directory)]
    for query in QUERIES:
        command += ["--query", query]
    # Brokers and Spark are ended by the command itself, also when it is told to stop.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said, _ = process.communicate(timeout=500)
        finally:
            process.terminate()
    assert process.returncode == 0, said
    events = read_history(directory / "history")
    assert {one.source for one in events if isinstance(one, ev.RunBegan)} == {"kafka"}
    assert len([one for one in events if isinstance(one, ev.JobStarted)]) == 2
    verdict = check(directory)
    assert verdict.failed_faults == ()
    assert verdict.figures["records delivered"]["foreach-batch"] > 1_000
