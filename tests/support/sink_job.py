"""A job from Kafka to Kafka in a process of its own, whose processes a test stops where they write."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from evensplit.testing import LocalKafka
from evensplit.testing.chaos.clusters import ChaosCluster
from evensplit.testing.chaos.history.events import QueryEnded
from evensplit.testing.chaos.history.recorder import Recorder, read_history
from evensplit.testing.chaos.job.process import JobProcess
from evensplit.testing.chaos.job.task import Task
from evensplit.testing.chaos.job.topic_reader import start_reader, written_options
from tests.support import sink_points
from tests.support.waiting import wait_for

HOOKS = Path(sink_points.__file__).parent
READ, PARTITIONS = "read", 3
QUICK = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200", "min.insync.replicas": "1"}
PER_S = 40
WITHIN_S = 180.0


class Points:
    """The points where processes are stopped, in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "hit").mkdir(parents=True)
        self.hits = 0

    def arm(self, point: str, what: str) -> None:
        """Have the first process that comes to a point do something there."""
        (self.directory / "hit" / point).unlink(missing_ok=True)
        (self.directory / f"{point}.go").unlink(missing_ok=True)
        made = self.directory / f"{point}.made"
        made.write_text(what)
        made.rename(self.directory / point)

    def wait(self, point: str, job: SinkJob) -> None:
        """Until a process has come there. The job goes on writing meanwhile."""
        job.check()
        wait_for(lambda: (self.directory / "hit" / point).exists(), within_s=WITHIN_S, what=f"a process at {point}")
        self.hits += 1

    def release(self, point: str) -> None:
        """Let the one that is held there go on."""
        (self.directory / f"{point}.go").touch()

    def disarm(self, point: str) -> bool:
        """Take back what nobody has come to. Whether it was so."""
        try:
            (self.directory / point).unlink()
        except FileNotFoundError:
            return False
        return True


class Trickle:
    """Writes records, `PER_S` a second, to partitions in turn, until it is stopped."""

    def __init__(self, servers: str) -> None:
        self.written = 0
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """On return, all are in the log."""
        self._ended.set()
        self._thread.join()
        left = self._producer.flush(60)
        assert not left, f"{left} records could not be written"

    def _run(self) -> None:
        while not self._ended.wait(1 / PER_S):
            self._producer.produce(READ, str(self.written).encode(), partition=self.written % PARTITIONS)
            self._producer.poll(0)
            self.written += 1


@dataclass
class SinkJob:
    """The job while it runs."""

    task: Task
    points: Points
    process: JobProcess
    reader: Any
    trickle: Trickle
    kafka: LocalKafka
    recorder: Recorder

    def check(self) -> None:
        self.reader.check()
        self.process.check()

    def errors(self) -> list[str]:
        """What the query has ended with, each time."""
        events = read_history(self.task.history)
        return [one.error for one in events if isinstance(one, QueryEnded) and one.error]

    def rows(self) -> list[dict[str, Any]]:
        """What a reader has seen, in the order of each partition."""
        files = (self.task.sink("kafka")).glob("batch-*/attempt-0/_SUCCESS")
        found = [row for file in files for row in pq.read_table(file.parent).to_pylist()]
        return sorted(found, key=lambda one: (one["sink_partition"], one["sink_offset"]))

    def wait_for_progress(self) -> None:
        """Until a record has arrived that is written after this."""
        self.points.arm("commit.done", "note")
        self.points.wait("commit.done", self)

    def finish(self, *, missing: int = 0) -> list[dict[str, Any]]:
        """Stop writing, and wait until all but `missing` have arrived, and no transaction is open."""
        self.trickle.stop()
        count = self.trickle.written - missing
        wait_for(lambda: len({one["value"] for one in self.rows()}) >= count, within_s=WITHIN_S, what="all records")
        wait_for(self.reader.sees_all, within_s=WITHIN_S, what="no open transaction")
        time.sleep(1)
        return self.rows()


def faults_in(rows: list[dict[str, Any]], written: int) -> list[str]:
    """What is wrong with what a reader has seen: each record has to be there once, and in the order of its source."""
    problems: list[str] = []
    seen: defaultdict[int, int] = defaultdict(int)
    last: dict[int, tuple[int, int]] = {}
    for row in rows:
        seen[int(row["value"])] += 1
        now = (row["batch"], row["offset"])
        before = last.get(row["partition"], (-1, -1))
        if now[0] < before[0] or now[1] <= before[1]:
            problems.append(f"offset {now[1]} of partition {row['partition']} comes after {before[1]}")
        last[row["partition"]] = now
    problems += [f"{number} is missing" for number in range(written) if number not in seen]
    problems += [f"{number} is there {count} times" for number, count in seen.items() if count > 1]
    return problems


@contextmanager
def sink_job(
    directory: Path,
    kafka: LocalKafka,
    monkeypatch: pytest.MonkeyPatch,
    *,
    bug: str = "",
    options: Mapping[str, str] | None = None,
) -> Iterator[SinkJob]:
    """Run a job from a topic into another one, with a trickle of records, until the block ends."""
    points = Points(directory / "points")
    monkeypatch.setenv("EVENSPLIT_SINK_POINTS", str(points.directory))
    monkeypatch.setenv("EVENSPLIT_SINK_BUG", bug)
    monkeypatch.setenv("PYTHONPATH", str(HOOKS))
    cluster = ChaosCluster("east", kafka)
    kafka.create_topic(READ, PARTITIONS, cluster.replicas)
    task = _task(directory, {"east": cluster}, options or {})
    with ExitStack() as stack:
        recorder = stack.enter_context(Recorder(task.history, "run"))
        reader = stack.enter_context(start_reader({"east": cluster}, task.sink("kafka"), recorder))
        trickle = Trickle(kafka.internal_servers)
        stack.callback(trickle._ended.set)
        process = stack.enter_context(JobProcess((), task, recorder))
        job = SinkJob(task, points, process, reader, trickle, kafka, recorder)
        job.wait_for_progress()
        yield job


def _task(directory: Path, clusters: dict[str, ChaosCluster], options: Mapping[str, str]) -> Task:
    reading = {
        "kafka.bootstrap.servers": clusters["east"].servers,
        "includeCluster": "true",
        "subscribe": READ,
        "startingOffsets": "earliest",
        "readers": "2",
    }
    return Task(
        master="local[2,4]",
        source="evensplit",
        options=reading,
        queries=("kafka",),
        directory=directory,
        history=directory / "history",
        began_s=time.monotonic(),
        trigger_ms=200,
        written={**written_options(clusters), **options},
    )
