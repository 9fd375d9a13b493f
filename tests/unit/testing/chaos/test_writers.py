"""Writers say only what they know: confirmed, given up, committed, aborted, or unknown."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from evensplit.testing.chaos.history.events import (
    Event,
    RecordsAcknowledged,
    RecordsSent,
    RecordsUnconfirmed,
    TransactionEnded,
)
from evensplit.testing.chaos.history.recorder import Recorder, read_history
from evensplit.testing.chaos.workload.numbers import Numbers
from evensplit.testing.chaos.workload.topics import COMPACTED, PLAIN, TRANSACTIONAL, Topic
from evensplit.testing.chaos.workload.writers import Writer, writer_for


class FakeProducer:
    """Confirms, refuses or forgets records as it is told, and fails in the steps that it is told to fail in."""

    made = 0

    def __init__(self, *, silent: bool = False, refusing: bool = False, failing: str = "") -> None:
        self._silent, self._refusing, self._failing = silent, refusing, failing
        self._waiting: list[Callable[[], None]] = []
        self.records: list[tuple[bytes, bytes | None, int]] = []

    def __call__(self, _: dict[str, Any]) -> FakeProducer:
        self.made += 1
        return self

    def produce(
        self, topic: str, value: bytes, key: bytes | None, partition: int, *, timestamp: int, on_delivery: Any
    ) -> None:
        offset = len(self.records)
        self.records.append((value, key, partition))
        error = KafkaError(KafkaError._MSG_TIMED_OUT) if self._refusing else None
        self._waiting.append(lambda: on_delivery(error, Message(offset)))

    def flush(self, _: float) -> int:
        while self._waiting and not self._silent:
            self._waiting.pop(0)()
        return len(self._waiting)

    def purge(self) -> None:
        self._waiting.clear()

    def init_transactions(self, _: float) -> None:
        self._step("init")

    def begin_transaction(self) -> None:
        self._step("begin")

    def commit_transaction(self, _: float) -> None:
        self._step("commit")

    def abort_transaction(self, _: float) -> None:
        self._step("abort")

    def _step(self, name: str) -> None:
        if name == self._failing:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


class Message:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset


class Clock:
    clock_skew_ms = 0


def events_of(tmp_path: Path, kind: str, producer: FakeProducer, *, bursts: int = 1, seed: int = 1) -> list[Event]:
    """The history of a writer that writes so many bursts of ten records."""
    topic = Topic("east", "t", kind, 3, incarnation=2, is_there=True)
    with Recorder(tmp_path, "run") as recorder:
        writer: Writer = writer_for(topic, {}, recorder, Numbers(), Random(seed), Clock(), 20.0, producer)
        for _ in range(bursts):
            writer._owed = 10.0
            writer.burst()
    return read_history(tmp_path)


def numbers(events: list[Event], kind: type[Any]) -> list[int]:
    return sorted(number for event in events if isinstance(event, kind) for number in event.numbers)


def outcomes(events: list[Event]) -> list[str]:
    return [event.outcome for event in events if isinstance(event, TransactionEnded)]


def test_each_record_is_recorded_before_it_is_produced_and_when_it_is_confirmed(tmp_path: Path) -> None:
    producer = FakeProducer()
    events = events_of(tmp_path, PLAIN, producer, bursts=3)
    assert numbers(events, RecordsSent) == numbers(events, RecordsAcknowledged) == list(range(30))
    sent = {number: event for event in events if isinstance(event, RecordsSent) for number in event.numbers}
    checksums = {
        number: checksum
        for event in sent.values()
        for number, checksum in zip(event.numbers, event.checksums, strict=True)
    }
    for value, _, partition in producer.records:
        number, cluster, topic, incarnation, place, _padding = value.decode().split("|")
        assert checksums[int(number)] == zlib.crc32(value)
        assert (cluster, topic, incarnation, place) == ("east", "t", "2", str(partition))
        assert sent[int(number)].partition == partition
    for event in events:
        if isinstance(event, RecordsAcknowledged):
            assert all(sent[number].at_s <= event.at_s for number in event.numbers)


def test_a_key_stays_in_its_partition(tmp_path: Path) -> None:
    producer = FakeProducer()
    events = events_of(tmp_path, COMPACTED, producer, bursts=20)
    where = {key: partition for _, key, partition in producer.records}
    assert all(where[key] == partition for _, key, partition in producer.records)
    assert all(len(event.keys) == len(event.numbers) for event in events if isinstance(event, RecordsSent))


@pytest.mark.parametrize("producer", [FakeProducer(silent=True), FakeProducer(refusing=True)])
def test_what_is_not_confirmed_is_given_up_and_its_producer_with_it(tmp_path: Path, producer: FakeProducer) -> None:
    events = events_of(tmp_path, PLAIN, producer, bursts=2)
    assert numbers(events, RecordsSent) == numbers(events, RecordsUnconfirmed) == list(range(20))
    assert numbers(events, RecordsAcknowledged) == []
    assert producer.made == 2


def test_transactions_are_committed_and_some_are_aborted(tmp_path: Path) -> None:
    events = events_of(tmp_path, TRANSACTIONAL, FakeProducer(), bursts=40)
    found = outcomes(events)
    assert set(found) == {"committed", "aborted"}
    assert found.count("committed") > found.count("aborted")
    assert len({event.transaction for event in events if isinstance(event, TransactionEnded)}) == 40


@pytest.mark.parametrize(
    "producer, outcome",
    [
        (FakeProducer(failing="init"), "aborted"),
        (FakeProducer(failing="begin"), "aborted"),
        (FakeProducer(failing="commit"), "unknown"),
        (FakeProducer(refusing=True), "aborted"),
        (FakeProducer(refusing=True, failing="abort"), "aborted"),
        (FakeProducer(silent=True), "aborted"),
    ],
)
def test_a_transaction_counts_as_aborted_only_if_no_commit_was_asked_for(
    tmp_path: Path, producer: FakeProducer, outcome: str
) -> None:
    # The seed lets the first transaction be one to commit.
    events = events_of(tmp_path, TRANSACTIONAL, producer, seed=1)
    assert outcomes(events) == [outcome]
    if outcome == "unknown":
        assert numbers(events, RecordsAcknowledged) == list(range(10))


def test_an_error_that_a_writer_does_not_know_ends_it_and_is_kept(tmp_path: Path) -> None:
    topic = Topic("east", "t", PLAIN, 3, incarnation=2, is_there=True)
    producer = FakeProducer()
    producer.produce = None  # type: ignore[assignment, method-assign]
    with Recorder(tmp_path, "run") as recorder:
        writer: Writer = writer_for(topic, {}, recorder, Numbers(), Random(1), Clock(), 200.0, producer)
        # It is never told to end.
        writer.run(threading.Event())
    assert isinstance(writer.failure, TypeError)
