"""From an address to a socket over which Kafka's protocol can be spoken.

This is the only place where connections are made. TLS and SASL have theirs here, between the connected socket and the
first request.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Sequence
from typing import Any

from evensplit.errors import ClusterUnreachable
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.settings import Address, ClientSettings, join_address

_Found = Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]]


def open_transport(cluster: str, address: Address, settings: ClientSettings, deadline: Deadline) -> socket.socket:
    """A connected socket, with every address that the host's name stands for tried in turn.

    Raises:
        ClusterUnreachable: the name cannot be resolved, or no address accepted a connection in time.
    """
    where = join_address(address)
    deadline = deadline.within(settings.connect_timeout_ms / 1000)
    found = _resolve(cluster, address, deadline)
    failures: list[str] = []
    for number, (family, kind, protocol, _, target) in enumerate(found):
        # Each of the addresses that are left has an equal share of the time that is left.
        share_s = deadline.remaining_s / (len(found) - number)
        connection = socket.socket(family, kind, protocol)
        try:
            _configure(connection, settings)
            connection.settimeout(max(share_s, 0.001))
            connection.connect(target)
        except BaseException as error:
            connection.close()
            if not isinstance(error, OSError):
                raise
            failures.append(_reason(error, share_s))
        else:
            return connection
    raise ClusterUnreachable(cluster, f"{where}: {'; '.join(dict.fromkeys(failures))}")


def _configure(connection: socket.socket, settings: ClientSettings) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if settings.receive_buffer_bytes > 0:
        # Before connecting, since the window that TCP may use is agreed on then.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)


def _resolve(cluster: str, address: Address, deadline: Deadline) -> _Found:
    """What a name stands for. A thread asks, as a name server that does not answer would break the deadline."""
    host, port = address
    try:
        return _look_up(host, port, socket.AI_NUMERICHOST)
    except socket.gaierror:
        pass
    answers: queue.SimpleQueue[_Found | OSError | UnicodeError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(_look_up(host, port, 0))
        except (OSError, UnicodeError) as error:
            answers.put(error)

    threading.Thread(target=ask, name=f"evensplit-resolve-{host}", daemon=True).start()
    patience_s = deadline.remaining_s
    try:
        answer = answers.get(timeout=max(patience_s, 0.001))
    except queue.Empty:
        answer = TimeoutError(f"no name server answered within {patience_s:.1f} s")
    if isinstance(answer, Exception):
        reason = answer.strerror if isinstance(answer, OSError) and answer.strerror else str(answer)
        raise ClusterUnreachable(cluster, f"{join_address(address)}: the name cannot be resolved: {reason}")
    return answer


def _look_up(host: str, port: int, flags: int) -> _Found:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)


def _reason(error: OSError, share_s: float) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused, nothing listens there"
    if isinstance(error, TimeoutError):
        return f"no connection within {share_s:.1f} s, a firewall or a host that is down"
    return f"no connection: {error.strerror or error}"
