"""What `inspect` and `top` say of how far the last batch went, and how they look in a narrow terminal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evensplit.core.model import Held
from evensplit.core.state.settings import RATE, Settings
from tests.support.commands import invoke, read_checkpoint
from tests.support.histories import history, write


def sources(name: str, place: Path, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(read_checkpoint(name, place, "--format", "json", *options)[0])["sources"]
    return found


def test_what_held_the_last_batch_and_the_time_that_it_reached(tmp_path: Path) -> None:
    before, end = history()[-2:]
    aligned = replace(end, held=(Held("alignment", "west/clicks/0"),), reached_ms=1_700_000_000_000)
    place = write(tmp_path / "aligned", [before, aligned])
    held = "The last batch was held by alignment, which waits for west/clicks/0."
    reached = "Reached 2023-11-14 22:13:20 UTC, by the records' timestamps, as of the last batch with alignment."
    for command in (("inspect",), ("top", "--once")):
        name, *options = command
        lines = read_checkpoint(name, place, *options)[0].splitlines()
        assert lines[lines.index(held) + 1] == reached
    (source,) = sources("inspect", place)
    assert (source["reachedMs"], source["last"]["held"][0]["scope"]) == (1_700_000_000_000, "west/clicks/0")
    (source,) = sources("top", place, "--once")
    assert (source["reachedMs"], source["held"]) == (
        1_700_000_000_000,
        [{"limit": "alignment", "scope": "west/clicks/0", "what": "alignment, which waits for west/clicks/0"}],
    )
    plain = write(tmp_path / "plain", [before, end])
    for name in ("inspect", "top"):
        assert not {"Reached", "held"} & set(read_checkpoint(name, plain)[0].split())
    assert sources("inspect", plain)[0]["reachedMs"] is None


@pytest.mark.parametrize("columns", [60, 80])
def test_a_narrow_terminal_cuts_no_heading_and_no_number(tmp_path: Path, columns: int) -> None:
    """A number without its last digits is another number."""
    before, end = history()[-2:]
    far = {
        key: split._replace(position=position + 123_456_789_012_345_678, rate=1 << 50)
        for key, split in end.splits.items()
        if (position := split.position) is not None
    }
    settings = Settings(balance=RATE, capacities=((0, 2), (1, 2)))
    place = write(tmp_path / "far", [replace(before, settings=settings), replace(end, splits=far, settings=settings)])
    for arguments in (("inspect", place, "--splits"), ("top", place, "--once")):
        shown, _ = invoke(*arguments, columns=columns)
        assert "…" not in shown
    words = set(invoke("inspect", place, columns=columns)[0].split())
    for heading in ("offsets in the last batch", "offsets a minute, by rate", "capacity"):
        assert set(heading.split()) <= words, heading


@pytest.mark.parametrize("command", [("inspect",), ("top", "--once")], ids=lambda one: one[0])
def test_headings_wrap_where_a_line_is_too_short_for_them(tmp_path: Path, command: tuple[str, ...]) -> None:
    name, *options = command
    end = replace(history()[-1], settings=Settings(balance=RATE))
    shown, _ = invoke(name, write(tmp_path / "rated", [end]), *options, columns=60)
    assert max(map(len, shown.splitlines())) <= 60
    assert {"reader", "partitions"} <= set(shown.split())
