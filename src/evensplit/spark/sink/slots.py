"""Names for transactional ids, each of which one task of a host has at a time, and one that may be decided keeps.

Whoever begins with a transactional id aborts what is open under it. A transaction of a batch may be decided and not yet
committed. So a task must not take an id that a task of the same batch, or of a later one, has had; unless that one has
failed, and ended by itself what it had open.

A slot is a file. It is locked while a task runs, which the operating system undoes when the process ends, however it
does, and it has the number of the last batch in it. While a broker is asked to begin with its id, it has a mark beside
that: if nobody came to take that away, the request may still be on its way, and would abort whatever is open then. Such
a slot is not used again. One that was refused, or was never sent, is not on its way.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evensplit.core.delivery.ids import GIVEN_BACK, asked_for, is_free, used_for
from evensplit.errors import BrokerError, ClusterUnreachable
from evensplit.kafka.produce.terms import Unanswered

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NONCE = "nonce"
_DIGITS_MAX = 19


class Slot:
    """A slot that this task has. `name`: `<host>-<number>`."""

    def __init__(self, name: str, descriptor: int, batch: int) -> None:
        self.name = name
        self._descriptor = descriptor
        self._batch = batch
        self._unanswered = 0

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Nobody uses the slot again if this block does not come to its end.

        A BrokerError counts as an end, since it is an answer, and so does a ClusterUnreachable that is not
        `Unanswered`.
        """
        with self._asking(used_for(self._batch)):
            yield

    @contextmanager
    def giving_back(self) -> Iterator[None]:
        """Whoever comes next has the slot, once this block has come to its end. It is for a task that fails."""
        with self._asking(GIVEN_BACK):
            yield

    @contextmanager
    def _asking(self, then: bytes) -> Iterator[None]:
        _write(self._descriptor, asked_for(self._batch))
        self._unanswered += 1
        try:
            yield
        except Unanswered:
            raise
        except (BrokerError, ClusterUnreachable):
            self._answered(used_for(self._batch))
            raise
        self._answered(then)

    def _answered(self, then: bytes) -> None:
        self._unanswered -= 1
        # In another cluster the same id may have been asked for, without an answer.
        if not self._unanswered:
            _write(self._descriptor, then)


@contextmanager
def slot(prefix: str, query: str, batch: int, root: Path | None = None) -> Iterator[Slot]:
    """Have a slot for this block alone, which no task of `batch` or of a later one has had, or all have given back.

    It is the lowest number that is free on this host, for this query and prefix. `root`: where the files are, a
    directory of this user alone; None: one below the directory for temporary files, which is made.
    """
    directory = _directory(_root() if root is None else root, prefix, query)
    host = _host(directory)
    number = 0
    while True:
        descriptor = _take(directory / str(number), batch)
        if descriptor is not None:
            break
        number += 1
    try:
        yield Slot(f"{host}-{number}", descriptor, batch)
    finally:
        # This ends the lock, too.
        os.close(descriptor)


def _take(path: Path, batch: int) -> int | None:
    """The open file of a slot, locked and with `batch` in it; None if the slot is not free for that."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.pread(descriptor, _DIGITS_MAX + 1, 0)
        if is_free(found, batch):
            _write(descriptor, used_for(batch))
            return descriptor
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _write(descriptor: int, text: bytes) -> None:
    # What is there of it when this process is killed is no number that is too low: first it is made longer.
    os.pwrite(descriptor, text + b"?", 0)
    os.ftruncate(descriptor, len(text))


def _root() -> Path:
    """A directory that this user alone can use."""
    shared = Path(tempfile.gettempdir()) / f"evensplit-{os.geteuid()}"
    with suppress(FileExistsError):
        shared.mkdir(mode=0o700)
    found = shared.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077:
        return shared
    # Somebody else has taken the name. A directory of this process alone has names of its own, so it is as safe.
    return _own()


_made: dict[int, Path] = {}


def _own() -> Path:
    if os.getpid() not in _made:
        _made[os.getpid()] = Path(tempfile.mkdtemp(prefix="evensplit-"))
    return _made[os.getpid()]


def _directory(root: Path, prefix: str, query: str) -> Path:
    name = hashlib.sha256(f"{prefix}\0{query}".encode()).hexdigest()[:32]
    found = root / "slots" / name
    for directory in (found.parent, found):
        directory.mkdir(mode=0o700, exist_ok=True)
    return found


def _host(directory: Path) -> str:
    """What no other host has, even one that was copied from this one, nor this one after its next start.

    Of the files it is not known whether the start has lost the last that was written to them.
    """
    path = directory / _NONCE
    if not path.exists():
        made = directory / f"{_NONCE}-{secrets.token_hex(8)}"
        made.write_text(secrets.token_hex(16))
        # Of several processes, one is the first. No other one sees a file that is not complete.
        with suppress(FileExistsError):
            path.hardlink_to(made)
        made.unlink()
    boot = _BOOT_ID.read_text() if _BOOT_ID.exists() else ""
    return hashlib.sha256(f"{path.read_text()}\0{socket.gethostname()}\0{boot}".encode()).hexdigest()[:16]
