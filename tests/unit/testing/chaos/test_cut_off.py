"""A batch that the end of a driver cuts off is noted with how far its topic had come; one that is done is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from evensplit.testing.chaos.cut_off import CutOff
from evensplit.testing.chaos.history.events import BatchCutOff
from evensplit.testing.chaos.history.recorder import Recorder, read_history

OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1789,"conf":{}}\n{"splits":[]}'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Of a query that has begun batch 10, and done batch 9."""
    place = tmp_path / "checkpoint"
    for log, last in (("offsets", 10), ("commits", 9)):
        (place / log).mkdir(parents=True)
        for batch in range(last + 1):
            (place / log / f"{batch}").write_text(OFFSETS if log == "offsets" else "v1\n{}")
        (place / log / f".{last + 1}.1234.tmp").touch()
    return place


def noted(tmp_path: Path, checkpoint: Path, ends: tuple[int, ...] | None = (5, 7)) -> list[BatchCutOff]:
    with Recorder(tmp_path / "history", "run") as recorder:
        CutOff(checkpoint, lambda: ends, recorder)()
    return [one for one in read_history(tmp_path / "history") if isinstance(one, BatchCutOff)]


def test_what_was_begun_and_not_done_is_noted(tmp_path: Path, checkpoint: Path) -> None:
    (one,) = noted(tmp_path, checkpoint)
    assert (one.batch, one.batch_ms, one.ends) == (10, 1789, (5, 7))


def test_a_batch_that_is_done_is_not_cut_off(tmp_path: Path, checkpoint: Path) -> None:
    (checkpoint / "commits/10").write_text("v1\n{}")
    assert noted(tmp_path, checkpoint) == []


@pytest.mark.parametrize("text", ["", "v1", "v1\n{", "v1\n[]\n{}", "v1\n{}\n{}"])
def test_what_does_not_tell_is_passed_over(tmp_path: Path, checkpoint: Path, text: str) -> None:
    (checkpoint / "offsets/10").write_text(text)
    assert noted(tmp_path, checkpoint) == []


def test_where_brokers_do_not_answer_it_is_noted_without_ends(tmp_path: Path, checkpoint: Path) -> None:
    (one,) = noted(tmp_path, checkpoint, None)
    assert (one.batch, one.ends) == (10, ())


def test_nothing_is_noted_where_no_batch_was_begun(tmp_path: Path, checkpoint: Path) -> None:
    assert noted(tmp_path, tmp_path / "none") == []
