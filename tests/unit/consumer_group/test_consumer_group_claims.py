"""What members of a group claim to own: over the wire, damaged, of another kind, or from before a round they missed."""

from __future__ import annotations

import itertools
import logging
import struct
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from evensplit.consumer_group import BalancedAssignor
from evensplit.consumer_group.user_data import decode_claim, encode_claim
from evensplit.core.model import SplitId
from tests.support.group_rounds import Group, loads, moved, names


def test_who_missed_a_rebalance_claims_in_vain() -> None:
    group = Group({"t": 6})
    group.join("a", "t")
    group.join("b", "t")
    group.rebalance()
    stale = group.members["b"]
    group.leave("b")
    group.join("c", "t")
    without = group.rebalance()
    group.members["b"] = stale  # it was away for one round and still holds what it had
    after = group.rebalance()
    assert loads(after) == [2, 2, 2]
    assert moved(without, after) == 2
    assert sorted(itertools.chain(*after.values())) == names(("t", 6))


def test_who_did_not_hear_keeps_its_older_claim() -> None:
    group = Group({"t": 6})
    group.join("a", "t")
    before = group.rebalance()
    group.join("b", "t")
    missed = group.rebalance(deaf=("a",))
    after = group.rebalance()
    # What b heard of is b's by the later generation, the rest is still a's.
    assert after == missed
    assert moved(before, after) == 3


def test_a_double_claim_in_one_generation_is_nobodys() -> None:
    group = Group({"t": 3})
    for member in "abc":
        group.join(member, "t")
    everything = ConsumerProtocolAssignment(0, [("t", [0, 1, 2])], b"")
    group.assignor("a").on_assignment(everything, 7)
    group.assignor("b").on_assignment(everything, 7)
    assert loads(group.rebalance()) == [1, 1, 1]


def damaged(data: bytes) -> dict[str, bytes]:
    head, body = data[:9], data[9:]

    def sealed(body: bytes, version: int = 1) -> bytes:
        return struct.pack(">4sBI", b"EVSP", version, zlib.crc32(body)) + body

    return {
        "cut off": data[:7],
        "cut off in the middle": data[:-3],
        "one bit": head + bytes([body[0] ^ 1]) + body[1:],
        "newer": sealed(body, version=2),
        "foreign": b"\x00\x00\x00\x01\x00\x01t",
        "not JSON": sealed(b"\xff\xfe"),
        "too deep": sealed(b"[" * 100_000),
        "no object": sealed(b"[]"),
        "generation is a text": sealed(b'{"generation":"1","owned":{}}'),
        "owned is a list": sealed(b'{"generation":1,"owned":[]}'),
        "partitions are no list": sealed(b'{"generation":1,"owned":{"t":3}}'),
        "partition is a text": sealed(b'{"generation":1,"owned":{"t":["0"]}}'),
        "partition is negative": sealed(b'{"generation":1,"owned":{"t":[-1]}}'),
        "partition has too many bits": sealed(b'{"generation":1,"owned":{"t":[2147483648]}}'),
        "sticky": StickyPartitionAssignor._metadata(["t"], [], 3).user_data.encode(),
        "number with too many digits": sealed(b'{"generation":1,"owned":{"t":[' + b"9" * 5000 + b"]}}"),
    }


@pytest.mark.parametrize("kind", damaged(b"x" * 20))
def test_user_data_that_cannot_be_read_is_no_claim_and_no_crash(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    group = Group({"t": 4})
    group.join("a", "t")
    group.join("b", "t")
    before = group.rebalance()
    good = group.assignor("b").metadata({"t"})
    bad = ConsumerProtocolSubscription(0, ["t"], damaged(bytes(good.user_data))[kind])
    group.assignor("b").metadata = lambda topics: bad  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING, "evensplit.consumer_group"):
        after = group.rebalance("a")
    assert loads(after) == [2, 2]
    assert after["a"] == before["a"]
    assert "what member b owns counts as free, since its user data is " in caplog.text


def test_members_of_an_older_or_another_kind_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group({"t": 4})
    group.join("a", "t")
    before = group.rebalance()
    group.join("b", "t")
    for empty in (None, b""):
        said = ConsumerProtocolSubscription(0, ["t"], empty)
        monkeypatch.setattr(group.assignor("b"), "metadata", lambda topics, said=said: said)
        after = group.rebalance()
        assert (loads(after), moved(before, after)) == ([2, 2], 2)


claims = st.dictionaries(st.text(max_size=8), st.sets(st.integers(0, 2**31 - 1), max_size=5), max_size=4)


@given(claims, st.none() | st.integers(-1, 2**31 - 1))
def test_claims_survive_the_wire(by_topic: Mapping[str, set[int]], generation: int | None) -> None:
    owned = tuple(SplitId("", topic, number) for topic, numbers in by_topic.items() for number in sorted(numbers))
    expected = (owned, generation) if owned else ((), None)
    data = encode_claim(owned, generation)
    assert decode_claim(data) == expected
    assert decode_claim(memoryview(data)) == expected


@given(st.binary(max_size=40) | st.binary(max_size=40).map(lambda tail: b"EVSP\x01" + tail))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(ValueError):
        owned, _ = decode_claim(data)
        assert all(split.partition >= 0 for split in owned)


def test_the_first_metadata_claims_nothing() -> None:
    said: Any = BalancedAssignor().metadata({"u", "t"})
    assert (said.topics, bytes(said.user_data)) == (["t", "u"], b"")
