"""The owner's side of the keeper process: a private directory and processes that never outlive this one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from evensplit.errors import LocalKafkaError

EXIT_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.02


class Keeper:
    """A directory and processes that are gone when this process is, however it ends, SIGKILL included.

    `parent` is where the directory is made; it must exist. Safe to use from several threads. A process that is
    forked off this one cannot use it, and its `close` does nothing there.
    """

    def __init__(self, parent: Path | None = None) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._asked = 0
        script = Path(__file__).with_name("_keeper.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), str(parent or tempfile.gettempdir()), str(self._owner)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        self.closed = False
        try:
            self.directory = Path(self._answer_to(0)["directory"])
        except BaseException:
            self._disconnect()
            raise

    @property
    def is_mine(self) -> bool:
        """Whether this is the process that made it, and not one forked off that."""
        return os.getpid() == self._owner

    def spawn(
        self,
        argv: list[str],
        *,
        output: Path,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        session: bool = False,
    ) -> Child:
        """Start a process whose standard output and error are appended to the file `output`.

        `environment`: its variables; None: those of this process. `session`: it leads a session of its own, and all
        that it starts ends with the keeper, too. Linux only.
        """
        given = dict(environment) if environment is not None else None
        place = str(cwd or self.directory)
        answer = self.ask("spawn", argv=argv, output=str(output), cwd=place, environment=given, session=session)
        return Child(self, int(answer["pid"]))

    def close(self) -> None:
        """Kill what still runs and remove the directory; both are done on return. Doing it twice is allowed."""
        if self.closed or not self.is_mine:
            return
        try:
            # No answer means that the keeper was killed, and its children with it: only the directory is left.
            with contextlib.suppress(LocalKafkaError):
                self.ask("exit")
        finally:
            self._disconnect()
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _disconnect(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.closed = True
        # A request to a keeper that was gone already may still be in the buffer.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def ask(self, order: str, **arguments: Any) -> dict[str, Any]:
        """The keeper's answer to one request of the protocol in `_keeper.py`."""
        if not self.is_mine:
            raise LocalKafkaError(
                f"this object belongs to process {self._owner}; process {os.getpid()}, forked off it, cannot use it"
            )
        with self._lock:
            if self.closed:
                raise LocalKafkaError("it is closed; make a new one")
            assert self._process.stdin is not None
            self._asked += 1
            request = {"id": self._asked, "do": order, **arguments}
            try:
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()
            except BrokenPipeError as error:
                raise LocalKafkaError(self._died()) from error
            return self._answer_to(self._asked)

    def _answer_to(self, number: int) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = {"id": None}
        # Ctrl-C between a request and its answer leaves that answer unread: it is older than the one wanted here.
        while answer["id"] != number:
            line = self._process.stdout.readline()
            if not line:
                raise LocalKafkaError(self._died())
            answer = json.loads(line)
        if "error" in answer:
            raise LocalKafkaError(f"the keeper process could not do what it was asked: {answer['error']}")
        return answer

    def _died(self) -> str:
        return (
            f"the keeper process (pid {self._process.pid}), which holds the directory and the processes, has ended; "
            f"was it killed? Make a new object"
        )


@dataclass(frozen=True, slots=True)
class Child:
    """A process that a keeper holds."""

    keeper: Keeper
    pid: int

    def send(self, number: signal.Signals) -> bool:
        """Send a signal; False when the process had ended."""
        return bool(self.keeper.ask("signal", pid=self.pid, signal=int(number))["sent"])

    def poll(self) -> int | None:
        """None while it runs; then its exit code, negative for the signal that ended it."""
        code: int | None = self.keeper.ask("poll", pid=self.pid)["code"]
        return code

    def wait(self, timeout_s: float) -> int | None:
        """As `poll`, after waiting up to `timeout_s` for the end."""
        deadline = time.monotonic() + timeout_s
        while (code := self.poll()) is None and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL_S)
        return code
