"""The page about the state machine is what the transition table gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from evensplit.core.machine.enumerator import TRANSITIONS
from evensplit.core.machine.events import Event
from tools.diagram import arrows, main, page

PAGE = Path(__file__).resolve().parents[3] / "docs" / "state-machine.md"


def test_the_committed_page_is_what_the_table_gives() -> None:
    assert PAGE.read_text() == page()
    assert main([str(PAGE), "--check"]) == 0


def test_a_page_that_is_not_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.md"
    assert main([str(file), "--check"]) == 1
    assert "run: python -m tools.diagram" in capsys.readouterr().err
    assert main([str(file)]) == 0
    assert main([str(file), "--check"]) == 0
    file.write_text(file.read_text().replace("assigned --> finished", "finished --> assigned"))
    assert main([str(file), "--check"]) == 1


def test_every_event_is_in_the_table_and_every_change_in_the_diagram() -> None:
    assert set(TRANSITIONS) == set(Event.__args__)
    assert len(arrows()) == len({change for transition in TRANSITIONS.values() for change in transition.changes})
