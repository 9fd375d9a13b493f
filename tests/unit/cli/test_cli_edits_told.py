"""What `evensplit inspect` and `why` say of edits of a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from evensplit.cli.repair.edit import outcome
from tests.support.commands import invoke
from tests.support.edited import ours


def test_stacked_edits_are_told_with_their_times_and_by_how_much_each_went_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many offsets are read again is a matter of all of them."""
    place = ours(tmp_path / "orders")
    for at, to in ((1_700_000_100, 20), (1_700_000_200, 12)):
        monkeypatch.setattr(outcome, "time", SimpleNamespace(time=lambda at=at: float(at)))
        where = f'{{"orders":{{"0":{to}}}}}'
        invoke("rewind", place, "--to", where, "--yes", "--assume-stopped")
    told = [" ".join(line.split()) for line in invoke("inspect", place)[0].splitlines()]
    for time, to, by in (("22:15:00", 20, 10), ("22:16:40", 12, 8)):
        said = f'edited: `evensplit rewind --to {{"orders":{{"0":{to}}}}}`: 1 partition goes back by {by} offsets'
        assert f"3 2023-11-14 {time} {said}" in told
    story = invoke("why", place, "orders/0")[0]
    assert 'from offset 30 to 20: `evensplit rewind --to {"orders":{"0":20}}`, of 2023-11-14 22:15:00 UTC' in story
    assert 'from offset 20 to 12: `evensplit rewind --to {"orders":{"0":12}}`, of 2023-11-14 22:16:40 UTC' in story
    document = json.loads(invoke("why", place, "orders/0", "--format", "json")[0])
    (edited,) = [one["edits"] for one in document["stories"][0]["chapters"] if one["edits"]]
    assert [one["atMs"] for one in edited] == [1_700_000_100_000, 1_700_000_200_000]
