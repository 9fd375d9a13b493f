"""The keeper: a small process that owns a private directory and some processes, and ends them with its owner.

It is started by path as `python -I -S _keeper.py <parent of the directory> <pid of the owner>`, so it imports the
standard library alone and not this package. It makes a directory, starts and signals processes when asked, and
when its owner is gone it kills them all and removes the directory. The owner is gone when

- it says so (`exit`), or
- the pipe that is the keeper's standard input reaches its end, which the operating system sees to even after
  SIGKILL, or
- the keeper has another parent process than at its start: a process forked off the owner may hold a copy of that
  pipe and keep it open.

It runs in a session of its own, so Ctrl-C in a terminal reaches the owner alone, which can then stop its
processes in order.

Protocol: one JSON object per line. Requests on standard input, one answer each on standard output, in order:

    {"do": "spawn", "argv": [...], "output": path, "cwd": path,
     "environment": {...}, "session": false}                     ->  {"pid": 123}
    {"do": "signal", "pid": 123, "signal": 9}                    ->  {"sent": true}     false: it had ended
    {"do": "poll", "pid": 123}                                   ->  {"code": null}     or its exit code
    {"do": "exit"}                                               ->  {"removed": true}  everything is gone

`environment` may be null: the keeper's own. With `session`, the process leads a session, all of which ends with the
keeper unless its leader was seen to have ended before.

Each request has an `id` as well, which its answer repeats. The first line, `{"id": 0, "directory": path}`, is
written unasked. A request that fails is answered `{"error": text}`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import runpy
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

OWNER_CHECK_S = 0.5
KILL_TIMEOUT_S = 10.0
PR_SET_PDEATHSIG = 1


class OwnerGoneError(Exception):
    """The owner has ended."""


def death_with_keeper() -> Callable[[], None] | None:
    """A function for the child that makes it die with a keeper that is killed. Linux only; elsewhere None."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def arm() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    return arm


class Keeper:
    def __init__(self, parent_directory: str, owner: int) -> None:
        self._owner = owner
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._sessions: set[int] = set()
        self._arm = death_with_keeper()
        self._unread = b""
        self.directory = tempfile.mkdtemp(prefix="evensplit-", dir=parent_directory)

    def serve(self) -> None:
        """Answer requests until the owner is gone; `OwnerGoneError` says so."""
        self._answer(0, {"directory": self.directory})
        orders: dict[str, Callable[..., dict[str, Any]]] = {
            "spawn": self._spawn,
            "signal": self._signal,
            "poll": self._poll,
        }
        while True:
            request = json.loads(self._next_line())
            number, order = request.pop("id"), request.pop("do")
            if order == "exit":
                self.clean_up()
                self._answer(number, {"removed": not Path(self.directory).exists()})
                raise OwnerGoneError
            try:
                answer = orders[order](**request)
            except (OSError, ValueError, TypeError, KeyError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            self._answer(number, answer)

    def _spawn(
        self, argv: list[str], output: str, cwd: str, environment: dict[str, str] | None, session: bool
    ) -> dict[str, Any]:
        with Path(output).open("ab") as file:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=environment,
                start_new_session=session,
                preexec_fn=self._arm,
            )
        self._processes[process.pid] = process
        if session:
            self._sessions.add(process.pid)
        return {"pid": process.pid}

    def _signal(self, pid: int, signal: int) -> dict[str, Any]:
        process = self._processes[pid]
        if process.poll() is not None:
            return {"sent": False}
        process.send_signal(signal)
        return {"sent": True}

    def _poll(self, pid: int) -> dict[str, Any]:
        code = self._processes[pid].poll()
        if code is not None:
            # Its number may become that of another session.
            self._sessions.discard(pid)
        return {"code": code}

    def clean_up(self) -> None:
        """Kill every process and session, wait for each process, remove the directory."""
        if self._sessions:
            kill_session = runpy.run_path(str(Path(__file__).with_name("sessions.py")))["kill_session"]
            for session in self._sessions:
                kill_session(session)
        for process in self._processes.values():
            process.kill()
        deadline = time.monotonic() + KILL_TIMEOUT_S
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        shutil.rmtree(self.directory, ignore_errors=True)

    def _next_line(self) -> bytes:
        while b"\n" not in self._unread:
            readable, _, _ = select.select([0], [], [], OWNER_CHECK_S)
            if readable:
                received = os.read(0, 65536)
                if not received:
                    raise OwnerGoneError
                self._unread += received
            elif os.getppid() != self._owner:
                raise OwnerGoneError
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _answer(self, number: int, answer: dict[str, Any]) -> None:
        try:
            sys.stdout.write(json.dumps({"id": number, **answer}) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            raise OwnerGoneError from None


def leave(*_: object) -> None:
    raise OwnerGoneError


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    keeper = Keeper(sys.argv[1], int(sys.argv[2]))
    try:
        keeper.serve()
    except OwnerGoneError:
        # Nothing may interrupt the cleaning, and a second pass over what is already gone does no harm.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    finally:
        keeper.clean_up()
        # The reader of the answers may be gone; without this, the last flush would report that.
        os._exit(0)


if __name__ == "__main__":
    main()
