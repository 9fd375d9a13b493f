"""What commands changed in a checkpoint, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evensplit.core.model import SplitId, split_called
from evensplit.core.state.edits import Edit, Jump, jumps_of, scope_text
from evensplit.core.text import counted, is_one_offset, offsets_text

PARTITIONS_NAMED_MAX = 10
"""Of more partitions of which something is left out, the rest are counted."""


def edit_sentence(edit: Edit, again: int | None = None) -> str:
    """One line for the log: the command, and what it came to.

    `again`: how many offsets are read again; None: not known, so it is said by how many it went back. These are not as
    many where several commands have edited a batch.
    """
    return f"`{edit.line}`: {'; '.join(_outcomes(edit, again))}"


def edits_of(split: SplitId, edits: Sequence[Edit]) -> tuple[tuple[str, int], ...]:
    """What happened to one split, without its name, and when the command was given (ms since 1970): "went back from
    offset 98 to 12: `evensplit rewind --to 2h`"."""
    said: list[tuple[str, int]] = []
    # Earlier edits have what they did by the names of today. Which name they gave, they have as it was given.
    called = split
    for edit in reversed(edits):
        jumps = [jump for jump in edit.jumps if jump.split == split]
        former = split_called(called, {after: before for before, after in edit.renamed})
        if jumps:
            what = _jumped(jumps)
        elif edit.drops(split):
            what = "was forgotten"
        elif former != called:
            what = f"was called {former} before"
        elif not (edit.jumps or edit.dropped or edit.renamed):
            what = "goes on in a copy of the checkpoint"
        else:
            what = ""
        if what:
            said.append((f"{what}: `{edit.line}`", edit.at_ms))
        called = former
    return tuple(said[::-1])


def edit_json(edit: Edit, again: int | None = None) -> dict[str, Any]:
    """An edit in JSON's own types; `to` is the first offset after what is left out, or where it goes back to.

    `again`: as in `edit_sentence`.
    """
    return {
        "command": edit.command,
        "said": edit.said,
        "atMs": edit.at_ms,
        "jumps": [{"split": str(key), "at": at, "to": to} for key, at, to in edit.jumps],
        "dropped": [scope_text(one) for one in edit.dropped],
        "renamed": [{"from": before, "to": after} for before, after in edit.renamed],
        "what": edit_sentence(edit, again),
    }


def _outcomes(edit: Edit, again: int | None) -> list[str]:
    said: list[str] = []
    back = [jump for jump in edit.jumps if jump.to < jump.at]
    if back:
        goes = f"{counted(len(back), 'partition')} {'goes' if len(back) == 1 else 'go'} back"
        offsets = counted(sum(at - to for _, at, to in back) if again is None else again, "offset")
        if again is None:
            said.append(f"{goes} by {offsets}{' in all' if len(back) > 1 else ''}")
        else:
            said.append(f"{goes}, so {offsets} {'is' if again == 1 else 'are'} read again")
    forward = jumps_of([replace(edit, jumps=tuple(jump for jump in edit.jumps if jump.to > jump.at))])
    said.extend(f"{split}: {_jumped(jumps)}" for split, jumps in list(forward.items())[:PARTITIONS_NAMED_MAX])
    if len(forward) > PARTITIONS_NAMED_MAX:
        said.append(f"… {len(forward):,} partitions in all")
    said.extend(f"the positions of {scope_text(one)} are forgotten" for one in edit.dropped)
    said.extend(f"cluster {before} is called {after}" for before, after in edit.renamed)
    return said or ["the checkpoint is a copy; nothing else is changed"]


def _jumped(jumps: Sequence[Jump]) -> str:
    """What these jumps of one command did to a split, at least one: all of them go forward, or one goes back."""
    if jumps[0].to < jumps[0].at:
        return f"went back from offset {jumps[0].at:,} to {jumps[0].to:,}"
    ranges = [(at, to) for _, at, to in jumps]
    return f"{offsets_text(*ranges)} {'is' if is_one_offset(*ranges) else 'are'} never read"
