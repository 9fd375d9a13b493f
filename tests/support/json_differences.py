"""Where the kernel is meant to differ from Spark's `from_json`, and why."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.support.from_json import Case, Difference


def _refused(document: str, ddl: str) -> Callable[[Case], bool]:
    """Spark takes what we call bad, in a document and a schema of which these are parts."""
    part, kind = re.compile(document, re.DOTALL), re.compile(ddl)

    def explains(case: Case) -> bool:
        if case.spark.bad or not case.ours.bad or not kind.search(case.ddl):
            return False
        return part.search(_unescaped(case.document.decode("utf-8", "replace"))) is not None

    return explains


def _unescaped(text: str) -> str:
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)


_NUMBER = re.compile(r"-?[0-9]+\.[0-9]+(?:E-?[0-9]+)?")


def _as_numbers(value: object) -> object:
    """A value whose texts have their numbers in Python's digits."""
    if isinstance(value, str):
        return _NUMBER.sub(lambda found: repr(float(found[0])), value)
    return tuple(map(_as_numbers, value)) if isinstance(value, tuple) else value


def _digits_of_doubles(case: Case) -> bool:
    both_good = not case.spark.bad and not case.ours.bad
    return both_good and _as_numbers(case.spark.value) == _as_numbers(case.ours.value)


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "a time without a date",
        "Spark takes today's date for it, so a batch that is repeated a day later would have other rows",
        _refused(r"[\"']T?[0-9]{1,2}:[0-9]", r"timestamp\b"),
    ),
    Difference(
        "a time zone by name",
        "the kernel has no table of time zones, and another one than the JVM's would give other times",
        _refused(r":[0-9]{1,2}(\.[0-9]*)? ?[A-Z][A-Za-z]+[0-9A-Za-z/_+-]*", r"timestamp\b"),
    ),
    Difference(
        "digits that are not ASCII",
        "Java reads the digits of every script in decimals and in days; JSON has only those of ASCII",
        _refused(r"[\u0660-\u0669\uff10-\uff19]", r"date|decimal"),
    ),
    Difference(
        "days before the Gregorian calendar",
        "Spark reads a date of 8 to 10 digits as Spark 1.5 wrote it, in the Julian calendar",
        _refused(r"[\"']-[0-9]{8,10}[\"']", r"date"),
    ),
    Difference(
        "the digits of a double in a string",
        "before JDK 19, Double.toString gives more digits than needed for some doubles; ours are those of JDK 19",
        _digits_of_doubles,
    ),
)
