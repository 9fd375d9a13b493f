"""A copy of a checkpoint from or to another file system.

HDFS renames a directory, as a local disk does. Object stores do not. There, the first file that is written is the
newest offset file, and it says that the copy is incomplete: Spark and this package refuse it. All else follows, and
last, in one step, the true one takes its place. So a query never starts from a part, whenever the copy is killed.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from evensplit.checkpoint.files import read_bytes
from evensplit.checkpoint.offset_file import INCOMPLETE
from evensplit.checkpoint.places.entry import entry
from evensplit.checkpoint.places.place import Place, RemotePath, Writes
from evensplit.checkpoint.places.remote import RemoteEntry, said_of
from evensplit.errors import CheckpointError

PARTIAL = ".partial"
FILES_AT_ONCE = 16
"""How many files are on their way at the same time."""

_MARKER = INCOMPLETE + b", which its newest offset file replaces when all else is there\n"


def write_elsewhere(
    source: Place,
    target: RemotePath,
    kept: Sequence[Path],
    anew: Mapping[Path, bytes],
    told: Callable[[int], None],
    check: Callable[[], None],
) -> None:
    """Make `target` of the files `kept` in `source` and of `anew`, if `check` raises nothing in the end.

    Raises CheckpointError, and leaves nothing that a query starts from, if that fails.
    """
    problems = problems_elsewhere(target)
    if problems:
        raise CheckpointError(f"{'; '.join(problems)}; nothing was written")
    if target.system.kind.writes is Writes.RENAME:
        _write_renamed(source, target, kept, anew, told, check)
    else:
        _write_marked(source, target, kept, anew, told, check)


def problems_elsewhere(target: RemotePath) -> list[str]:
    """Why `target` cannot become a copy, a sentence each."""
    there = RemoteEntry(target)
    there.check_writable()
    if not there.is_there():
        return [] if there.has_bucket() else [_no_bucket(target)]
    newest = _newest(list(there.files()))
    try:
        is_incomplete = newest is not None and read_bytes(target / newest).startswith(INCOMPLETE)
    except FileNotFoundError:
        is_incomplete = False
    if is_incomplete:
        return [
            f"{target} is an incomplete copy of a checkpoint: copying it was interrupted, or goes on; if it was "
            "interrupted, remove it"
        ]
    return [f"{target} is there already; expected a place where nothing is"]


def _no_bucket(target: RemotePath) -> str:
    return f"{target}: there is no such bucket; expected one that is there, make it first"


def _write_renamed(
    source: Place,
    target: RemotePath,
    kept: Sequence[Path],
    anew: Mapping[Path, bytes],
    told: Callable[[int], None],
    check: Callable[[], None],
) -> None:
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}{PARTIAL}")
    fs = target.system.fs
    try:
        fill(source, partial, kept, anew, told)
        check()
        try:
            with said_of(target):
                RemoteEntry(target).rename_from(partial.at)
        except FileExistsError as error:
            raise CheckpointError(
                f"{target} is there by now; expected a place where nothing is; nothing was written"
            ) from error
    except BaseException:
        with said_of(partial):
            if fs.exists(partial.at):
                fs.rm(partial.at, recursive=True)
        raise


def _write_marked(
    source: Place,
    target: RemotePath,
    kept: Sequence[Path],
    anew: Mapping[Path, bytes],
    told: Callable[[int], None],
    check: Callable[[], None],
) -> None:
    newest = _newest([*kept, *anew])
    if newest is None:
        raise CheckpointError(
            f"{source} has no offset files; expected the checkpoint of a query that has planned a batch"
        )
    marker = target / newest
    try:
        entry(marker).create(_MARKER)
    except FileExistsError as error:
        raise CheckpointError(f"{marker} is there by now: {target} is being written by another process") from error
    except FileNotFoundError as error:
        # Object stores make directories by themselves, and no bucket.
        raise CheckpointError(_no_bucket(target)) from error
    try:
        rest = {path: data for path, data in anew.items() if path != newest}
        fill(source, target, [path for path in kept if path != newest], rest, told)
        check()
        data = anew[newest] if newest in anew else read_bytes(source / newest)
        entry(marker).put(data)
        told(len(kept) + len(anew))
    except BaseException as error:
        _take_back(target, marker, error)
        raise


def _take_back(target: RemotePath, marker: RemotePath, error: BaseException) -> None:
    """Remove what was written there, the marker last. Raises CheckpointError if that fails, too."""
    try:
        for path in RemoteEntry(target).files():
            if target / path != marker:
                entry(target / path).delete()
        entry(marker).delete()
    except CheckpointError as other:
        raise CheckpointError(
            f"{error}; and {target} is left as an incomplete copy, since it cannot be removed either: {other}. No "
            "query starts from it; remove it"
        ) from error


def _newest(paths: Sequence[Path]) -> Path | None:
    """The newest offset file among them."""
    offsets = [
        path for path in paths if path.parent == Path("offsets") and path.name.isascii() and path.name.isdecimal()
    ]
    return max(offsets, key=lambda path: int(path.name), default=None)


def fill(
    source: Place, into: Place, kept: Sequence[Path], anew: Mapping[Path, bytes], told: Callable[[int], None]
) -> None:
    """Copy files of `source` and write `anew` below `into`, several at once. `told`: how many are there."""
    _make_directories(into, {path.parent for path in [*kept, *anew]})
    with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
        under_way = [pool.submit(_copy, source / path, into / path) for path in kept]
        under_way.extend(pool.submit(_write, into / path, data) for path, data in anew.items())
        try:
            for number, one in enumerate(as_completed(under_way), start=1):
                one.result()
                told(number)
        except BaseException:
            for one in under_way:
                one.cancel()
            raise


def _make_directories(into: Place, directories: set[Path]) -> None:
    """Those that are needed; object stores have none."""
    for path in sorted(directories):
        place = into / path
        if isinstance(place, Path):
            place.mkdir(parents=True, exist_ok=True)
        elif place.system.kind.writes is Writes.RENAME:
            with said_of(place):
                place.system.fs.makedirs(place.at, exist_ok=True)


def _write(path: Place, data: bytes) -> None:
    """Write a file that nobody reads yet."""
    if isinstance(path, Path):
        path.write_bytes(data)
        return
    with said_of(path):
        path.system.fs.pipe_file(path.at, data)


def _copy(source: Place, target: Place) -> None:
    """Copy a file to where nobody reads it yet. At least one of both is not of this machine."""
    if isinstance(source, Path):
        assert isinstance(target, RemotePath)
        with said_of(target):
            target.system.fs.put_file(str(source), target.at)
    elif isinstance(target, Path):
        with said_of(source):
            source.system.fs.get_file(source.at, str(target))
    elif source.system.is_same(target.system):
        with said_of(target):
            target.system.fs.cp_file(source.at, target.at)
    else:
        with tempfile.TemporaryDirectory() as between:
            _copy(source, Path(between, "file"))
            _copy(Path(between, "file"), target)


def left_over_elsewhere(target: RemotePath) -> list[RemotePath]:
    """What earlier attempts that were killed have left beside `target`. On object stores that is `target` itself."""
    if target.system.kind.writes is not Writes.RENAME:
        return []
    try:
        names = entry(target.parent).names()
    except FileNotFoundError:
        return []
    return [
        target.with_name(name)
        for name in sorted(names)
        if name.startswith(f".{target.name}.") and name.endswith(PARTIAL)
    ]
