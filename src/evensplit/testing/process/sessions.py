"""Processes as Linux shows them, to find and kill what a test has started."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path


def session_members(session: int) -> Iterator[int]:
    """The processes of a session: all that its leader has started and that did not leave it."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue  # it ended meanwhile
            if int(stat.rpartition(")")[2].split()[3]) == session:
                yield int(entry.name)


def command_line(pid: int) -> str:
    """The arguments that the process was started with; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def kill_session(session: int) -> None:
    """SIGKILL every process of a session, again until none is left."""
    while members := [pid for pid in session_members(session) if command_line(pid)]:
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it ended meanwhile
