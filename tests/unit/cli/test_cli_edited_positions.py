"""Positions, and another source, of a checkpoint whose batch a command has edited, and no query has done yet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evensplit.checkpoint.checkpoint import read_checkpoint
from evensplit.core.model import SplitId
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import contents
from tests.support.commands import invoke
from tests.support.edited import after, ours, write

ZERO, ONE = SplitId("default", "orders", 0), SplitId("default", "orders", 1)


@pytest.fixture
def place(tmp_path: Path, kafka: FakeKafka) -> Path:
    """Batch 3 is planned and not done: offsets 30 to 35 of orders/0, and none of orders/1, which is at 25."""
    place = ours(tmp_path / "x")
    write(place, 3, after(read_checkpoint(place).newest.ours["0"], {ZERO: 36, ONE: 25}), done=False)
    return place


def edit(place: Path, *command: str) -> None:
    invoke(command[0], place, *command[1:], "--yes", "--assume-stopped")


def to_kafka(place: Path, code: int = 0) -> str:
    return invoke("migrate", "--to", "kafka", place, place.parent / "to", "--yes", "--assume-stopped", code=code)[1]


@pytest.mark.parametrize(
    "command, begin, read",
    [
        (("skip", "orders/0:31", "orders/0:33-34"), 30, "offsets 30 and 32 and 35 of default/orders/0"),
        (("skip", "orders/0:35"), 30, "offsets 30 to 34 of default/orders/0"),
        (("rewind", "--to", '{"orders":{"0":20}}'), 30, "offsets 30 to 35 of default/orders/0"),
    ],
)
def test_what_positions_cannot_say_is_told_and_not_migrated(
    place: Path, command: tuple[str, ...], begin: int, read: str
) -> None:
    edit(place, *command)
    shown, told = invoke("offsets", place)
    assert json.loads(shown) == {"orders": {"0": begin, "1": 25}}
    assert f"a command has edited that batch: it reads {read}, and not all up to where it ends" in told
    before = contents(place)
    said = to_kafka(place, code=1)
    assert f"source 0: a command has edited batch 3, which is planned and not done: it reads {read}, and not" in said
    assert f"`evensplit undo {place}`" in said
    assert contents(place) == before
    assert not (place.parent / "to").exists()
    edit(place, "undo")
    to_kafka(place)


@pytest.mark.parametrize(
    "command, begin, end",
    [
        (("skip", "orders/0:30-32"), 33, 36),
        (("skip", "orders/0:30-37"), 38, 38),
        (("drop", "orders/1"), 30, 36),
    ],
)
def test_what_positions_can_say_is_migrated(place: Path, command: tuple[str, ...], begin: int, end: int) -> None:
    edit(place, *command)
    shown, told = invoke("offsets", place)
    assert json.loads(shown)["orders"]["0"] == begin
    assert "has edited" not in told
    to_kafka(place)
    found = [(place.parent / "to/offsets" / name).read_text().splitlines()[-1] for name in ("2", "3")]
    assert [json.loads(line)["orders"]["0"] for line in found] == [begin, end]
