"""Writes a file whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click


def check_place(path: Path) -> None:
    """Raise click.ClickException if it is clear beforehand that no file can be written at `path`."""
    with _told(path):
        target = path.resolve()
        kind = _mode_of(target)
        directory = target.parent
        has_directory = directory.is_dir()
    if kind is not None and stat.S_ISDIR(kind):
        raise click.ClickException(f"{path} is a directory; expected a file, or a path where nothing is")
    if kind is not None and not stat.S_ISREG(kind):
        # It would be replaced by a file, even /dev/null.
        raise click.ClickException(
            f"{path} is a device, a pipe or a socket; expected a regular file, or a path where nothing is"
        )
    if not has_directory:
        raise click.ClickException(f"{directory} is not there, or no directory; make it first")


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` to `path`. An earlier file stays until all of it is written, and passes on its permissions.

    Raises click.ClickException if it cannot be written; nothing has changed then.
    """
    check_place(path)
    # Write the file that a link leads to.
    target = path.resolve()
    partial = target.with_name(f".{target.name[:200]}.{os.getpid()}.partial")
    kind = None
    try:
        kind = _mode_of(target)
        try:
            with partial.open("xb") as file:
                if kind is not None:
                    os.fchmod(file.fileno(), stat.S_IMODE(kind))
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        was = f"; {path} is as it was" if kind is not None else ""
        raise click.ClickException(f"{path} cannot be written: {error.strerror or error}{was}") from error


def _mode_of(target: Path) -> int | None:
    """The `st_mode` of what is there; None: nothing is."""
    try:
        return target.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Raise click.ClickException if `path` cannot be looked at."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        # Links that lead to each other are a RuntimeError up to Python 3.12.
        why = getattr(error, "strerror", None) or error
        raise click.ClickException(f"{path} cannot be written: {why}; expected a path that can be looked at") from error
