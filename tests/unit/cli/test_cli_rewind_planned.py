"""`evensplit rewind --to planned:…`: by the times at which batches were planned, and not by those of records."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from evensplit.cli.repair.edit import outcome
from evensplit.testing.fake_kafka import FakeKafka
from evensplit.times import time_of
from tests.support.checkpoints import age, checkpoint, put
from tests.support.commands import invoke
from tests.support.edited import BEGUN_MS, HOUR_MS, lines, ours, positions, states

DONE = b'v1\n{"nextBatchWatermarkMs":0}'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three batches, all done: partition 0 is at 30, partition 1 at 25."""
    return ours(tmp_path / "orders")


def planned(place: Path, *at_ms: int | None, first: int = 0) -> None:
    """Let batches from `first` on have been planned at these times; None: the file does not say."""
    for number, one in enumerate(at_ms, start=first):
        path = place / "offsets" / str(number)
        head = {"batchWatermarkMs": 0} | ({} if one is None else {"batchTimestampMs": one})
        rows = path.read_text().split("\n")
        put(path, "\n".join([rows[0], json.dumps(head), *rows[2:]]).encode())
    age(place)


PLANNED_MS = BEGUN_MS, BEGUN_MS + HOUR_MS, BEGUN_MS + 2 * HOUR_MS


@pytest.mark.parametrize(
    "to, number, expected",
    [
        ("planned:2023-11-14T00:00:00Z", 0, (0, 0)),
        ("planned:2022-11-14T00:00:00Z", 0, (0, 0)),
        ("planned:2023-11-14T00:00:01Z", 1, (10, 10)),
        (f"planned:{PLANNED_MS[1]}", 1, (10, 10)),
        ("planned:2023-11-14T03:00:00+01:00", 2, (20, 10)),
        ("planned:40m", 2, (20, 10)),
        ("planned:90m", 1, (10, 10)),
    ],
)
def test_a_time_at_which_batches_were_planned(
    place: Path, monkeypatch: pytest.MonkeyPatch, to: str, number: int, expected: tuple[int, int]
) -> None:
    planned(place, *PLANNED_MS)
    now_ms = PLANNED_MS[2] + 600_000
    monkeypatch.setattr(outcome, "time", SimpleNamespace(time=lambda: now_ms / 1000))
    shown, _ = invoke("rewind", place, "--to", to, "--yes", "--assume-stopped")
    at = f"{time_of(PLANNED_MS[number])} UTC"
    assert f"the first batch that was planned since then is batch {number}, of {at}." in " ".join(shown.split())
    assert f"`evensplit rewind --to {to}`" in shown
    assert (f"say --to batch:{number - 1}" in " ".join(shown.split())) == (number > 0)
    assert tuple(positions(place).values()) == expected


def test_a_time_before_the_batches_that_are_kept_is_refused(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "x", *map(lines, states()), committed=9, first=7)
    planned(place, *PLANNED_MS, first=7)
    for to in (PLANNED_MS[0] - 1, PLANNED_MS[0]):
        _, told = invoke("rewind", place, "--to", f"planned:{to}", code=1)
        oldest = f"the oldest batch that Spark has kept is 7, of {time_of(PLANNED_MS[0])} UTC"
        assert f"--to planned:{to} is {time_of(to)} UTC; {oldest}" in told
        assert "expected a time after that. For what was before, say a time without planned:, or offsets" in told
    invoke("rewind", place, "--to", f"planned:{PLANNED_MS[0] + 1}")


def test_a_time_since_which_no_batch_was_planned_is_refused(place: Path) -> None:
    planned(place, *PLANNED_MS[:2], None)
    _, told = invoke("rewind", place, "--to", f"planned:{PLANNED_MS[1] + 1}", code=1)
    newest = f"the newest one is 1, of {time_of(PLANNED_MS[1])} UTC; expected a time up to that"
    assert f"no batch was planned since then: {newest}" in told
    planned(place, None, None, None)
    _, told = invoke("rewind", place, "--to", "planned:1h", code=1)
    assert "no batch that Spark has kept has the time at which it was planned" in told


def test_a_batch_that_an_edit_made_was_planned_by_no_query(place: Path) -> None:
    planned(place, *PLANNED_MS)
    invoke("rewind", place, "--to", '{"orders":{"0":15}}', "--yes")
    _, told = invoke("rewind", place, "--to", f"planned:{PLANNED_MS[2] + 1}", code=1)
    assert f"the newest one is 2, of {time_of(PLANNED_MS[2])} UTC" in told


def test_what_was_read_again_since_a_time_is_before_where_its_first_batch_began(place: Path, kafka: FakeKafka) -> None:
    """All that batches have read since that time is read again, also what they have read by a rewind in between."""
    planned(place, *PLANNED_MS)
    invoke("rewind", place, "--to", '{"orders":{"0":5}}', "--yes")
    put(place / "commits" / "3", DONE)
    age(place)
    invoke("skip", place, "orders/0:8", "--yes")
    put(place / "commits" / "4", DONE)
    age(place)
    invoke("rewind", place, "--to", f"planned:{PLANNED_MS[2]}", "--yes")
    assert positions(place) == {"default/orders/0": 5, "default/orders/1": 10}


def test_times_of_records_that_lead_nowhere_name_those_of_batches(place: Path, kafka: FakeKafka) -> None:
    hint = "--to planned:2h goes by when batches were planned"
    _, told = invoke("rewind", place, "--to", "2h", code=1)
    assert "by the timestamps of records" in told
    assert hint in told
    at = str(BEGUN_MS + 28 * HOUR_MS)
    shown, _ = invoke("rewind", place, "--to", at)
    assert "1 partition stays where it is" in shown
    assert f"Note: {hint.replace('2h', at)}." in shown
    shown, _ = invoke("rewind", place, "--to", str(BEGUN_MS + 20 * HOUR_MS))
    assert "planned:" not in shown
