"""Faults of Spark, on a job that only notes what is done to it: they are over when all queries are back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evensplit.errors import ChaosError
from evensplit.testing.chaos.job.sinks import HANG, KAFKA, WRITTEN_LEDGER, WRITTEN_TOPIC
from evensplit.testing.chaos.job.task import Task
from evensplit.testing.chaos.nemesis import spark, writing
from evensplit.testing.chaos.nemesis.base import Nemesis


@dataclass
class Job:
    """A job whose queries come back one after the other, with each look at them."""

    task: Task
    pid: int = 1
    back: int = 0
    looks: list[int] = field(default_factory=list)
    restarts: list[tuple[dict[str, str], dict[str, str]]] = field(default_factory=list)

    def kill(self) -> int:
        self.pid, self.back = self.pid + 1, 0
        return self.pid - 1

    def restart(self, *, options: Mapping[str, str] | None = None, session: Mapping[str, str] | None = None) -> int:
        self.restarts.append((dict(options or {}), dict(session or {})))
        return self.kill()

    def wait_for_another(self, pid: int, within_s: float, ready: Callable[[], bool]) -> None:
        assert self.pid != pid
        while not ready():
            self.back += 1
            assert self.back < 10
        self.looks.append(self.back)
        commits = self.task.checkpoint(KAFKA) / "commits"
        commits.mkdir(parents=True, exist_ok=True)
        (commits / f"{10 * self.pid}").touch()

    def reads(self) -> bool:
        return self.back == len(self.task.queries)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    task = Task(
        master="local",
        source="evensplit",
        options={},
        queries=("foreach-batch", "parquet", "counted"),
        directory=tmp_path,
        history=tmp_path,
        began_s=0.0,
    )
    return Job(task)


@dataclass
class Reader:
    """Sees new records in these topics, as soon as it is asked."""

    topics: tuple[str, ...]
    asked: list[tuple[str, str]] = field(default_factory=list)

    def comes(self, topic: str, isolation: str, within_s: float) -> bool:
        assert within_s > 0
        self.asked.append((topic, isolation))
        return topic in self.topics


def under(nemesis: Nemesis, job: Job, seed: int = 0, reader: Reader | None = None) -> Any:
    arena = SimpleNamespace(job=job, spark=None, reader=reader, recorder=SimpleNamespace(now_s=7.0))
    return nemesis.do(cast("Any", arena), Random(seed))


def test_a_killed_driver_is_back_when_each_query_has_its_source(job: Job) -> None:
    with under(spark.driver_kill, job):
        assert (job.pid, job.looks) == (2, [])
    assert job.looks == [3]


def test_a_job_is_started_with_every_option_changed_and_then_as_before(job: Job) -> None:
    with under(spark.restart_changed, job) as harm:
        ((options, session),) = job.restarts
        assert ({*options}, {*session}) == ({*spark.OPTIONS}, {*spark.SESSION})
        assert all(value in spark.OPTIONS[name] for name, value in options.items())
        assert all(f"{name}={value}" in harm.what for name, value in {**options, **session}.items())
        assert job.looks == [3]
    assert job.restarts[1:] == [({}, {})]
    assert job.looks == [3, 3]


@pytest.mark.parametrize("seed", range(4))
def test_a_sink_hangs_that_can_be_held(job: Job, seed: int) -> None:
    with under(spark.sink_hang, job, seed) as harm:
        held = {query for query in job.task.queries if (job.task.sink(query) / HANG).exists()}
        assert len(held) == 1
        assert held <= {"foreach-batch", "counted"}
        assert held.pop() in harm.what
    assert not [query for query in job.task.queries if (job.task.sink(query) / HANG).exists()]


def test_a_driver_is_killed_at_each_moment_of_writing_once_it_is_back(job: Job) -> None:
    reader = Reader((WRITTEN_TOPIC, WRITTEN_LEDGER))
    with under(writing.writing_kill, job, reader=reader) as harm:
        assert (job.pid, job.looks) == (4, [3, 3, 3])
        assert harm.since_s == 7.0
        assert harm.what == (
            "SIGKILL of the driver as its tasks wrote (process 1), as soon as a batch was decided (process 2), "
            "as soon as readers saw records of a batch (process 3)"
        )
    assert reader.asked == [
        (WRITTEN_TOPIC, "read_uncommitted"),
        (WRITTEN_LEDGER, "read_committed"),
        (WRITTEN_TOPIC, "read_committed"),
    ]


def test_a_moment_that_does_not_come_is_left_out_and_said_so_if_none_does(job: Job) -> None:
    with under(writing.writing_kill, job, reader=Reader((WRITTEN_LEDGER,))) as harm:
        assert harm.what == "SIGKILL of the driver as soon as a batch was decided (process 1)"
    with (
        pytest.raises(ChaosError, match="the job has not written a record within 60 s"),
        under(writing.writing_kill, job, reader=Reader(())),
    ):
        pass
    assert job.pid == 2
