"""The checkpoints below a folder, and whose they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

from evensplit.checkpoint.files import READS_AT_ONCE, is_directory, numbers_in, read_bytes
from evensplit.checkpoint.offset_file import TornFile, parse_offset_file
from evensplit.checkpoint.places.entry import entry
from evensplit.checkpoint.places.place import Place
from evensplit.core.text import counted
from evensplit.errors import CheckpointError

DEPTH_MAX = 7
"""How many folders deep checkpoints are looked for: as deep as they are in the project of a declarative pipeline."""

LOOKED_MAX = 10_000
"""How many folders are looked at, at most: a wrong one, as `/` or a data lake, would take for ever."""

FOUND_MAX = 500
"""How many checkpoints are found at most."""

UNREADABLE_SHOWN_MAX = 3
"""So many folders that cannot be read are named."""

AT_ONCE_MAX = 64
"""How many folders are looked at before it is seen that there are enough checkpoints."""

OFFSETS = "offsets"
TABLES = frozenset({"_spark_metadata", "_delta_log", "_temporary"})
"""Folders of tables, which have no checkpoints in them; nor have those of partitions, such as `day=1`."""
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
    looked: int = 0
    """How many folders were looked at."""
    left: list[Place] = field(default_factory=list)
    """Folders that were not looked at, as they would be more than `LOOKED_MAX`, nor what is below them."""

    @property
    def left_out(self) -> str:
        """What was not looked at for that, in a clause; empty if there is nothing."""
        if not self.left:
            return ""
        first, more = self.left[0], len(self.left) - 1
        others = f" and {counted(more, 'folder')} more" if more else ""
        looked = f"{counted(self.looked, 'folder')} {'was' if self.looked == 1 else 'were'}"
        return (
            f"{looked} looked through, and no more are at once: not {first}{others}, nor what is below. Name a folder "
            "nearer to the checkpoints"
        )


def is_checkpoint(path: Place) -> bool:
    """Whether it looks like the checkpointLocation of a query: it has a directory `offsets`."""
    try:
        return is_directory(path / OFFSETS)
    except CheckpointError:
        return False


def is_folder(path: Place) -> bool:
    """Whether it is a directory and no checkpoint, so that there may be some below it; they are not looked for.

    Raises CheckpointError for what cannot be looked at.
    """
    return not is_directory(path / OFFSETS) and is_directory(path)


def checkpoints_below(folder: Place, known: Collection[Place] = ()) -> Found:
    """Find the checkpoints below `folder`, to a depth of `DEPTH_MAX`. What is inside of one is not looked at.

    Hidden folders, whose names begin with a dot, and those of tables and their partitions are passed over. `known`:
    checkpoints that were found before, which are not looked at again. Each folder takes one request, and several are
    asked at once, at most `LOOKED_MAX` in all. If there are more than `FOUND_MAX`, those in fewer folders come first.
    Each is found once, whatever links lead to it.
    """
    found = Found()
    checkpoints = list(islice(_walked(folder, known, found), FOUND_MAX + 1))
    found.more = len(checkpoints) > FOUND_MAX
    found.checkpoints = {"/".join(parts): place for parts, place in sorted(checkpoints[:FOUND_MAX], key=itemgetter(0))}
    return found


def nothing_found(folder: Place, found: Found) -> CheckpointError:
    """The error for a folder without checkpoints, where `found` is what there is below it."""
    hint = f". Did you mean {folder.parent}?" if folder.name == OFFSETS else ""
    left = f". That is as far as was looked: {found.left_out}" if found.left else ""
    unread = f". Not looked through: {'; '.join(found.unreadable[:UNREADABLE_SHOWN_MAX])}" if found.unreadable else ""
    return CheckpointError(
        f"{folder} is no checkpoint: it has no directory offsets, and there is none below it to a depth of "
        f"{DEPTH_MAX}; expected a query's checkpointLocation, or a folder with some below it, such as FOLDER/orders, "
        f"in which is the directory offsets{hint}{left}{unread}"
    )


def resolved(path: Place) -> Place:
    """The one path of what has several by symbolic links, which only this machine has."""
    return Path(os.path.realpath(path)) if isinstance(path, Path) else path


_Parts = tuple[str, ...]
"""The names on the way to a folder from the one that is looked through."""


def _walked(folder: Place, known: Collection[Place], found: Found) -> Iterator[tuple[_Parts, Place]]:
    """The checkpoints, and where each is. Links are followed last: what has a name of its own there has that one."""
    folders: list[list[tuple[_Parts, Place]]] = [[] for _ in range(DEPTH_MAX + 1)]
    links: list[list[tuple[_Parts, Place]]] = [[] for _ in range(DEPTH_MAX + 1)]
    folders[0].append(((), folder))
    # How deep each was looked at: by a link that is less deep, more is in reach.
    depths: dict[Place, int] = {}
    for of_depth, later in ((folders, links), (links, links)):
        for depth, here in enumerate(of_depth):
            room = LOOKED_MAX - found.looked
            found.left += [place for _, place in here[room:]]
            for (parts, place), seen in zip(here[:room], _looks(here[:room], depth, known), strict=False):
                found.looked += 1
                real = resolved(place)
                if depths.get(real, DEPTH_MAX + 1) <= depth:
                    continue
                is_one = not isinstance(seen, str) and OFFSETS in seen and depth > 0
                depths[real] = 0 if is_one or isinstance(seen, str) else depth
                if isinstance(seen, str):
                    found.unreadable.append(seen)
                elif is_one:
                    yield parts, place
                else:
                    for name in sorted(one for one in seen if not (one.startswith(".") or "=" in one or one in TABLES)):
                        (later if _is_link(place / name) else of_depth)[depth + 1].append(
                            ((*parts, name), place / name)
                        )


def _is_link(path: Place) -> bool:
    return isinstance(path, Path) and path.is_symlink()


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
