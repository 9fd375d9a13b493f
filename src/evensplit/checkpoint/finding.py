"""The checkpoints below a folder, and whose they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from evensplit.checkpoint.files import numbers_in
from evensplit.checkpoint.offset_file import TornFile, read_offset_file
from evensplit.errors import CheckpointError

DEPTH_MAX = 4
"""How many folders deep checkpoints are looked for."""

FOUND_MAX = 500
"""How many checkpoints are found at most."""

OFFSETS = "offsets"


@dataclass(slots=True)
class Found:
    """What there is below a folder."""

    checkpoints: list[Path] = field(default_factory=list)
    """In the order of their paths, at most `FOUND_MAX`."""
    unreadable: list[str] = field(default_factory=list)
    """Folders that cannot be read, each with why."""
    more: bool = False
    """There are more than `FOUND_MAX`."""


def is_checkpoint(path: Path) -> bool:
    """Whether it looks like the checkpointLocation of a query: it has a directory `offsets`."""
    try:
        return (path / OFFSETS).is_dir()
    except OSError:
        return False


def checkpoints_below(folder: Path) -> Found:
    """Find the checkpoints below `folder`, to a depth of `DEPTH_MAX`. What is inside of one is not looked at.

    Hidden folders, whose names begin with a dot, are passed over.
    """
    found = Found()
    for path in _walked(folder, DEPTH_MAX, found):
        if len(found.checkpoints) == FOUND_MAX:
            found.more = True
            break
        found.checkpoints.append(path)
    return found


def _walked(folder: Path, depth: int, found: Found) -> Iterator[Path]:
    try:
        below = sorted(one for one in folder.iterdir() if not one.name.startswith(".") and one.is_dir())
    except OSError as error:
        found.unreadable.append(f"{folder}: {error.strerror or error}")
        return
    for one in below:
        if is_checkpoint(one):
            yield one
        elif depth > 1:
            yield from _walked(one, depth - 1, found)


def why_not_ours(checkpoint: Path) -> str:
    """Why a checkpoint has nothing to show though nothing is wrong with it, in a clause; empty if that is not so."""
    try:
        batches = sorted(numbers_in(checkpoint / OFFSETS))
        if not batches:
            return "has no batch yet"
        newest = read_offset_file(checkpoint / OFFSETS / str(batches[-1]), batches[-1], checked=False)
    except (CheckpointError, OSError, TornFile):
        return ""
    return "" if newest.ours or newest.damaged else "has no source of this package"
