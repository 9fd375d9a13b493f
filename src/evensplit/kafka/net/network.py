"""The network as all that talks to brokers sees it: time, waiting, and sockets."""

from __future__ import annotations

import select
import socket

from evensplit.kafka.cut_off import CutOff
from evensplit.kafka.deadline import CLOCK, Clock, Deadline
from evensplit.kafka.net.transport import open_transport, speaks_tls
from evensplit.kafka.options.client import Address, ClientSettings
from evensplit.kafka.options.tls import TlsOptions


class Network:
    """Real time, real sockets. The simulator of the fetcher puts another one in its place."""

    def __init__(self, clock: Clock = CLOCK) -> None:
        self.clock = clock

    def open(
        self,
        cluster: str,
        address: Address,
        settings: ClientSettings,
        deadline: Deadline,
        tls: tuple[TlsOptions, CutOff] | None = None,
    ) -> socket.socket:
        """A connected socket; see `open_transport`."""
        return open_transport(cluster, address, settings, deadline, tls)

    def poll(self) -> select.poll:
        """Waits for sockets of `open`."""
        return select.poll()

    def speaks_tls(self, address: Address, deadline: Deadline) -> bool:
        """Whether the listener answers TLS, tried over a connection of its own. False by the deadline."""
        return speaks_tls(address, deadline)


NETWORK = Network()
