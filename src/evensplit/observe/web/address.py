"""Where a server can listen, and for whom. Needs nothing that has to be installed."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

LOOPBACK = "127.0.0.1"
PORT_DEFAULT = 4848
"""The dashboard's."""
PORT_MAX = 65_535
TOKEN_MIN = 8


def is_loopback(host: str) -> bool:
    """Whether a name or an address can only be this machine's."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names_this_machine(header: str) -> bool:
    """Whether a Host header, with or without a port, names this machine alone. False without one."""
    return is_loopback(header[1:].partition("]")[0] if header.startswith("[") else header.partition(":")[0])


def wrong_port(name: str, port: object) -> Sequence[str]:
    """A sentence if `port` cannot be one; `name` is what it is called there."""
    if isinstance(port, int) and not isinstance(port, bool) and 0 <= port <= PORT_MAX:
        return []
    return [f"{name} is {port!r}; expected a whole number from 0 (any free port) to {PORT_MAX}"]


def problems(host: object, port: object, token: object) -> Sequence[str]:
    """One sentence for each of a dashboard's host, port and token that cannot be; none quotes the token."""
    found: list[str] = []
    if not isinstance(host, str):
        found.append(f"the dashboard's host is {host!r}; expected a name or an address")
    elif token is None and not is_loopback(host):
        found.append(
            f"the dashboard's host is {host!r}, where other machines can reach it; expected a token with it, or "
            f"{LOOPBACK}, which is for this machine alone"
        )
    found += wrong_port("the dashboard's port", port)
    if token is not None and not (
        isinstance(token, str) and re.fullmatch(rf"[A-Za-z0-9._~-]{{{TOKEN_MIN},}}", token) is not None
    ):
        found.append(
            f"the dashboard's token: expected at least {TOKEN_MIN} of the characters A-Z a-z 0-9 - . _ ~, which are "
            "the same in an address; `openssl rand -hex 16` makes one"
        )
    return found
