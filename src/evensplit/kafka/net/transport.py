"""From an address to a socket over which Kafka's protocol can be spoken.

This is the only place where connections are made. TLS begins here, between the connected socket and the first request.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from evensplit.errors import AuthenticationError, ClusterUnreachable
from evensplit.kafka.auth.tls_socket import SPEAKS_NO_TLS, start_tls, tls_context
from evensplit.kafka.cut_off import CutOff
from evensplit.kafka.deadline import Deadline, Overdue, in_time
from evensplit.kafka.options.client import Address, ClientSettings, join_address
from evensplit.kafka.options.tls import TlsOptions

PROBE_S = 2.0
"""How long a listener may take to answer a probe, unless the deadline is earlier."""

_PROBE_ID = 0x5EED
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, _PROBE_ID, -1)

_Found = Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]]


def open_transport(
    cluster: str,
    address: Address,
    settings: ClientSettings,
    deadline: Deadline,
    tls: tuple[TlsOptions, CutOff] | None = None,
) -> socket.socket:
    """A connected socket, with every address that the host's name stands for tried in turn.

    `tls`: it is spoken in this way, and cut off by this.

    Raises:
        ClusterUnreachable: the name cannot be resolved, or no address accepted a connection in time.
        AuthenticationError: what is needed for TLS cannot be read, or TLS failed for good.
    """
    where = join_address(address)
    context = None if tls is None else tls_context(cluster, tls[0])
    deadline = deadline.within(settings.connect_timeout_ms / 1000)
    found = resolve_name(cluster, address, deadline)
    failures: list[str] = []
    for number, (family, kind, protocol, _, target) in enumerate(found):
        # Each of the addresses that are left has an equal share of the time that is left.
        share_s = deadline.remaining_s / (len(found) - number)
        connected = False
        connection = socket.socket(family, kind, protocol)
        try:
            _configure(connection, settings)
            connection.settimeout(max(share_s, 0.001))
            connection.connect(target)
            if tls is not None and context is not None:
                connected = True
                share = deadline.within(max(share_s, 0.001))
                return start_tls(cluster, address, connection, context, share, tls[1])
        except BaseException as error:
            connection.close()
            if not isinstance(error, OSError):
                raise
            if connected and isinstance(error, ConnectionError) and speaks_kafka(address, deadline.within(PROBE_S)):
                raise AuthenticationError(cluster, f"{where}: {SPEAKS_NO_TLS}") from None
            failures.append(_reason(error, share_s, connected=connected))
        else:
            return connection
    raise ClusterUnreachable(cluster, f"{where}: {'; '.join(dict.fromkeys(failures))}")


def _configure(connection: socket.socket, settings: ClientSettings) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if settings.receive_buffer_bytes > 0:
        # Before connecting, since the window that TCP may use is agreed on then.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)


def resolve_name(cluster: str, address: Address, deadline: Deadline) -> _Found:
    """Look up a host's addresses, as `socket.getaddrinfo` returns them. Raises ClusterUnreachable."""
    # A thread asks, as a name server that does not answer would break the deadline.
    host, port = address
    try:
        return _look_up(host, port, socket.AI_NUMERICHOST)
    except (socket.gaierror, UnicodeError):
        # It is a name, or cannot be one, which is found out once more below.
        pass
    patience_s = deadline.remaining_s
    try:
        return in_time(lambda: _look_up(host, port, 0), f"resolve-{host}", deadline)
    except Overdue:
        reason = f"no name server answered within {patience_s:.1f} s"
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    raise ClusterUnreachable(cluster, f"{join_address(address)}: the name cannot be resolved: {reason}")


def _look_up(host: str, port: int, flags: int) -> _Found:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)


def _reason(error: OSError, share_s: float, *, connected: bool) -> str:
    if connected:
        what = f"it did not end within {share_s:.1f} s" if isinstance(error, TimeoutError) else error.strerror or error
        return f"connected, but the TLS handshake failed: {what}"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused, nothing listens there"
    if isinstance(error, TimeoutError):
        return f"no connection within {share_s:.1f} s, a firewall or a host that is down"
    return f"no connection: {error.strerror or error}"


def speaks_tls(address: Address, deadline: Deadline) -> bool:
    """Whether the listener answers a TLS handshake with TLS, asked over another connection. False if late."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(incoming, outgoing, server_hostname=address[0])
    with suppress(ssl.SSLWantReadError):
        hello.do_handshake()
    answer = _probe(address, outgoing.read(), 3, deadline)
    return answer[:1] in (b"\x15", b"\x16") and answer[1:2] == b"\x03"


def speaks_kafka(address: Address, deadline: Deadline) -> bool:
    """Whether the listener answers Kafka's protocol without TLS, asked over another connection. False if late."""
    return _probe(address, _API_VERSIONS, 8, deadline)[4:] == struct.pack(">i", _PROBE_ID)


def _probe(address: Address, request: bytes, size: int, deadline: Deadline) -> bytes:
    """Send `request` over a connection of its own, and return the first `size` bytes of the response, or fewer."""
    received = b""
    with suppress(OSError), socket.create_connection(address, timeout=max(deadline.remaining_s, 0.001)) as connection:
        connection.sendall(request)
        while len(received) < size:
            connection.settimeout(max(deadline.remaining_s, 0.001))
            piece = connection.recv(size - len(received))
            if not piece:
                break
            received += piece
    return received
