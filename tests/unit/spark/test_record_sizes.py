"""How long records are: what tasks tell, what the planner hears, and what the state keeps of it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.batch.limits import KNOWN_OFFSETS, learned
from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import BatchPlanned
from evensplit.core.model import Held, SplitId
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.driver.ends.record_sizes import RecordSizes
from evensplit.spark.listen.tally import Tally
from evensplit.spark.task.receiving import receive_beside
from evensplit.spark.task.telling import MESSAGE_BYTES_MAX, Destination, Sized, Told, pack, tell_sizes, unpack
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.hosts import Source, ranges

ONE, TWO = SplitId("east", "t", 0), SplitId("east", "t", 1)
SECRET = b"s" * 32


@pytest.fixture
def sizes() -> RecordSizes:
    return RecordSizes()


@pytest.fixture
def to(sizes: RecordSizes) -> Iterator[Destination]:
    found = receive_beside(sizes, Destination("127.0.0.1", 1, SECRET))
    assert found is not None
    yield found.destination
    found.close()


@given(st.integers(0, 2**40), st.integers(1, 2**40), st.integers(0, 2**60))
def test_what_is_learned_is_between_what_was_known_and_what_is_seen(known: int, offsets: int, taken: int) -> None:
    found = learned(known, offsets, taken)
    seen = taken / offsets
    least, most = (min(known, seen), max(known, seen)) if known else (seen, seen)
    # It is rounded to whole bytes, too.
    assert max(1, least * 0.98 - 0.5) <= found or found == 1
    assert found <= max(1.0, most * 1.02 + 1)


def test_sizes_that_stay_the_same_leave_the_state_the_same() -> None:
    known = learned(0, 1_000, 123_456)
    assert known == 124
    assert all(learned(known, offsets, 124 * offsets) == known for offsets in (1, 7, 100, 10**9))
    assert learned(100, KNOWN_OFFSETS, 200 * KNOWN_OFFSETS) == 152


def test_a_message_says_what_it_was_told() -> None:
    told = Sized({ONE: (5, 0), TWO: (1, 2**50)})
    assert unpack(pack(told, SECRET), SECRET) == told
    assert unpack(pack(Sized({ONE: (0, 5)}), SECRET), SECRET) is None
    assert unpack(pack(Sized({ONE: (5, -1)}), SECRET), SECRET) is None
    assert unpack(pack(told, b"another"), SECRET) is None


def test_a_task_of_many_splits_tells_them_in_several_messages(sizes: RecordSizes, to: Destination) -> None:
    many = {SplitId("ü" * 200, "t" * 200, number): (1 + number, number) for number in range(300)}
    assert len(pack(Sized(many), SECRET)) > 3 * MESSAGE_BYTES_MAX
    tell_sizes(to, {**many, ONE: (0, 0)})
    assert sizes.measured == many
    tell_sizes(to, {TWO: (3, 7)})
    tell_sizes(to, {TWO: (3, 7)})
    assert sizes.measured == {**many, TWO: (6, 14)}
    sizes.take(Told("a", 1, 0, 1, {}))
    sizes.forget()
    assert sizes.measured == {}


def test_in_the_users_process_it_is_not_kept() -> None:
    tally = Tally()
    tally.take(Sized({ONE: (1, 1)}))
    assert tally.pop("a", 1, reads=lambda: False) is not None


def test_where_it_listens_without_register(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    found = receive_beside(Tally(), None)
    assert found is not None
    assert found.destination.host == "127.0.0.1"
    found.close()
    monkeypatch.delenv("SPARK_LOCAL_IP")
    found = receive_beside(Tally(), None)
    assert found is not None
    assert socket.inet_aton(found.destination.host)
    found.close()
    assert receive_beside(Tally(), Destination("192.0.2.1", 1, SECRET, "192.0.2.1")) is None
    assert "tasks cannot tell how long records are" in caplog.text


def test_a_machine_without_a_network_has_its_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    class Alone(socket.socket):
        def connect(self, address: Any) -> None:
            raise OSError(f"no way to {address}")

    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.setattr(socket, "socket", Alone)
    found = receive_beside(Tally(), None)
    assert found is not None
    assert found.destination.host == "127.0.0.1"
    found.close()


def east(*counts: int) -> FakeKafka:
    cluster = FakeKafka("east")
    cluster.create_topic("t", len(counts))
    for partition, count in enumerate(counts):
        cluster.append("t", partition, count)
    return cluster


def test_batches_come_near_the_limit_once_tasks_have_told() -> None:
    cluster = east(10_000, 10_000)
    cluster.refuse_sizes(31)
    source = Source(cluster, maxBytesPerTrigger="100k")
    first = source.plan(EnumeratorState(), limited=True)
    assert ranges(EnumeratorState(), first) == {"east/t/0": (0, 3), "east/t/1": (0, 3)}, "16 KB each is assumed"
    assert first.held == (Held("maxBytesPerTrigger"),)
    source.coordinator.sizes.take(Sized({ONE: (3, 3 * 100), TWO: (3, 3 * 300)}))
    second = source.plan(first, limited=True)
    found = ranges(first, second)
    read = {name: last - start for name, (start, last) in found.items()}
    total = 100 * read["east/t/0"] + 300 * read["east/t/1"]
    assert 0.95 * 102_400 <= total <= 1.02 * 102_400
    assert (second.splits[ONE].record_bytes, second.splits[TWO].record_bytes) == (100, 304)
    assert decode(encode(second)) == second
    assert source.coordinator.sizes.measured == {}


def test_a_batch_that_reads_nothing_changes_no_size() -> None:
    source = Source(east(5))
    first = source.plan(EnumeratorState())
    same = step(first, BatchPlanned({}, measured={ONE: (1, 9)})).state
    assert same.splits == first.splits
    gone = SplitId("east", "gone", 0)
    after = step(first, BatchPlanned({ONE: 5}, measured={ONE: (1, 9), gone: (1, 1)})).state
    assert same.splits[ONE].record_bytes == 0
    assert after.splits == first.splits, "it was read to its end, so this batch reads nothing either"
