"""Free ports on the loopback interface."""

from __future__ import annotations

import random
import re
import socket
from pathlib import Path

from evensplit.errors import LocalKafkaError

HOST = "127.0.0.1"
# Below what Linux (32768), macOS and Windows (49152) hand out by themselves: a port from there can be taken by any
# outgoing connection while a broker is down, even by a client that keeps dialling that broker and meets itself.
LOWEST_PORT = 20_000
EPHEMERAL_FROM = 32_768
ATTEMPTS = 1_000


def free_ports(count: int) -> list[int]:
    """`count` different ports that nothing listens on now. Another process may take one before it is used."""
    end = min(EPHEMERAL_FROM, _lowest_ephemeral())
    start = LOWEST_PORT if end > LOWEST_PORT + 1_000 else 1_024
    ports: list[int] = []
    for _ in range(ATTEMPTS):
        if len(ports) == count:
            return ports
        port = random.randrange(start, max(end, start + 1_000))  # noqa: S311
        if port not in ports and is_free(port):
            ports.append(port)
    raise LocalKafkaError(f"no {count} free ports found on {HOST} between {start} and {end} in {ATTEMPTS} attempts")


def kept_ports(file: Path, count: int) -> list[int]:
    """The `count` ports that `file` has from the last time, if they are free; or else new ones, which it has then.

    Raises OSError if it cannot be read or written.
    """
    written = file.read_text(errors="replace").split() if file.exists() else []
    found = [int(each) for each in dict.fromkeys(written) if re.fullmatch(r"[0-9]{1,5}", each, re.ASCII)]
    if len(found) != count or not all(0 < port < 65_536 and is_free(port) for port in found):
        found = free_ports(count)
        file.write_text("\n".join(map(str, found)))
    return found


def is_free(port: int) -> bool:
    """Whether a listener could be bound to `port` of the loopback interface now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((HOST, port))
        except OSError:
            return False
    return True


def _lowest_ephemeral() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return EPHEMERAL_FROM
