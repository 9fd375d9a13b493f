"""Kafka's primitive types: read from bytes that are not trusted, and written.

A listener can send anything, before a login or without one. So for reading, every length is
compared with the bytes that are there before it is used, and every count with how many entries they can hold; what is
made of a frame is no more than a fixed multiple of it; and a deadline holds while it is read.

Sources: Kafka's protocol guide (primitive types); KIP-482 (compact types and tagged fields).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Sequence
from itertools import repeat
from struct import Struct

from evensplit.kafka.deadline import Deadline

VARINT_BYTES_MAX = 5
"""An unsigned varint of 32 bits has no more."""

_ENTRIES_A_LOOK = 1024
_TAG_BYTES_MIN = 2
_INT16, _INT32, _INT64 = Struct(">h"), Struct(">i"), Struct(">q")
_NO_UUID = bytes(16)


class Undecodable(Exception):
    """The bytes are not what they should be. Says what was expected and found."""


class OutOfTime(Exception):
    """The deadline passed before all was read."""


class Reader:
    """Reads one structure after the other from `data`, beginning at `at`.

    `data`: read until its end; it must not change meanwhile. `flexible`: whether lengths are varints and structures
    end with tagged fields (KIP-482). Every method moves past what it returns, and raises `Undecodable` if that is
    not there.
    """

    __slots__ = ("_at", "_data", "_deadline", "_end", "_flexible")

    def __init__(self, data: memoryview, at: int, *, flexible: bool, deadline: Deadline) -> None:
        self._data = data
        self._at = at
        self._end = len(data)
        self._flexible = flexible
        self._deadline = deadline

    def int8(self) -> int:
        """A signed number of one byte."""
        value = self._byte()
        return value - 256 if value > 127 else value

    def boolean(self) -> bool:
        """A byte that is not zero for true."""
        return self._byte() != 0

    def int16(self) -> int:
        """A signed number of two bytes."""
        (value,) = self.numbers(_INT16)
        return int(value)

    def int32(self) -> int:
        """A signed number of four bytes."""
        (value,) = self.numbers(_INT32)
        return int(value)

    def int64(self) -> int:
        """A signed number of eight bytes."""
        (value,) = self.numbers(_INT64)
        return int(value)

    def numbers(self, form: Struct) -> tuple[int, ...]:
        """Several numbers at once, as `form` lays them out."""
        at = self._at
        try:
            values = form.unpack_from(self._data, at)
        except struct.error:
            raise self._cut_off(form.size) from None
        self._at = at + form.size
        return values

    def text(self) -> str:
        """A string in UTF-8."""
        value = self.text_or_none()
        if value is None:
            raise Undecodable(f"null at byte {self._at}, expected a string")
        return value

    def text_or_none(self) -> str | None:
        """A string in UTF-8, or nothing."""
        length = self._varint() - 1 if self._flexible else self.int16()
        if length < 0:
            return None
        try:
            return str(self._take(length), "utf-8")
        except UnicodeDecodeError as error:
            raise Undecodable(f"the string before byte {self._at} is not UTF-8 ({error.reason})") from None

    def octets(self) -> bytes:
        """Bytes with their number in front; empty for null."""
        length = self._varint() - 1 if self._flexible else self.int32()
        return bytes(self._take(length)) if length > 0 else b""

    def claimed_length(self) -> int:
        """How many bytes are said to follow; 0 for null. They need not be there."""
        return max(self._varint() - 1 if self._flexible else self.int32(), 0)

    @property
    def left_bytes(self) -> int:
        """How many bytes there still are."""
        return self._end - self._at

    def skip(self, length: int) -> None:
        """Pass over bytes."""
        self._take(length)

    def uuid_text(self) -> str:
        """An id of sixteen bytes, as Kafka writes ids: 22 characters of base64; empty if all bytes are zero."""
        found = bytes(self._take(16))
        return "" if found == _NO_UUID else base64.urlsafe_b64encode(found).rstrip(b"=").decode()

    def entries(self, entry_bytes_min: int, count_max: int | None = None) -> Iterator[None]:
        """Once for each entry of an array, none for null; the caller reads the entry.

        `entry_bytes_min`: how long an entry is at least. `count_max`: of so many at most. Raises OutOfTime when the
        deadline passes.
        """
        left = self._count(entry_bytes_min)
        if count_max is not None and left > count_max:
            raise Undecodable(f"{left} entries before byte {self._at}, expected no more than {count_max}")
        while left > 0:
            if self._deadline.passed:
                raise OutOfTime
            yield from repeat(None, min(left, _ENTRIES_A_LOOK))
            left -= _ENTRIES_A_LOOK

    def rows(self, form: Struct) -> Iterator[tuple[int, ...]]:
        """The entries of an array, each of which is numbers as `form` lays them out, and perhaps tagged fields.

        Raises OutOfTime when the deadline passes.
        """
        for _ in self.entries(form.size):
            values = self.numbers(form)
            self.skip_tags()
            yield values

    def skip_int32s(self) -> int:
        """Pass over an array of numbers of four bytes each. Returns how many there are."""
        count = self._count(4)
        self._at += 4 * count
        return count

    def skip_tags(self) -> None:
        """Pass over the tagged fields that a structure ends with, where it does."""
        self.tagged(-1)

    def tagged(self, wanted: int) -> Reader | None:
        """Pass over the tagged fields, too. Returns a reader of what the one with this number has, if it is there."""
        # Most have none, which is one byte.
        if not self._flexible or not (count := self._varint()):
            return None
        self._bound(count, _TAG_BYTES_MIN)
        found = None
        for number in range(count):
            if not number % _ENTRIES_A_LOOK and self._deadline.passed:
                raise OutOfTime
            tag, content = self._varint(), self._take(self._varint())
            if tag == wanted:
                found = Reader(content, 0, flexible=True, deadline=self._deadline)
        return found

    def _count(self, entry_bytes_min: int) -> int:
        count = self._varint() - 1 if self._flexible else self.int32()
        self._bound(count, entry_bytes_min)
        return max(count, 0)

    def _bound(self, count: int, entry_bytes_min: int) -> None:
        left = self._end - self._at
        if count * entry_bytes_min > left:
            raise Undecodable(
                f"{count} entries before byte {self._at}, expected no more than the {left} bytes after it hold"
            )

    def _byte(self) -> int:
        at = self._at
        if at >= self._end:
            raise self._cut_off(1)
        self._at = at + 1
        return self._data[at]

    def _varint(self) -> int:
        """An unsigned number of at most 32 bits."""
        value = self._byte()
        if value < 0x80:
            return value
        value &= 0x7F
        for number in range(1, VARINT_BYTES_MAX):
            byte = self._byte()
            value |= (byte & 0x7F) << (7 * number)
            if byte < 0x80:
                if value >> 32:
                    break
                return value
        raise Undecodable(f"a varint before byte {self._at} of more than 32 bits")

    def _take(self, length: int) -> memoryview:
        at = self._at
        if length > self._end - at:
            raise self._cut_off(length)
        self._at = at + length
        return self._data[at : at + length]

    def _cut_off(self, expected: int) -> Undecodable:
        return Undecodable(f"{self._end - self._at} bytes left at byte {self._at}, expected {expected}")


class Writer:
    """Writes one structure after the other to the end of `data`.

    `flexible`: whether lengths are varints and structures end with tagged fields (KIP-482), of which none are written.
    Raises `struct.error` for a number that is too large for its type.
    """

    __slots__ = ("_flexible", "data")

    def __init__(self, *, flexible: bool) -> None:
        self.data = bytearray()
        self._flexible = flexible

    def numbers(self, form: Struct, *values: int) -> None:
        """Several numbers at once, as `form` lays them out."""
        self.data += form.pack(*values)

    def boolean(self, value: bool) -> None:
        """A byte: 1 for true."""
        self.data.append(value)

    def text(self, value: str | None) -> None:
        """A string in UTF-8, or null for None."""
        if value is None:
            self._length(-1, _INT16)
            return
        encoded = value.encode()
        self._length(len(encoded), _INT16)
        self.data += encoded

    def octets(self, value: bytes) -> None:
        """Bytes with their number in front."""
        self._length(len(value), _INT32)
        self.data += value

    def uuid_text(self, value: str) -> None:
        """An id of sixteen bytes, as `Reader.uuid_text` gives it."""
        self.data += base64.urlsafe_b64decode(value + "==") if value else _NO_UUID

    def count(self, count: int | None) -> None:
        """The number of entries of an array, which are to follow; None for null instead of an array."""
        self._length(-1 if count is None else count, _INT32)

    def rows(self, form: Struct, rows: Sequence[tuple[int, ...]]) -> None:
        """An array, each entry of which is numbers as `form` lays them out, and perhaps tagged fields."""
        pack, end = form.pack, b"\0" if self._flexible else b""
        self.count(len(rows))
        # All at once, since there can be thousands of them.
        self.data += b"".join([pack(*row) + end for row in rows])

    def int32s(self, values: Sequence[int]) -> None:
        """An array of numbers of four bytes each."""
        self.count(len(values))
        self.data += struct.pack(f">{len(values)}i", *values)

    def texts(self, values: Sequence[str]) -> None:
        """An array of strings."""
        self.count(len(values))
        for value in values:
            self.text(value)

    def end(self) -> None:
        """The end of a structure: no tagged fields, where there can be some."""
        if self._flexible:
            self.data.append(0)

    def _length(self, length: int, form: Struct) -> None:
        """A length, -1 for null: one more than it as a varint, or as `form` has it."""
        if not self._flexible:
            self.data += form.pack(length)
            return
        rest = length + 1
        while rest > 0x7F:
            self.data.append(rest & 0x7F | 0x80)
            rest >>= 7
        self.data.append(rest)
