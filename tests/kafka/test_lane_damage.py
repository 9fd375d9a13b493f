"""The lane when what arrives is not what the broker has, or the broker says what makes no sense."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

import pytest

from evensplit._kernel import FetchedPartition, parse_fetch_response
from evensplit.core.model import Range, SplitId
from evensplit.errors import (
    BrokerError,
    ClusterUnreachable,
    CorruptRecordsError,
    DataLossError,
    EvenSplitError,
)
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.fetch.response import EMPTY_RESPONSES_TO_SETTLE
from evensplit.kafka.wire.api import FETCH
from evensplit.testing import LocalKafka
from tests.support.lanes import lane, spread, values, whole
from tests.support.proxies import Detour, Tamper, once, rewritten
from tests.support.records import Draft, numbers, produce
from tests.support.waiting import SLACK_S

pytestmark = pytest.mark.kafka


def first_with_records(frame: bytearray) -> FetchedPartition:
    return next(
        one
        for one in parse_fetch_response(frame, 4, len(frame), FETCH.highest).partitions
        if one.records_end > one.records_begin
    )


def at(place: int, change: Callable[[bytearray, int], object]) -> Tamper:
    """Changes the first record batch of every response, `place` bytes behind its beginning."""

    def tamper(frame: bytearray) -> bytearray:
        change(frame, first_with_records(frame).records_begin + place)
        return frame

    return tamper


def flip(frame: bytearray, place: int) -> None:
    frame[place] ^= 0x10


def put(layout: str, number: int) -> Callable[[bytearray, int], object]:
    return lambda frame, place: struct.pack_into(layout, frame, place, number)


@pytest.mark.parametrize(
    "tamper",
    [
        pytest.param(at(200, flip), id="a record"),
        pytest.param(at(17, flip), id="the checksum"),
        pytest.param(at(16, put(">b", 9)), id="magic"),
        pytest.param(at(23, put(">i", 1_000_000)), id="last offset"),
        pytest.param(at(23, put(">i", -5)), id="negative last offset"),
        pytest.param(at(57, put(">i", 2**31 - 1)), id="number of records"),
        pytest.param(at(8, put(">i", 2**31 - 1)), id="length far too long"),
        pytest.param(at(8, put(">i", 2**24)), id="length too long"),
        pytest.param(at(8, put(">i", 100)), id="length too short"),
        pytest.param(at(8, put(">i", 0)), id="no length"),
        pytest.param(at(8, put(">i", -1)), id="negative length"),
        pytest.param(at(0, put(">q", -1)), id="negative offset"),
    ],
)
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_damaged_records(
    kafka: LocalKafka, topic: str, detour: Callable[[Tamper], Detour], tamper: Tamper, codec: str
) -> None:
    kafka.create_topic(topic)
    text = b"".join(b"%08d" % n for n in range(1000))
    produce(kafka.bootstrap_servers, topic, (Draft(text[n : n + 300]) for n in range(100)), codec=codec)
    begun = time.monotonic()
    with pytest.raises(CorruptRecordsError) as caught:
        values(lane(kafka, whole(topic, 100), detour(tamper), skip_lost=codec == "none"))
    assert time.monotonic() - begun < SLACK_S
    error = caught.value
    assert (error.cluster, error.topic, error.partition) == ("east", topic, 0)
    assert -1 <= error.offset <= 100
    assert "damaged in the broker's log or on the way from it" in str(error)


def test_rows_before_the_damage_are_right(kafka: LocalKafka, topic: str, detour: Callable[[Tamper], Detour]) -> None:
    kafka.create_topic(topic)
    expected = spread(kafka, topic)
    seen = 0

    def later(frame: bytearray) -> bytearray | None:
        nonlocal seen
        seen += 1
        return at(100, flip)(frame) if seen == 3 else frame

    found: list[bytes] = []
    batches = lane(kafka, whole(topic, len(expected)), detour(later))
    with pytest.raises(CorruptRecordsError) as caught:
        found.extend(value for batch in batches for value in batch.column("value").to_pylist())
    assert found == expected[: len(found)]
    assert 0 < len(found) <= caught.value.offset < len(expected)


def refuse(code: int) -> Callable[[bytearray], bytearray]:
    def change(response: Any) -> None:
        partition = response.responses[0].partitions[0]
        partition.error_code, partition.records, partition.high_watermark = code, None, -1

    return rewritten(change)


def leave_out(response: Any) -> None:
    response.responses = []


def cut_records(response: Any) -> None:
    partition = response.responses[0].partitions[0]
    partition.records = bytes(partition.records)[:70]


def empty_records(response: Any) -> None:
    response.responses[0].partitions[0].high_watermark = 0
    response.responses[0].partitions[0].records = b""


def keep_back(response: Any) -> None:
    """As brokers do when remote storage is slow (KIP-1018): no error, nothing else to tell it from a gap."""
    for topic in response.responses:
        for partition in topic.partitions:
            partition.records = b""


def refuse_all(response: Any) -> None:
    response.error_code = 70


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda frame: None, id="cut off in the middle"),
        pytest.param(lambda frame: frame[:-3], id="shorter than it says"),
        pytest.param(lambda frame: frame[:4] + b"\xff" * 30 + frame[34:], id="an envelope of nonsense"),
        pytest.param(lambda frame: b"\0\0\0\x63" + frame[4:], id="another number"),
        pytest.param(refuse(6), id="not leader"),
        pytest.param(refuse(3), id="unknown partition"),
        pytest.param(refuse(78), id="offset not available"),
        pytest.param(refuse(-1), id="unknown error"),
        pytest.param(refuse(1), id="out of range, although it is not"),
        pytest.param(rewritten(leave_out), id="left out"),
        pytest.param(rewritten(cut_records), id="less than one batch"),
        pytest.param(rewritten(empty_records), id="a high watermark that went back"),
        pytest.param(rewritten(keep_back), id="no records, although there are"),
        pytest.param(rewritten(refuse_all), id="refused as a whole"),
    ],
)
def test_what_passes_is_overcome(
    kafka: LocalKafka,
    topic: str,
    detour: Callable[[Tamper], Detour],
    change: Callable[[bytearray], bytearray | None],
) -> None:
    kafka.create_topic(topic)
    expected = spread(kafka, topic)
    assert values(lane(kafka, whole(topic, len(expected)), detour(once(change)))) == expected


@pytest.mark.parametrize(
    "change, kind, said, least_s",
    [
        pytest.param(refuse(6), BrokerError, "NOT_LEADER_FOR_PARTITION (6)", 1.5, id="not leader"),
        pytest.param(refuse(1), BrokerError, "the broker does not find the offset, although", 1.5, id="out of range"),
        pytest.param(lambda frame: None, ClusterUnreachable, "closed the connection", 1.5, id="cut off"),
        pytest.param(rewritten(empty_records), DataLossError, "its log ends at offset 0", 1.5, id="empty log"),
        # What is final ends at once.
        pytest.param(refuse(29), BrokerError, "TOPIC_AUTHORIZATION_FAILED (29)", 0, id="not allowed"),
        pytest.param(refuse(76), BrokerError, "UNSUPPORTED_COMPRESSION_TYPE (76)", 0, id="codec"),
        pytest.param(refuse(2), CorruptRecordsError, "CORRUPT_MESSAGE (2)", 0, id="corrupt"),
    ],
)
def test_what_does_not_pass_ends_at_the_deadline(
    kafka: LocalKafka,
    topic: str,
    detour: Callable[[Tamper], Detour],
    change: Tamper,
    kind: type[EvenSplitError],
    said: str,
    least_s: float,
) -> None:
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(10))
    begun = time.monotonic()
    with pytest.raises(kind) as caught:
        values(lane(kafka, whole(topic, 10), detour(change), timeout_ms=2000, skip_lost=kind is not DataLossError))
    assert least_s <= time.monotonic() - begun < (2 if least_s else 0) + SLACK_S
    assert said in str(caught.value)
    assert topic in str(caught.value)
    assert "east" in str(caught.value)


@pytest.mark.parametrize("places", [(1,), (2,), (1, 2), (2, 3), (1, 2, 4, 5)])
def test_records_that_are_late_are_not_passed_over(
    kafka: LocalKafka, topic: str, detour: Callable[[Tamper], Detour], places: tuple[int, ...]
) -> None:
    kafka.create_topic(topic, 2)
    expected = spread(kafka, topic, 1000, partitions=2)
    for ranges in (whole(topic, 500), [*whole(topic, 500), *whole(topic, 500, 1)]):
        found = values(lane(kafka, ranges, detour(once(rewritten(keep_back), *places))))
        assert sorted(found) == (expected if len(ranges) == 2 else expected[::2])


def test_nothing_several_times_in_a_row_is_a_gap(
    kafka: LocalKafka, topic: str, detour: Callable[[Tamper], Detour]
) -> None:
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(10))
    asked = 0

    def tamper(frame: bytearray) -> bytearray:
        nonlocal asked
        asked += 1
        return rewritten(keep_back)(frame)

    begun = time.monotonic()
    assert values(lane(kafka, whole(topic, 10), detour(tamper))) == []
    assert time.monotonic() - begun < SLACK_S
    assert asked == EMPTY_RESPONSES_TO_SETTLE


@pytest.mark.parametrize("local", [11, 5, -1])
def test_nothing_from_remote_storage_is_no_gap(
    kafka: LocalKafka,
    topic: str,
    detour: Callable[[Tamper], Detour],
    monkeypatch: pytest.MonkeyPatch,
    local: int,
) -> None:
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(10))
    monkeypatch.setattr(ClusterClient, "earliest_local", lambda *_, **__: local)
    ranges = [Range(SplitId("east", topic, 0), 5, 10)]
    if local <= 5:
        assert values(lane(kafka, ranges, detour(rewritten(keep_back)))) == []
        return
    begun = time.monotonic()
    with pytest.raises(ClusterUnreachable, match=r"offset 5: .* in remote storage \(all before offset 11 are\)"):
        values(lane(kafka, ranges, detour(rewritten(keep_back)), timeout_ms=2000))
    assert 1.5 < time.monotonic() - begun < 2 + SLACK_S
    # Once they come, they are there.
    late = once(rewritten(keep_back), *range(1, 10))
    assert len(values(lane(kafka, ranges, detour(late)))) == 5
