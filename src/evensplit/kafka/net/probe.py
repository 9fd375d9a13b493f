"""What a listener speaks, found out over a connection of its own: it hangs up on those who speak something else."""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import suppress

from evensplit.kafka.deadline import Deadline
from evensplit.kafka.options.client import Address

PROBE_S = 2.0
"""So long a listener has to answer, if there is as much time."""

_NUMBER = 0x5EED
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, _NUMBER, -1)


def speaks_tls(address: Address, deadline: Deadline) -> bool:
    """Whether what listens there answers TLS in TLS. False by the deadline."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(incoming, outgoing, server_hostname=address[0])
    with suppress(ssl.SSLWantReadError):
        hello.do_handshake()
    answer = _answer(address, outgoing.read(), 3, deadline)
    return answer[:1] in (b"\x15", b"\x16") and answer[1:2] == b"\x03"


def speaks_kafka(address: Address, deadline: Deadline) -> bool:
    """Whether what listens there answers Kafka's protocol without TLS. False by the deadline."""
    return _answer(address, _API_VERSIONS, 8, deadline)[4:] == struct.pack(">i", _NUMBER)


def _answer(address: Address, question: bytes, size: int, deadline: Deadline) -> bytes:
    """The first `size` bytes of the answer, or as many as there are."""
    received = b""
    with suppress(OSError), socket.create_connection(address, timeout=max(deadline.remaining_s, 0.001)) as connection:
        connection.sendall(question)
        while len(received) < size:
            connection.settimeout(max(deadline.remaining_s, 0.001))
            piece = connection.recv(size - len(received))
            if not piece:
                break
            received += piece
    return received
