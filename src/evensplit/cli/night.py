"""Many simulations, one after the other or in processes, and the count of all that was done in them."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any

from evensplit.testing.sim import Report, SimulationFailed, simulate
from evensplit.testing.sim.delivery import DeliveryReport, simulate_delivery
from evensplit.testing.sim.fetch import FetchReport, simulate_fetch

AT_ONCE = 4
"""Seeds given to each process ahead; few, so that a run ends soon after its time or a failure."""

AnyReport = Report | FetchReport | DeliveryReport
Outcome = AnyReport | SimulationFailed


@dataclass(frozen=True, slots=True)
class Job:
    """A seed of a part, `enumerator`, `fetch` or `delivery`; `events` are those with faults of the enumerator."""

    part: str
    seed: int
    events: int
    traced: bool = False
    """Whether the schedule of a read or a delivery is kept, which is long."""

    def run(self) -> AnyReport:
        """Simulate it. Raises SimulationFailed for a broken law."""
        if self.part == "enumerator":
            return simulate(self.seed, self.events)
        report = simulate_fetch(self.seed) if self.part == "fetch" else simulate_delivery(self.seed)
        return report if self.traced else replace(report, trace=())


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a job, and the seconds of processor time that it took."""

    job: Job
    outcome: Outcome
    cpu_s: float


@dataclass
class Tally:
    """All runs of a part together."""

    part: str
    first_seed: int
    seeds: int = 0
    events: int = 0
    """Events of runs in which every law held: what the enumerator was told, or messages and faults of the others."""
    cpu_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    """Of the enumerator: in how many seeds each fault could happen. Of the others: how often it happened."""
    found: list[SimulationFailed] = field(default_factory=list)

    def add(self, done: Done) -> None:
        """Count a run."""
        self.seeds += 1
        self.cpu_s += done.cpu_s
        if isinstance(done.outcome, SimulationFailed):
            self.found.append(done.outcome)
        else:
            self.events += done.outcome.events
            if isinstance(done.outcome, Report):
                self.faults.update(done.outcome.profile.faults)
            else:
                self.faults.update(done.outcome.faults)

    def plain(self) -> dict[str, Any]:
        """It as JSON."""
        return {
            "part": self.part,
            "firstSeed": self.first_seed,
            "seeds": self.seeds,
            "events": self.events,
            "cpuHours": round(self.cpu_s / 3600, 3),
            "faults": dict(sorted((name, times) for name, times in self.faults.items() if times)),
            "found": [
                {"seed": one.seed, "law": one.law, "detail": one.detail, "again": one.again} for one in self.found
            ],
        }


def run_all(jobs: Iterable[Job], processes: int) -> Iterator[Done]:
    """What comes of each job, as it comes. Jobs are taken one by one, so they may depend on the time."""
    if processes == 1:
        yield from map(_run, jobs)
        return
    # Started anew rather than forked: a copy of a process with threads, as a progress bar has them, can hang.
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_end_with_parent)
    try:
        waiting: set[Future[Done]] = set()
        left = iter(jobs)
        while True:
            waiting.update(pool.submit(_run, job) for job in islice(left, AT_ONCE * processes - len(waiting)))
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def until(jobs: Iterable[Job], minutes: float | None) -> Iterator[Job]:
    """Give `jobs` out until the time is over, if there is one."""
    end_s = math.inf if minutes is None else time.monotonic() + 60 * minutes
    return takewhile(lambda _: time.monotonic() < end_s, jobs)


def _end_with_parent() -> None:
    """Let this process end as soon as the one that takes its results is killed."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _run(job: Job) -> Done:
    begun_s = time.process_time()
    try:
        outcome: Outcome = job.run()
    except SimulationFailed as failed:
        outcome = failed
    return Done(job, outcome, time.process_time() - begun_s)
