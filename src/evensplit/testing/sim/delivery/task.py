"""A task: it reads the ledger, takes a slot, writes in a transaction, and says what it has written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple

from evensplit.core.delivery.ids import GIVEN_BACK, asked_for, is_free, task_id, used_for
from evensplit.core.delivery.protocol import Judgement, Offered, judge_task
from evensplit.core.delivery.terms import Decision, Transaction, Written
from evensplit.testing.sim.delivery.broker import Cluster, Error, Producer
from evensplit.testing.sim.delivery.shell import LEDGER, PAUSE_MS, PREFIX, ask, last_decision
from evensplit.testing.sim.delivery.world import LATE_MAX_MS, Call, Failed, Sleep, Steps, World

TASK_TIMEOUT_MS = 60_000
TRIES_MAX = 3
IN_FLIGHT_MAX = 3
REFUSED_RATE = 0.03
"""How likely it is, at each part of a task's rows, that its first row is refused."""
SUPERSEDED = "the ledger has a later batch"


class Row(NamedTuple):
    """A row, and where it belongs."""

    query: str
    key: int
    number: int
    cluster: str
    log: str


@dataclass
class Host:
    """A directory of slots of one query, and what the Python process there has read of the ledger.

    `known`: by the run of Spark, as each process keeps it.
    """

    name: str
    slots: dict[int, bytes] = field(default_factory=dict)
    locked: set[int] = field(default_factory=set)
    known: dict[int, Decision | None] = field(default_factory=dict)

    def take(self, batch: int) -> int:
        """Lock the lowest slot that is free for `batch`."""
        number = 0
        while number in self.locked or not is_free(self.slots.get(number, b""), batch):
            number += 1
        self.locked.add(number)
        self.slots[number] = used_for(batch)
        return number

    @contextmanager
    def asking(self, number: int, batch: int, then: bytes) -> Iterator[None]:
        """Nobody uses the slot again if this block, or one before it, does not come to its end; else it has `then`."""
        before, self.slots[number] = self.slots[number], asked_for(batch)
        yield
        if before != asked_for(batch):
            self.slots[number] = then


@dataclass
class Attempt:
    """One attempt of one task."""

    world: World
    clusters: dict[str, Cluster]
    host: Host
    query: str
    run: int
    batch: int
    rows: Sequence[Row]

    def steps(self) -> Steps:
        """Do it all. Returns `Offered`; raises Failed."""
        known = self.host.known
        if self.run not in known:
            log = self.clusters["a"].log(LEDGER)
            call = Call("a", "read the ledger, up to its stable end", lambda: last_decision(log, self.query))
            known[self.run] = yield from ask(self.world, call)
        judged = judge_task(known[self.run], self.batch)
        if judged is Judgement.DECIDED:
            return Offered(skipped=True, rows=len(self.rows))
        if judged is not Judgement.FREE:
            raise Failed(SUPERSEDED)
        if not self.rows:
            return Offered(rows=0)
        random = self.world.random
        if not self.world.calm and not self.world.script and random.random() < 0.02:
            yield Sleep(random.choice((1_000, 5_000, 70_000)))
        taken: list[int] = []
        try:
            return (yield from self._write(taken))
        finally:
            self.host.locked.difference_update(taken)

    def _begin(self, cluster: str, taken: list[int]) -> Steps:
        """Take slots until one has a producer: one whose InitProducerId was not answered is not asked for again."""
        for _ in range(TRIES_MAX):
            number = taken[-1] if taken else self.host.take(self.batch)
            if not taken:
                taken.append(number)
            try:
                return (yield from self._init(cluster, number, used_for(self.batch)))
            except Failed:
                taken.append(self.host.take(self.batch))
        raise Failed(f"no producer for any of {TRIES_MAX} slots")

    def _init(self, cluster: str, number: int, then: bytes) -> Steps:
        name = task_id(PREFIX, self.query, f"{self.host.name}-{number}")
        init = Call(cluster, f"init {name}", partial(self.clusters[cluster].init, name, TASK_TIMEOUT_MS))
        with self.host.asking(number, self.batch, then):
            while True:
                answer = yield init
                if isinstance(answer, Producer):
                    return answer
                if answer is not Error.CONCURRENT_TRANSACTIONS:
                    raise Failed(f"no answer to: {init.says}")
                yield Sleep(PAUSE_MS)

    def _write(self, taken: list[int]) -> Steps:
        found = []
        open_: list[tuple[Producer, str, int]] = []
        try:
            for cluster in sorted({row.cluster for row in self.rows}):
                producer = yield from self._begin(cluster, taken)
                open_.append((producer, cluster, taken[-1]))
                written = yield from self._write_logs(cluster, producer)
                found.append(
                    Transaction(cluster, producer.transactional_id, producer.producer_id, producer.epoch, written)
                )
        except Failed:
            for producer, cluster, number in open_:
                try:
                    yield from self._abort(producer, cluster, number)
                except Failed:
                    continue
            raise
        return Offered(tuple(found), rows=len(self.rows))

    def _abort(self, _: Producer, cluster: str, number: int) -> Steps:
        """What comes late is refused then, which it is not after EndTxn in version 1."""
        yield from self._init(cluster, number, GIVEN_BACK)

    def _write_logs(self, name: str, producer: Producer) -> Steps:
        cluster, found = self.clusters[name], []
        for log in sorted({row.log for row in self.rows if row.cluster == name}):
            rows = [row for row in self.rows if (row.cluster, row.log) == (name, log)]
            if cluster.version == 1:
                add = Call(name, f"add {log}", lambda g=log: cluster.add(producer, g))  # type: ignore[misc]
                error = yield from ask(self.world, add)
                if error is not None:
                    raise Failed(str(error))
            size = self.world.random.randint(1, 4)
            offset = first = -1
            starts = range(0, len(rows), size)
            for start in starts:
                part = rows[start : start + size]
                if not self.world.calm and not self.world.script and self.world.random.random() < REFUSED_RATE:
                    self._send_and_fail(
                        cluster, producer, log, {at: rows[at : at + size] for at in starts if at >= start}
                    )
                call = Call(
                    name,
                    f"write {[row.number for row in part]} to {log}",
                    lambda g=log, s=start, p=part: cluster.produce(producer, g, s, p),  # type: ignore[misc]
                )
                offset = yield from ask(self.world, call)
                if not isinstance(offset, int):
                    raise Failed(str(offset))
                first = offset if start == 0 else first
            topic, _, partition = log.rpartition("-")
            last = offset + len(rows[(len(rows) - 1) // size * size :]) - 1
            found.append(Written(topic, int(partition), len(rows), first, last))
        return tuple(found)

    def _send_and_fail(self, cluster: Cluster, producer: Producer, log: str, parts: dict[int, Sequence[Row]]) -> None:
        """A row is refused while requests are under way, in the order in which they were sent. Raises Failed."""
        delay_ms = 0
        for start, part in islice(parts.items(), self.world.random.randint(0, IN_FLIGHT_MAX)):
            delay_ms += self.world.random.choice((1, 20, 5_000, LATE_MAX_MS // IN_FLIGHT_MAX))
            self.world.after(delay_ms, partial(self._arrive_late, cluster, producer, log, start, part))
        raise Failed("a row is refused")

    def _arrive_late(self, cluster: Cluster, producer: Producer, log: str, start: int, part: Sequence[Row]) -> None:
        answer = cluster.produce(producer, log, start, part)
        self.world.note(f"{[row.number for row in part]} come to {log}, under way when their task failed: {answer}")
