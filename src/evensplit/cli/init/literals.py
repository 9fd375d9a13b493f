"""Texts as Python writes them, in the way that ruff leaves as it is."""

from __future__ import annotations


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
    """Whether a path is the same wherever the job is: from the root, or with a scheme."""
    return path.startswith("/") or "://" in path


def _shown(character: str, quote: str) -> str:
    if character in ("\\", quote):
        return f"\\{character}"
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()
