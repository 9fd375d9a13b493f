"""One broker of a `LocalKafka` cluster."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from evensplit.errors import LocalKafkaError
from evensplit.testing.broker.node_files import Node, NodeFiles
from evensplit.testing.broker.prepared import Prepared
from evensplit.testing.network.proxy import NetworkProxy
from evensplit.testing.process.jars import last_lines
from evensplit.testing.process.keeper import Child, Keeper
from evensplit.testing.process.ports import HOST, is_free

STOP_TIMEOUT_S = 60.0
KILL_TIMEOUT_S = 30.0
HELD_WITHIN_S = 2.0


class PortTakenError(LocalKafkaError):
    """Another process listens on the port of a broker."""


class LocalBroker:
    """One broker of a `LocalKafka`, as `kafka.broker(0)` gives it. Only `LocalKafka` makes these.

    `node_id` is its id in Kafka's metadata, `rack` its `broker.rack`.
    """

    def __init__(self, node: Node, files: NodeFiles, start: Callable[[LocalBroker], None]) -> None:
        self.node_id = node.node_id
        self.rack = node.rack
        self.proxy: NetworkProxy | None = None
        """The way that clients take to it, in a cluster with `proxied=True`; None in any other."""
        self._node = node
        self._files = files
        self._start = start
        self._child: Child | None = None
        self._paused = False

    def __repr__(self) -> str:
        return f"LocalBroker(node_id={self.node_id}, address={self.address!r})"

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1. The same for as long as the `LocalKafka` lives."""
        return self._node.ports[0]

    @property
    def address(self) -> str:
        """`127.0.0.1:port`, or that of its proxy if it has one."""
        return f"{HOST}:{self._node.proxy_port or self.port}"

    @property
    def internal_port(self) -> int:
        """The port without security: one of its own if the cluster is secured, else `port`."""
        return self._node.internal_port or self.port

    @property
    def log(self) -> Path:
        """The file that the broker logs to."""
        return self._files.log

    @property
    def pid(self) -> int | None:
        """The broker's process id; None while it is stopped or killed."""
        return self._child.pid if self._child is not None else None

    @property
    def is_running(self) -> bool:
        """Whether its process is there, paused or not. False as soon as it has died, by order or by itself."""
        return self._child is not None and self._child.poll() is None

    @property
    def is_paused(self) -> bool:
        """Whether its process is there and held by `pause()`."""
        return self._paused and self.is_running

    def start(self) -> None:
        """Start it again after `stop()` or `kill()`, on the same port with the same data; wait until it answers.

        Does nothing while it runs. After SIGKILL that takes a few seconds: `broker.session.timeout.ms` (3 s) must pass
        before the cluster takes it back.
        """
        self._start(self)

    def stop(self) -> None:
        """Shut it down in order, after resuming it if it is paused. Does nothing when it is down.

        Raises `LocalKafkaError` when it had died by itself, or had to be killed because it did not stop in time.
        """
        self.ask_to_stop()
        self.wait_for_stop()

    def kill(self) -> None:
        """End it with SIGKILL, paused or not; it is gone on return. Does nothing when it is down."""
        if self._child is not None:
            self._child.send(signal.SIGKILL)
            self._gone(self._child.wait(KILL_TIMEOUT_S))

    def pause(self) -> None:
        """Hold it with SIGSTOP: it keeps its connections and answers nothing until `resume()`.

        In a cluster of several, one that is held longer than `broker.session.timeout.ms` (3 s) loses its leaderships.
        """
        self._signal_running(signal.SIGSTOP)
        self._paused = True
        self._wait_until_held()

    def _wait_until_held(self) -> None:
        """Wait until all threads are stopped, if /proc shows it: the signal stops one after the other."""
        until = time.monotonic() + HELD_WITHIN_S
        while time.monotonic() < until and any(state not in "Tt" for state in _thread_states(self.pid)):
            time.sleep(0.002)

    def resume(self) -> None:
        """Let a paused broker go on; it answers what has been waiting. Does nothing when it is not paused."""
        if self._paused:
            self._signal_running(signal.SIGCONT)
            self._paused = False

    def launch(self, keeper: Keeper, prepared: Prepared, jvm_options: Sequence[str]) -> None:
        """Start its process, and wait for nothing. For `LocalKafka`."""
        command = self._files.command(prepared.java.path, prepared.jars, [*prepared.jvm_options, *jvm_options])
        self._child = keeper.spawn(command, output=self._files.console, cwd=self._files.directory)
        self._paused = False

    def check_alive(self) -> None:
        """Raise `LocalKafkaError` when it has died, `PortTakenError` when that is why. For `LocalKafka`."""
        code = self._child.poll() if self._child is not None else None
        if code is None:
            return
        said = self._files.output()
        taken = [port for port in self._node.ports if not is_free(port)]
        if taken or "Address already in use" in said:
            which = f"port {taken[0]} is" if taken else f"one of its ports {self._node.ports} was"
            raise PortTakenError(
                f"broker {self.node_id} could not start: {which} taken by another process on {HOST}. End that "
                f"process, or make a new LocalKafka, which takes other ports. {last_lines(said)}"
            )
        raise LocalKafkaError(f"broker {self.node_id} at {self.address} ended with {code}. {last_lines(said)}")

    def forget_death(self) -> str | None:
        """The error of a broker that died by itself, once; None if it did not. For `LocalKafka`."""
        if self._child is None or (code := self._child.poll()) is None:
            return None
        self._gone(code)
        return f"broker {self.node_id} at {self.address} died by itself with {code}. {last_lines(self._files.output())}"

    def ask_to_stop(self) -> None:
        """Send the signal to stop. For `LocalKafka`, which stops all brokers together."""
        death = self.forget_death()
        if death is not None:
            raise LocalKafkaError(death)
        if self._child is not None:
            self._child.send(signal.SIGTERM)
            # A paused process takes its signals when it goes on.
            self._child.send(signal.SIGCONT)
            self._paused = False

    def wait_for_stop(self) -> None:
        """Wait for the end after `ask_to_stop`. For `LocalKafka`."""
        if self._child is None:
            return
        code = self._child.wait(STOP_TIMEOUT_S)
        if code is None:
            self.kill()
            raise LocalKafkaError(
                f"broker {self.node_id} at {self.address} did not stop within {STOP_TIMEOUT_S:g} s and was killed. "
                f"{last_lines(self._files.output())}"
            )
        self._gone(code)

    def _signal_running(self, number: signal.Signals) -> None:
        if self._child is None:
            raise LocalKafkaError(f"broker {self.node_id} at {self.address} does not run; start() it first")
        if not self._child.send(number):
            raise LocalKafkaError(
                f"broker {self.node_id} at {self.address} died by itself. {last_lines(self._files.output())}"
            )

    def _gone(self, code: int | None) -> None:
        if code is None:
            raise LocalKafkaError(f"broker {self.node_id} (pid {self.pid}) does not end, even after SIGKILL")
        self._child = None
        self._paused = False


def _thread_states(pid: int | None) -> list[str]:
    """The state letter of each thread of a process; none if the system has no /proc."""
    states: list[str] = []
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        # A thread can end between the two.
        with contextlib.suppress(OSError):
            states.append(stat.read_text().rpartition(") ")[2][:1])
    return states
