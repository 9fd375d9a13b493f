"""Client quotas, which neither kafka-python nor confluent-kafka can set: one request of Kafka's protocol by hand."""

from __future__ import annotations

import socket
import struct

ALTER_CLIENT_QUOTAS = 49


def limit_consumer(address: tuple[str, int], client_id: str, bytes_per_s: float) -> None:
    """Let the broker serve clients with this id no more than `bytes_per_s` (KIP-546: AlterClientQuotas version 0)."""
    entity = struct.pack(">i", 1) + _text("client-id") + _text(client_id)
    operation = struct.pack(">i", 1) + _text("consumer_byte_rate") + struct.pack(">d?", bytes_per_s, False)
    header = struct.pack(">hhi", ALTER_CLIENT_QUOTAS, 0, 1) + _text("quotas")
    request = header + struct.pack(">i", 1) + entity + operation + struct.pack(">?", False)
    with socket.create_connection(address, 60) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answers:
            body = answers.read(*struct.unpack(">i", answers.read(4)))
    # Number, throttle time, number of entries, error code of the first one.
    assert struct.unpack_from(">iiih", body) == (1, 0, 1, 0), body


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()
