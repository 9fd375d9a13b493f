"""How a task that writes begins, and how it gives up what it has begun."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from evensplit.errors import ClusterUnreachable, RowRefused
from evensplit.kafka.produce.terms import Identity, Unanswered
from evensplit.spark.sink import slots, task
from evensplit.spark.sink.messages import TaskMessage, TaskPlace
from evensplit.spark.sink.options import parse_writing
from evensplit.spark.sink.task import write_rows_in_transaction, write_rows_of_stream
from tests.support.produce_brokers import Fate, ProduceCluster
from tests.support.written import struct_type

PLACE = TaskPlace(0, 1, "q", 5, "run")


class Coordinator:
    """Answers for a cluster's transactions. `epoch`: of every id, which grows with each InitProducerId."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.epoch = 2
        self.silent: list[str] = []
        """The calls that are not answered."""
        self.asked: list[str] = []
        self.beside: list[bytes] = []
        """What the slot had beside it, when its id was begun with."""
        self.root: Path | None = None

    def transaction_version(self) -> int:
        self._ask("version")
        return self.version

    def init(self, transactional_id: str, timeout_ms: int, *, once: bool = False) -> Identity:
        if self.root is not None:
            self.beside += [path.read_bytes() for path in sorted(self.root.rglob("slots/*/*")) if path.name.isdigit()]
            assert once, "a repeat that comes late aborts what the next task has begun"
        self._ask("init")
        self.epoch += 1
        return Identity(7, self.epoch)

    def add_partitions(self, identity: Identity, transactional_id: str, partitions: object) -> None:
        self._ask("add")

    def end(self, *_: object, **__: object) -> object:
        raise AssertionError("EndTxn leaves the epoch as it is, in version 1")

    def _ask(self, call: str) -> None:
        self.asked.append(call)
        if call in self.silent:
            self.silent.remove(call)
            raise Unanswered("east", f"no answer to {call}")


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> ProduceCluster:
    made = ProduceCluster([13], 2)
    monkeypatch.setattr(task, "POOL", made.pool)
    monkeypatch.setattr(task, "_last_decision", lambda *_: None)
    return made


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: int) -> Coordinator:
    made = Coordinator(version)
    monkeypatch.setattr(task, "transaction_client", lambda *_: made)
    monkeypatch.setattr(slots, "_root", lambda: tmp_path)
    made.root = tmp_path
    return made


def write(batches: Iterable[pa.RecordBatch], *, stream: bool = True) -> TaskMessage:
    given = {"kafka.bootstrap.servers": "b0:9092", "topic": "orders", "kafka.batch.size": "300"}
    if not stream:
        given["delivery"] = "exactly-once"
    options = parse_writing(given, struct_type("value BINARY, partition INT"), stream=stream)
    if stream:
        return write_rows_of_stream(options, PLACE, iter(batches))
    return write_rows_in_transaction(options, PLACE, iter(batches), "job")


def rows(*partitions: int) -> pa.RecordBatch:
    values = pa.array([b"." * 100] * len(partitions), pa.binary())
    return pa.record_batch([values, pa.array(partitions, pa.int32())], names=["value", "partition"])


def under_way(brokers: ProduceCluster) -> Iterator[Fate]:
    """Of the requests: the first one is answered, and the second one is not for a long time."""
    yield Fate()
    while True:
        yield Fate(delay_us=60_000_000)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("stream", [True, False])
def test_what_is_under_way_when_a_row_is_refused_is_fenced(
    brokers: ProduceCluster, coordinator: Coordinator, stream: bool
) -> None:
    """EndTxn lets it in, in version 1: it begins a transaction that nobody knows of, or is committed with the next."""
    fates = under_way(brokers)
    brokers.brokers[0].fate = lambda: next(fates)
    coordinator.root = coordinator.root if stream else None
    with pytest.raises(RowRefused, match="partition 99"):
        write([rows(*[0, 1] * 4), rows(0, 99)], stream=stream)
    assert sorted(one for one in coordinator.asked if one != "add") == ["init", "init", "version"]
    assert coordinator.asked[-1] == "init"
    if stream:
        assert coordinator.beside == [b"5?", b"5?"], "if it is not answered, nobody uses the slot again"
        assert slot_files(coordinator) == [b""], "it is given back"


@pytest.mark.parametrize("version", [1])
def test_slot_whose_end_was_not_answered_is_not_used_again(brokers: ProduceCluster, coordinator: Coordinator) -> None:
    def row_by_row() -> Iterator[pa.RecordBatch]:
        yield rows(0)
        coordinator.silent = ["init"]
        yield rows(99)

    with pytest.raises(RowRefused):
        write(row_by_row())
    assert slot_files(coordinator) == [b"5?"]


@pytest.mark.parametrize("version", [1])
def test_slot_is_not_lost_if_something_else_is_not_answered(brokers: ProduceCluster, coordinator: Coordinator) -> None:
    """What the version is, for which nobody takes an id."""
    coordinator.silent = ["version"]
    with pytest.raises(ClusterUnreachable, match="version"):
        write([rows(0)])
    assert b"5?" not in slot_files(coordinator)
    assert coordinator.asked == ["version"]


@pytest.mark.parametrize("version", [1])
def test_slot_whose_beginning_was_not_answered_is_not_used_again(
    brokers: ProduceCluster, coordinator: Coordinator
) -> None:
    coordinator.silent = ["init"]
    (transaction,) = write([rows(0)]).transactions
    assert transaction.epoch == 3
    assert slot_files(coordinator) == [b"5?", b"5"]


def slot_files(coordinator: Coordinator) -> list[bytes]:
    assert coordinator.root is not None
    return [path.read_bytes() for path in sorted(coordinator.root.rglob("slots/*/*")) if path.name.isdigit()]
