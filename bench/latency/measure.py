"""First rows and small batches: all sides in turn, round by round; the first round does not count."""

from __future__ import annotations

import importlib.util
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bench.latency.outcome import Batches, Start
from bench.latency.plan import (
    BATCH_SIDES,
    START_CORES,
    START_SIDES,
    TOPIC,
    TRICKLE,
    TRICKLE_PARTITIONS,
    WATCHED,
    Scale,
    Side,
)
from bench.peer.measure import turns, which_round
from bench.peer.processes import Worker
from bench.peer.trickle import Trickle

EXTRAS = ("prometheus_client", "starlette", "uvicorn")


@dataclass(frozen=True, slots=True)
class Bench:
    """Where to read, the jars of Spark's own source, where output goes, and what is told of each turn as it begins."""

    bootstrap: str
    jars: str
    logs: Path
    scale: Scale
    turn: Callable[[str], None]

    def worker(
        self, side: Side, cores: int, java: str = "", environment: Mapping[str, str] = MappingProxyType({})
    ) -> Worker:
        """A new process for a side, which the caller closes; see `Worker`."""
        log = self.logs / f"{side.slug}-{cores}.log"
        return Worker(side.host, cores, self.jars, log, java, environment)

    def first_rows(self, sides: Sequence[Side] = START_SIDES) -> dict[str, Start]:
        """Start a process for each turn, and read a row, twice."""
        found = {side.name: Start() for side in sides}
        for number in range(self.scale.start_rounds + 1):
            for side in turns(sides, number):
                self.turn(f"first row, {which_round(number, self.scale.start_rounds)}: {side.name}")
                ask = side.asks(self.bootstrap, TOPIC, START_CORES)
                worker = self.worker(side, START_CORES)
                try:
                    worker.ask("first", **ask)
                    whole = time.perf_counter() - worker.began
                    began = time.perf_counter()
                    worker.ask("first", **ask)
                    again = time.perf_counter() - began
                finally:
                    worker.close()
                if number:
                    one = found[side.name]
                    one.whole.append(whole)
                    one.session.append(worker.ready - worker.began)
                    one.again.append(again)
        return found

    def small_batches(self, cores: int, sides: Sequence[Side]) -> dict[str, Batches]:
        """Run queries over what trickles in."""
        found = {side.name: Batches() for side in sides}
        rounds, many = self.scale.batch_rounds, {"skip": self.scale.skip, "batches": self.scale.batches}
        with ExitStack() as stack:
            # Started before the records trickle, since starting would take processor time from the measurement.
            workers = {side.name: self.worker(side, cores) for side in sides}
            for worker in workers.values():
                stack.callback(worker.close)
            stack.enter_context(Trickle(self.bootstrap, TRICKLE, TRICKLE_PARTITIONS))
            for number in range(rounds + 1):
                for side in turns(sides, number):
                    self.turn(f"small batches, local[{cores}], {which_round(number, rounds)}: {side.name}")
                    ask = side.asks(self.bootstrap, TRICKLE, cores, latest=True, cpu=True, **many)
                    answer = workers[side.name].ask("stream", **ask)
                    if len(answer["milliseconds"]) < self.scale.batches:
                        raise RuntimeError(f"local[{cores}]: {side.name} did not end its batches in time")
                    if number:
                        one = found[side.name]
                        one.milliseconds.append(answer["milliseconds"])
                        one.phases_ms.append(medians(answer["phases_ms"]))
                        one.cpu_ms.append(answer["cpu_ms"])
        return found


def medians(all_of_them: Sequence[dict[str, float]]) -> dict[str, float]:
    """Of each phase that one of the batches has; a batch without it has spent nothing on it."""
    names = dict.fromkeys(name for one in all_of_them for name in one)
    return {name: statistics.median(one.get(name, 0) for one in all_of_them) for name in names}


def batch_sides() -> tuple[tuple[Side, ...], list[str]]:
    """The sides that can be measured here, and why another cannot."""
    missing = [name for name in EXTRAS if importlib.util.find_spec(name) is None]
    if not missing:
        return BATCH_SIDES, []
    return (
        tuple(side for side in BATCH_SIDES if side.name != WATCHED),
        [f"{WATCHED}: left out, since {', '.join(missing)} is not installed"],
    )


def load() -> float:
    """The machine's load average of the last minute."""
    return os.getloadavg()[0]
