"""How each kind of workload is measured: all sides in turn, round by round; the first round does not count."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from bench.peer.abilities import Reach
from bench.peer.data import evenly, fill, mostly_first
from bench.peer.measure_writes import Writing
from bench.peer.outcome import Outcome
from bench.peer.plan import WITNESS_SHARE, Host, Kind, Side, Topic, Workload
from bench.peer.processes import Hosts, Worker, now, witness
from bench.peer.trickle import Trickle

MIB = 1 << 20
SMALL_ROWS = "10000"
T = TypeVar("T")


@dataclass
class Bench:
    """A broker, the processes that read from it, and callbacks for progress.

    `turn` is called as each turn begins, `say` for other messages.
    """

    reach: Reach
    hosts: Hosts
    say: Callable[[str], None]
    turn: Callable[[str], None]
    _filled: set[str] = field(default_factory=set)

    def measure(self, workload: Workload, outcome: Outcome) -> None:
        """Fill in `outcome`, round by round."""
        outcome.at = now()
        outcome.load = [os.getloadavg()[0]]
        # Rows that Spark makes are in no topic.
        for topic in (workload.topic, *workload.also) if not workload.written_rows else ():
            self._prepare(topic)
        {
            Kind.RATE: self._rate,
            Kind.WRITE: self._write,
            Kind.SIZE: self._write,
            Kind.STREAM: self._stream,
            Kind.MEMORY: self._memory,
        }[workload.kind](workload, outcome)
        outcome.load.append(os.getloadavg()[0])
        outcome.arrange([side.name for side in workload.sides])

    def _prepare(self, topic: Topic) -> None:
        if topic.name in self._filled:
            return
        self.say(f"writing {topic.rows:,} records to {topic.name}" if topic.rows else f"making {topic.name}")
        self.reach.broker.create_topic(topic.name, partitions=topic.partitions)
        place = mostly_first(topic.partitions) if topic.skewed else evenly(topic.partitions)
        if topic.rows:
            fill(
                self.reach.plain,
                topic.name,
                value_bytes=topic.value_bytes,
                codec=topic.codec,
                rows=topic.rows,
                place=place,
                content=topic.content,
            )
        self._filled.add(topic.name)

    def _rate(self, workload: Workload, outcome: Outcome) -> None:
        topic, cores = workload.topic, workload.cores
        self._check_same(workload)
        for side in workload.sides:
            if side.source in ("kafka", "evensplit") and not workload.same:
                found = self.hosts.get(side.host, cores).ask("count", **self._what(side, topic))["rows"]
                if found != topic.rows:
                    raise RuntimeError(f"{topic.name} has {topic.rows:,} records, but {side.name} read {found:,}")
        for number in range(workload.rounds + 1):
            for side in turns(workload.sides, number):
                self.turn(turn_name(workload, side, number))
                if side.host is Host.WITNESS:
                    share = topic.rows // WITNESS_SHARE
                    rate = witness(self.reach.plain, topic.name, topic.partitions, share)
                else:
                    answer = self.hosts.get(side.host, cores).ask("read", **self._what(side, topic))
                    rate = topic.rows / float(answer["seconds"])
                if number:
                    outcome.values.setdefault(side.name, []).append(rate)

    def _write(self, workload: Workload, outcome: Outcome) -> None:
        writing = Writing(self.reach, self.hosts, workload, outcome, lambda side: self._what(side, workload.topic))
        for number in range(workload.rounds + 1):
            for side in turns(workload.sides, number):
                self.turn(turn_name(workload, side, number))
                writing.turn(side, number)

    def _check_same(self, workload: Workload) -> None:
        """Raises RuntimeError if the sides do not give the same rows, where they have to."""
        if not workload.same:
            return
        found: dict[str, str] = {}
        for side in workload.sides:
            worker = self.hosts.get(side.host, workload.cores)
            found[side.name] = worker.ask("digest", **self._what(side, workload.topic))["digest"]
        if len(set(found.values())) > 1:
            raise RuntimeError(f"{workload.key}: the sides do not give the same rows: {found}")

    def _stream(self, workload: Workload, outcome: Outcome) -> None:
        topic = workload.topic
        # Started before the records trickle, since starting would take processor time from the measurement.
        for side in workload.sides:
            self.hosts.get(side.host, workload.cores)
        with Trickle(self.reach.plain, topic.name, topic.partitions):
            for number in range(workload.rounds + 1):
                for side in turns(workload.sides, number):
                    self.turn(turn_name(workload, side, number))
                    many = {"skip": workload.skip, "batches": workload.batches} if number else {"skip": 0, "batches": 1}
                    worker = self.hosts.get(side.host, workload.cores)
                    took = worker.ask("stream", **many, **self._what(side, topic))["milliseconds"]
                    if not took:
                        raise RuntimeError(f"{workload.key}: {side.name} did not end a batch in time")
                    if number:
                        outcome.values.setdefault(side.name, []).append(statistics.median(took))
                        outcome.batches.setdefault(side.name, []).append(took)

    def _memory(self, workload: Workload, outcome: Outcome) -> None:
        self.hosts.close()
        # Every round counts: memory needs no warm-up.
        for number in range(1, workload.rounds + 1):
            for side in turns(workload.sides, number):
                self.turn(turn_name(workload, side, number))
                worker = self.hosts.new(side.host, workload.cores)
                try:
                    idle = self._idle_bytes(worker, workload.cores) if side.host is Host.OURS else 0
                    worker.ask("read", **self._what(side, workload.topic))
                    peaks = worker.ask("memory")
                finally:
                    worker.close()
                outcome.jvm_mib.setdefault(side.name, []).append(peaks["jvm_bytes"] / MIB)
                if idle:
                    above = max(peaks["worker_bytes"]) - idle
                    outcome.values.setdefault(side.name, []).append(above / MIB)

    def _idle_bytes(self, worker: Worker, cores: int) -> int:
        """The memory of a worker that has only handed tiny prepared batches to Spark."""
        options = {"size": "1", "rows": SMALL_ROWS, "tasks": str(cores)}
        worker.ask("read", source="ceiling", options=options)
        return int(max(worker.ask("memory")["worker_bytes"]))

    def _what(self, side: Side, topic: Topic) -> dict[str, object]:
        """The request's source, options and columns."""
        options: dict[str, str] = {}
        if side.source in ("kafka", "evensplit"):
            options |= {"kafka.bootstrap.servers": self.reach.plain, "subscribe": topic.name}
            options |= self.reach.secured if side.secured else {}
        options |= side.options
        return {"source": side.source, "options": options, "steps": side.steps}


def turns(sides: Sequence[T], number: int) -> list[T]:
    """Another order in each round: the order matters on a machine that slows down and recovers."""
    start = number % len(sides)
    return [*sides[start:], *sides[:start]]


def turn_name(workload: Workload, side: Side, number: int) -> str:
    """The turn's name in the progress bar."""
    return f"{workload.title}, local[{workload.cores}], {which_round(number, workload.rounds)}: {side.name}"


def which_round(number: int, rounds: int) -> str:
    """The round's name in the progress bar; round 0 does not count."""
    return f"{number} of {rounds}" if number else "warm-up"
