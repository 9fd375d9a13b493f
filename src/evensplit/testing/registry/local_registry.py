"""A real schema registry on this machine, for tests."""

from __future__ import annotations

import http.client
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from evensplit.errors import LocalKafkaError
from evensplit.testing.process.jars import last_lines
from evensplit.testing.process.java import find_java
from evensplit.testing.process.keeper import Child, Keeper
from evensplit.testing.process.ports import HOST, free_ports, is_free
from evensplit.testing.registry.distribution import RUNNER, resolve_registry
from evensplit.testing.registry.helpers import RegistryHelpers

API = "/apis/ccompat/v7"
PORT_ATTEMPTS = 5
ATTEMPT_TIMEOUT_S = 5.0
POLL_INTERVAL_S = 0.05
STOP_TIMEOUT_S = 60.0
KILL_TIMEOUT_S = 30.0

# A quick start, and little memory: a registry for tests has little to do.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-XX:-UsePerfData")


class _PortTaken(LocalKafkaError):
    pass


class LocalRegistry(RegistryHelpers):
    """A real schema registry on this machine, to test your own jobs with: Apicurio's, under Confluent's API.

        from evensplit.testing import LocalRegistry

        with LocalRegistry() as registry:
            registry.register("orders-value", '{"type": "record", "name": "Order", "fields": []}')
            run_my_job(schema_registry_url=registry.url)

    It is a Java process (Java 17 or later; JAVA_HOME, else PATH) that listens on 127.0.0.1 alone, on a free port. It is
    downloaded at the first use (142 MB from Maven Central) and kept. It is there in about two seconds and takes about
    250 MB of memory. It wants no login, has no TLS, and accepts every schema until `set_compatibility`.

    `start_timeout_s`: how long it may take to start, above 0. `jvm_options`: for its Java, above those given here.

    **Lifetime.** The process and its data are gone after the `with` block, or after `close()`; and also when this
    process ends in any other way. `kill()` is SIGKILL, `pause()` is SIGSTOP (connections stay open and nothing
    answers), `stop()` is an orderly shutdown, and `start()` or `resume()` brings back what they took away, at the same
    URL and with the same schemas.

    Everything raises `LocalKafkaError` when it does not do what it should; the error ends with what it logged last. Not
    safe to use from several threads at once.
    """

    def __init__(self, *, start_timeout_s: float = 120, jvm_options: Sequence[str] = ()) -> None:
        if start_timeout_s <= 0:
            raise LocalKafkaError(f"start_timeout_s must be above 0, not {start_timeout_s}")
        self._start_timeout_s = start_timeout_s
        self._jvm_options = list(jvm_options)
        self._keeper: Keeper | None = None
        self._kept = ExitStack()
        self._child: Child | None = None
        self._port = 0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LocalRegistry({self.url if self._keeper is not None else 'not started'})"

    @property
    def url(self) -> str:
        """`http://127.0.0.1:port/apis/ccompat/v7`: what `schema.registry.url` is. Also while it is down."""
        self._started()
        return f"http://{HOST}:{self._port}{API}"

    @property
    def log(self) -> Path:
        """The file that it logs to."""
        return self._started().directory / "registry.log"

    @property
    def pid(self) -> int | None:
        """Its process id; None while it is stopped or killed."""
        return self._child.pid if self._child is not None else None

    @property
    def is_running(self) -> bool:
        """Whether its process is there, paused or not. False as soon as it has died, by order or by itself."""
        return self._child is not None and self._child.poll() is None

    def start(self) -> Self:
        """Start it if it is down, and wait until it answers. If the first start fails, nothing is left of it."""
        if self._keeper is not None:
            if not self.is_running:
                self._launch(self._keeper)
            return self
        with ExitStack() as kept:
            self._keeper = kept.enter_context(Keeper())
            kept.callback(self._forget)
            for attempt in range(1, PORT_ATTEMPTS + 1):
                (self._port,) = free_ports(1)
                try:
                    self._launch(self._keeper)
                    break
                except _PortTaken:
                    if attempt == PORT_ATTEMPTS:
                        raise
            self._kept = kept.pop_all()
        return self

    def stop(self) -> None:
        """Shut it down in order; schemas and port stay, for `start()`. Does nothing when it is down."""
        child = self._child
        if child is None:
            return
        child.send(signal.SIGTERM)
        # A paused process takes its signals when it goes on.
        child.send(signal.SIGCONT)
        code = child.wait(STOP_TIMEOUT_S)
        if code is None:
            self.kill()
            raise LocalKafkaError(f"{self!r} did not stop within {STOP_TIMEOUT_S:g} s and was killed. {self._said()}")
        self._child = None

    def kill(self) -> None:
        """End it with SIGKILL, paused or not; it is gone on return. Does nothing when it is down."""
        if self._child is not None:
            self._child.send(signal.SIGKILL)
            if self._child.wait(KILL_TIMEOUT_S) is None:
                raise LocalKafkaError(f"{self!r} (pid {self.pid}) does not end, even after SIGKILL")
            self._child = None

    def pause(self) -> None:
        """Hold it with SIGSTOP: it keeps its connections and answers nothing until `resume()`."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause()`; it answers what has been waiting."""
        self._send(signal.SIGCONT)

    def close(self) -> None:
        """End the process and remove its data; both are gone on return. Twice does no harm."""
        if self._keeper is not None and self._keeper.is_mine:
            self._kept.close()

    def _forget(self) -> None:
        self._child = None
        self._keeper = None

    def _started(self) -> Keeper:
        if self._keeper is None:
            raise LocalKafkaError("this LocalRegistry is not started: use it in a `with` block, or call start()")
        return self._keeper

    def _send(self, number: signal.Signals) -> None:
        if self._child is None or not self._child.send(number):
            raise LocalKafkaError(f"{self!r} does not run; start() it first")

    def _launch(self, keeper: Keeper) -> None:
        program = resolve_registry()
        java = find_java("a schema registry needs Java")
        database = keeper.directory / "schemas"
        command = [
            *(str(java.path), *JVM_OPTIONS, f"-Djava.io.tmpdir={keeper.directory}"),
            *(f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={self._port}"),
            # In a file, and there as soon as it has answered: so schemas outlive the process.
            f"-Dquarkus.datasource.jdbc.url=jdbc:h2:file:{database};WRITE_DELAY=0",
            *(*self._jvm_options, "-jar", str(program / RUNNER)),
        ]
        self._child = keeper.spawn(command, output=self.log, cwd=keeper.directory)
        until = time.monotonic() + self._start_timeout_s
        while not self._answers(until - time.monotonic()):
            code = self._child.poll()
            if code is not None:
                self._child = None
                taken = not is_free(self._port)
                kind = _PortTaken if taken else LocalKafkaError
                why = f": port {self._port} of {HOST} is taken by another process" if taken else ""
                raise kind(f"{self!r} ended with {code} while starting{why}. {self._said()}")
            if time.monotonic() > until:
                raise LocalKafkaError(f"{self!r} did not answer within {self._start_timeout_s:g} s. {self._said()}")
            time.sleep(POLL_INTERVAL_S)

    def _answers(self, left_s: float) -> bool:
        try:
            self.request("GET", "/subjects", timeout_s=max(0.1, min(left_s, ATTEMPT_TIMEOUT_S)))
        except (OSError, http.client.HTTPException, ValueError, LocalKafkaError):
            return False
        return True

    def _said(self) -> str:
        return last_lines(self.log.read_text(errors="replace"))
