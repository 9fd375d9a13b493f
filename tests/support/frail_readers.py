"""Readers of examples/host.py that kill themselves, at any moment at which they use the sink."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import _host_parts

Used = TypeVar("Used")

CHANCE = 0.004
"""That a reader kills itself before one use of the sink; as high after one."""


class FrailConnection(sqlite3.Connection):
    """A connection that at times does not live to see the end, or the beginning, of what it was asked for."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        return self._between(lambda: super(FrailConnection, self).execute(sql, parameters))

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        return self._between(lambda: super(FrailConnection, self).executemany(sql, parameters))

    def __exit__(self, *error: Any) -> Any:
        return self._between(lambda: super(FrailConnection, self).__exit__(*error))

    @staticmethod
    def _between(use: Callable[[], Used]) -> Used:
        _perhaps_the_last()
        used = use()
        _perhaps_the_last()
        return used


def _perhaps_the_last() -> None:
    if random.random() < CHANCE:
        os.kill(os.getpid(), signal.SIGKILL)


class FrailSink(_host_parts.Sink):
    """The sink, over a `FrailConnection`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = sqlite3.connect(path, timeout=60, isolation_level="IMMEDIATE", factory=FrailConnection)


def read(number: int, epoch: int, host: Connection, path: Path, servers: dict[str, str]) -> None:
    """As `_host_parts.read`. The moments follow from the epoch, and from what there is to read."""
    random.seed(epoch)
    _host_parts.Sink = FrailSink  # type: ignore[misc]
    _host_parts.read(number, epoch, host, path, servers)
