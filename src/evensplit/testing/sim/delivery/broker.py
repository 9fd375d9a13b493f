"""A cluster: logs with transactions, and the coordinator of transactions, by the rules of Kafka 2.5 to 4.3.

After TransactionCoordinator.scala, TransactionMetadata.scala and ProducerAppendInfo.java. Epochs do not run out here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from evensplit.testing.sim.delivery.world import World

CHECK_MS = 2_000
"""How late a transaction that is over its timeout may be aborted."""


class Error(StrEnum):
    """Kafka's names."""

    CONCURRENT_TRANSACTIONS = "CONCURRENT_TRANSACTIONS"
    INVALID_PRODUCER_EPOCH = "INVALID_PRODUCER_EPOCH"
    INVALID_PRODUCER_ID_MAPPING = "INVALID_PRODUCER_ID_MAPPING"
    INVALID_TXN_STATE = "INVALID_TXN_STATE"
    OUT_OF_ORDER_SEQUENCE_NUMBER = "OUT_OF_ORDER_SEQUENCE_NUMBER"
    PRODUCER_FENCED = "PRODUCER_FENCED"


class Phase(StrEnum):
    """Kafka's names of a transaction's states."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


class Producer(NamedTuple):
    """Who writes."""

    transactional_id: str
    producer_id: int
    epoch: int


class Description(NamedTuple):
    """What DescribeTransactions says."""

    phase: Phase
    producer_id: int
    epoch: int
    ends_ms: int
    """When its timeout is over; Kafka tells when it began, and its timeout."""


@dataclass
class Entry:
    """A record, or a marker at the end of a transaction. `committed`: None while its transaction is open."""

    producer: Producer | None
    value: object
    committed: bool | None = None
    marker: bool = False


@dataclass
class Log:
    """A partition."""

    name: str
    entries: list[Entry] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    offsets: dict[tuple[int, int, int], int] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)
    """The first offset of each producer's open transaction."""

    @property
    def stable_end(self) -> int:
        """The last stable offset."""
        return min(self.open.values(), default=len(self.entries))

    def committed(self) -> list[Entry]:
        """What readers with read_committed see."""
        return [one for one in self.entries[: self.stable_end] if one.committed and not one.marker]

    def append(self, producer: Producer, sequence: int, values: Sequence[object]) -> int | Error:
        """The offset of the first record."""
        _, number, epoch = producer
        known = self.epochs.get(number, -1)
        if epoch < known:
            return Error.INVALID_PRODUCER_EPOCH
        if (number, epoch, sequence) in self.offsets:
            return self.offsets[number, epoch, sequence]
        expected = self.sequences.get(number, -1) + 1 if epoch == known else 0
        if sequence != expected and known >= 0:
            return Error.OUT_OF_ORDER_SEQUENCE_NUMBER
        first = len(self.entries)
        self.epochs[number] = epoch
        self.sequences[number] = sequence + len(values) - 1
        self.offsets[number, epoch, sequence] = first
        self.open.setdefault(number, first)
        self.entries += [Entry(producer, value) for value in values]
        return first

    def end(self, producer_id: int, epoch: int, *, commit: bool) -> None:
        """Write a marker."""
        first = self.open.pop(producer_id, len(self.entries))
        for one in self.entries[first:]:
            if one.producer is not None and one.producer.producer_id == producer_id:
                one.committed = commit
        if epoch > self.epochs.get(producer_id, -1):
            self.epochs[producer_id], self.sequences[producer_id] = epoch, -1
        self.entries.append(Entry(Producer("", producer_id, epoch), "commit" if commit else "abort", commit, True))

    def fate(self, producer_id: int, after: int) -> bool | None:
        """Whether the first marker of a producer after an offset commits; None: there is none."""
        for one in self.entries[after + 1 :]:
            if one.marker and one.producer is not None and one.producer.producer_id == producer_id:
                return one.committed
        return None


@dataclass
class Transaction:
    """What the coordinator knows of a transactional id."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    epoch: int = -1
    phase: Phase = Phase.EMPTY
    logs: list[str] = field(default_factory=list)
    started_ms: int = 0
    used_ms: int = 0
    bumped: bool = False
    """Whether its last transaction was ended under version 2."""


@dataclass
class Cluster:
    """Requests have their effect at once. `ending` is told of each transaction when it is certain how it ends,
    and whether that is since its timeout is over."""

    name: str
    world: World
    version: int
    """Of transactions: 1, or 2 (KIP-890)."""
    verifies: bool
    """Whether leaders of partitions ask the coordinator before the first record of a transaction (Kafka 3.6)."""
    ending: Callable[[str, Producer, bool, bool], None]

    def __post_init__(self) -> None:
        self.logs: dict[str, Log] = {}
        self.transactions: dict[str, Transaction] = {}
        self._last_id = 100

    def log(self, name: str) -> Log:
        """A partition, which is there as soon as someone asks for it."""
        return self.logs.setdefault(name, Log(name))

    def init(self, transactional_id: str, timeout_ms: int) -> Producer | Error:
        """InitProducerId."""
        one = self.transactions.get(transactional_id)
        if one is None:
            self._last_id += 1
            one = self.transactions[transactional_id] = Transaction(transactional_id, self._last_id, timeout_ms)
        if one.phase in (Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT):
            return Error.CONCURRENT_TRANSACTIONS
        if one.phase is Phase.ONGOING:
            self._fence(one, expired=False)
            return Error.CONCURRENT_TRANSACTIONS
        one.epoch += 1
        one.phase, one.bumped, one.timeout_ms, one.used_ms = Phase.EMPTY, False, timeout_ms, self.world.now_ms
        return Producer(transactional_id, one.producer_id, one.epoch)

    def add(self, producer: Producer, log: str) -> Error | None:
        """AddPartitionsToTxn; under version 2 a leader asks this, before it appends."""
        one = self.transactions.get(producer.transactional_id)
        if one is None or one.producer_id != producer.producer_id:
            return Error.INVALID_PRODUCER_ID_MAPPING
        if one.epoch != producer.epoch:
            return Error.PRODUCER_FENCED
        if one.phase in (Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT):
            return Error.CONCURRENT_TRANSACTIONS
        if one.phase is not Phase.ONGOING:
            one.phase, one.logs, one.started_ms = Phase.ONGOING, [], self.world.now_ms
            began = self.world.now_ms
            self.world.after(
                one.timeout_ms + self.world.random.randint(0, CHECK_MS), lambda: self._expire(one, producer, began)
            )
        if log not in one.logs:
            one.logs.append(log)
        one.used_ms = self.world.now_ms
        return None

    def produce(self, producer: Producer, log: str, sequence: int, values: Sequence[object]) -> int | Error:
        """Produce. The offset of the first record."""
        found = self.log(log)
        begun = producer.producer_id in found.open and found.epochs[producer.producer_id] == producer.epoch
        if not begun:
            if self.version == 2:
                error = self.add(producer, log)
                if error is not None:
                    # Answered from the log where it can be, as a request that was repeated is.
                    again = found.offsets.get((producer.producer_id, producer.epoch, sequence))
                    return error if again is None else again
            elif self.verifies and not self._is_in(producer, log):
                return Error.INVALID_TXN_STATE
        return found.append(producer, sequence, values)

    def end(self, producer: Producer, *, commit: bool) -> Producer | Error:
        """EndTxn: the producer with which to go on."""
        one = self.transactions.get(producer.transactional_id)
        if one is None or one.producer_id != producer.producer_id:
            return Error.INVALID_PRODUCER_ID_MAPPING
        ended = one.phase not in (Phase.EMPTY, Phase.ONGOING)
        if producer.epoch + (1 if one.bumped and ended else 0) != one.epoch:
            return Error.PRODUCER_FENCED
        same = (Phase.PREPARE_COMMIT, Phase.COMPLETE_COMMIT) if commit else (Phase.PREPARE_ABORT, Phase.COMPLETE_ABORT)
        if one.phase is Phase.ONGOING:
            self._prepare(one, producer, commit=commit, expired=False)
        elif one.phase not in same:
            return Error.INVALID_TXN_STATE
        elif one.phase is same[0]:
            return Error.CONCURRENT_TRANSACTIONS
        return Producer(producer.transactional_id, one.producer_id, one.epoch)

    def describe(self, transactional_id: str) -> Description | None:
        """DescribeTransactions."""
        one = self.transactions.get(transactional_id)
        if one is None:
            return None
        return Description(one.phase, one.producer_id, one.epoch, one.started_ms + one.timeout_ms)

    def ongoing(self) -> tuple[str, ...]:
        """ListTransactions with the state Ongoing."""
        return tuple(name for name, one in self.transactions.items() if one.phase is Phase.ONGOING)

    def forget(self, idle_ms: int) -> None:
        """Ids expire that nobody has used for so long."""
        for name, one in list(self.transactions.items()):
            idle = one.phase in (Phase.EMPTY, Phase.COMPLETE_ABORT, Phase.COMPLETE_COMMIT)
            if idle and self.world.now_ms - one.used_ms > idle_ms:
                self.world.note(f"cluster {self.name} forgets {name}")
                del self.transactions[name]

    def _is_in(self, producer: Producer, log: str) -> bool:
        one = self.transactions.get(producer.transactional_id)
        known = one is not None and (one.producer_id, one.epoch) == (producer.producer_id, producer.epoch)
        return known and one is not None and one.phase is Phase.ONGOING and log in one.logs

    def _expire(self, one: Transaction, producer: Producer, began_ms: int) -> None:
        same = (one.producer_id, one.epoch, one.started_ms) == (producer.producer_id, producer.epoch, began_ms)
        if same and one.phase is Phase.ONGOING:
            self.world.note(f"cluster {self.name}: the timeout of {one.transactional_id} is over")
            self._fence(one, expired=True)

    def _fence(self, one: Transaction, *, expired: bool) -> None:
        producer = Producer(one.transactional_id, one.producer_id, one.epoch)
        one.epoch += 1
        self._prepare(one, producer, commit=False, expired=expired)

    def _prepare(self, one: Transaction, producer: Producer, *, commit: bool, expired: bool) -> None:
        one.phase = Phase.PREPARE_COMMIT if commit else Phase.PREPARE_ABORT
        one.bumped = self.version == 2
        one.epoch += one.bumped
        self.ending(self.name, producer, commit, expired)
        waiting = list(one.logs)
        if not waiting:
            self._complete(one, commit=commit)
        for name in one.logs:
            slow = not self.world.calm and not self.world.script and self.world.random.random() < 0.1
            delay_ms = self.world.random.randint(1, 6_000 if slow else 20)
            self.world.after(delay_ms, lambda name=name: self._mark(one, name, waiting, commit=commit))  # type: ignore[misc]

    def _mark(self, one: Transaction, name: str, waiting: list[str], *, commit: bool) -> None:
        self.log(name).end(one.producer_id, one.epoch, commit=commit)
        waiting.remove(name)
        if not waiting:
            self._complete(one, commit=commit)

    def _complete(self, one: Transaction, *, commit: bool) -> None:
        one.phase = Phase.COMPLETE_COMMIT if commit else Phase.COMPLETE_ABORT
        one.used_ms = self.world.now_ms
