"""Spark, as far as a sink sees it: batches planned by a checkpoint, tasks in attempts, commit and abort."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from evensplit.core.delivery import protocol
from evensplit.core.delivery.outcomes import (
    Committed,
    Finished,
    Incomplete,
    MoreRows,
    NothingToDo,
    Outcome,
    Superseded,
)
from evensplit.core.delivery.protocol import Batch, Offered
from evensplit.testing.sim.delivery.broker import Cluster
from evensplit.testing.sim.delivery.shell import Process
from evensplit.testing.sim.delivery.task import SUPERSEDED, TASK_TIMEOUT_MS, Attempt, Host, Row
from evensplit.testing.sim.delivery.world import Actor, Failed, Sleep, Steps, World

ATTEMPTS_MAX = 4
BATCH_DEADLINE_MS = 250_000
FINE = (Committed, Finished, NothingToDo)

CODES: Mapping[str, Callable[[Row], bool]] = {
    "all": lambda row: True,
    "some": lambda row: row.key % 2 == 0,
    "none": lambda row: False,
}
"""What a query's code makes of its rows. It may be another one in the next run, which has fewer of them, or more."""


@dataclass
class Query:
    """A query with its source and checkpoint, which outlive its runs."""

    name: str
    rows: list[Row]
    rows_max: int
    """How many rows a batch has at most."""
    hosts: list[Host]
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)
    accepted: int | None = None
    restored: bool = False
    refused: bool = False
    """Whether the run that came last was told that its checkpoint cannot be right."""

    def next_batch(self) -> tuple[int, tuple[int, int]]:
        """The batch that is planned and not committed; or a new one, which may be without rows."""
        last = max(self.offsets, default=-1)
        if last >= 0 and last not in self.commits:
            return last, self.offsets[last]
        start = self.offsets[last][1] if last >= 0 else 0
        return last + 1, (start, min(start + self.rows_max, len(self.rows)))

    @property
    def is_done(self) -> bool:
        """Whether all rows are in batches that are committed."""
        _, (start, end) = self.next_batch()
        return start == end and max(self.offsets, default=-1) in {-1, *self.commits}


class Judge(Protocol):
    """What knows the truth."""

    def check_fine(
        self, query: str, batch: int, planned: Sequence[Row], given: Sequence[Row] | None, outcome: Outcome
    ) -> None:
        """A batch is committed."""

    def check_incomplete(self, outcome: Incomplete) -> None:
        """A batch is decided, and a part of it is lost."""

    def rows_decided(self, query: str, batch: int) -> set[Row] | None:
        """The rows of a batch; None if it is not decided."""


class Run:
    """One run of a query: a driver, and the tasks that it starts."""

    def __init__(
        self,
        world: World,
        clusters: Mapping[str, Cluster],
        query: Query,
        number: int,
        truth: Judge,
    ) -> None:
        self.world = world
        self.clusters = dict(clusters)
        self.query = query
        self.truth = truth
        self.number = number
        self.tasks = world.random.randint(1, 3)
        changed = not world.calm and not world.script and world.random.random() < world.rates.get("changed", 0.0)
        self.code = world.random.choice([*CODES]) if changed else "all"
        self.processes = 0
        self.process = self._new_process()

    def _new_process(self) -> Process:
        self.processes += 1
        return Process(
            self.world, self.clusters, f"{self.query.name}, run {self.number}, driver's process {self.processes}"
        )

    def steps(self) -> Steps:
        """Batch after batch, until there are no more rows. Raises Failed."""
        query, world = self.query, self.world
        query.refused = False
        while not query.is_done:
            batch, plan = query.next_batch()
            yield Sleep(world.random.randint(1, 10))
            if batch in query.commits or query.offsets.get(batch, plan) != plan:
                raise Failed("another run works on the same checkpoint")
            query.offsets[batch] = plan
            world.note(f"{query.name}, run {self.number}: batch {batch} is {plan}")
            yield from self._batch(batch, plan)

    def _batch(self, batch: int, plan: tuple[int, int]) -> Steps:
        query, world = self.query, self.world
        offered: dict[int, Offered] = {}
        try:
            yield from self._tasks(batch, plan, offered)
            if not world.calm and not world.script and world.random.random() < world.rates.get("slow", 0.0):
                # Its last task has taken its time: transactions have seconds left.
                yield Sleep(world.random.randint(TASK_TIMEOUT_MS // 3, TASK_TIMEOUT_MS - 2_000))
            if not world.calm and world.random.random() < 0.1:
                self.process = self._new_process()
            if not world.calm and not world.script and world.random.random() < world.rates.get("gone", 0.0):
                yield from self._lose_process(batch, tuple(offered.values()))
            outcome = yield from self._decide(protocol.commit, batch, tuple(offered.values()))
        except Failed as failed:
            yield from self._give_up(batch, offered)
            raise failed from None
        if not isinstance(outcome, FINE):
            yield from self._give_up(batch, offered)
            raise Failed(type(outcome).__name__)
        # Where the batch was decided before, the protocol compares numbers alone, or nothing if that is accepted.
        exact = not (isinstance(outcome, Finished) and (query.restored or query.accepted == batch))
        planned, given = query.rows[slice(*plan)], self._rows(batch, plan)
        self.truth.check_fine(query.name, batch, planned, given if exact else None, outcome)
        yield Sleep(world.random.randint(1, 10))
        # Not into a checkpoint that was replaced meanwhile.
        if query.offsets.get(batch) == plan:
            query.commits.add(batch)

    def _rows(self, batch: int, plan: tuple[int, int]) -> list[Row]:
        """What the tasks are given. Without faults, someone sees to it that the code is the one of the decision."""
        planned, code = self.query.rows[slice(*plan)], self.code
        if self.world.calm:
            decided = self.truth.rows_decided(self.query.name, batch)
            code = next((one for one, gives in CODES.items() if {*filter(gives, planned)} == decided), code)
        return [*filter(CODES[code], planned)]

    def _lose_process(self, batch: int, offered: tuple[Offered, ...]) -> Steps:
        """The process that commits seems to be gone, and goes on."""
        random, lost, self.process = self.world.random, self.process, self._new_process()
        asked = Batch(self.query.name, batch, offered, self.world.now_ms, self.query.accepted)

        def late() -> Steps:
            yield Sleep(random.choice((1, 20, 200, 5_000)))
            return (yield from lost.run(protocol.commit(asked)))

        self.world.start(f"{lost.name}, taken for gone", "process", late(), lambda _: None)
        yield Sleep(random.choice((1, 50, 100, 200)))
        raise Failed("the process that commits is gone")

    def _give_up(self, batch: int, offered: dict[int, Offered]) -> Steps:
        if self.world.random.random() < 0.5:
            self.process = self._new_process()
        known = [task for task in offered.values() if self.world.random.random() < 0.9]
        if known:
            yield from self._decide(protocol.abort, batch, tuple(known))

    def _decide(self, steps: Any, batch: int, offered: tuple[Offered, ...]) -> Steps:
        query = self.query
        asked = Batch(query.name, batch, offered, self.world.now_ms, query.accepted)
        outcome: Outcome = yield from self.process.run(steps(asked))
        self.world.note(f"{query.name}, run {self.number}: {steps.__name__} of batch {batch}: {outcome}")
        query.refused |= isinstance(outcome, Superseded | MoreRows)
        if isinstance(outcome, Incomplete):
            self.truth.check_incomplete(outcome)
            if self.world.calm or self.world.random.random() < 0.5:
                query.accepted = batch
        return outcome

    def _tasks(self, batch: int, plan: tuple[int, int], offered: dict[int, Offered]) -> Steps:
        """All tasks of a batch: each until one of its attempts has succeeded, and some attempts too many."""
        world, rows = self.world, self._rows(batch, plan)
        parts = {number: [row for row in rows if row.key % self.tasks == number] for number in range(self.tasks)}
        failures = dict.fromkeys(parts, 0)
        running: dict[int, list[Actor]] = {number: [] for number in parts}

        def ended(number: int, actors: list[Actor], result: Any) -> None:
            running[number] = [one for one in running[number] if one not in actors]
            if isinstance(result, Offered):
                offered.setdefault(number, result)
            elif number not in offered:
                failures[number] += 1
                self.query.refused |= str(result) == SUPERSEDED

        until_ms = world.now_ms + BATCH_DEADLINE_MS
        while len(offered) < len(parts):
            for number, part in parts.items():
                waiting = number not in offered and not running[number]
                spare = not world.calm and not world.script and world.random.random() < 0.01
                if waiting and failures[number] >= ATTEMPTS_MAX:
                    raise Failed(f"task {number} has failed {ATTEMPTS_MAX} times")
                if waiting or spare:
                    running[number] += self._attempt(batch, number, part, ended)
            if world.now_ms > until_ms:
                raise Failed("the batch takes too long")
            yield Sleep(20)
        if world.random.random() < 0.7:
            for actors in running.values():
                for actor in list(actors):
                    world.kill(actor)

    def _attempt(self, batch: int, number: int, rows: list[Row], ended: Any) -> list[Actor]:
        random, calm = self.world.random, self.world.calm or self.world.script
        host = random.choice(self.query.hosts)
        if not calm and random.random() < 0.1:
            # Spark has ended the idle Python process, and begun another one.
            host.known = {}
        attempt = Attempt(self.world, self.clusters, host, self.query.name, self.number, batch, rows)
        name = f"{self.query.name}, run {self.number}, batch {batch}, task {number} on {host.name}"
        actors: list[Actor] = []
        actors.append(self.world.start(name, "task", attempt.steps(), partial(ended, number, actors)))
        return actors
