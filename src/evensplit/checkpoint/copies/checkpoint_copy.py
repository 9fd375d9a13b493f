"""A checkpoint copied, some files in it with other content: all of it, or nothing.

What is made has another name until it is complete, and on the disk. So nobody who is killed in between, or loses power,
leaves half a checkpoint under the name that a query is given. Object stores cannot rename a directory: there, no query
starts from what is incomplete (`remote_copy.py`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from glob import escape
from pathlib import Path
from typing import overload

from evensplit.checkpoint.copies.remote_copy import (
    FILES_AT_ONCE,
    PARTIAL,
    fill,
    left_over_elsewhere,
    problems_elsewhere,
    write_elsewhere,
)
from evensplit.checkpoint.files import crc_of, crc_path
from evensplit.checkpoint.look import Seen, check_unchanged, raise_unless_gone
from evensplit.checkpoint.places.local import sync
from evensplit.checkpoint.places.place import Place
from evensplit.errors import CheckpointError


def copy_checkpoint(
    source: Place, target: Place, files: Mapping[Path, bytes], before: Seen, copied: Callable[[int, int], None]
) -> tuple[int, int]:
    """Make `target`, which must not exist, a copy of `source` in which `files` (by their paths in it) are other ones.

    Both may be on any file system. Hidden files of checksums go with their files; those of other content are made anew.
    `before`: `source` as it was when `files` were thought up. `copied` is told again and again how many files of how
    many are done. Returns how many files were written anew, and how many are as they were.

    Raises CheckpointError, and leaves nothing, if `source` has changed since, or a file cannot be read or written.
    """
    anew = _with_checksums(files, before)
    sums = frozenset(map(crc_path, files))
    kept = [path for path in sorted(before) if path not in anew and path not in sums]
    total = len(kept) + len(files)

    def told(number: int) -> None:
        copied(min(number, total), total)

    def check() -> None:
        check_unchanged(source, before, "read and copied")

    if isinstance(target, Path):
        _write_here(source, target, kept, anew, told, check)
    else:
        write_elsewhere(source, target, kept, anew, told, check)
    return len(files), len(kept)


def target_problems(source: Place, target: Place) -> list[str]:
    """Why `target` cannot become a copy of `source`, a sentence each. Raises CheckpointError if that cannot be seen."""
    found: list[str] = []
    if not isinstance(target, Path):
        found.extend(problems_elsewhere(target))
    elif os.path.lexists(target):
        found.append(f"{target} is there already; expected a path where nothing is")
    elif not target.parent.is_dir():
        found.append(f"{target.parent} is not a directory; make it first")
    if _are_nested(source, target):
        found.append(f"one of {source} and {target} is inside the other; expected two places beside each other")
    return found


def _are_nested(one: Place, other: Place) -> bool:
    if isinstance(one, Path) and isinstance(other, Path):
        resolved, home = other.resolve(), one.resolve()
        return home in resolved.parents or resolved in home.parents
    if isinstance(one, Path) or isinstance(other, Path) or not one.system.is_same(other.system) or one.at == other.at:
        return False
    return f"{one.at}/".startswith(f"{other.at}/") or f"{other.at}/".startswith(f"{one.at}/")


@overload
def left_over(target: Path) -> list[Path]: ...
@overload
def left_over(target: Place) -> Sequence[Place]: ...
def left_over(target: Place) -> Sequence[Place]:
    """What earlier attempts that were killed have left beside `target`."""
    if isinstance(target, Path):
        return sorted(target.parent.glob(f".{escape(target.name)}.*{PARTIAL}"))
    return left_over_elsewhere(target)


def _with_checksums(files: Mapping[Path, bytes], there: Seen) -> dict[Path, bytes]:
    """`files`, and the checksums of those that had some, or are new among others that have some."""
    found: dict[Path, bytes] = {}
    has_crc = any(path.name.endswith(".crc") for path in there)
    for path, data in sorted(files.items()):
        found[path] = data
        if crc_path(path) in there or (path not in there and has_crc):
            found[crc_path(path)] = crc_of(data)
    return found


def _write_here(
    source: Place,
    target: Path,
    kept: list[Path],
    anew: Mapping[Path, bytes],
    told: Callable[[int], None],
    check: Callable[[], None],
) -> None:
    try:
        partial = Path(tempfile.mkdtemp(PARTIAL, f".{target.name}.", target.parent))
        try:
            if isinstance(source, Path):
                _fill_here(source, partial, kept, anew, told)
                check()
                # Last, since nothing may be written, or removed, in some.
                _give_directories(partial, source)
                shutil.copystat(source, partial)
            else:
                fill(source, partial, kept, anew, told)
                check()
                partial.chmod(0o777 & ~_umask())
            _sync_all(partial)
            # Only a directory that is empty, or none, is replaced by that.
            partial.rename(target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        sync(target.parent)
    except OSError as error:
        raise CheckpointError(f"{error.filename or target}: {error.strerror or error}; nothing was written") from error


def _fill_here(
    source: Path, partial: Path, kept: list[Path], anew: Mapping[Path, bytes], told: Callable[[int], None]
) -> None:
    # Those without a file are part of it, too.
    for root, _, _ in os.walk(source, onerror=raise_unless_gone):
        (partial / Path(root).relative_to(source)).mkdir(exist_ok=True)
    for number, path in enumerate(kept, start=1):
        shutil.copy2(source / path, partial / path)
        _give(partial / path, source / path)
        told(number)
    for number, (path, data) in enumerate(anew.items(), start=len(kept) + 1):
        for parent in reversed(path.parents):
            if not (partial / parent).exists():
                (partial / parent).mkdir()
                _own(partial / parent, source)
        (partial / path).write_bytes(data)
        if (source / path).exists():
            _give(partial / path, source / path)
        else:
            _own(partial / path, source)
        told(number)


def _sync_all(directory: Path) -> None:
    """Have all of it on the disk: after a loss of power, its name stands for the whole."""
    paths = [directory, *directory.rglob("*")]
    with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
        list(pool.map(sync, paths))


def _give_directories(partial: Path, source: Path) -> None:
    for root, _, _ in os.walk(partial, topdown=False):
        like = source / Path(root).relative_to(partial)
        if like.is_dir():
            _give(Path(root), like)


def _give(path: Path, like: Path) -> None:
    """Let `path` have the mode of `like` and, if this is root, its owner: the query runs as that user."""
    _own(path, like)
    shutil.copymode(like, path)


def _own(path: Path, like: Path) -> None:
    if os.geteuid() == 0:
        known = like.stat()
        os.chown(path, known.st_uid, known.st_gid)


def _umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found
