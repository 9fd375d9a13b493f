"""Who a server that listens on this machine alone answers: those who call it by a name that only this machine has.

A page of elsewhere can make a browser come here under a name of its own (DNS rebinding), and read what it is answered.
"""

from __future__ import annotations

import ipaddress

LOOPBACK = "127.0.0.1"


def is_loopback(host: str) -> bool:
    """Whether a name or an address can only be this machine's."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def said_host(header: str) -> str:
    """The name or address in a Host header, which can have a port behind it."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def is_meant(header: str) -> bool:
    """Whether who sent this Host header means this machine; without one, nobody knows."""
    return is_loopback(said_host(header))
