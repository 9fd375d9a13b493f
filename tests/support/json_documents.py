"""Schemas, and JSON documents for them: most fit, others are wrong in every way that a document can be wrong.

All comes from a `random.Random`, so a seed says what is made.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type by its name in DDL."""

    name: str


@dataclass(frozen=True, slots=True)
class Decimal:
    """decimal(precision, scale)."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class Struct:
    """Names and their types."""

    fields: tuple[tuple[str, Type], ...]


@dataclass(frozen=True, slots=True)
class Array:
    """Elements of one type."""

    element: Type


@dataclass(frozen=True, slots=True)
class Map:
    """Values of one type by strings."""

    value: Type


Type: TypeAlias = Scalar | Decimal | Struct | Array | Map

NAMES = ("id", "a", "b", "Name", "value", "x y", "naïve", "用户", "a.b", "tick`s", "q'q", "😀", "ts", "n1", "n2", "n3")
SCALARS = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp"),
    *("timestamp_ntz", "string", "int", "bigint", "double"),
)
"""The last four are twice as likely."""


def schema(random: Random, depth: int = 3) -> Struct:
    """A struct of one to six fields."""
    names = random.sample(NAMES, random.randint(1, 6))
    return Struct(tuple((name, _type(random, depth)) for name in names))


def _type(random: Random, depth: int) -> Type:
    chosen = random.random()
    if depth == 0 or chosen < 0.6:
        if random.random() < 0.15:
            precision = random.choice((1, 5, 9, 10, 18, 19, 20, 38))
            return Decimal(precision, random.randint(0, precision))
        return Scalar(random.choice(SCALARS))
    if chosen < 0.75:
        return schema(random, depth - 1)
    return (Array if chosen < 0.9 else Map)(_type(random, depth - 1))


def ddl(root: Struct) -> str:
    """The fields as Spark's DDL has them."""
    return ", ".join(f"{_quoted(name)} {_written(kind)}" for name, kind in root.fields)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _written(kind: Type) -> str:
    match kind:
        case Scalar(name):
            return name
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Array(element):
            return f"array<{_written(element)}>"
        case Map(value):
            return f"map<string,{_written(value)}>"
        case Struct(fields):
            return f"struct<{','.join(f'{_quoted(name)}:{_written(inner)}' for name, inner in fields)}>"


WHOLE = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}

_ODD: Mapping[str, list[str]] = json.loads(
    (Path(__file__).parent.parent / "data" / "json" / "odd.json").read_text("utf-8")
)
ODD_NUMBERS, ODD_STRINGS, ODD_VALUES = _ODD["numbers"], _ODD["strings"], _ODD["values"]
"""Values as documents have them: numbers, strings and all others; some are no JSON."""

_ODD_BUT_GOOD = (ODD_NUMBERS[:8], ODD_STRINGS[:8], ODD_VALUES[:3])

TEXTS, ZONES = _ODD["texts"], _ODD["zones"]
"""Texts, not yet quoted. Zones of timestamps: the first five are what everybody writes."""

BYTES = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98", *(bytes([byte]) for byte in b"\0\t\"'\\{}],:0 e"))
"""What is put into documents to damage them."""


@dataclass(frozen=True, slots=True)
class Maker:
    """Writes documents for a schema."""

    random: Random
    odd: float
    """How likely a value is written as few would write it, which may or may not be of its type."""

    wrong: float
    """How likely a value is any other."""

    blanks: float
    """How likely there are blanks where blanks may be."""

    def document(self, root: Struct) -> bytes:
        """One that is whole."""
        return (self._blank() + self._struct(root) + self._blank()).encode("utf-8", "surrogatepass")

    def _likely(self, chance: float) -> bool:
        return self.random.random() < chance

    def _one(self, options: Sequence[str]) -> str:
        return self.random.choice(options)

    def _blank(self) -> str:
        return self._one((" ", "\n", "\t", " \r\n ")) if self.random.random() < self.blanks else ""

    def _value(self, kind: Type) -> str:
        chosen = self.random.random()
        if chosen < self.wrong:
            return self._one(self.random.choice((ODD_NUMBERS, ODD_STRINGS, ODD_VALUES)))
        if chosen > 0.94:
            return "null"
        match kind:
            case Struct():
                return self._struct(kind)
            case Array(element):
                values = [self._padded(self._value(element)) for _ in range(self.random.choice((0, 1, 2, 4)))]
                return f"[{','.join(values)}]" if values else f"[{self._blank()}]"
            case Map(value):
                keys = self.random.choices(("k", "l", "", "ключ", "k\n", "😀"), k=self.random.choice((0, 1, 2, 3)))
                return self._object([(key, self._value(value)) for key in keys])
            case Decimal(precision, scale):
                return self._decimal(precision, scale)
            case Scalar(name):
                return _SCALARS[name](self)

    def _padded(self, text: str) -> str:
        return self._blank() + text + self._blank()

    def _struct(self, kind: Struct) -> str:
        members = [(name, self._value(inner)) for name, inner in kind.fields if self.random.random() > 0.1]
        if self.random.random() < 0.3:
            self.random.shuffle(members)
        if members and self.random.random() < 0.05:
            name, inner = self.random.choice(kind.fields)
            members.append((name, self._value(inner)))
        if self.random.random() < 0.1:
            name, value = self._one(("other", "ID", "", "name", "null")), self._one(self.random.choice(_ODD_BUT_GOOD))
            members.insert(self.random.randint(0, len(members)), (name, value))
        return self._object(members)

    def _object(self, members: Sequence[tuple[str, str]]) -> str:
        written = (f"{self._padded(self._text(name))}:{self._padded(value)}" for name, value in members)
        return "{" + (",".join(written) if members else self._blank()) + "}"

    def _text(self, text: str) -> str:
        """A string, with escapes where there need be, or anywhere."""
        chosen = self.random.random()
        if chosen < 0.8:
            return json.dumps(text, ensure_ascii=False)
        if chosen < 0.9:
            return json.dumps(text)
        if chosen < 0.93:
            return "'" + json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
        units = text.encode("utf-16-be", "surrogatepass")
        digits = (units[at : at + 2].hex() for at in range(0, len(units), 2))
        escaped = (f"\\u{four.upper() if self._likely(0.5) else four}" for four in digits)
        return f'"{"".join(escaped)}"'

    def boolean(self) -> str:
        """One of the two."""
        return self._one(("true", "false"))

    def whole(self, bits: int) -> str:
        """A number of so many bits; the odd ones fit just, or just not."""
        most = 1 << (bits - 1)
        if self._likely(self.odd):
            return str(self.random.choice((most - 1, -most, most, -most - 1, 0, 2 * most - 1)))
        limit = 1 << self.random.randrange(bits)
        return str(self.random.randint(-limit, limit - 1))

    def real(self) -> str:
        """A number, written in one of many ways."""
        if self._likely(self.odd):
            return self._one(ODD_NUMBERS)
        match self.random.randrange(4):
            case 0:
                found = struct.unpack("<d", self.random.randbytes(8))[0]
                return repr(found) if found - found == 0 else "1.5"
            case 1:
                return f"{self.random.uniform(-1000, 1000):.{self.random.randint(1, 12)}f}"
            case 2:
                power = f"{self._one(('e', 'E', 'e+', 'E-'))}{self.random.randint(0, 40)}"
                return f"{self.random.randint(-9, 9)}.{self.random.getrandbits(60)}{power}"
            case _:
                return str(self.random.randint(-(10**20), 10**20))

    def _decimal(self, precision: int, scale: int) -> str:
        odd = self._likely(self.odd)
        digits = str(self.random.randrange(10 ** self.random.randint(1, precision + odd))).rjust(scale, "0")
        point = len(digits) - scale
        text = self._one(("", "-")) + (digits[:point] or "0") + (f".{digits[point:]}" if digits[point:] else "")
        if odd:
            if self._likely(0.5):
                text += ("" if "." in text else ".") + self._one(("5", "49", "50", "95", "0", "999"))
            else:
                text += self._one(("e0", "e1", "E-1", "e+2", "e-20", "e-40"))
        quoted = self.random.random()
        return text if quoted < 0.85 else f'"{text}"' if quoted < 0.95 else f'"{text[:2]},{text[2:]}"'

    def string(self) -> str:
        """A text; the odd ones are other values."""
        if self._likely(self.odd):
            return self.real() if self._likely(0.5) else self._one(ODD_VALUES[:16])
        return self._text("".join(self.random.choices(TEXTS, k=self.random.choice((1, 1, 2)))))

    def binary(self) -> str:
        """Base64; the odd ones with something more, or without their end."""
        text = base64.b64encode(self.random.randbytes(self.random.randrange(12))).decode()
        if self._likely(self.odd):
            at = self.random.randint(0, len(text))
            text = text[:at] + self._one((" ", "\\n", "=", "-", "\\/")) + text[at:] if self._likely(0.7) else text[:-1]
        return f'"{text}"'

    def date(self) -> str:
        """A day; the odd ones may be none."""
        if not self._likely(self.odd):
            year, month, day = self.random.randint(1, 9999), self.random.randint(1, 12), self.random.randint(1, 28)
            return f'"{year:04}-{month:02}-{day:02}"'
        years = self._one(("2020", "1999", "2024", "1582", "0001", "10000", "-44", "-0044", "20", "1970"))
        months, days = self._one(("1", "02", "12", "13", "7")), self._one(("1", "09", "28", "29", "31"))
        text = f"{years}-{months}-{days}{self._one(('', '', '', 'T', ' x', 'Z', 'T10:00:00Z', ' '))}"
        return f'"{self._one((text,) * 8 + (years, f"{years}-{months}", "12", "-3", "99999999"))}"'

    def time(self, zoned: bool = True) -> str:
        """A point in time as text, or as seconds if it has a zone; the odd ones may be none."""
        if zoned and self._likely(0.1):
            return str(self.random.choice((0, 1, 1_600_000_000, -62_135_596_800, 9_223_372_036_855, 10**15)))
        if not self._likely(self.odd):
            clock = f"{self.random.randrange(24):02}:{self.random.randrange(60):02}:{self.random.randrange(60):02}"
            fraction = self._one(("", f".{self.random.randrange(10**6):06}", f".{self.random.randrange(10**3):03}"))
            return f'{self.date()[:-1]}{self._one(" T")}{clock}{fraction}{self._one(ZONES[:5]) if zoned else ""}"'
        clock = self._one(("10:20:30", "23:59:59", "1:2:3", "24:00:00", "10:20", "0:0:0"))
        fraction = self._one(("", ".5", ".123456789", ".", ".000001")) if clock.count(":") == 2 else ""
        return f'{self.date()[:-1]}{self._one(" TTTt")}{clock}{fraction}{self._one(ZONES)}"'

    def time_without_zone(self) -> str:
        """A point in time as text; the odd ones may have a zone."""
        return self.time(zoned=False)


_SCALARS: Mapping[str, Callable[[Maker], str]] = {
    "boolean": Maker.boolean,
    "float": Maker.real,
    "double": Maker.real,
    "string": Maker.string,
    "binary": Maker.binary,
    "date": Maker.date,
    "timestamp": Maker.time,
    "timestamp_ntz": Maker.time_without_zone,
    **{name: partial(Maker.whole, bits=bits) for name, bits in WHOLE.items()},
}


LONG_EXPONENT = re.compile(rb"[eE][+-]?[0-9]{6}")
"""Spark may take minutes for such a decimal: it writes out all of its digits."""


def documents(random: Random, root: Struct, count: int) -> list[bytes]:
    """Documents of which most are good: some have odd values or wrong ones, some have bytes changed, lost, or added."""
    made: list[bytes] = []
    for _ in range(count):
        chosen = random.random()
        odd, wrong = (0.0, 0.0) if chosen < 0.6 else (0.2, 0.0) if chosen < 0.85 else (0.0, 0.15)
        document = Maker(random, odd, wrong, random.choice((0.0, 0.0, 0.3))).document(root)
        made.append(damaged(random, document) if random.random() < 0.2 else document)
    return made


def damaged(random: Random, document: bytes) -> bytes:
    """It with a change that has nothing to do with what it says."""
    changed = _changed(random, document)
    return document if LONG_EXPONENT.search(changed) else changed


def _changed(random: Random, document: bytes) -> bytes:
    at = random.randint(0, len(document))
    some = random.choice(BYTES)
    match random.randrange(6):
        case 0:
            return document[:at]
        case 1:
            return document[:at] + some + document[at:]
        case 2:
            return document[:at] + document[at + 1 :]
        case 3:
            return document[:at] + some + document[at + 1 :]
        case 4:
            return document + random.choice((b"x", b"}", b" {}", b"\xff", b",", b"\x00", b"//"))
        case _:
            return random.choice(
                (b"", b" ", b"null", b"[%b]" % document, b"\xef\xbb\xbf" + document, b'"x"', b"7", b"{}")
            )
