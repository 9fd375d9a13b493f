"""How commands end: 0, 1 and 2 as docs/commands.md has them, with a row for each command and each code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from evensplit.cli import night
from evensplit.cli.group import COMMANDS, evensplit
from evensplit.cli.live import log_ends
from evensplit.errors import ClusterUnreachable
from evensplit.testing.fake_kafka import FakeKafka
from evensplit.testing.sim import SimulationFailed, simulate
from tests.support.histories import history, write
from tests.support.migrations import two_batches
from tests.support.named import is_there

ROOT = Path(__file__).resolve().parents[3]

LIVE = "-o kafka.bootstrap.servers=b:1 -o subscribe=t"

ROWS: dict[str, dict[int, tuple[str, ...]]] = {
    "assign": {
        0: ("assign CASES",),
        1: ("assign NOT_THERE", "assign DIRECTORY", "assign NO_CASES"),
        2: ("assign", "assign CASES --policy none"),
    },
    "audit": {
        0: ("audit sink SINK --checkpoint KEPT --filtered",),
        1: (
            "audit sink SINK --checkpoint KEPT",
            "audit sink SINK --checkpoint NOT_THERE",
            "audit sink NOT_THERE --checkpoint KEPT",
            "audit topic t --bootstrap-servers b:1",
        ),
        2: ("audit sink SINK", "audit sink DIRECTORY --checkpoint KEPT", "audit topic t"),
    },
    "broker": {1: ("broker",), 2: ("broker --brokers 0",)},
    "chaos": {
        0: ("chaos --list",),
        1: ("chaos --check DIRECTORY", "chaos --nemesis none"),
        2: ("chaos --minutes none", "chaos -o readers"),
    },
    "completion": {0: ("completion bash",), 2: ("completion tcsh",)},
    "dashboard": {
        1: (
            "dashboard NOT_THERE",
            "dashboard KEPT --token-file NOT_THERE",
        ),
        2: ("dashboard KEPT --port -1", "dashboard KEPT --host 0.0.0.0", "dashboard KEPT --source none"),
    },
    "doctor": {
        0: (
            "doctor",
            "doctor --checkpoint KEPT",
            "doctor --checkpoint KEPT -o readers=2",
            "doctor --checkpoint SPARKS",
        ),
        1: (f"doctor {LIVE}", "doctor -o metadata=NOT_THERE", "doctor --checkpoint NOT_THERE"),
        2: ("doctor -o readers=none", "doctor -o none", "doctor --source 0", "doctor --checkpoint KEPT -o none"),
    },
    "drop": {
        0: ("drop KEPT east/orders --assume-stopped",),
        1: ("drop KEPT east/orders", "drop KEPT none --assume-stopped", "drop NOT_THERE east", "drop SPARKS default"),
        2: ("drop KEPT", "drop KEPT a/b/c/d"),
    },
    "explain": {
        0: ("explain ES-101", "explain subscribe", "explain kafka.group.id"),
        1: ("explain ES-999", "explain subscirbe"),
        2: ("explain",),
    },
    "fork": {
        0: ("fork KEPT NEW --assume-stopped", "fork KEPT NEW --assume-stopped --yes"),
        1: ("fork KEPT NEW", "fork KEPT SPARKS --assume-stopped", "fork NOT_THERE NEW"),
        2: ("fork KEPT",),
    },
    "init": {
        0: ("init --servers b:1 --topics t --print",),
        1: ("init SINK/within --servers b:1 --topics t",),
        2: ("init --servers b:1 --topics t --kind none", "init --servers b:1 --topics t -o readers=none --print"),
    },
    "inspect": {
        0: ("inspect KEPT",),
        1: ("inspect NOT_THERE", "inspect SPARKS"),
        2: ("inspect", "inspect KEPT --format none"),
    },
    "migrate": {
        0: ("migrate SPARKS NEW", "migrate SPARKS NEW --bootstrap-servers b:1", "migrate SPARKS NEW --yes"),
        1: ("migrate NOT_THERE NEW", "migrate SPARKS KEPT", "migrate KEPT NEW"),
        2: ("migrate SPARKS", "migrate SPARKS NEW --source none"),
    },
    "offsets": {
        0: ("offsets KEPT",),
        1: ("offsets NOT_THERE", "offsets KEPT --lag", "offsets KEPT --lag --format json"),
        2: ("offsets KEPT --source none", "offsets SPARKS --lag"),
    },
    "plan": {
        0: ("plan KEPT", "plan KEPT --compare"),
        1: ("plan NOT_THERE", f"plan {LIVE}", "plan KEPT --lag", f"plan KEPT {LIVE}", "plan -o metadata=NOT_THERE"),
        2: ("plan", "plan KEPT --source none", "plan -o readers=none"),
    },
    "rename-cluster": {
        0: ("rename-cluster KEPT east north --assume-stopped",),
        1: ("rename-cluster KEPT none west --assume-stopped", "rename-cluster NOT_THERE east west"),
        2: ("rename-cluster KEPT east", "rename-cluster KEPT east a/b"),
    },
    "report": {
        0: ("report KEPT -o REPORT",),
        1: ("report NOT_THERE -o REPORT", "report KEPT -o NOT_THERE/report.html", "report KEPT -o REPORT --lag"),
        2: ("report KEPT", "report KEPT -o REPORT --cluster east"),
    },
    "rewind": {
        0: ("rewind KEPT --to batch:1 --assume-stopped",),
        1: ("rewind KEPT --to batch:1", "rewind KEPT --to 2h", "rewind KEPT --to batch:99", "rewind NOT_THERE --to 2h"),
        2: ("rewind KEPT", "rewind KEPT --to yesterday", "rewind KEPT --to 2h --source none"),
    },
    "simulate": {0: ("simulate --events 5",), 1: ("simulate --events 6",), 2: ("simulate --seeds 0",)},
    "skip": {
        0: ("skip KEPT orders/0:100000 --assume-stopped",),
        1: ("skip KEPT orders/0:1", "skip KEPT orders/0", "skip NOT_THERE orders/0:1"),
        2: ("skip KEPT", "skip KEPT orders"),
    },
    "top": {
        0: ("top KEPT --once",),
        1: ("top NOT_THERE --once", "top KEPT --once --lag", "top KEPT --lag", "top KEPT --once --lag --format json"),
        2: ("top KEPT --source none", "top KEPT --cluster east"),
    },
    "undo": {
        1: ("undo KEPT", "undo NOT_THERE"),
        2: ("undo",),
    },
    "why": {
        0: ("why KEPT east/orders/0",),
        1: ("why NOT_THERE east/orders/0", "why KEPT east/none/0"),
        2: ("why KEPT",),
    },
}
"""Command -> how it ends -> calls that end so, where no cluster answers."""

ELSEWHERE = {
    ("broker", 0): "kafka/test_local_kafka.py::test_the_command_runs_brokers_until_ctrl_c",
    ("dashboard", 0): "unit/cli/test_cli_dashboard.py::test_the_command_serves_and_follows_until_ctrl_c",
    ("undo", 0): "unit/cli/test_cli_repair.py::test_undo",
    ("completion", 1): "unit/cli/test_cli_exit_codes.py::test_an_output_that_nobody_reads",
}
"""What takes more than a call."""

CALLS = [(call, code) for by_code in ROWS.values() for code, calls in by_code.items() for call in calls]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What stands in the calls for paths. No cluster answers, this machine has no Kafka, and one simulation fails."""
    away = FakeKafka("away")
    away.fail_with(ClusterUnreachable("away", "nobody is there"))
    monkeypatch.setattr(log_ends, "ClusterClient", lambda cluster, settings: away)
    monkeypatch.setenv("EVENSPLIT_KAFKA_LIBS", str(tmp_path / "no-libs"))

    def simulated(seed: int, events: int) -> object:
        if events == 6:
            raise SimulationFailed(seed, "S1", 3, events, "it happened", ("it",))
        return simulate(seed, events)

    monkeypatch.setattr(night, "simulate", simulated)
    (tmp_path / "cases.json").write_text('{"id": "one", "topics": {"t": 4}, "members": {"a": ["t"]}}')
    (tmp_path / "no-cases.json").write_text("[]")
    (tmp_path / "sink.csv").write_text("cluster,topic,partition,offset\neast,orders,0,150\n")
    return {
        "CASES": str(tmp_path / "cases.json"),
        "NO_CASES": str(tmp_path / "no-cases.json"),
        "DIRECTORY": str(tmp_path),
        "NOT_THERE": str(tmp_path / "not-there"),
        "KEPT": str(write(tmp_path / "kept", history())),
        "SPARKS": str(two_batches(tmp_path)),
        "NEW": str(tmp_path / "new"),
        "REPORT": str(tmp_path / "report.html"),
        "SINK": str(tmp_path / "sink.csv"),
    }


@pytest.mark.parametrize("call, code", CALLS, ids=[call for call, _ in CALLS])
def test_a_call_ends_as_documented(places: dict[str, str], call: str, code: int) -> None:
    arguments = [re.sub(r"\b[A-Z_]{3,}\b", lambda word: places.get(word[0], word[0]), one) for one in call.split()]
    result = CliRunner().invoke(evensplit, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit | None), result.exception
    assert code == 0 or result.output, "it says why"
    if code == 2:
        assert "Usage: evensplit" in result.stderr


def test_each_command_and_each_code_has_a_row() -> None:
    """One that is new has to say how it ends."""
    assert sorted(ROWS) == sorted(COMMANDS)
    there = {(name, code) for name, by_code in ROWS.items() for code in by_code}
    assert there | ELSEWHERE.keys() == {(name, code) for name in COMMANDS for code in (0, 1, 2)}
    assert [test for test in ELSEWHERE.values() if not is_there(test)] == []


@pytest.mark.parametrize(
    "call", ["offsets KEPT --lag", "top KEPT --once --lag", "report KEPT -o REPORT --lag", "plan KEPT --lag"]
)
def test_what_is_known_is_printed_where_a_cluster_does_not_answer(places: dict[str, str], call: str) -> None:
    result = CliRunner().invoke(evensplit, [places.get(one, one) for one in call.split()], env={"COLUMNS": "200"})
    assert result.exit_code == 1
    assert "nobody is there" in result.output
    shown = Path(places["REPORT"]).read_text() if "REPORT" in call else result.stdout
    assert "orders" in shown


def test_an_output_that_nobody_reads() -> None:
    """As of `evensplit completion fish | head -0`."""
    reading, writing = os.pipe()
    os.close(reading)
    code = "from evensplit.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "completion", "fish"],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


def test_the_docs_have_the_codes() -> None:
    text = (ROOT / "docs" / "commands.md").read_text().partition("## Exit codes")[2].partition("\n## ")[0]
    assert re.findall(r"^\| ([0-9]) \|", text, re.M) == ["0", "1", "2"]
