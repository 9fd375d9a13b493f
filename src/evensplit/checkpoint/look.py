"""What is in the directory of a checkpoint, and whether a query still runs on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from evensplit.checkpoint.files import unreadable
from evensplit.checkpoint.places.place import Place
from evensplit.checkpoint.places.remote import RemoteEntry, tag_of, written_ns
from evensplit.errors import CheckpointError

QUIET_S = 60.0
"""A checkpoint in which so long nothing was written is taken to be one of a query that has ended, or is idle."""
NAMED_MAX = 3


class Stat(NamedTuple):
    """What tells a file from one that was written since."""

    size: int
    written_ns: int
    """Since 1970; 0 if the file system does not say it."""
    tag: str = ""
    """What an object store says of the content."""


Seen = dict[Path, Stat]


def signs_of_life(checkpoint: Place, now_s: float, seen: Seen | None = None) -> list[str]:
    """What speaks for a query that still runs on `checkpoint`, a sentence each. `seen`: what is there, if known.

    That is a file that was written a moment ago or, on this machine, that a process holds open (where there is /proc,
    and as far as this user may look). A query that is idle, or elsewhere, may show neither: Spark leaves no lock.
    `now_s` is by the clock of this machine, and the times of files by that of their file system: if this machine is
    ahead by `QUIET_S`, what was written just now shows nothing. No probe is written there to compare them: it would be
    the only file that a dry run writes.
    """
    signs: list[str] = []
    written = {path: stat.written_ns for path, stat in (look(checkpoint) if seen is None else seen).items()}
    newest = max(written, key=lambda path: written[path], default=None)
    if newest is not None:
        age_s = now_s - written[newest] / 1e9
        if age_s < QUIET_S:
            signs.append(
                f"{checkpoint / newest} was written {max(0.0, age_s):.0f} s ago; where a query has ended, nothing has "
                f"been written for {QUIET_S:.0f} s"
            )
    held = list(_open_files(checkpoint.resolve())) if isinstance(checkpoint, Path) else []
    signs.extend(f"process {pid} has {path} open" for pid, path in held[:NAMED_MAX])
    return signs


def look(directory: Place) -> Seen:
    """Each file, by its path in it, with its size and when it was written. One listing on object stores.

    A link to a file stands for what is in it. Raises CheckpointError for what a copy would have to leave out: what
    cannot be read, and links to directories or to nothing.
    """
    if isinstance(directory, Path):
        return _look(directory)
    files = RemoteEntry(directory).files()
    return {path: Stat(int(info["size"] or 0), written_ns(info), tag_of(info)) for path, info in files.items()}


def check_unchanged(directory: Place, before: Seen, read: str) -> None:
    """Raise CheckpointError if there is anything else by now than `before`. `read`: what was done with it since."""
    changed = sorted(set(before.items()) ^ set(look(directory).items()))
    if changed:
        raise CheckpointError(
            f"{directory / changed[0][0]} changed while it was {read}: a query runs on {directory}. Stop it, and try "
            "again; nothing was written"
        )


def written_in(directory: Place) -> dict[str, int]:
    """When each file in it was written (ns since 1970), by its name; empty if there is no such directory."""
    if not isinstance(directory, Path):
        return {str(path): written_ns(info) for path, info in RemoteEntry(directory).files().items()}
    found: dict[str, int] = {}
    with suppress(OSError), os.scandir(directory) as entries:
        for one in entries:
            with suppress(FileNotFoundError):
                found[one.name] = one.stat().st_mtime_ns
    return found


def _look(directory: Path) -> Seen:
    seen: Seen = {}
    for root, directories, names in os.walk(directory, onerror=raise_unless_gone):
        for name in directories:
            if Path(root, name).is_symlink():
                raise CheckpointError(
                    f"{Path(root, name)} is a link to the directory {Path(root, name).readlink()}; expected the "
                    "directory itself, since a copy with the link would share it with the query of the original. Copy "
                    "the checkpoint with its links followed (cp -RL), and migrate the copy"
                )
        for name in names:
            path = Path(root, name)
            try:
                stat = path.stat()
            except FileNotFoundError as error:
                if path.is_symlink():
                    raise CheckpointError(
                        f"{path} is a link to {path.readlink()}, where nothing is; expected a file. Restore that, or "
                        "remove the link"
                    ) from error
                continue  # it is gone again
            except OSError as error:
                raise unreadable(path, error) from error
            seen[path.relative_to(directory)] = Stat(stat.st_size, stat.st_mtime_ns)
    return seen


def raise_unless_gone(error: OSError) -> None:
    """For `os.walk`: what is gone since it was listed is no error."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise unreadable(error.filename, error) from error


def _open_files(directory: Path) -> Iterator[tuple[int, Path]]:
    """The files below `directory` that other processes hold open, as far as this one may know."""
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) == os.getpid():
            continue
        try:
            handles = list((process / "fd").iterdir())
        except OSError:
            continue  # it has ended, or is another user's
        for handle in handles:
            try:
                path = handle.readlink()
            except OSError:
                continue  # it was closed meanwhile
            if directory in path.parents and path.is_file():
                yield int(process.name), path
