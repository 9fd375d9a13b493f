"""`evensplit chaos` as its users start it: ten minutes of all faults, with real brokers, network and Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from evensplit.testing.chaos.checker.check import check
from evensplit.testing.chaos.page.text import verdict_text

MINUTES = 10
OVER_WITHIN_S = 1_500.0
BOUND_S = 60.0
"""For delivery after a fault. Twice of what is promised, since other tests run beside this one."""

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(OVER_WITHIN_S + 120)]


def test_nothing_is_lost_repeated_or_held_up(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    command = [sys.executable, "-m", "evensplit.cli", "chaos", "--minutes", str(MINUTES), "--seed", "24"]
    command += ["--spark", "local", "--directory", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said, _ = process.communicate(timeout=OVER_WITHIN_S)
        finally:
            process.terminate()
    assert process.returncode in (0, 1), said
    verdict = check(directory, bound_s=BOUND_S)
    assert verdict.held, f"{verdict_text(verdict)}\n\nsee {directory}"
    assert len(verdict.figures["faults by nemesis"]) >= 10
    assert verdict.figures["records delivered"]["foreach-batch"] > 0.5 * verdict.figures["records acknowledged"]
