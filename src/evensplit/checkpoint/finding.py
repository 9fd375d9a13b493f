"""The checkpoints below a folder, and whose they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from evensplit.checkpoint.files import is_directory, numbers_in, read_bytes
from evensplit.checkpoint.offset_file import TornFile, parse_offset_file
from evensplit.checkpoint.places.entry import entry
from evensplit.checkpoint.places.place import Place
from evensplit.errors import CheckpointError

DEPTH_MAX = 4
"""How many folders deep checkpoints are looked for."""

FOUND_MAX = 500
"""How many checkpoints are found at most."""

OFFSETS = "offsets"


@dataclass(slots=True)
class Found:
    """What there is below a folder."""

    checkpoints: dict[str, Place] = field(default_factory=dict)
    """Name -> checkpoint, at most `FOUND_MAX`: its place below the folder, such as `team/orders`. By their names."""
    unreadable: list[str] = field(default_factory=list)
    """Folders that cannot be read, each with why."""
    more: bool = False
    """There are more than `FOUND_MAX`."""


def is_checkpoint(path: Place) -> bool:
    """Whether it looks like the checkpointLocation of a query: it has a directory `offsets`."""
    try:
        return is_directory(path / OFFSETS)
    except CheckpointError:
        return False


def checkpoints_below(folder: Place) -> Found:
    """Find the checkpoints below `folder`, to a depth of `DEPTH_MAX`. What is inside of one is not looked at.

    Hidden folders, whose names begin with a dot, are passed over.
    """
    found = Found()
    for name, path in _walked(folder, "", DEPTH_MAX, found):
        if len(found.checkpoints) == FOUND_MAX:
            found.more = True
            break
        found.checkpoints[name] = path
    return found


def _walked(folder: Place, before: str, depth: int, found: Found) -> Iterator[tuple[str, Place]]:
    try:
        names = [name for name in entry(folder).names() if not name.startswith(".")]
        there = {name: folder / name for name in names if entry(folder / name).is_directory()}
    except (OSError, CheckpointError) as error:
        found.unreadable.append(f"{folder}: {getattr(error, 'strerror', None) or error}")
        return
    for name, one in sorted(there.items()):
        if is_checkpoint(one):
            yield f"{before}{name}", one
        elif depth > 1:
            yield from _walked(one, f"{before}{name}/", depth - 1, found)


def why_not_ours(checkpoint: Place) -> str:
    """Why a checkpoint has nothing to show though nothing is wrong with it, in a clause; empty if that is not so."""
    try:
        batches = sorted(numbers_in(checkpoint / OFFSETS))
        if not batches:
            return "has no batch yet"
        path = checkpoint / OFFSETS / str(batches[-1])
        newest = parse_offset_file(path, batches[-1], read_bytes(path))
    except (CheckpointError, OSError, TornFile):
        return ""
    return "" if newest.ours or newest.damaged else "has no source of this package"
