"""How an option is declared, and the types that its value can have.

An option is declared once, as an `Option`. How it is parsed, its errors, the reference, `evensplit explain` and the
table of the tests follow from that. Those of Kafka's client are declared in `client_options`, all others in
`evensplit.spark.options`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any, ClassVar, Literal

from evensplit.core.suggest import meant

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
NAME_CHARACTERS_MAX = 249

SOURCE, CLUSTER, TOPIC = "query", "cluster", "topic"
"""Where an option may stand: beside `format("evensplit")`; for one cluster, in `clusters` or the metadata; for one
topic, inside its JSON."""

UNITS_MS: Mapping[str, int] = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?|\.[0-9]{1,9})\s*(ms|min|s|m|h|d)", re.ASCII | re.IGNORECASE)
_SPARK_DURATION = re.compile(r"([0-9]{1,15})(us)?", re.ASCII | re.IGNORECASE)
_BARE = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?", re.ASCII)
_WHOLE = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class ValueType:
    """A type of values: what is expected of a text, and which value it is."""

    kind: str
    """Its name in the reference."""

    secret: ClassVar[bool] = False
    """Whether a wrong value may be a secret, so that no error shows it."""

    @property
    def expected(self) -> str:
        """A right value, as the end of "expected …"."""
        raise NotImplementedError

    def parse(self, value: object) -> Any:
        """The value of an option. Raises ValueError for a wrong one, with a reason where there is more to say."""
        raise NotImplementedError

    def written(self, value: Any) -> str:
        """How `value` is written as an option."""
        return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option, declared."""

    name: str

    type: ValueType

    default: Any = None
    """The value where the option is not given."""

    default_text: str = ""
    """The same in words (Markdown), where `default` is no value that could be given."""

    meaning: str
    """What it does: Markdown, a sentence or more, with links from where the reference is."""

    example: str
    """A value that is accepted, and another one than the default."""

    field: str = ""
    """The attribute of the parsed options that has the value, such as `readers`, or `reading.batch_bytes_max` in a part
    of them; empty: a rule of its own reads the option."""

    places: tuple[str, ...] = (SOURCE,)

    needs: str = ""
    """An option without which this one is an error."""

    excludes: tuple[str, ...] = ()
    """Options beside which, at the same place, this one is an error."""

    useless_without: str = ""
    """An option without which this one changes nothing, and is named in the log."""

    only: Literal["", "batch", "stream"] = ""
    """The kind of query that it is for."""

    refused_elsewhere: bool = True
    """In another kind of query it is an error; else it is ignored and named in the log."""

    ignored: str = ""
    """Which option does what this one was given for: it is understood and ignored."""

    aliases: str = ""
    """Names that it has elsewhere, separated by blanks. They are errors that name this one."""

    since: str = "0.1.0"
    """The first version that has it."""

    @property
    def default_shown(self) -> str:
        """The default, for people: a value in backquotes, or words."""
        return self.default_text or (f"`{self.type.written(self.default)}`" if self.has_default else "none")

    @property
    def has_default(self) -> bool:
        """Whether its default is a value that could be given."""
        return not self.default_text and self.default not in (None, "")


@dataclass(frozen=True, slots=True)
class WholeNumber(ValueType):
    """A whole number, both bounds included."""

    least: int
    most: int = INT_MAX
    unit: str = ""
    kind = "number"

    @property
    def expected(self) -> str:
        unit = f" of {self.unit}" if self.unit else ""
        bounds = f" from {self.least} to {self.most}" if self.most < LONG_MAX else f", {self.least} or more"
        return f"a whole number{unit}{bounds}"

    def parse(self, value: object) -> int:
        digits = str(value).strip()
        if not _WHOLE.fullmatch(digits) or not self.least <= int(digits) <= self.most:
            raise ValueError(beyond_long(digits) if self.most == LONG_MAX else "")
        return int(digits)


@dataclass(frozen=True, slots=True)
class NumberOrWord(ValueType):
    """A whole number, both bounds included, or a word in any case."""

    least: int
    most: int
    word: str
    stands_for: int
    """The value of the word: outside of the bounds."""
    kind = "number"

    @property
    def expected(self) -> str:
        return f"a whole number from {self.least} to {self.most}, or {self.word}"

    def parse(self, value: object) -> int:
        if str(value).strip().lower() == self.word:
            return self.stands_for
        return WholeNumber(self.least, self.most).parse(value)

    def written(self, value: int) -> str:
        return self.word if value == self.stands_for else str(value)


@dataclass(frozen=True, slots=True)
class Duration(ValueType):
    """A number with its unit, as milliseconds, rounded up. A bare number is a duration only where it is zero."""

    zero: str = ""
    """What 0 means; empty: 0 is wrong."""

    negative: bool = False
    """Less than 0 means the same as 0."""

    spark: bool = False
    """Spark's form is understood, too: a bare whole number is milliseconds, and `us` is a unit."""

    kind = "duration"

    @property
    def expected(self) -> str:
        zero = f", or 0{' or less' if self.negative else ''} for {self.zero}" if self.zero else ""
        return f"a number above 0 with its unit (ms, s, m, h or d), such as 30s or 1.5h{zero}"

    def parse(self, value: object) -> int:
        text = str(value).strip()
        magnitude = text.removeprefix("-").strip() if self.negative else text
        found = duration_ms(magnitude)
        if found is None and self.spark:
            found = _spark_duration_ms(magnitude)
        bare = found is None and _BARE.fullmatch(magnitude) is not None
        if (bare and float(magnitude) == 0) or (magnitude != text and (bare or found is not None)):
            found = 0
        if found is None or found > LONG_MAX or not (found or self.zero):
            raise ValueError(f"write {text}s or {text}ms" if bare and found is None else "")
        return found

    def written(self, value: int) -> str:
        return duration_text(value)


@dataclass(frozen=True, slots=True)
class Choice(ValueType):
    """One of some words, in any case."""

    words: Mapping[str, Any]
    """Word -> the value that it stands for."""

    kind: str = "choice"

    @property
    def expected(self) -> str:
        return " or ".join(self.words) if len(self.words) == 2 else f"one of {', '.join(self.words)}"

    def parse(self, value: object) -> Any:
        word = str(value).strip().lower()
        for known, stands_for in self.words.items():
            if word == known.lower():
                return stands_for
        raise ValueError(meant(word, tuple(self.words)))

    def written(self, value: Any) -> str:
        return next(word for word, stands_for in self.words.items() if stands_for == value)


def one_of(*words: str) -> Choice:
    """One of `words`, which stand for themselves."""
    return Choice({word: word for word in words})


FLAG = Choice({"true": True, "false": False}, "flag")


@dataclass(frozen=True, slots=True)
class Text(ValueType):
    """A text that is not empty, without the blanks around it."""

    kind: str = "text"

    @property
    def expected(self) -> str:
        return "a text that is not empty"

    def parse(self, value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            raise ValueError
        return value.strip()


@dataclass(frozen=True, slots=True)
class Name(ValueType):
    """A name that others gave to something: 1 to 249 printable characters."""

    kind = "text"

    @property
    def expected(self) -> str:
        return f"1 to {NAME_CHARACTERS_MAX} printable characters"

    def parse(self, value: object) -> str:
        if not is_name(value):
            raise ValueError
        return str(value)


@dataclass(frozen=True, slots=True)
class Variable(ValueType):
    """The name of an environment variable. A wrong one may be what the variable holds."""

    kind = "text"
    secret = True

    @property
    def expected(self) -> str:
        return "the name of an environment variable (letters, digits and '_'), and no secret itself"

    def parse(self, value: object) -> str:
        if not _VARIABLE.fullmatch(str(value)):
            raise ValueError
        return str(value)


@dataclass(frozen=True, slots=True)
class Names(ValueType):
    """Names separated by commas: ascending, each once."""

    of: str
    kind = "names"

    @property
    def expected(self) -> str:
        return f"{self.of}, separated by commas"

    def parse(self, value: object) -> tuple[str, ...]:
        names = tuple(sorted({part.strip() for part in str(value).split(",")} - {""}))
        if not names:
            raise ValueError
        return names


@dataclass(frozen=True, slots=True)
class Regex(ValueType):
    """A regular expression, in Python's syntax, that is not empty."""

    kind = "regex"

    @property
    def expected(self) -> str:
        return "a regular expression in Python's syntax (re)"

    def parse(self, value: object) -> str:
        if not isinstance(value, str) or not value:
            raise ValueError("it is empty" if value == "" else "it is not text")
        try:
            with warnings.catch_warnings():
                # "Possible nested set" and its like: in Java, and one day in Python, it means something else.
                warnings.simplefilter("error")
                re.compile(value)
        except (re.error, RecursionError, OverflowError, Warning) as error:
            java = "; Java's classes \\p{…} are not in it" if r"bad escape \p" in str(error).lower() else ""
            raise ValueError(f"{error}{java}") from None
        return value


@dataclass(frozen=True, slots=True)
class Form(ValueType):
    """A value with a form of its own. The rule that reads the option checks it, and not `parse`."""

    kind: str
    form: str

    @property
    def expected(self) -> str:
        return self.form

    def parse(self, value: object) -> object:
        return value


@dataclass(frozen=True, slots=True)
class SecretForm(Form):
    """A form whose values may have secrets in them."""

    secret = True


def beyond_long(text: str) -> str:
    """A reason where `text` is a whole number, and higher than any that is possible; empty: it is not."""
    is_number = text.isascii() and text.isdigit()
    return f"the highest is {LONG_MAX}" if is_number and (len(text) > 19 or int(text) > LONG_MAX) else ""


def duration_ms(text: str) -> int | None:
    """Milliseconds, rounded up, in `text`: a number without a sign, and a unit. None: it has another form."""
    found = _DURATION.fullmatch(text)
    if not found:
        return None
    exact = Decimal(found[1]) * UNITS_MS[found[2].lower()]
    return int(exact.to_integral_value(ROUND_CEILING))


def duration_text(value_ms: int) -> str:
    """A duration as it is written as an option: in the largest unit of which it is a whole number, such as `90s`."""
    unit = next(one for one in ("d", "h", "m", "s", "ms") if value_ms % UNITS_MS[one] == 0)
    return f"{value_ms // UNITS_MS[unit]}{unit}" if value_ms else "0"


def _spark_duration_ms(text: str) -> int | None:
    """Milliseconds in the forms of Spark's `JavaUtils.timeStringAsMs` that `duration_ms` does not understand."""
    found = _SPARK_DURATION.fullmatch(text)
    return None if not found else int(found[1]) // (1000 if found[2] else 1)


def is_name(value: object) -> bool:
    """Whether it is a text of 1 to 249 printable characters."""
    return isinstance(value, str) and 1 <= len(value) <= NAME_CHARACTERS_MAX and value.isprintable()
