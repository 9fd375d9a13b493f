"""SIGKILL at every step of writing: a reader finds each record once, and in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import pytest

from evensplit.testing import LocalKafka
from tests.support.sink_brokers import LED, bring_back, leader
from tests.support.sink_job import QUICK, WITHIN_S, SinkJob, faults_in, sink_job
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def _queries_end() -> None:
    """Nothing here uses the session of the tests."""


EDGES = ("before", "after")
COMMIT = tuple(
    f"commit.{order}.{edge}"
    for order in ("Acquire", "ReadLast", "CheckOpen", "ListOpen", "Append", "End")
    for edge in EDGES
)
ABORT = tuple(
    f"abort.{order}.{edge}" for order in ("Acquire", "ReadLast", "ListOpen", "Append", "End") for edge in EDGES
)
ABORT_DECIDED = tuple(f"abort.{order}.{edge}" for order in ("Acquire", "ReadLast", "End", "ListOpen") for edge in EDGES)
TASK = (
    *("task.InitProducerId.before", "task.InitProducerId.after", "task.Produce.after"),
    *("task.flush.before", "task.flush.after"),
)
FOUND = ("dead", "dying", "back")
TASKS_EACH = 6
KILLS_OF_A_BATCH = 3
"""One more, and Spark would repeat the query, and not the task. Where the driver dies, it does."""


@pytest.fixture
def three() -> Iterator[LocalKafka]:
    with LocalKafka(brokers=3, properties=QUICK) as kafka:
        yield kafka


@pytest.fixture
def one() -> Iterator[LocalKafka]:
    with LocalKafka(properties=QUICK) as kafka:
        yield kafka


def _tasks(job: SinkJob) -> int:
    for kills, point in enumerate(TASK * TASKS_EACH, 1):
        _kill(job, point)
        if kills % KILLS_OF_A_BATCH == 0:
            job.wait_for_progress()
    return len(TASK) * TASKS_EACH


def _processes_of_the_driver(job: SinkJob) -> int:
    for point in (*COMMIT, "commit.done"):
        _kill(job, point)
    for error, points in (("commit.Append.before", ABORT), ("commit.Append.after", ABORT_DECIDED)):
        for point in points:
            job.points.arm(error, "raise")
            _kill(job, point)
    return len(COMMIT) + 1 + len(ABORT) + len(ABORT_DECIDED)


def _drivers(job: SinkJob) -> int:
    for point in (*COMMIT, "commit.done"):
        _kill_driver(job, point)
    return len(COMMIT) + 1


def _brokers(job: SinkJob, first: int) -> int:
    """`first`: which one of `LED` is the first whose leader is killed. No query ends by that.

    The job finds a broker dead, or has it die at that moment, or finds it back, where nothing is as it was.
    """
    points = (*COMMIT, *TASK)
    for kills, (point, topic) in enumerate(zip(points, islice(cycle(LED), first, None), strict=False)):
        job.points.arm(point, "hold")
        job.points.wait(point, job)
        broker = leader(job.kafka, topic)
        found = FOUND[(kills // len(LED) + first) % len(FOUND)]
        if found == "dying":
            job.points.release(point)
        broker.kill()
        if found == "back":
            bring_back(job.kafka, broker)
        job.points.release(point)
        job.wait_for_progress()
        bring_back(job.kafka, broker)
        assert job.errors() == []
    return len(points)


@pytest.mark.parametrize(
    "kill, kills",
    [
        (_tasks, 30),
        (_processes_of_the_driver, 31),
        (_drivers, 13),
        (partial(_brokers, first=0), 17),
        (partial(_brokers, first=1), 17),
    ],
    ids=["tasks", "processes-of-the-driver", "drivers", "brokers", "brokers-in-turn"],
)
def test_each_record_is_there_once_whoever_is_killed_where(
    tmp_path: Path, three: LocalKafka, monkeypatch: pytest.MonkeyPatch, kill: Callable[[SinkJob], int], kills: int
) -> None:
    with sink_job(tmp_path, three, monkeypatch) as job:
        assert kill(job) == kills
        rows = job.finish()
    assert faults_in(rows, job.trickle.written) == []


def _kill(job: SinkJob, point: str) -> None:
    job.points.arm(point, "kill")
    job.points.wait(point, job)


def _kill_driver(job: SinkJob, point: str) -> None:
    job.points.arm(point, "hold")
    job.points.wait(point, job)
    job.process.kill()


@pytest.mark.parametrize("bug", ["no-decision", "nothing-read"])
def test_a_planted_bug_that_writes_a_batch_again_is_found(
    tmp_path: Path, one: LocalKafka, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    with sink_job(tmp_path, one, monkeypatch, bug=bug) as job:
        _kill(job, "commit.End.after")
        job.wait_for_progress()
        rows = job.finish()
    found = faults_in(rows, job.trickle.written)
    assert any("is there 2 times" in problem for problem in found), found


def test_a_planted_bug_that_aborts_what_is_decided_is_found(
    tmp_path: Path, one: LocalKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sink_job(tmp_path, one, monkeypatch, bug="aborted-unseen") as job:
        job.points.arm("commit.Append.after", "raise")
        job.points.wait("commit.Append.after", job)
        errors = wait_for(lambda: job.errors()[1:], within_s=WITHIN_S, what="an error of the restarted query")
    assert "BatchIncomplete" in errors[0], errors
