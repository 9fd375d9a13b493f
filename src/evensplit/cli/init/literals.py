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


def shared_directory(target: str, checkpoint: str) -> str:
    """What is wrong with a directory of rows and one of positions, in a sentence; empty if each has its own.

    Who reads the rows passes over directories whose names begin with `_` or `.`, so the positions may be in one.
    """
    rows, positions = normal_path(target), normal_path(checkpoint)
    if rows == positions:
        return f"--to and --checkpoint are both {target!r}; expected two directories"
    inside = _below(positions, rows)
    if inside and not any(name.startswith(("_", ".")) for name in inside):
        return (
            f"--checkpoint {checkpoint!r} is inside of --to {target!r}, where readers look for rows; expected "
            f"another directory, or one whose name begins with an underscore, such as {target.rstrip('/')}/_checkpoint"
        )
    if _below(rows, positions):
        return f"--to {target!r} is inside of --checkpoint {checkpoint!r}; expected two directories"
    return ""


def _below(path: str, folder: str) -> list[str]:
    """The names on the way from a folder down to a path, both in their one form; none if it is not below it."""
    if folder == ".":
        return [] if path.startswith(("/", "..")) or ":" in path else path.split("/")
    begin = f"{folder.rstrip('/')}/"
    return path[len(begin) :].split("/") if path.startswith(begin) else []


def _shown(character: str, quote: str) -> str:
    if character in ("\\", quote):
        return f"\\{character}"
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()
