"""What a query failed with, by the text that Spark has of it."""

from __future__ import annotations

import re

from evensplit import errors

SAID_MAX = 4_000
"""So many characters of an error are kept."""


def failure(error_class: str | None, text: str) -> tuple[str, str]:
    """Of what class the error was that ended a query, and what it says with its id, if it is one of this package's.

    Of any other error, Spark's or Java's, only the class is told, or nothing: it can say anything, secrets included.
    """
    ours = _ours(text)
    if ours is not None:
        return ours
    if error_class and _NAME.fullmatch(error_class):
        return error_class, ""
    java = _JAVA.match(text)
    return (java[1] if java else ""), ""


def _ours(text: str) -> tuple[str, str] | None:
    """The last one that is in the text: what comes before it led to it."""
    for found in reversed(list(_OURS.finditer(text))):
        kind = getattr(errors, found[1], None)
        if isinstance(kind, type) and issubclass(kind, errors.EvenSplitError):
            return found[1], _said(text[found.end() :], kind.id)
    return None


def _said(text: str, error_id: str) -> str:
    """What follows the name of an error: its message, up to the note with its id that Python writes behind it."""
    told, noted, _ = text.partition(f"\n{errors.reference(error_id)}")
    # Where there is no note, nobody knows where the message ends and another text begins.
    said = (told if noted else text.partition("\n")[0]).removeprefix(":").strip()
    said = said if len(said) <= SAID_MAX else f"{said[: SAID_MAX - 1]}…"
    return f"{said}\n{errors.reference(error_id)}" if said else errors.reference(error_id)


_OURS = re.compile(r"\bevensplit\.errors\.(\w{1,100})")
_NAME = re.compile(r"[A-Z][A-Z0-9_.]{0,199}")
_JAVA = re.compile(r"((?:[a-z]\w{0,60}\.){1,12}[A-Z]\w{0,100}(?:Exception|Error))(?=[:\s]|$)")
