"""Texts as Python writes them, in the way that ruff leaves as it is."""

from __future__ import annotations

import posixpath
import re

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<rest>/.*)", re.DOTALL)


def literal(text: str) -> str:
    """`text` as a literal on one line, in double quotes unless single ones need fewer escapes."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    inner = "".join(_shown(one, quote) for one in text)
    return f"{quote}{inner}{quote}"


def beside(path: str) -> str:
    """A path as an expression: one that is relative is beside the file of the job, which is in `HERE`."""
    if is_elsewhere(path):
        return literal(path)
    inner = literal(f"/{path}")
    braces = inner[1:-1].replace("{", "{{").replace("}", "}}")
    return f"f{inner[0]}{{HERE}}{braces}{inner[0]}"


def is_elsewhere(path: str) -> bool:
    """Whether a path is the same wherever the job is: from the root, or with a scheme, as Hadoop takes it."""
    return path.startswith("/") or _URL.fullmatch(path) is not None


def normal_path(path: str) -> str:
    """A path in one form, so that two which name the same directory beside a job, or elsewhere, are equal texts."""
    url = _URL.fullmatch(path)
    scheme, rest = (url["scheme"].lower(), url["rest"]) if url else ("file", path)
    if scheme == "file":
        rest = re.sub(r"^//(localhost)?(?=/)", "", rest) if url else rest
    # Two slashes at the beginning are one, but before a host.
    rest = posixpath.normpath(re.sub("^//+", "/", rest)) if scheme == "file" else posixpath.normpath(rest)
    return rest if scheme == "file" else f"{scheme}:{rest}"


def _shown(character: str, quote: str) -> str:
    if character in ("\\", quote):
        return f"\\{character}"
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()
