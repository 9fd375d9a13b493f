"""A history: what is recorded is read again, in the order of time, whatever process wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evensplit.errors import ChaosError
from evensplit.testing.chaos.history.events import (
    EVENTS,
    FaultEnded,
    QueryStarted,
    RecordsAcknowledged,
    RunEnded,
)
from evensplit.testing.chaos.history.recorder import Recorder, read_history


def test_events_of_several_processes_are_one_history(tmp_path: Path) -> None:
    with Recorder(tmp_path, "run", began_s=0.0) as run, Recorder(tmp_path, "driver", run.began_s) as driver:
        first = run.record(FaultEnded(fault=1))
        second = driver.record(QueryStarted(at_s=first.at_s + 1, query="parquet"))
        acknowledged = RecordsAcknowledged(
            at_s=second.at_s + 1,
            writer="w",
            cluster="east",
            topic="t",
            incarnation=1,
            partition=0,
            numbers=(3, 4),
            offsets=(0, 1),
        )
        run.record(acknowledged)
        early = driver.record(RunEnded(at_s=0.5))
    assert 0 < first.at_s < second.at_s
    assert read_history(tmp_path) == [early, first, second, acknowledged]


def test_a_line_that_a_killed_process_left_is_no_event(tmp_path: Path) -> None:
    with Recorder(tmp_path, "run") as recorder:
        whole = recorder.record(FaultEnded(fault=1))
    with (tmp_path / "run.jsonl").open("a") as file:
        file.write('{"event":"FaultEn')
    assert read_history(tmp_path) == [whole]


@pytest.mark.parametrize("line", ["nonsense", '{"event":"Unknown"}', '{"event":"FaultEnded","other":1}', "[]"])
def test_any_other_line_is_an_error_that_names_it(tmp_path: Path, line: str) -> None:
    (tmp_path / "run.jsonl").write_text('{"event":"FaultEnded","at_s":1,"fault":1}\n' + line + "\n")
    with pytest.raises(ChaosError, match=r"run\.jsonl, line 2: no event of a history"):
        read_history(tmp_path)


def test_a_directory_without_a_history_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ChaosError, match="holds no history"):
        read_history(tmp_path)


def test_every_event_is_known_by_its_name() -> None:
    assert all(EVENTS[kind.__name__] is kind for kind in EVENTS.values())
    assert len(EVENTS) > 20
