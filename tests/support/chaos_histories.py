"""A small run with faults as a faultless source would leave it: its history, and all forms of sinks."""

from __future__ import annotations

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evensplit.testing.chaos.history import events as ev
from evensplit.testing.chaos.history.recorder import Recorder

FORMS = ("foreach-batch", "parquet", "deduplicated", "counted", "async")
NAMES = {"east": "Ost", "west": "West"}
KINDS = {"plain": "plain", "money": "transactional", "state": "compacted", "brief": "short-lived", "risky": "unclean"}
CALM_S, END_S = 200.0, 320.0


@dataclass
class Row:
    number: int
    cluster: str
    topic: str
    incarnation: int
    partition: int
    offset: int
    timestamp_ms: int
    key: str = ""
    value: str = ""

    def __post_init__(self) -> None:
        place = f"{self.cluster}|{self.topic}|{self.incarnation}|{self.partition}"
        self.value = self.value or f"{self.number}|{place}|xxxx"


@dataclass
class Run:
    """Change it, then `write` it."""

    events: list[ev.Event] = field(default_factory=list)
    batches: dict[str, dict[int, list[tuple[str, float, list[Row]]]]] = field(default_factory=dict)
    """Query -> batch -> attempts: token, time, rows."""
    counts_off: dict[tuple[int, str], int] = field(default_factory=dict)
    """Batch and token of an attempt -> what its counts have too much."""
    places: Callable[[int, dict[str, list[int]]], None] = lambda batch, columns: None
    """Changes where records of a batch are in the topic of the query `kafka`, and who has written them."""
    found: Callable[[ev.WrittenRead], ev.WrittenRead | None] = lambda told: told
    """Changes what another client finds in a partition of that topic."""
    in_topic: Counter[int] = field(default_factory=Counter)

    def rows(self, query: str, batch: int, attempt: int = 0) -> list[Row]:
        return self.batches[query][batch][attempt][2]

    def change(
        self, kind: type[ev.Event], choose: Callable[[Any], bool], make: Callable[[Any], ev.Event | None]
    ) -> None:
        """Put other events, or none, in the place of those of a kind that `choose` is true for."""
        made = [make(one) if isinstance(one, kind) and choose(one) else one for one in self.events]
        self.events = [one for one in made if one is not None]

    def find(self, topic: str, batch: int, cluster: str = "east", partition: int = 0) -> list[Row]:
        """The rows of a place in a batch of the first query."""
        place = (cluster, topic, partition)
        return [row for row in self.rows(FORMS[0], batch) if (row.cluster, row.topic, row.partition) == place]

    def copies(self, number: int) -> list[Row]:
        """The rows of a record, in all sinks."""
        attempts = [rows for batches in self.batches.values() for some in batches.values() for *_, rows in some]
        return [row for rows in attempts for row in rows if row.number == number]

    def miss(self, *numbers: int) -> None:
        """Take records out of all sinks."""
        for batches in self.batches.values():
            for attempts in batches.values():
                for *_, rows in attempts:
                    rows[:] = [row for row in rows if row.number not in numbers]

    def ends(self, transaction: str, outcome: str) -> None:
        """Let a transaction have another outcome."""
        self.change(
            ev.TransactionEnded, lambda one: one.transaction == transaction, lambda one: replace(one, outcome=outcome)
        )

    def move(self, number: int, offset: int) -> None:
        """Give a record another offset, as all know it: brokers, sinks, and another client."""

        def moved(one: Any) -> Any:
            return replace(
                one, offsets=tuple(offset if n == number else o for n, o in zip(one.numbers, one.offsets, strict=True))
            )

        for kind in (ev.RecordsAcknowledged, ev.LogRead):
            self.change(kind, lambda one: number in one.numbers, moved)
        for row in self.copies(number):
            row.offset = offset

    def call(self, number: int, key: str) -> None:
        """Give a record another key, as all know it: its writer, and sinks."""

        def called(one: ev.RecordsSent) -> ev.RecordsSent:
            return replace(
                one, keys=tuple(key if n == number else k for n, k in zip(one.numbers, one.keys, strict=True))
            )

        self.change(ev.RecordsSent, lambda one: number in one.numbers, called)
        for row in self.copies(number):
            row.key = key

    def not_in_log(self, number: int) -> None:
        """Let the other client not find a record."""

        def without(one: ev.LogRead) -> ev.LogRead:
            kept = [(n, o) for n, o in zip(one.numbers, one.offsets, strict=True) if n != number]
            return replace(one, numbers=tuple(n for n, _ in kept), offsets=tuple(o for _, o in kept))

        self.change(ev.LogRead, lambda one: number in one.numbers, without)

    def write(self, directory: Path) -> Path:
        recorder = Recorder(directory / "history", "run")
        for query, batches in self.batches.items():
            (directory / "sink" / query).mkdir(parents=True)
            for number, attempts in batches.items():
                for token, at_s, rows in attempts:
                    table = self._counts(number, token) if query == "counted" else _table(rows)
                    if query == "kafka":
                        table = self._written(number, rows, table)
                    files = self._sink(directory, query, number, token, table)
                    attempt = "" if query == "parquet" else f"attempt-{token}"
                    of: dict[str, Any] = {"query": query, "batch": number, "attempt": attempt}
                    self.events.append(ev.BatchDelivered(at_s=at_s, **of, files=files, rows=len(table)))
        for number, count in self.in_topic.items():
            told = ev.WrittenRead(
                at_s=END_S - 1, partition=number, end=10**6, committed=count, hidden=3, reader_at=10**6
            )
            if (changed := self.found(told)) is not None:
                self.events.append(changed)
        for event in sorted(self.events, key=lambda one: one.at_s):
            recorder.record(event)
        recorder.close()
        return directory

    def _sink(self, directory: Path, query: str, batch: int, token: str, table: pa.Table) -> tuple[str, ...]:
        sink = directory / "sink" / query
        if query == "parquet":
            file = sink / f"part-{batch}-{token}.parquet"
            _save(table, file)
            log = sink / "_spark_metadata"
            log.mkdir(exist_ok=True)
            entries = [json.dumps({"path": file.as_uri(), "action": "add"})]
            name = f"{batch}"
            if batch == 9:
                listed = [sink / f"part-{n}-a.parquet" for n in range(10)]
                entries = [json.dumps({"path": one.as_uri(), "action": "add"}) for one in listed]
                name = "9.compact"
                for n in range(9):
                    (log / f"{n}").unlink()
            (log / name).write_text("\n".join(["v1", *entries]))
            _save(table, sink / f"part-{batch}-stray.parquet")
            return (file.relative_to(directory).as_posix(),)
        home = sink / f"batch-{batch}" / f"attempt-{token}"
        home.mkdir(parents=True)
        _save(table, home / "part-0.parquet")
        (home / "_SUCCESS").touch()
        return ((home / "part-0.parquet").relative_to(directory).as_posix(),)

    def _written(self, batch: int, rows: list[Row], table: pa.Table) -> pa.Table:
        """Each partition read has a task of its own, and one of the topic."""
        columns = {
            "batch": [1_000 * batch] * len(rows),
            "task": [row.partition for row in rows],
            "sink_partition": [row.partition for row in rows],
            "sink_offset": [1_000 * batch + number for number in range(len(rows))],
        }
        self.places(batch, columns)
        self.in_topic.update(columns["sink_partition"])
        for name, values in columns.items():
            table = table.append_column(name, pa.array(values, pa.int64()))
        return table

    def _counts(self, upto: int, token: str) -> pa.Table:
        groups: dict[tuple[str, str, int, int], list[int]] = defaultdict(list)
        for batch, attempts in self.batches["deduplicated"].items():
            if batch <= upto:
                for row in attempts[0][2]:
                    groups[NAMES[row.cluster], row.topic, row.partition, row.incarnation].append(row.number)
        rows = [
            {"cluster": c, "topic": t, "partition": p, "incarnation": i}
            | {"count": len(n) + self.counts_off.get((upto, token), 0), "sum": sum(n), "max": max(n)}
            for (c, t, p, i), n in groups.items()
        ]
        return pa.Table.from_pylist(rows)


def _table(rows: list[Row]) -> pa.Table:
    return pa.table(
        {
            "cluster": pa.array([NAMES[row.cluster] for row in rows], pa.string()),
            "topic": pa.array([row.topic for row in rows], pa.string()),
            "partition": pa.array([row.partition for row in rows], pa.int32()),
            "offset": pa.array([row.offset for row in rows], pa.int64()),
            "timestamp": pa.array([row.timestamp_ms * 1000 for row in rows], pa.timestamp("us", "UTC")),
            "key": pa.array([row.key.encode() if row.key else None for row in rows], pa.binary()),
            "value": pa.array([row.value.encode() for row in rows], pa.binary()),
        }
    )


def _save(table: pa.Table, file: Path) -> None:
    # Hundreds of small files for each test: nothing in them that takes time and that nobody reads.
    pq.write_table(table, file, compression="none", use_dictionary=False, write_statistics=False, store_schema=False)


def faultless() -> Run:
    """20 batches, one every 10 s; each topic gets four records in each, the aborted ones are not delivered."""
    run = Run()
    run.events.append(
        ev.RunBegan(
            at_s=0,
            seed=7,
            minutes=5,
            nemeses=("broker-kill",),
            schedule=(),
            spark="local",
            queries=FORMS,
            records_per_s=2.0,
        )
    )
    for cluster, name in NAMES.items():
        run.events += [
            ev.ClusterStarted(at_s=0, cluster=cluster, cluster_id=cluster, brokers=1),
            ev.ClusterNamed(at_s=0, cluster=cluster, name=name),
            *(
                ev.TopicCreated(at_s=0, cluster=cluster, topic=topic, incarnation=1, partitions=2, kind=kind)
                for topic, kind in KINDS.items()
            ),
        ]
    run.events += [ev.QueryStarted(at_s=1, query=query) for query in FORMS]
    run.events += [
        ev.JobReady(at_s=2),
        ev.FaultBegan(at_s=50, fault=1, nemesis="broker-kill", what="broker 1 of east is killed", clusters=("east",)),
        ev.FaultEnded(at_s=60, fault=1),
        ev.FaultBegan(at_s=150, fault=2, nemesis="topic-recreated", what="brief is created anew"),
        *(ev.TopicDeletionBegan(at_s=151, cluster=c, topic="brief", incarnation=1) for c in NAMES),
        *(
            ev.TopicCreated(at_s=152, cluster=c, topic="brief", incarnation=2, partitions=2, kind="short-lived")
            for c in NAMES
        ),
        ev.FaultEnded(at_s=160, fault=2),
        ev.FaultsStopped(at_s=CALM_S),
        ev.RunEnded(at_s=END_S),
    ]
    run.batches = {query: {} for query in FORMS}
    ends: dict[tuple[str, str, int, int], int] = defaultdict(int)
    number = 0
    for batch in range(20):
        at_s = batch * 10 + 2.0
        rows: list[Row] = []
        for cluster in NAMES:
            for topic in KINDS:
                for partition in range(2):
                    incarnation = 2 if topic == "brief" and batch >= 16 else 1
                    place = (cluster, topic, incarnation, partition)
                    transaction = f"t{batch}-{cluster}-{partition}" if topic == "money" else ""
                    aborted = topic == "money" and batch % 4 == 1
                    keys = ("k0", "k1") if topic == "state" else ("", "")
                    some = [
                        Row(number + n, *place, ends[place] + n, 1_000_000 + number + n, key)
                        for n, key in enumerate(keys)
                    ]
                    number += 2
                    ends[place] += 3
                    _write(run, at_s, some, transaction, aborted=aborted)
                    rows += [] if aborted else some
        _deliver(run, batch, at_s + 5, rows)
    return run


def writing() -> Run:
    """The same with one query, which writes to a topic."""
    run = faultless()
    run.change(ev.RunBegan, lambda _: True, lambda one: replace(one, queries=("kafka",)))
    run.change(ev.QueryStarted, lambda one: one.query != FORMS[0], lambda _: None)
    run.change(ev.QueryStarted, lambda _: True, lambda one: replace(one, query="kafka"))
    run.batches = {"kafka": {batch: attempts[:1] for batch, attempts in run.batches[FORMS[0]].items()}}
    return run


def _write(run: Run, at_s: float, some: list[Row], transaction: str, *, aborted: bool) -> None:
    row = some[0]
    place: dict[str, Any] = {
        "writer": "w",
        "cluster": row.cluster,
        "topic": row.topic,
        "incarnation": row.incarnation,
        "partition": row.partition,
        "numbers": tuple(one.number for one in some),
        "transaction": transaction,
    }
    run.events.append(
        ev.RecordsSent(
            at_s=at_s,
            **place,
            keys=tuple(one.key for one in some) if row.key else (),
            timestamps_ms=tuple(one.timestamp_ms for one in some),
            checksums=tuple(zlib.crc32(one.value.encode()) for one in some),
        )
    )
    run.events.append(ev.RecordsAcknowledged(at_s=at_s + 1, **place, offsets=tuple(one.offset for one in some)))
    if transaction:
        outcome = "aborted" if aborted else "committed"
        run.events.append(ev.TransactionEnded(at_s=at_s + 2, writer="w", transaction=transaction, outcome=outcome))
    if not aborted and (row.topic, row.incarnation) != ("brief", 1):
        # The first `brief` is deleted before the end.
        offsets = tuple(one.offset for one in some)
        read: dict[str, Any] = {
            name: place[name] for name in ("cluster", "topic", "incarnation", "partition", "numbers")
        }
        run.events.append(ev.LogRead(at_s=END_S - 1, **read, offsets=offsets))


def _deliver(run: Run, batch: int, at_s: float, rows: list[Row]) -> None:
    for query in FORMS:
        copies = [Row(**vars(row)) for row in rows]
        run.batches[query][batch] = [("a", at_s, copies)]
    if batch == 6:
        run.batches["foreach-batch"][batch].append(("b", at_s + 2, [Row(**vars(row)) for row in reversed(rows)]))
