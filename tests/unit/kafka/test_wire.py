"""Kafka's primitive types, read from bytes that may be anything."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable

import pytest

from evensplit.kafka.deadline import Deadline
from evensplit.kafka.wire.primitives import OutOfTime, Reader, Undecodable, Writer
from evensplit.kafka.wire.responses import read_api_versions
from tests.support.scripted_cluster import topic_id


def reader(data: bytes, *, flexible: bool = True, timeout_s: float = 60.0) -> Reader:
    return Reader(memoryview(data), 0, flexible=flexible, deadline=Deadline.after(timeout_s))


def test_numbers_one_after_the_other() -> None:
    data = struct.pack(">bhiq?", -1, -2, -3, -4, True)
    found = reader(data)
    assert (found.int8(), found.int16(), found.int32(), found.int64(), found.boolean()) == (-1, -2, -3, -4, True)
    assert found.left_bytes == 0


@pytest.mark.parametrize(
    "read", [Reader.int8, Reader.boolean, Reader.int16, Reader.int32, Reader.int64, Reader.uuid_text]
)
def test_number_that_is_cut_off(read: Callable[[Reader], object]) -> None:
    with pytest.raises(Undecodable, match="0 bytes left at byte 0, expected"):
        read(reader(b""))


@pytest.mark.parametrize("flexible, data", [(True, b"\x04\xc3\xa9a"), (False, b"\0\x03\xc3\xa9a")])
def test_text(flexible: bool, data: bytes) -> None:
    assert reader(data, flexible=flexible).text() == "éa"


@pytest.mark.parametrize("flexible, data", [(True, b"\0"), (False, b"\xff\xff")])
def test_null(flexible: bool, data: bytes) -> None:
    assert reader(data, flexible=flexible).text_or_none() is None
    with pytest.raises(Undecodable, match="null at byte"):
        reader(data, flexible=flexible).text()


def test_octets_and_ids() -> None:
    assert reader(b"\x03ab").octets() == b"ab"
    assert reader(b"\0").octets() == b""
    assert reader(b"\0\0\0\x02ab", flexible=False).octets() == b"ab"
    assert reader(b"\xff\xff\xff\xff", flexible=False).octets() == b""
    some = uuid.uuid5(uuid.NAMESPACE_DNS, "orders")
    assert reader(some.bytes).uuid_text() == topic_id(some)
    assert reader(bytes(16)).uuid_text() == ""


@pytest.mark.parametrize(
    "flexible, data",
    [(True, b"\xff\xff\xff\xff\x0f"), (False, b"\x7f\xff"), (True, b"\x05abc"), (False, b"\0\4abc")],
)
def test_text_longer_than_what_is_there(flexible: bool, data: bytes) -> None:
    with pytest.raises(Undecodable, match="bytes left at byte"):
        reader(data, flexible=flexible).text()


def test_text_that_is_no_text() -> None:
    with pytest.raises(Undecodable, match="is not UTF-8"):
        reader(b"\x02\xff").text()


@pytest.mark.parametrize("data", [b"\xff" * 5, b"\x80" * 6, b"\xff" * 1_000_000, b"\xff\xff\xff\xff\x1f"])
def test_varint_of_more_than_32_bits(data: bytes) -> None:
    with pytest.raises(Undecodable, match="a varint before byte 5 of more than 32 bits"):
        reader(data).octets()


def test_varint_that_is_cut_off() -> None:
    with pytest.raises(Undecodable, match="0 bytes left at byte 2"):
        reader(b"\x80\x80").octets()


@pytest.mark.parametrize(
    "flexible, data",
    [(False, struct.pack(">i", 2**31 - 1) + bytes(99)), (True, b"\xff\xff\xff\xff\x0f" + bytes(99))],
)
def test_more_entries_than_the_bytes_can_hold(flexible: bool, data: bytes) -> None:
    with pytest.raises(Undecodable, match="expected no more than the 99 bytes after it hold"):
        list(reader(data, flexible=flexible).entries(1))
    with pytest.raises(Undecodable, match="expected no more than"):
        reader(data, flexible=flexible).skip_int32s()


@pytest.mark.parametrize("count", [-1, -2, -(2**31)])
def test_array_without_entries(count: int) -> None:
    assert list(reader(struct.pack(">i", count), flexible=False).entries(1)) == []


def test_entries() -> None:
    found = reader(b"\x04abcd")
    assert [found.int8() for _ in found.entries(1)] == [97, 98, 99]
    assert found.left_bytes == 1


def test_no_more_entries_than_there_can_be() -> None:
    data = b"\x04abc"
    assert len(list(reader(data).entries(1, 3))) == 3
    with pytest.raises(Undecodable, match="3 entries before byte 1, expected no more than 2"):
        list(reader(data).entries(1, 2))


def test_entries_as_long_as_there_is_time() -> None:
    late = reader(b"\x84\x80\x80\x01" + bytes(3_000_000), timeout_s=0)
    with pytest.raises(OutOfTime):
        list(late.entries(1))


def test_tags_are_passed_over() -> None:
    found = reader(b"\x02\x00\x03abc\x05\x00z")
    found.skip_tags()
    assert found.int8() == ord("z")
    plain = reader(b"z", flexible=False)
    plain.skip_tags()
    assert plain.int8() == ord("z")


def test_tags_that_are_not_there() -> None:
    with pytest.raises(Undecodable, match="100 entries before byte 1"):
        reader(b"\x64" + bytes(50)).skip_tags()
    with pytest.raises(Undecodable, match="expected 9"):
        reader(b"\x01\x00\x09abc").skip_tags()


def test_many_tags_as_long_as_there_is_time() -> None:
    with pytest.raises(OutOfTime):
        reader(b"\x80\x80\x40" + bytes(3_000_000), timeout_s=0).skip_tags()


@pytest.mark.parametrize("flexible", [True, False])
def test_what_is_written_is_read_again(flexible: bool) -> None:
    some, form = uuid.uuid5(uuid.NAMESPACE_DNS, "orders"), struct.Struct(">iq")
    writer = Writer(flexible=flexible)
    writer.text("éa")
    writer.text("")
    writer.text(None)
    writer.octets(b"ab")
    writer.boolean(True)
    for name in (topic_id(some), ""):
        writer.uuid_text(name)
    writer.rows(form, [(1, -2), (3, 4)])
    writer.rows(form, [])
    writer.int32s([5, -6])
    writer.texts(["x", "y"])
    writer.count(None)
    writer.end()
    found = reader(bytes(writer.data), flexible=flexible)
    assert (found.text(), found.text(), found.text_or_none(), found.octets()) == ("éa", "", None, b"ab")
    assert (found.boolean(), found.uuid_text(), found.uuid_text()) == (True, topic_id(some), "")
    assert list(found.rows(form)) == [(1, -2), (3, 4)]
    assert list(found.rows(form)) == []
    assert [found.int32() for _ in found.entries(4)] == [5, -6]
    assert [found.text() for _ in found.entries(1)] == ["x", "y"]
    assert list(found.entries(1)) == []
    found.skip_tags()
    assert found.left_bytes == 0


@pytest.mark.parametrize("length", [0, 126, 127, 128, 16_382, 16_383, 16_384, 2_097_150, 2_097_151])
def test_lengths_as_varints(length: int) -> None:
    writer = Writer(flexible=True)
    writer.octets(bytes(length))
    assert reader(bytes(writer.data)).octets() == bytes(length)


def test_text_that_no_length_can_tell() -> None:
    with pytest.raises(struct.error):
        Writer(flexible=False).text("x" * 32_768)


def test_features_that_the_cluster_has_agreed_on() -> None:
    """ApiVersions of Kafka 4.3, in short: one request, then tagged fields with two finalized features."""
    supported = b"\0" + bytes([14]) + b"\x02" + b"\x08x.level" + struct.pack(">hh", 0, 9) + b"\0"
    agreed = b"".join(
        name + struct.pack(">hh", level, level) + b"\0"
        for name, level in ((b"\x14transaction.version", 2), (b"\x11metadata.version", 29))
    )
    finalized = b"\x02" + bytes([len(agreed) + 1]) + b"\x03" + agreed
    body = struct.pack(">h", 0) + b"\x02" + struct.pack(">hhh", 26, 0, 5) + b"\0" + struct.pack(">i", 0)
    data = body + b"\x02" + supported + finalized
    found = read_api_versions(reader(data), 3)
    assert found.versions == {26: (0, 5)}
    assert found.features == {"transaction.version": 2, "metadata.version": 29}
    assert read_api_versions(reader(body + b"\0"), 3).features == {}
    with pytest.raises(Undecodable):
        read_api_versions(reader(data[:-4]), 3)
