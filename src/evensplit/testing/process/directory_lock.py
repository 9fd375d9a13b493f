"""Locks a directory for one `LocalKafka`, as long as it runs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from evensplit.errors import LocalKafkaError

LOCK_FILE = "in-use.lock"
"""It is never removed: otherwise one process could remove the lock that another has just taken."""

_HELD: set[IO[str]] = set()


@contextmanager
def locked_directory(directory: Path) -> Iterator[None]:
    """Make `directory` if need be, and keep every other `LocalKafka` from it, until the block or this process ends.

    Nothing but the lock file is written. Raises `LocalKafkaError` if it is in use, or cannot be written to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # Not "w", which would empty the file of the process that has the lock.
        file = (directory / LOCK_FILE).open("a+")
    except OSError as error:
        raise cannot_be_used(directory, error) from error
    with file:
        _take(directory, file)
        _HELD.add(file)
        try:
            yield
        finally:
            # A forked process does not hold the lock, and must not release it.
            if file in _HELD:
                _HELD.discard(file)
                # Closing the file is not enough while a process that is being started has a copy of it.
                fcntl.flock(file, fcntl.LOCK_UN)


def cannot_be_used(directory: Path, error: OSError) -> LocalKafkaError:
    """The error for a directory that cannot be written to."""
    where = f" ({error.filename})" if error.filename not in (None, str(directory)) else ""
    return LocalKafkaError(
        f"{directory} cannot be used: {error.strerror}{where}; expected a directory that can be written to, or made. "
        "Give another one"
    )


def _take(directory: Path, file: IO[str]) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
    except BlockingIOError as error:
        file.seek(0)
        # The other process may have the lock without having written its id yet.
        whose = f"the broker of process {pid}" if (pid := file.read(20)).isdecimal() else "another broker"
        raise LocalKafkaError(f"{directory} is in use by {whose}; stop it, or give another directory") from error
    except OSError as error:
        raise cannot_be_used(directory, error) from error


def _let_go_in_child() -> None:
    """Release the lock in a forked process, which shares it and would keep it after this one is killed."""
    for file in _HELD:
        file.close()
    _HELD.clear()


os.register_at_fork(after_in_child=_let_go_in_child)
