"""Connections that outlive one read, so that a worker process need not open them again for each batch.

Each process has one pool. A connection is taken out of it while it is used, so no two readers share one, and is put
back only without an outstanding response.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict

from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.net.network import NETWORK, Network
from evensplit.kafka.options.client import Address, ClientSettings

CLIENTS_MAX = 64
IDLE_CONNECTIONS_MAX = 256

_Cluster = tuple[str, ClientSettings]


class Pool:
    """Clients and idle connections of this process; beyond a bound, the least recently used ones are dropped.

    May be used from several threads. In a forked process it is empty. `network`: makes the connections.
    """

    def __init__(
        self, *, clients_max: int = CLIENTS_MAX, idle_max: int = IDLE_CONNECTIONS_MAX, network: Network = NETWORK
    ) -> None:
        self.network = network
        self._clients_max = clients_max
        self._idle_max = idle_max
        self._start()

    def client(self, cluster: str, settings: ClientSettings) -> ClusterClient:
        """The client of a cluster with these settings. It stays with the pool: do not close it."""
        self._drop_if_forked()
        dropped: list[ClusterClient] = []
        with self._lock:
            found = self._clients.get((cluster, settings))
            if found is None:
                found = self._clients[cluster, settings] = ClusterClient(cluster, settings, self.network)
            self._clients.move_to_end((cluster, settings))
            while len(self._clients) > self._clients_max:
                dropped.append(self._clients.popitem(last=False)[1])
        for client in dropped:
            client.close()
        return found

    def take(self, cluster: str, settings: ClientSettings, address: Address, deadline: Deadline) -> Connection:
        """A connection to `address` with nothing outstanding, for the caller alone; opened if there is no idle one.

        Raises:
            ClusterUnreachable, UnsupportedBroker: as `Connection`.
        """
        self._drop_if_forked()
        while True:
            with self._lock:
                stack = self._idle.get((cluster, settings, address))
                found = stack.pop() if stack else None
                if stack is not None and not stack:
                    del self._idle[cluster, settings, address]
                self._idle_count -= found is not None
            if found is None:
                return Connection(cluster, address, settings, deadline, self.network)
            if found.is_quiet():
                return found
            # Brokers close connections that were idle for ten minutes.
            found.close()

    def give_back(self, connection: Connection, settings: ClientSettings) -> None:
        """Keep `connection` for the next reader; closes it if it cannot be used again."""
        self._drop_if_forked()
        if not connection.is_quiet():
            connection.close()
            return
        dropped: list[Connection] = []
        key = (connection.cluster, settings, connection.address)
        with self._lock:
            self._idle.setdefault(key, []).append(connection)
            self._idle.move_to_end(key)
            self._idle_count += 1
            while self._idle_count > self._idle_max:
                oldest, stack = next(iter(self._idle.items()))
                dropped.append(stack.pop(0))
                self._idle_count -= 1
                if not stack:
                    del self._idle[oldest]
        for one in dropped:
            one.close()

    def close(self) -> None:
        """Close all idle connections and all clients."""
        clients, idle = self._clients, self._idle
        self._start()
        for client in clients.values():
            client.close()
        for stack in idle.values():
            for connection in stack:
                connection.close()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._clients: OrderedDict[_Cluster, ClusterClient] = OrderedDict()
        self._idle: OrderedDict[tuple[str, ClientSettings, Address], list[Connection]] = OrderedDict()
        self._idle_count = 0

    def _drop_if_forked(self) -> None:
        if self._pid != os.getpid():
            self.close()


POOL = Pool()
"""The pool of this process."""

atexit.register(POOL.close)
