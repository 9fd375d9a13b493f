"""URLs of services: what they may look like, how they are shown, and which of them are one place."""

from __future__ import annotations

import base64
import re
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"[!-~]+")


def shown_url(url: str) -> str:
    """A URL without what may be secret in it: user, password, and everything after `?` and `#`."""
    found = re.match(r"(?P<scheme>[^/?#]*://)(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<rest>.?)", url, re.DOTALL)
    if found is None:
        return "a malformed URL"
    path = found["path"] if found["path"].isprintable() and "@" not in found["path"] else "/…"
    return f"{found['scheme']}{found['authority'].rpartition('@')[2]}{path}{'?…' if found['rest'] == '?' else ''}"


def url_problem(url: str) -> str:
    """What is expected, if `url` is no web address that can be asked; empty if it is one."""
    expected = "expected a URL such as https://host:port/path, all of it in printable ASCII (%-encoded where need be)"
    try:
        parts = urlsplit(url)
        right = bool(parts.scheme in _PORTS and parts.hostname and parts.port != 0 and _URL.fullmatch(url))
        # What cannot be the name of a host could not be looked up either, with an error of another kind.
        (parts.hostname or "").encode("idna")
    except ValueError:
        right = False
    return "" if right else expected


def without_user(parts: SplitResult) -> str:
    """The URL without user, password and fragment, as it is asked."""
    return urlunsplit((parts.scheme.lower(), parts.netloc.rpartition("@")[2], parts.path, parts.query, ""))


def basic_of(url: str) -> str:
    """The header `Authorization` for the user and the password in a URL; empty if it has none."""
    user, at, _ = urlsplit(url).netloc.rpartition("@")
    return basic(unquote(user)) if at else ""


def basic(user_and_password: str) -> str:
    """The header `Authorization` for `user:password`."""
    return f"Basic {base64.b64encode(user_and_password.encode()).decode()}"


def place(url: str) -> tuple[str, int]:
    """Host and port, to which a secret for this URL may go."""
    parts = urlsplit(url)
    port = parts.port or _PORTS[parts.scheme]
    # From http to https on the standard ports is the same host, better protected.
    return parts.hostname or "", 443 if port == 80 and parts.scheme == "http" else port
