"""One run of the delivery protocol over simulated clusters and a simulated Spark, all chosen by one seed."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from evensplit.errors import SimulationFailed
from evensplit.testing.sim.delivery.broker import Cluster
from evensplit.testing.sim.delivery.shell import MEMORY_MS
from evensplit.testing.sim.delivery.spark import Query, Run
from evensplit.testing.sim.delivery.task import Host, Row
from evensplit.testing.sim.delivery.truth import Truth
from evensplit.testing.sim.delivery.world import FAULTS, LATE_MAX_MS, PAUSE_MAX_MS, Actor, World
from evensplit.testing.sim.failure import Broken

RUNS_MAX = 6
RESTARTS_MAX = 8
STORY_LINES = 120
FAULTY_MS = 900_000
QUIET_MS = 75_000
"""So long that transactions expire which nobody has ended."""
RATES = (0.0, 0.003, 0.01, 0.03)


class DeliverySimulationFailed(SimulationFailed):
    """A simulated delivery broke a law; `law` is D1 .. D7, or `crash`."""

    @property
    def again(self) -> str:
        """How to see it again."""
        return f"again: evensplit simulate --part delivery --seed {self.seed}"


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """What one run did. `outcomes`: how runs of queries ended. `trace`: all that happened. `digest` is of that."""

    seed: int
    digest: int
    rows: int
    runs: int
    lost: int
    """Transactions that were decided and then lost, all of which were named."""

    faults: dict[str, int]
    outcomes: dict[str, int]
    sent: dict[str, int]
    """Requests of drivers and of tasks, before the faults stop."""

    trace: tuple[str, ...]

    @property
    def events(self) -> int:
        """Requests of drivers and of tasks, and faults."""
        return sum(self.sent.values()) + sum(self.faults.values())


def simulate_delivery(
    seed: int, *, script: Mapping[tuple[str, int], str] | None = None, version: int | None = None
) -> DeliveryReport:
    """Run one seed. `script`: faults at certain requests, instead of those of the seed. `version`: of transactions.

    Raises DeliverySimulationFailed, with the story, for the first law that does not hold.
    """
    run = DeliverySimulation(seed, script, version)
    try:
        return run.run()
    except Broken as broken:
        error: Exception = broken
        law, detail = broken.law, broken.detail
    except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as raised:
        law, detail, error = "crash", repr(raised), raised
    lines = run.world.trace
    raise DeliverySimulationFailed(seed, law, len(lines), 10**9, detail, tuple(lines[-STORY_LINES:])) from error


class DeliverySimulation:
    """The state of one run."""

    def __init__(self, seed: int, script: Mapping[tuple[str, int], str] | None, version: int | None) -> None:
        self.seed = seed
        self.scripted = script is not None
        # Not for secrets: the same seed has to give the same run.
        self.random = random = Random(seed)  # noqa: S311
        rates = {name: random.choice(RATES) for name in (*FAULTS, "away")}
        rates["away"] /= 2
        rates["gone"] = random.choice((0.0, 0.03, 0.2))
        rates["twice"] = random.choice((0.0, 0.0, 0.1, 0.5))
        rates["changed"] = random.choice((0.0, 0.0, 0.1, 0.5))
        rates["slow"] = random.choice((0.0, 0.0, 0.1, 0.4))
        self.world = World(random, {} if self.scripted else rates, dict(script or {}))
        self.outcomes: Counter[str] = Counter()
        self.runs = 0
        two = not self.scripted and random.random() < 0.4
        chosen = version or random.choice((1, 2, 2))
        verifies = chosen == 2 or random.random() < 0.5
        self.clusters: dict[str, Cluster] = {}
        names = ["q", "r"][: 2 if two else 1]
        self.truth = Truth(self.world, self.clusters, names)
        for name in ["a", "b"][: random.randint(1, 2)]:
            self.clusters[name] = Cluster(name, self.world, chosen, verifies, self.truth.ending)
        hosts = random.randint(1, 2)
        self.queries = [
            Query(
                name,
                [],
                3 if self.scripted else random.choice((3, 6)),
                [Host(f"h{number}") for number in range(hosts)],
            )
            for name in names
        ]
        self.drivers: dict[str, Actor] = {}
        self.copies: dict[str, tuple[dict[int, tuple[int, int]], set[int]]] = {}
        for query in self.queries:
            self._grow(query, 6 if self.scripted else random.randint(6, 24))

    def _grow(self, query: Query, rows: int) -> None:
        for _ in range(rows):
            key, clusters = self.random.randint(0, 4), list(self.clusters)
            cluster = clusters[key % len(clusters)]
            query.rows.append(Row(query.name, key, len(query.rows), cluster, f"{query.name}-{key % 3}"))

    def run(self) -> DeliveryReport:
        """Faults, then none; then all must be there."""
        world = self.world
        for query in self.queries:
            self._supervise(query)
        if not self.scripted:
            world.after(30_000, self._disturb)
        world.run(lambda: all(one.is_done for one in self.queries) and not world.actors, FAULTY_MS)
        world.calm = True
        world.script.clear()
        world.note("the faults stop")
        world.run(lambda: not world.actors, 4 * PAUSE_MAX_MS + FAULTY_MS)
        # What is still under way arrives.
        world.run(lambda: False, LATE_MAX_MS)
        for query in self.queries:
            self._grow(query, 2 * query.rows_max)
            self._finish(query)
        world.run(lambda: False, QUIET_MS)
        self.truth.check_ended()
        restored = any(one.restored for one in self.queries)
        self.truth.check_seen(None if restored else [row for query in self.queries for row in query.rows])
        return self.report()

    def _finish(self, query: Query) -> None:
        """Restart it, as a watchful person does, until all is committed."""
        for _ in range(RESTARTS_MAX):
            self._start(query)
            self.world.run(lambda: not self.world.actors, FAULTY_MS)
            if query.is_done or (query.restored and query.refused):
                return
        raise Broken("D6", f"{query.name} was restarted {RESTARTS_MAX} times, and batches are not committed")

    def _start(self, query: Query) -> None:
        self.runs += 1
        run = Run(self.world, self.clusters, query, self.runs, self.truth)
        self.drivers[query.name] = self.world.start(
            f"{query.name}, driver {self.runs}", "driver", run.steps(), partial(self._ended, query)
        )

    def _ended(self, query: Query, result: Any) -> None:
        self.outcomes["done" if result is None else str(result).split(":")[0]] += 1

    def _supervise(self, query: Query) -> None:
        """Start the query, and start it again when its driver is gone, or seems to be."""
        driver, random = self.drivers.get(query.name), self.random
        if self.world.calm or self.runs >= RUNS_MAX * len(self.queries):
            return
        if driver is not None and not driver.alive and random.random() < 0.1 and not self.scripted:
            self._restore(query)
        gone = driver is None or not driver.alive or (driver.paused and random.random() < 0.5)
        # Someone starts it, though it runs.
        gone |= random.random() < self.world.rates.get("twice", 0.0)
        if gone and not query.is_done:
            self._start(query)
        elif random.random() < 0.1:
            self.copies[query.name] = (dict(query.offsets), set(query.commits))
        self.world.after(random.randint(500, 3_000), lambda: self._supervise(query))

    def _restore(self, query: Query) -> None:
        if query.name not in self.copies or self.random.random() < 0.5:
            return
        offsets, commits = self.copies[query.name]
        self.world.note(f"the checkpoint of {query.name} is replaced by a copy of batches {sorted(commits)}")
        query.offsets, query.commits, query.restored = dict(offsets), set(commits), True
        self._grow(query, 3)

    def _disturb(self) -> None:
        """What happens to clusters and queries by and by."""
        if self.world.calm:
            return
        random = self.random
        if random.random() < 0.3:
            for cluster in self.clusters.values():
                cluster.forget(2 * MEMORY_MS)
        for query in self.queries:
            if len(query.rows) < 40 and random.random() < 0.3:
                self._grow(query, 3)
        self.world.after(30_000, self._disturb)

    def report(self) -> DeliveryReport:
        """See `DeliveryReport`."""
        trace = tuple(self.world.trace)
        digest = zlib.crc32("\n".join(trace).encode())
        rows, lost = len(self.truth.seen()), len(self.truth.lost)
        faults, sent = dict(self.world.happened), dict(self.world.sent)
        return DeliveryReport(self.seed, digest, rows, self.runs, lost, faults, dict(self.outcomes), sent, trace)
