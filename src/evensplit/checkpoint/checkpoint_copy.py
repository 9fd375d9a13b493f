"""A checkpoint copied beside itself, some files in it with other content: all of it, or nothing.

What is made has another name until it is complete, so nobody who is killed in between leaves half a checkpoint under
the name that a query is given.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from glob import escape
from pathlib import Path

from evensplit.checkpoint.files import crc_of, crc_path, unreadable
from evensplit.errors import CheckpointError

QUIET_S = 60.0
"""A checkpoint in which so long nothing was written is taken to be one of a query that has ended, or is idle."""

PARTIAL = ".partial"
NAMED_MAX = 3

Seen = dict[Path, tuple[int, int]]


def signs_of_life(checkpoint: Path, now_s: float) -> list[str]:
    """What speaks for a query that still runs on `checkpoint`, a sentence each.

    That is a file that was written a moment ago, or that a process on this machine holds open (where there is /proc,
    and as far as this user may look). A query that is idle, or elsewhere, may show neither: Spark leaves no lock.
    """
    signs: list[str] = []
    written = {path: mtime_ns for path, (_, mtime_ns) in look(checkpoint).items()}
    newest = max(written, key=lambda path: written[path], default=None)
    if newest is not None:
        age_s = now_s - written[newest] / 1e9
        if age_s < QUIET_S:
            signs.append(
                f"{checkpoint / newest} was written {max(0.0, age_s):.0f} s ago; where a query has ended, nothing has "
                f"been written for {QUIET_S:.0f} s"
            )
    held = list(_open_files(checkpoint.resolve()))
    signs.extend(f"process {pid} has {path} open" for pid, path in held[:NAMED_MAX])
    return signs


def copy_checkpoint(
    source: Path, target: Path, files: Mapping[Path, bytes], before: Seen, copied: Callable[[int, int], None]
) -> tuple[int, int]:
    """Make `target`, which must not exist, a copy of `source` in which `files` (by their paths in it) are other ones.

    Hidden files of checksums go with their files; those of other content are made anew. `before`: `source` as it was
    when `files` were thought up. `copied` is told again and again how many files of how many are done. Returns how many
    files were written anew, and how many are as they were.

    Raises CheckpointError, and leaves nothing, if `source` has changed since, or a file cannot be read or written.
    """
    try:
        partial = Path(tempfile.mkdtemp(PARTIAL, f".{target.name}.", target.parent))
        try:
            counts = _copy(source, partial, files, sorted(before), copied)
            changed = sorted(set(before.items()) ^ set(look(source).items()))
            if changed:
                raise CheckpointError(
                    f"{source / changed[0][0]} changed while it was read and copied: a query runs on {source}. Stop "
                    "it, and try again; nothing was written"
                )
            shutil.copystat(source, partial)
            # Only a directory that is empty, or none, is replaced by that.
            partial.rename(target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    except OSError as error:
        raise CheckpointError(f"{error.filename or target}: {error.strerror or error}; nothing was written") from error
    return counts


def left_over(target: Path) -> list[Path]:
    """What earlier attempts that were killed have left beside `target`."""
    return sorted(target.parent.glob(f".{escape(target.name)}.*{PARTIAL}"))


def _copy(
    source: Path, partial: Path, files: Mapping[Path, bytes], there: list[Path], copied: Callable[[int, int], None]
) -> tuple[int, int]:
    anew = {crc_path(path) for path in files}.union(files)
    kept = [path for path in there if path not in anew]
    has_crc = any(path.name.endswith(".crc") for path in there)
    total = len(kept) + len(files)
    # Those without a file are part of it, too.
    for root, _, _ in os.walk(source, onerror=_raise_unless_gone):
        (partial / Path(root).relative_to(source)).mkdir(exist_ok=True)
    for number, path in enumerate(kept, start=1):
        shutil.copy2(source / path, partial / path)
        copied(number, total)
    for number, (path, data) in enumerate(sorted(files.items()), start=len(kept) + 1):
        (partial / path).parent.mkdir(parents=True, exist_ok=True)
        (partial / path).write_bytes(data)
        is_new = not (source / path).exists()
        if (source / crc_path(path)).exists() or (is_new and has_crc):
            crc_path(partial / path).write_bytes(crc_of(data))
        copied(number, total)
    return len(files), len(kept)


def look(directory: Path) -> Seen:
    """Each file, by its path in `directory`, with its size and when it was written (ns since 1970).

    A link to a file stands for what is in it. Raises CheckpointError for what a copy would have to leave out: what
    cannot be read, and links to directories or to nothing.
    """
    seen: Seen = {}
    for root, directories, names in os.walk(directory, onerror=_raise_unless_gone):
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
            seen[path.relative_to(directory)] = (stat.st_size, stat.st_mtime_ns)
    return seen


def _raise_unless_gone(error: OSError) -> None:
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
