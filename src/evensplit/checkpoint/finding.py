"""The checkpoints below a folder, and whose they are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from evensplit.checkpoint.files import READS_AT_ONCE, is_directory, numbers_in, read_bytes
from evensplit.checkpoint.offset_file import TornFile, parse_offset_file
from evensplit.checkpoint.places.entry import entry
from evensplit.checkpoint.places.place import Place
from evensplit.errors import CheckpointError

DEPTH_MAX = 4
"""How many folders deep checkpoints are looked for."""

FOUND_MAX = 500
"""How many checkpoints are found at most."""

AT_ONCE_MAX = 64
"""How many folders are looked at before it is seen that there are enough checkpoints."""

OFFSETS = "offsets"
Answer = TypeVar("Answer")


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


def checkpoints_below(folder: Place, known: Collection[Place] = ()) -> Found:
    """Find the checkpoints below `folder`, to a depth of `DEPTH_MAX`. What is inside of one is not looked at.

    Hidden folders, whose names begin with a dot, are passed over. `known`: checkpoints that were found before, which
    are not looked at again. Each folder takes one request, and several are asked at once. If there are more than
    `FOUND_MAX`, those in fewer folders come first.
    """
    found = Found()
    folders: list[tuple[_Parts, Place]] = [((), folder)]
    checkpoints: dict[_Parts, Place] = {}
    for depth in range(DEPTH_MAX + 1):
        below: list[tuple[_Parts, Place]] = []
        for (parts, place), seen in zip(folders, _looks(folders, depth, known), strict=False):
            if isinstance(seen, str):
                found.unreadable.append(seen)
            elif OFFSETS in seen and depth:
                checkpoints[parts] = place
                if len(checkpoints) > FOUND_MAX:
                    break
            else:
                below += [((*parts, name), place / name) for name in sorted(seen) if not name.startswith(".")]
        found.more = len(checkpoints) > FOUND_MAX
        if found.more:
            break
        folders = below
    found.checkpoints = {"/".join(parts): checkpoints[parts] for parts in sorted(list(checkpoints)[:FOUND_MAX])}
    return found


_Parts = tuple[str, ...]
"""The names on the way to a folder from the one that is looked through."""


def _looks(
    folders: Sequence[tuple[_Parts, Place]], depth: int, known: Collection[Place]
) -> Iterator[Sequence[str] | str]:
    """The directories in each; of those that are `known` or too deep, whether there is `OFFSETS`. A text: why not."""

    def look(path: Place) -> Sequence[str] | str:
        if path in known:
            return (OFFSETS,)
        if depth == DEPTH_MAX:
            return (OFFSETS,) if is_checkpoint(path) else ()
        try:
            return entry(path).directories()
        except (OSError, CheckpointError) as error:
            # It may be known by its name, and not be listed.
            if depth and is_checkpoint(path):
                return (OFFSETS,)
            return f"{path}: {getattr(error, 'strerror', None) or error}"

    paths = [path for _, path in folders]
    for begin in range(0, len(paths), AT_ONCE_MAX):
        yield from at_once(look, paths[begin : begin + AT_ONCE_MAX])


def at_once(look: Callable[[Place], Answer], paths: Sequence[Place]) -> Iterator[Answer]:
    """What `look` says of each path, in this order; of several at once on another file system. Raises what it does."""
    if len(paths) < 2 or isinstance(paths[0], Path):
        yield from map(look, paths)
        return
    with ThreadPoolExecutor(READS_AT_ONCE) as pool:
        yield from pool.map(look, paths)


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
