"""Where a dashboard can be, and for whom; needs nothing that has to be installed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evensplit.observe.web.hosts import LOOPBACK, is_loopback

PORT_DEFAULT = 4848
PORT_MAX = 65_535
TOKEN_MIN = 8


def problems(host: object, port: object, token: object) -> Sequence[str]:
    """One sentence for each of these that cannot be; the token is in none of them."""
    found: list[str] = []
    if not isinstance(host, str):
        found.append(f"the dashboard's host is {host!r}; expected a name or an address")
    elif token is None and not is_loopback(host):
        found.append(
            f"the dashboard's host is {host!r}, where other machines can reach it; expected a token with it, or "
            f"{LOOPBACK}, which is for this machine alone"
        )
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= PORT_MAX:
        found.append(
            f"the dashboard's port is {port!r}; expected a whole number from 0 (any free port) to {PORT_MAX}; "
            f"{PORT_DEFAULT} is usual"
        )
    if token is not None and not _can_be_sent(token):
        found.append(
            f"the dashboard's token: expected at least {TOKEN_MIN} of the characters A-Z a-z 0-9 - . _ ~, which are "
            "the same in an address; `openssl rand -hex 16` makes one"
        )
    return found


def _can_be_sent(token: object) -> bool:
    return isinstance(token, str) and re.fullmatch(rf"[A-Za-z0-9._~-]{{{TOKEN_MIN},}}", token) is not None
