"""What of the machine that it runs on a client may use: all of it, or what `metadata.allow` names."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

_VARIABLE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)", re.ASCII)
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+(/[A-Za-z0-9._~!$&'()*+,;=:/%-]*)?", re.ASCII)
_EXPECTED = (
    "expected names of environment variables (env:NAME), absolute paths of directories or files, and addresses of "
    "token endpoints (https://…), separated by commas, such as env:KAFKA_PASSWORD, /etc/kafka/secrets"
)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What may be used.

    - variables: environment variables, by their names.
    - paths: absolute paths: of files, and of directories with all that is in them.
    - addresses: where a token may be asked for, as `plain_address` writes them.
    - everything: what the job itself names may be anything.
    """

    variables: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    everything: bool = False

    def has_variable(self, name: str) -> bool:
        """Whether a variable may be read."""
        return self.everything or name in self.variables

    def has_address(self, url: str) -> bool:
        """Whether a token may be asked for there. What is more than a plain address may not be, whatever is allowed."""
        return self.everything or (is_plain_address(url) and url in self.addresses)

    def real_path(self, path: str) -> str | None:
        """The path at which a file may be opened, with no link in it; None if it may not be read.

        Links are followed on this machine, now: what leads out of a directory is not in it. A relative path is in none,
        since it stands for another file in each process.
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
"""For what the job says itself."""


def parse_allowed(text: str) -> tuple[Allowed, list[str]]:
    """What `text` allows, and one sentence for each thing that is wrong, about the option that has it."""
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
            problems.append(f"has {entry if len(entry) <= 100 else f'{entry[:100]}…'!r}; {_EXPECTED}")
    return Allowed(_once(variables), _once(paths), _once(addresses)), problems


def plain_address(url: str) -> str:
    """A web address with its scheme, its host and its path, and nothing that could be a secret; empty if it is none."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _once(names: list[str]) -> tuple[str, ...]:
    return tuple(sorted({*names}))


def is_plain_address(text: str) -> bool:
    """Whether it is a web address without a user, a query, a fragment, or anything that could be read in two ways."""
    return _ADDRESS.fullmatch(text) is not None and plain_address(text) == text
