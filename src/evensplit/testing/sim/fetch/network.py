"""A network without sockets and a clock without time: what the shipped connections run over in a simulation.

Nothing happens by itself. Time passes when the code under test waits, and then what is due by that moment arrives.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil
from typing import Any, Protocol

from evensplit.errors import ClusterUnreachable
from evensplit.kafka.deadline import Clock, Deadline
from evensplit.kafka.net.network import Network
from evensplit.kafka.options.client import Address, ClientSettings, join_address
from evensplit.testing.sim.failure import Broken

STEPS_MAX = 200_000
"""So many calls of the network one run has at most: what needs more turns in a circle."""


class SimulatedClock(Clock):
    """Time in whole microseconds, so that no sum of pauses is rounded. It passes only when told to."""

    def __init__(self) -> None:
        self.now_us = 1_000_000
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self.steps = 0
        self.stalled_at_us = 0
        """Who has not got on by then has failed to end (law F5)."""

    def now_s(self) -> float:
        self.count()
        return self.now_us / 1e6

    def sleep(self, pause_s: float) -> None:
        self.pass_us(max(1, ceil(pause_s * 1e6)))

    def count(self) -> None:
        """One more call."""
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Broken("F5", f"{STEPS_MAX} calls of clock and network, the last ones at {self.now_us / 1e6:.6f} s")

    def after_us(self, delay_us: int, event: Callable[[], None]) -> None:
        """Let `event` happen then."""
        self._number += 1
        heappush(self._events, (self.now_us + delay_us, self._number, event))

    def pass_us(self, wait_us: int, until: Callable[[], bool] = lambda: False) -> None:
        """Let `wait_us` pass, or less if `until` becomes true."""
        self.count()
        end_us = self.now_us + wait_us
        while not until():
            if not self._events or self._events[0][0] > end_us:
                self.now_us = end_us
                break
            at_us, _, event = heappop(self._events)
            self.now_us = max(self.now_us, at_us)
            event()
        if self.now_us > self.stalled_at_us > 0:
            raise Broken("F5", f"nothing got on since long before {self.now_us / 1e6:.3f} s, and there is no error yet")


class Peer(Protocol):
    """What is at the other end of a connection."""

    def refuses(self) -> str:
        """Why nobody can connect at the moment; empty if one can."""

    def take(self, socket: SimulatedSocket, frame: bytes) -> None:
        """A whole request has arrived."""


class SimulatedSocket:
    """One end of a connection, as far as `Connection` uses a socket."""

    def __init__(self, number: int, peer: Peer, clock: SimulatedClock) -> None:
        self._number = number
        self._peer = peer
        self._clock = clock
        self._received = bytearray()
        self._sent = bytearray()
        self.broken = ""
        """`closed` or `reset` by the other end, once what was received before has been read."""
        self.open = True

    @property
    def readable(self) -> bool:
        """Whether `recv_into` would return or raise at once."""
        return bool(self._received or self.broken)

    def deliver(self, data: bytes) -> None:
        """Bytes arrive, unless the connection is no more."""
        if self.open and not self.broken:
            self._received += data

    def break_off(self, how: str) -> None:
        """The other end goes away."""
        self.broken = self.broken or how

    def setblocking(self, flag: bool) -> None:
        """It never blocks."""

    def fileno(self) -> int:
        """A number that no other socket of this network has; -1 once it is closed."""
        return self._number if self.open else -1

    def close(self) -> None:
        """Nothing arrives any more."""
        self.open = False

    def send(self, view: memoryview) -> int:
        """All of it goes out; whole requests are handed to the peer."""
        self._clock.count()
        if self.broken:
            raise ConnectionResetError(104, "Connection reset by peer")
        self._sent += view
        while len(self._sent) >= 4 and len(self._sent) >= 4 + (length := int.from_bytes(self._sent[:4], "big")):
            frame = bytes(self._sent[4 : 4 + length])
            del self._sent[: 4 + length]
            self._peer.take(self, frame)
        return len(view)

    def recv_into(self, view: memoryview) -> int:
        """What is there, without waiting."""
        self._clock.count()
        size = min(len(view), len(self._received))
        if size:
            view[:size] = self._received[:size]
            del self._received[:size]
        elif self.broken == "reset":
            raise ConnectionResetError(104, "Connection reset by peer")
        elif not self.broken:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return size


class SimulatedPoll:
    """`select.poll` over simulated sockets; whoever waits lets time pass."""

    def __init__(self, sockets: dict[int, SimulatedSocket], clock: SimulatedClock) -> None:
        self._sockets = sockets
        self._clock = clock
        self._events: dict[int, int] = {}

    def register(self, socket: SimulatedSocket | int, event: int) -> None:
        """Look out for `event`."""
        self._events[socket if isinstance(socket, int) else socket.fileno()] = event

    modify = register

    def poll(self, wait_ms: float) -> list[tuple[int, int]]:
        """As `select.poll` has it: waits are rounded up to milliseconds."""
        if not self._ready():
            self._clock.pass_us(ceil(wait_ms) * 1000, lambda: bool(self._ready()))
        return self._ready()

    def _ready(self) -> list[tuple[int, int]]:
        return [
            (number, event)
            for number, event in self._events.items()
            if event & select.POLLOUT or (event and self._sockets[number].readable)
        ]


class SimulatedNetwork(Network):
    """Peers by their addresses."""

    def __init__(self, clock: SimulatedClock) -> None:
        super().__init__(clock)
        self._clock = clock
        self.peers: dict[Address, Peer] = {}
        self.sockets: dict[int, SimulatedSocket] = {}

    def open(
        self, cluster: str, address: Address, settings: ClientSettings, deadline: Deadline, tls: Any = None
    ) -> Any:
        """Connect within a millisecond, or fail as a broker that is down does."""
        self._clock.pass_us(500)
        peer = self.peers[address]
        if why := peer.refuses():
            if why == "no answer":
                self._clock.sleep(deadline.within(settings.connect_timeout_ms / 1000).remaining_s)
            raise ClusterUnreachable(cluster, f"{join_address(address)}: {why}")
        made = SimulatedSocket(len(self.sockets) + 3, peer, self._clock)
        self.sockets[made.fileno()] = made
        return made

    def poll(self) -> Any:
        return SimulatedPoll(self.sockets, self._clock)

    def speaks_tls(self, address: Address, deadline: Deadline) -> bool:
        return False
