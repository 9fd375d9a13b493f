"""The error that a query failed with, from the text that Spark has of it."""

from __future__ import annotations

import re

from evensplit import errors

SAID_MAX = 4_000
"""The most characters of an error that are kept."""


def failure(error_class: str | None, text: str) -> tuple[str, str]:
    """The class of the error that ended a query, and its message with its id if it is one of this package's.

    The message of any other error is left out, since it can contain anything, secrets included.
    """
    ours = _ours(text)
    if ours is not None:
        return ours
    if error_class and _NAME.fullmatch(error_class):
        return error_class, ""
    java = _JAVA.match(text)
    return (java[1] if java else ""), ""


def _ours(text: str) -> tuple[str, str] | None:
    """The last error in the text that is one of this package's; those before are its causes."""
    for found in reversed(list(_OURS.finditer(text))):
        kind = getattr(errors, found[1], None)
        if isinstance(kind, type) and issubclass(kind, errors.EvenSplitError):
            return found[1], _said(text[found.end() :], kind.id)
    return None


def _said(text: str, error_id: str) -> str:
    """The message after the name of an error, up to the note with its id that Python writes after it."""
    told, noted, _ = text.partition(f"\n{errors.reference(error_id)}")
    # Without the note, the end of the message cannot be told from the text after it.
    said = (told if noted else text.partition("\n")[0]).removeprefix(":").strip()
    said = said if len(said) <= SAID_MAX else f"{said[: SAID_MAX - 1]}…"
    return f"{said}\n{errors.reference(error_id)}" if said else errors.reference(error_id)


_OURS = re.compile(r"\bevensplit\.errors\.(\w{1,100})")
_NAME = re.compile(r"[A-Z][A-Z0-9_.]{0,199}")
_JAVA = re.compile(r"((?:[a-z]\w{0,60}\.){1,12}[A-Z]\w{0,100}(?:Exception|Error))(?=[:\s]|$)")
