"""Which variables, files and addresses of its machine a client may use: all, or those that `metadata.allow` names."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from evensplit.core.text import shown

_VARIABLE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)", re.ASCII)
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+(/[A-Za-z0-9._~!$&'()*+,;=:/%-]*)?", re.ASCII)
_EXPECTED = (
    "expected names of environment variables (env:NAME), absolute paths of directories or files, and addresses of "
    "token endpoints (https://…), separated by commas, such as env:KAFKA_PASSWORD, /etc/kafka/secrets"
)


@dataclass(frozen=True, slots=True)
class Allowed:
    """The variables, files and addresses that may be used."""

    variables: tuple[str, ...] = ()
    """Names of environment variables."""

    paths: tuple[str, ...] = ()
    """Absolute paths of files, and of directories with everything in them."""

    addresses: tuple[str, ...] = ()
    """Token endpoints, in the form of `plain_address`."""

    everything: bool = False
    """All of them: for the job's own options."""

    def has_variable(self, name: str) -> bool:
        """Whether a variable may be read."""
        return self.everything or name in self.variables

    def has_address(self, url: str) -> bool:
        """Whether a token may be requested from `url`. Unless everything is allowed, it has to be a plain address."""
        return self.everything or (is_plain_address(url) and url in self.addresses)

    def real_path(self, path: str) -> str | None:
        """The path at which a file may be opened, with no link in it; None if it may not be read.

        Links are followed on this machine, now: a file that is linked from outside a directory is not in it. Relative
        paths are never allowed, since they name another file in each process.
        """
        if self.everything:
            return path
        try:
            if not Path(path).is_absolute():
                return None
            real = os.path.realpath(path)
            roots = [os.path.realpath(root) for root in self.paths]
        except (OSError, ValueError):
            return None
        return real if any(os.path.commonpath((root, real)) == root for root in roots) else None


NOTHING = Allowed()
EVERYTHING = Allowed(everything=True)
"""For the job's own options."""


def parse_allowed(text: str) -> tuple[Allowed, list[str]]:
    """Parse the value of `metadata.allow`. Each problem is the end of a sentence that begins with the option's name."""
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    variables: list[str] = []
    paths: list[str] = []
    addresses: list[str] = []
    problems = [] if entries else [f"is empty; {_EXPECTED}"]
    for entry in entries:
        if found := _VARIABLE.fullmatch(entry):
            variables.append(found[1])
        elif Path(entry).is_absolute() and entry.isprintable() and ".." not in entry.split("/"):
            paths.append(os.path.normpath(f"/{entry.lstrip('/')}"))
        elif is_plain_address(entry):
            addresses.append(entry)
        else:
            problems.append(f"has {shown(entry)}; {_EXPECTED}")
    return Allowed(_once(variables), _once(paths), _once(addresses)), problems


def plain_address(url: str) -> str:
    """The scheme, host and path of a web address, without parts that could be secret; empty if it cannot be parsed."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _once(names: list[str]) -> tuple[str, ...]:
    return tuple(sorted({*names}))


def is_plain_address(text: str) -> bool:
    """Whether it is a web address without user, query and fragment that every parser reads in the same way."""
    return _ADDRESS.fullmatch(text) is not None and plain_address(text) == text
