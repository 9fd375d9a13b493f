"""Literals and names in a condition, as Spark reads them.

sqlglot has Spark's grammar, but not its literals to the letter: escapes, suffixes of numbers. So they are read here,
and sqlglot is given another string for each. Names of columns, some of which are keywords, are put into backquotes.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal as Exact

from evensplit.typed.types import (
    BINARY,
    BYTE,
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    DataType,
    Decimal,
)
from evensplit.typed.where.node import ConditionRefused, Node

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*|/\*.*?\*/)
  | (?P<string>(?P<prefix>[rRxX](?=['"]))?(?:'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"))
  | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
  | (?P<name>`(?:[^`]|``)*`)
  | (?P<number>(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[bB][dD]|[lLsSyYdDfF])?(?![\w.]))
  | (?P<word>\w+)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"(?P<digits>[0-9.]+)(?P<exponent>[eE][+-]?[0-9]+)?(?P<suffix>[a-zA-Z]*)", re.ASCII)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_INTEGERS = {"Y": (BYTE, 8), "S": (SHORT, 16), "L": (LONG, 64)}


_PLACE = "literal "


@dataclass(frozen=True, slots=True)
class Read:
    """A condition for sqlglot, and the literals that it has by number."""

    sql: str
    literals: tuple[Node, ...]
    written: tuple[str, ...]
    """The literals as they were written."""

    def number(self, place: str) -> int | None:
        """The number of the literal that a string stands for; None: sqlglot made the string."""
        return int(place.removeprefix(_PLACE)) if place.startswith(_PLACE) else None

    def restored(self, sql: str) -> str:
        """What sqlglot has written, with the literals in it."""
        return re.sub(rf"(?i)['`]?{_PLACE}([0-9]+)['`]?", lambda match: self.written[int(match[1])], sql)


def read(text: str, columns: Collection[str]) -> Read:
    """Read `text`. `columns`: the names of columns in lower case. Raises ConditionRefused for wrong literals."""
    literals: list[Node] = []
    written: list[str] = []
    made: list[str] = []
    problems: list[str] = []
    before, after_literal = "", False
    for match in _TOKEN.finditer(text):
        kind, token = str(match.lastgroup), match[0]
        if kind == "blank":
            made.append(" ")
            continue
        literal = None
        try:
            if kind in ("string", "raw"):
                literal = _string(token)
            elif kind == "number" and not token.isdecimal():
                literal = number(token)
        except ValueError as error:
            problems.append(f"{token}: {error}")
            literal = Node(STRING, ("text", b""))
        if literal is not None:
            if after_literal:
                problems.append(f"{written[-1]} {token}: one literal follows another; expected one")
            made.append(f"'{_PLACE}{len(literals)}'")
            literals.append(literal)
            written.append(token)
        elif kind == "word" and (before == "." or _is_column(token, columns, before, text[match.end() :])):
            made.append(f"`{token}`")
        else:
            if kind == "other" and token in ("'", '"', "`"):
                problems.append(f"{text[match.start() :][:40]}: {token} is not closed")
            made.append(token)
        before, after_literal = token.lower(), literal is not None and kind != "number"
    if problems:
        raise ConditionRefused(problems)
    return Read("".join(made), tuple(literals), tuple(written))


def _is_column(word: str, columns: Collection[str], before: str, after: str) -> bool:
    """Whether a word names a column, and no type or function."""
    if word.lower() not in columns or before in ("as", ":"):
        return False
    return not re.match(r"\s*['\"(]", after)


def _string(token: str) -> Node:
    prefix = token[0].lower()
    if prefix == "x":
        digits = token[2:-1]
        if not re.fullmatch(r"[0-9a-fA-F]*", digits):
            raise ValueError("it has other characters than hexadecimal digits")
        return Node(BINARY, ("text", bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")))
    if prefix == "r":
        return text_literal(token[2:-1])
    quote, inner = token[0], token[1:-1]
    # Only outside of escapes; an escaped quote does not begin a pair.
    parts = re.split(r"(\\.)", inner, flags=re.DOTALL)
    joined = "".join(part if part.startswith("\\") else part.replace(quote * 2, quote) for part in parts)
    return text_literal(_ESCAPE.sub(_unescaped, joined))


def _unescaped(match: re.Match[str]) -> str:
    short, long, octal, char = match.groups()
    if code := short or long:
        return chr(int(code, 16))
    return chr(int(octal, 8)) if octal else _ESCAPED.get(char, char)


def text_literal(text: str) -> Node:
    """A string. Raises ValueError for one that UTF-8 cannot hold."""
    try:
        return Node(STRING, ("text", text.encode()), text=text)
    except UnicodeEncodeError:
        raise ValueError("it has half of a surrogate pair") from None


def number(token: str) -> Node:
    """A number, with its sign. Raises ValueError if its type cannot hold it."""
    negative, unsigned = token.startswith("-"), token.lstrip("-")
    match = _NUMBER.fullmatch(unsigned)
    if match is None:
        raise ValueError("it is no number")
    suffix = match["suffix"].upper()
    plain = unsigned[: len(unsigned) - len(suffix)]
    value = Exact(f"-{plain}" if negative else plain)
    if suffix in ("D", "F") or (match["exponent"] and not suffix):
        return _floating(value, FLOAT if suffix == "F" else DOUBLE)
    if suffix in _INTEGERS:
        kind, bits = _INTEGERS[suffix]
        if value != value.to_integral_value() or "." in plain or match["exponent"]:
            raise ValueError(f"it is no {kind}")
        return _integer(int(value), kind, bits)
    if not suffix and "." not in plain:
        for kind, bits in ((INT, 32), (LONG, 64)):
            if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
                return _integer(int(value), kind, bits)
    return _decimal(value)


def _integer(value: int, kind: DataType, bits: int) -> Node:
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(f"it is no {kind}")
    return Node(kind, ("long", value), literal=value)


def _floating(value: Exact, kind: DataType) -> Node:
    import struct

    made = float(value)
    if kind == FLOAT:
        # By way of the double it may be another float than the nearest one, so only those that are exact.
        exact = struct.unpack("f", struct.pack("f", made))[0] if abs(made) < 3e38 else None
        if exact != made:
            raise ValueError("it is not exactly a float; expected a double, such as 1.1D")
    if made in (float("inf"), float("-inf")):
        raise ValueError(f"it is no {kind}")
    return Node(kind, ("double", made))


def _decimal(value: Exact) -> Node:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits))) * (10 ** max(exponent, 0) if exponent < 100 else 10**100)
    scale = max(-exponent, 0)
    precision = max(len(str(unscaled)), scale)
    if precision > DECIMAL_DIGITS_MAX:
        raise ValueError(f"it has more than {DECIMAL_DIGITS_MAX} digits")
    return Node(Decimal(precision, scale), ("decimal", -unscaled if value.is_signed() else unscaled))
