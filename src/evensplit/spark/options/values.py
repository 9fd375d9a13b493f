"""The values of options: numbers, durations, words, flags and JSON, each wrong one with a sentence that says so.

A sentence says which option it is about, what was found and what was expected; a value that could be a secret is in
none of them.
"""

from __future__ import annotations

import difflib
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any

from evensplit.core.json_text import parse_json
from evensplit.core.model import TopicPattern
from evensplit.core.suggest import meant
from evensplit.spark.options.hints import sought

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1

TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
PARTITION = re.compile(r"[0-9]{1,10}", re.ASCII)

UNITS_MS: Mapping[str, int] = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?|\.[0-9]{1,9})\s*(ms|min|s|m|h|d)", re.ASCII | re.IGNORECASE)
_SPARK_DURATION = re.compile(r"([0-9]{1,15})(us)?", re.ASCII | re.IGNORECASE)
_BARE = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

NAME_CHARACTERS_MAX = 249


class RawOptions:
    """The options of one level, and where sentences about wrong ones go.

    Names are given in any case, and `options` has them in lower case; Spark hands them over in lower case only. `where`
    is what a sentence adds to an option's name: nothing outside, " of cluster 'east'" inside `clusters`. A value that
    is wrong is taken as if it were not there, once its sentence is written.
    """

    def __init__(self, options: Mapping[str, Any], problems: list[str], where: str = "") -> None:
        self.options = {name.lower(): value for name, value in options.items()}
        self._written = {name.lower(): name for name in options}
        self.problems = problems
        self.where = where

    def __contains__(self, name: str) -> bool:
        return name.lower() in self.options

    def value(self, name: str) -> Any:
        """What is written there."""
        return self.options.get(name.lower())

    def written(self, name: str) -> str:
        """The name of an option that is given, as it was handed over."""
        return self._written[name.lower()]

    def among(self, names: Sequence[str]) -> list[str]:
        """Those of `names` that are given."""
        return [name for name in names if name in self]

    def wrong(self, name: str, expected: str, reason: str = "") -> None:
        """Say that the value of `name` is not what is expected."""
        because = f": {reason}" if reason else ""
        self.problems.append(f"{name}{self.where} is {shown(self.value(name))}; expected {expected}{because}")

    def refuse_unknown(self, names: Sequence[str], prefixes: Sequence[str], elsewhere: Sequence[str] = ()) -> None:
        """Say of each option that it does not exist, unless it is one of `names` or begins with a prefix.

        `elsewhere`: those that exist, but not on this level.
        """
        known = {name.lower(): name for name in names}
        for name in sorted(self.options):
            prefixed = name.startswith(tuple(prefixes))
            found = sought(name, prefixed=prefixed)
            if name in known or (prefixed and not found):
                continue
            usual, hint = found or (self._written[name], "")
            belongs = next((other for other in elsewhere if other.lower() == name), None)
            close = difflib.get_close_matches(name, list(known), n=1)
            if belongs:
                usual, hint = belongs, "it holds for all clusters: give it outside"
            elif not hint and close:
                hint = f"did you mean {known[close[0]]}?"
            elif not hint:
                hint = f"expected one of {', '.join((*names, *(f'{prefix}*' for prefix in prefixes)))}"
            self.problems.append(f"{usual} is not an option{self.where}; {hint}")

    def is_meant(self, name: str) -> bool:
        """Whether `refuse_unknown` has asked on this level whether `name` was meant, or said to use it."""
        asked = tuple(f" is not an option{self.where}; {hint} {name}" for hint in ("did you mean", "use"))
        return any(one in problem for problem in self.problems for one in asked)

    def text(self, name: str) -> str | None:
        """A text that is not empty, without the blanks around it."""
        value = self.value(name)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            self.wrong(name, "a text that is not empty")
            return None
        return value.strip()

    def name(self, name: str) -> str | None:
        """A name that others gave to something: 1 to 249 printable characters."""
        value = self.value(name)
        if name not in self:
            return None
        if not is_name(value):
            self.wrong(name, f"1 to {NAME_CHARACTERS_MAX} printable characters")
            return None
        return str(value)

    def variable(self, name: str) -> str | None:
        """The name of an environment variable. What is none is not shown, since it may be what the variable holds."""
        value = self.value(name)
        if value is None or _VARIABLE.fullmatch(str(value)):
            return None if value is None else str(value)
        self.problems.append(
            f"{name} is not the name of an environment variable; expected letters, digits and '_', and no secret itself"
        )
        return None

    def names(self, name: str, expected: str) -> tuple[str, ...] | None:
        """Names separated by commas: ascending, each once."""
        value = self.value(name)
        if value is None:
            return None
        names = tuple(sorted({part.strip() for part in str(value).split(",")} - {""}))
        if not names:
            self.wrong(name, expected)
            return None
        return names

    def pattern(self, name: str) -> TopicPattern | None:
        """A regular expression, in Python's syntax, that is not empty."""
        value = self.value(name)
        try:
            if not isinstance(value, str) or not value:
                raise re.error("it is empty" if value == "" else "it is not text")
            with warnings.catch_warnings():
                # "Possible nested set" and its like: in Java, and one day in Python, it means something else.
                warnings.simplefilter("error")
                re.compile(value)
        except (re.error, RecursionError, OverflowError, Warning) as error:
            java = "; Java's classes \\p{…} are not in it" if r"bad escape \p" in str(error).lower() else ""
            self.wrong(name, "a regular expression in Python's syntax (re)", f"{error}{java}")
            return None
        return TopicPattern(value)

    def count(self, name: str, least: int, most: int) -> int | None:
        """A whole number."""
        value = self.value(name)
        if value is None:
            return None
        digits = str(value).strip()
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and least <= int(digits) <= most):
            self.wrong(name, f"a whole number of at least {least} and at most {most}")
            return None
        return int(digits)

    def choice(self, name: str, known: Sequence[str], default: str) -> str:
        """One of the words `known`, in any case."""
        if name not in self:
            return default
        word = str(self.value(name)).strip().lower()
        if word not in known:
            self.wrong(name, f"one of {', '.join(known)}", meant(word, known))
            return default
        return word

    def flag(self, name: str) -> bool | None:
        """`true` or `false`, in any case."""
        value = self.value(name)
        if value is None:
            return None
        if str(value).strip().lower() not in ("true", "false"):
            self.wrong(name, "true or false")
            return None
        return str(value).strip().lower() == "true"

    def duration_ms(
        self, name: str, default_ms: int, *, zero: str = "", negative: bool = False, spark: bool = False
    ) -> int:
        """A number with its unit, as milliseconds; a bare number is a duration only where it is zero.

        `zero` says what 0 means, nothing where it means nothing; with `negative`, negative ones mean the same. With
        `spark`, it may have Spark's form too, in which a bare whole number is milliseconds and `us` is a unit.
        """
        value = self.value(name)
        if value is None:
            return default_ms
        text = str(value).strip()
        magnitude = text.removeprefix("-").strip() if negative else text
        found = duration_ms(magnitude)
        if found is None and spark:
            found = _spark_duration_ms(magnitude)
        bare = found is None and _BARE.fullmatch(magnitude) is not None
        if (bare and float(magnitude) == 0) or (magnitude != text and (bare or found is not None)):
            found = 0
        if found is not None and found <= LONG_MAX and (found or zero):
            return found
        expected = "a number with its unit (ms, s, m, h or d), such as 30s or 1.5h"
        if zero:
            expected += f", or 0{' or less' if negative else ''} for {zero}"
        self.wrong(name, expected, f"write {text}s or {text}ms" if bare and found is None else "")
        return default_ms

    def document(self, name: str, expected: str, *, secret: bool = False) -> dict[str, Any] | None:
        """A JSON object; it may be one already, inside another document. A secret one is not shown."""
        value = self.value(name)
        if isinstance(value, dict):
            return value
        reason, document = "", None
        try:
            document = parse_json(value, strict=True) if isinstance(value, str) else None
        except ValueError as error:
            reason = str(error)
        if isinstance(document, dict):
            return document
        if secret:
            because = f": {reason}" if reason else ""
            self.problems.append(f"{name}{self.where} is not what it should be; expected {expected}{because}")
        else:
            self.wrong(name, expected, reason)
        return None


def duration_ms(text: str) -> int | None:
    """Milliseconds, rounded up, in `text`: a number without a sign, and a unit. None: it has another form."""
    found = _DURATION.fullmatch(text)
    if not found:
        return None
    exact = Decimal(found[1]) * UNITS_MS[found[2].lower()]
    return int(exact.to_integral_value(ROUND_CEILING))


def _spark_duration_ms(text: str) -> int | None:
    """What `JavaUtils.timeStringAsMs` of Spark understands and `duration_ms` does not."""
    found = _SPARK_DURATION.fullmatch(text)
    return None if not found else int(found[1]) // (1000 if found[2] else 1)


def is_name(value: object) -> bool:
    """Whether it is a text of 1 to 249 printable characters."""
    return isinstance(value, str) and 1 <= len(value) <= NAME_CHARACTERS_MAX and value.isprintable()


def is_whole(value: object, least: int, most: int = LONG_MAX) -> bool:
    """Whether it is a whole number from `least` to `most`."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def shown(value: object) -> str:
    """`value` in a sentence: not more than a hundred characters of it."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return repr(text if len(text) <= 100 else f"{text[:100]}…")
