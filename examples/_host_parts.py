"""What is around the host of examples/host.py: readers, the sink, two clusters with records, and what is printed."""

from __future__ import annotations

import argparse
import random
import signal
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

import evensplit.enumerator as en
from evensplit.testing import LocalKafka

TOPIC, PARTITIONS, RECORDS = "orders", {"east": 4, "west": 5}, 5_000
"""`RECORDS`: in each cluster."""

TABLES = """
CREATE TABLE records (cluster, topic, partition, offset, value, reader, UNIQUE (cluster, topic, partition, offset));
CREATE TABLE splits (cluster, topic, partition, reader, epoch, generation, next, UNIQUE (cluster, topic, partition));
CREATE TABLE epochs (epoch INTEGER PRIMARY KEY AUTOINCREMENT);
CREATE TABLE checkpoint (only INTEGER PRIMARY KEY, state);
"""
"""`splits` says which reader, in which epoch, may write records of a split, and from which offset on."""

KEY = "cluster, topic, partition"
SPLIT = f"({KEY}) = (?, ?, ?)"

processes = get_context("forkserver")
processes.set_forkserver_preload([__name__])


class Sink:
    """A database with the records, with how far they go, and who may write what. Each process opens it for itself."""

    def __init__(self, path: Path) -> None:
        # `with self.database` is a transaction, which writes alone from its first statement that writes.
        self.path, self.database = path, sqlite3.connect(path, timeout=60, isolation_level="IMMEDIATE")

    def kept(self) -> str | None:
        """The last checkpoint."""
        row = self.database.execute("SELECT state FROM checkpoint").fetchone()
        return row and str(row[0])

    def keep(self, state: str) -> None:
        with self.database:
            self.database.execute("INSERT OR REPLACE INTO checkpoint VALUES (1, ?)", [state])

    def new_epoch(self) -> int:
        """A number that is higher than all before, also those of earlier hosts."""
        with self.database:
            return self.database.execute("INSERT INTO epochs DEFAULT VALUES").lastrowid or 0

    def revoke(self, split: en.SplitId) -> None:
        """From here on nobody writes records of the split."""
        with self.database:
            self.database.execute(f"UPDATE splits SET reader = NULL WHERE {SPLIT}", split)

    def assign(self, split: en.SplitId, reader: int, epoch: int, generation: int, position: int) -> None:
        """From here on this reader writes. What was written beyond the position is void, and is read again."""
        with self.database:
            row = [*split, reader, epoch, generation, position]
            self.database.execute("INSERT OR REPLACE INTO splits VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            self.database.execute(f"DELETE FROM records WHERE {SPLIT} AND offset >= ?", [*split, position])

    def write(self, split: Sequence[Any], reader: int, epoch: int, begin: int, records: list[Any]) -> None:
        """Write records and position together, and only where the split is still the reader's."""
        with self.database:
            moved = f"UPDATE splits SET next = ? WHERE {SPLIT} AND (reader, epoch, next) = (?, ?, ?)"
            if self.database.execute(moved, [records[-1].offset + 1, *split, reader, epoch, begin]).rowcount:
                rows = [(*split, record.offset, record.value.decode(), reader) for record in records]
                self.database.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", rows)

    def told(self, cluster: str, reader: int, epoch: int) -> dict[TopicPartition, int]:
        """What a reader is to read of a cluster, and from where on."""
        own = "SELECT topic, partition, next FROM splits WHERE (cluster, reader, epoch) = (?, ?, ?)"
        rows = self.database.execute(own, [cluster, reader, epoch])
        return {TopicPartition(topic, partition): offset for topic, partition, offset in rows}

    def written(self) -> dict[en.SplitId, tuple[int, int]]:
        """Who may write each split, and how far it is written."""
        rows = self.database.execute(f"SELECT {KEY}, reader, next FROM splits WHERE reader NOT NULL")
        return {en.SplitId(*key): (reader, end) for *key, reader, end in rows}

    def had(self, reader: int) -> tuple[dict[en.SplitId, int], int | None]:
        """What a reader has, and how far it is written; and the generation that it is of."""
        rows = self.database.execute(
            f"SELECT {KEY}, next, generation FROM splits WHERE reader = ?", [reader]
        ).fetchall()
        return {en.SplitId(*key): end for *key, end, _ in rows}, max((row[-1] for row in rows), default=None)

    def count(self) -> int:
        return int(self.database.execute("SELECT count(*) FROM records").fetchone()[0])


class Reader:
    """A reader's process, as its host sees it."""

    def __init__(self, number: int, sink: Sink, servers: dict[str, str]) -> None:
        self.number, self.epoch = number, sink.new_epoch()
        self.pipe, other = processes.Pipe()
        self.process = processes.Process(target=read, args=(number, self.epoch, other, sink.path, servers), daemon=True)
        self.process.start()
        other.close()

    def lives(self) -> bool:
        """Whether it has said that it has started; otherwise it has ended."""
        try:
            self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            assert self.process.exitcode == -signal.SIGKILL, f"reader {self.number} failed, and was not killed"
            return False
        return True

    def end(self) -> None:
        self.process.kill()
        self.process.join()


def read(number: int, epoch: int, host: Connection, path: Path, servers: dict[str, str]) -> None:
    """Say that this reader has started, then read what it is told to, until it is killed or the host is gone."""
    sink = Sink(path)
    consumers = {name: KafkaConsumer(bootstrap_servers=one) for name, one in servers.items()}
    host.send("started")
    while not host.poll(0.01):  # The host says nothing, so there is something to see only when it is gone.
        for cluster, consumer in consumers.items():
            told = sink.told(cluster, number, epoch)
            for partition, records in fetch(consumer, told).items():
                sink.write([cluster, *partition], number, epoch, told[partition], records)


def fetch(consumer: KafkaConsumer, told: dict[TopicPartition, int]) -> dict[TopicPartition, list[Any]]:
    """A few records of these partitions, from these offsets on."""
    if changed := consumer.assignment() != told.keys():
        consumer.assign(list(told))
    for partition, offset in told.items():
        if changed or consumer.position(partition) != offset:
            consumer.seek(partition, offset)
    found: dict[TopicPartition, list[Any]] = consumer.poll(timeout_ms=20, max_records=20) if told else {}
    return found


class Progress:
    """Prints what happens, and beside it when, and how much is written."""

    def __init__(self, sink: Sink) -> None:
        self.sink, self.began = sink, time.monotonic()

    def __call__(self, text: str) -> None:
        count, all_ = self.sink.count(), len(PARTITIONS) * RECORDS
        bar = "█" * (20 * count // all_)
        print(f"{time.monotonic() - self.began:5.1f} s  {bar:░<20}  {count:>6,}  {text}", flush=True)


@contextmanager
def surroundings(description: str | None) -> Iterator[tuple[Sink, dict[str, str], Progress]]:
    """Take the arguments; give a sink, the bootstrap servers of two clusters with records, and what prints progress."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="of the moments at which readers are killed")
    parser.add_argument("--sink", type=Path, help="the database to write to, which is made (a temporary one)")
    given = parser.parse_args()
    random.seed(given.seed)
    print(f"Starting two clusters, and filling each with {RECORDS:,} records.", flush=True)
    with ExitStack() as stack:
        sink = Sink(given.sink or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "sink.sqlite")
        sink.database.executescript(TABLES)
        servers = {cluster: stack.enter_context(filled(cluster)) for cluster in PARTITIONS}
        print("The numbers below are of records in the sink. They go down where a split is assigned anew: what was")
        print("written after its position was last told as safe is deleted, and read again.\n", flush=True)
        yield sink, servers, Progress(sink)


@contextmanager
def filled(cluster: str) -> Iterator[str]:
    """A cluster with records; gives its bootstrap servers."""
    with LocalKafka() as broker:
        broker.create_topic(TOPIC, partitions=PARTITIONS[cluster])
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=5)
        for number in range(RECORDS):
            producer.send(TOPIC, f"{cluster} {number}".encode(), partition=number % PARTITIONS[cluster])
        producer.close()
        yield broker.bootstrap_servers


def show(sink: Sink, state: en.EnumeratorState) -> None:
    """Print who read what, and see that each record was written once."""
    readers = range(state.readers)
    rows = [["split", "belongs to", *(f"read by {reader}" for reader in readers)]]
    for key, split in state.splits.items():
        counted = f"SELECT reader, count(*) FROM records WHERE {SPLIT} GROUP BY reader"
        counts = dict(sink.database.execute(counted, key).fetchall())
        rows.append([str(key), f"reader {split.owner}", *(f"{counts.get(reader, 0):,}" for reader in readers)])
    print()
    for name, owner, *numbers in rows:
        print(f"{name:<15}{owner:<10}", *(f"{number:>10}" for number in numbers))
    values = sorted(value for (value,) in sink.database.execute("SELECT value FROM records"))
    assert values == sorted(f"{cluster} {number}" for cluster in PARTITIONS for number in range(RECORDS))
    print(f"\n{len(values):,} records in the sink, each once")
