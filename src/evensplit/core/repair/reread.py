"""What commands had left out of the logs and an edit that goes back reads now, and how to leave it out again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evensplit.core.repair.past import LeftOut, Past
from evensplit.core.state.edits import Edit
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted, is_one_offset, offsets_text, skip_text

RANGES_NAMED_MAX = 10
"""Of more ranges that were left out before and are read now, the rest are counted."""


def read_now(path: object, sources: Iterable[tuple[Edit, EnumeratorState, Past]]) -> list[str]:
    """What commands have left out, and is read by this edit, a sentence each; how to leave it out again, in the last.

    A batch that is there already cannot read on, so it leaves out only what begins where it ends.

    Args:
        path: the checkpoint.
        sources: the edit of each, where its batch ends with it, and what has come by then.
    """
    found: list[str] = []
    at_once: list[LeftOut] = []
    later: list[LeftOut] = []
    for edit, end, come in sources:
        for key in dict.fromkeys(jump.split for jump in edit.jumps if jump.to < jump.at):
            position = end.splits[key].position or 0
            for one in come.left_out(key, position):
                (at_once if one.start == position else later).append(one)
    for split, start, to, line in (*at_once, *later)[:RANGES_NAMED_MAX]:
        was = "was" if is_one_offset((start, to)) else "were"
        found.append(f"{split}: {offsets_text((start, to))} {was} left out by `{line}`, and will be read now")
    if (rest := len(at_once) + len(later) - RANGES_NAMED_MAX) > 0:
        found.append(f"So will {counted(rest, 'range')} more that were left out")
    if at_once:
        said = f"`evensplit skip {path} {_ranges(at_once)} --yes --assume-stopped`"
        found.append(f"When this edit is written, and before the query is started, {said} leaves out the first of it")
    if later:
        said = f"`evensplit skip {path} {_ranges(later)}`"
        found.append(f"Start the query; when it has come to what was left out, and not before, stop it and say {said}")
    return found


def _ranges(parts: Sequence[LeftOut]) -> str:
    """What `evensplit skip` is told, to leave out the first of `parts`."""
    return " ".join(skip_text(split, start, end) for split, start, end, _ in parts[:RANGES_NAMED_MAX])
