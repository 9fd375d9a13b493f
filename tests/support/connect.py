"""Spark Connect sessions with a server of their own: it listens at one port, so only one can run on a machine."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.starting import TOO_SLOW
from tests.support.waiting import wait_for

PORT = 15_002
ATTEMPTS = 3
LOCK = Path(tempfile.gettempdir()) / "evensplit-tests-connect.lock"


@contextmanager
def alone() -> Iterator[None]:
    """Hold the port of such a session: no other process that asks for it has one meanwhile, and the port is free."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wait_for(_is_free, what=f"a free port {PORT}, where Spark's Connect server of this machine listens")
        yield


def run_client(script: str, *arguments: str, directory: Path) -> str:
    """Run a program that has such a session, in `directory` and to its good end; what it prints.

    It is run once more where Spark was too impatient for its machine (see `started`), from the beginning: what it reads
    may be less then, never more.
    """
    for attempt in range(1, ATTEMPTS + 1):
        with alone():
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", script, *arguments],
                cwd=directory,
                timeout=350,
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            )
        if attempt == ATTEMPTS or TOO_SLOW not in done.stderr:
            break
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def _is_free() -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("0.0.0.0", PORT))
        except OSError:
            return False
    return True
