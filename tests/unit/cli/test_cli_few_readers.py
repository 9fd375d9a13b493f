"""Why a small batch is read by fewer readers than it could be: `evensplit inspect`, `top` and the dashboard."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.checkpoints import checkpoint
from tests.support.commands import invoke
from tests.support.edited import lines, states

SAID = (
    "In the last batch, 1 reader had too few offsets for a task: others read them (readerOffsetsMin=250; with 1, each "
    "reader reads its own)."
)


@pytest.mark.parametrize("command", [("inspect",), ("top", "--once")])
@pytest.mark.parametrize("offsets_min, is_said", [(250, True), (1, False)])
def test_the_option_is_named_where_readers_were_joined(
    tmp_path: Path, command: tuple[str, ...], offsets_min: int, is_said: bool
) -> None:
    few = [lines(replace(one, settings=replace(one.settings, reader_offsets_min=offsets_min))) for one in states()]
    place = checkpoint(tmp_path / "x", *few, committed=2)
    shown, _ = invoke(command[0], place, *command[1:])
    assert (SAID in shown) is is_said
    assert ("readers had too few" in shown or "reader had too few" in shown) is is_said
