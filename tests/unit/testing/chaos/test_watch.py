"""What watches a job: its sinks are read as they grow, and its process is started again whenever it has ended."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evensplit.errors import LocalKafkaError
from evensplit.testing.chaos.history.events import BatchDelivered, JobEnded, JobStarted
from evensplit.testing.chaos.history.recorder import Recorder, read_history
from evensplit.testing.chaos.job.process import JobProcess
from evensplit.testing.chaos.job.task import Task
from evensplit.testing.chaos.job.watch import SinkWatcher
from evensplit.testing.process.sessions import command_line
from tests.support.waiting import wait_for

ROOT = Path(__file__).resolve().parents[4]


def task_in(directory: Path, *queries: str) -> Task:
    return Task(
        master="local[2]",
        source="evensplit",
        options={},
        queries=queries,
        directory=directory,
        history=directory / "history",
        began_s=0.0,
    )


def put(file: Path, *numbers: int) -> Path:
    """A file of a sink with records of these numbers."""
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"value": [f"{number}|east|t|1|0|".encode() for number in numbers]}), file)
    return file


def log(sink: Path, name: str, *files: Path) -> None:
    """A log of Spark's file sink."""
    directory = sink / "_spark_metadata"
    directory.mkdir(exist_ok=True)
    lines = [json.dumps({"path": file.as_uri(), "action": "add"}) for file in files]
    (directory / name).write_text("\n".join(["v1", *lines]))


def delivered(directory: Path) -> list[tuple[str, int, int]]:
    events = read_history(directory / "history")
    return [(one.query, one.batch, one.rows) for one in events if isinstance(one, BatchDelivered)]


@pytest.mark.parametrize("queries", [("counted", "parquet"), ("parquet", "counted"), ("counted",)])
def test_which_records_have_arrived_is_seen_in_a_sink_that_keeps_them(tmp_path: Path, queries: tuple[str, ...]) -> None:
    task = task_in(tmp_path, *queries)
    counts = task.sink("counted") / "batch-0" / "attempt-a"
    counts.mkdir(parents=True)
    pq.write_table(pa.table({"count": [2]}), counts / "part-0.parquet")
    (counts / "_SUCCESS").touch()
    if "parquet" in queries:
        log(task.sink("parquet"), "0", put(task.sink("parquet") / "part-0.parquet", 7))
    with Recorder(task.history, "run") as recorder:
        watcher = SinkWatcher(task, recorder)
        watcher.look()
    assert watcher.has(7) == ("parquet" in queries)
    assert set(delivered(tmp_path)) == {("counted", 0, 1), ("parquet", 0, 1)} & {(one, 0, 1) for one in queries}


def test_only_whole_attempts_of_a_batch_count_and_a_repeated_one_counts_once(tmp_path: Path) -> None:
    task = task_in(tmp_path, "foreach-batch")
    place = task.sink("foreach-batch") / "batch-0"
    with Recorder(task.history, "run", 0.0) as recorder:
        watcher = SinkWatcher(task, recorder)
        watcher.look()
        put(place / "attempt-1" / "a.parquet", 0, 1)
        watcher.look()
        assert (watcher.rows(), watcher.has(0)) == ({"foreach-batch": 0}, False)
        (place / "attempt-1" / "_SUCCESS").touch()
        watcher.look()
        assert (watcher.rows(), watcher.has(0), watcher.has(2)) == ({"foreach-batch": 2}, True, False)
        put(place / "attempt-2" / "a.parquet", 0, 1)
        (place / "attempt-2" / "_SUCCESS").touch()
        watcher.look()
        watcher.look()
        assert (watcher.rows(), watcher.batches()) == ({"foreach-batch": 2}, {"foreach-batch": 1})
    assert delivered(tmp_path) == [("foreach-batch", 0, 2), ("foreach-batch", 0, 2)]


def test_the_files_of_sparks_sink_count_as_its_log_has_them(tmp_path: Path) -> None:
    task = task_in(tmp_path, "parquet")
    sink = task.sink("parquet")
    with Recorder(task.history, "run", 0.0) as recorder:
        watcher = SinkWatcher(task, recorder)
        first = put(sink / "one.parquet", 0, 1)
        watcher.look()
        log(sink, "0", first)
        watcher.look()
        second = put(sink / "two with spaces.parquet", 2)
        log(sink, "1.compact", first, second)
        watcher.look()
        assert watcher.rows() == {"parquet": 3}
    assert delivered(tmp_path) == [("parquet", 0, 2), ("parquet", 1, 1)]


def test_a_sink_that_cannot_be_read_ends_the_run(tmp_path: Path) -> None:
    task = task_in(tmp_path, "foreach-batch")
    attempt = task.sink("foreach-batch") / "batch-0" / "attempt-1"
    attempt.mkdir(parents=True)
    (attempt / "a.parquet").write_bytes(b"no parquet")
    (attempt / "_SUCCESS").touch()
    with Recorder(task.history, "run", 0.0) as recorder:
        watcher = SinkWatcher(task, recorder)
        with pytest.raises(pa.ArrowInvalid):
            watcher.look()


JOB = """
import time
from evensplit.testing.chaos import Task
task = Task.from_environment()
with (task.directory / "starts").open("a") as file:
    file.write(task.options.get("readers", "none") + "\\n")
time.sleep(600)
"""


def test_a_job_is_started_again_whenever_it_has_ended_with_the_options_it_is_to_have(tmp_path: Path) -> None:
    task = task_in(tmp_path, "parquet")
    starts = tmp_path / "starts"
    command = (sys.executable, "-c", JOB)

    def started(count: int) -> list[str]:
        return (
            wait_for(
                lambda: lines if starts.exists() and len(lines := starts.read_text().splitlines()) == count else None,
                what=f"start {count} of the job",
            )
            or []
        )

    with Recorder(task.history, "run", 0.0) as recorder, JobProcess(command, task, recorder) as job:
        started(1)
        first = job.kill()
        started(2)
        job.wait_for_another(first, 60)
        job.restart(options={"readers": "3"})
        assert started(3) == ["none", "none", "3"]
        job.restart()
        assert started(4)[-1] == "none"
        assert [role for role, _ in job.processes()] == ["driver python"]
    events = read_history(task.history)
    assert [one.settings.get("options", {}) for one in events if isinstance(one, JobStarted)] == [
        {},
        {},
        {"readers": "3"},
        {},
    ]
    assert [one.expected for one in events if isinstance(one, JobEnded)] == [True] * 4


def test_a_kill_between_two_processes_of_a_job_is_of_the_second_one(tmp_path: Path) -> None:
    task = task_in(tmp_path, "parquet")
    with Recorder(task.history, "run", 0.0) as recorder, JobProcess((sys.executable, "-c", JOB), task, recorder) as job:
        first = job.kill()
        # It may not have been noticed yet, or it may be the pause before the next start.
        wait_for(lambda: ended(task), what="the end of the first process")
        second = job.kill()
        wait_for(lambda: len(ended(task)) == 2, what="the end of the second process")
        job.wait_for_another(second, 60)
    assert first != second
    assert [(one.pid, one.expected) for one in ended(task)[:2]] == [(first, True), (second, True)]


def ended(task: Task) -> list[JobEnded]:
    return [one for one in read_history(task.history) if isinstance(one, JobEnded)]


def test_a_job_that_ends_by_itself_leaves_what_it_said_last(tmp_path: Path) -> None:
    task = task_in(tmp_path, "parquet")
    counter = tmp_path / "starts"
    script = f"n = open({str(counter)!r}, 'a+'); n.write('x'); n.seek(0); raise SystemExit(f'start {{len(n.read())}}')"
    with Recorder(task.history, "run", 0.0) as recorder, JobProcess((sys.executable, "-c", script), task, recorder):
        wait_for(lambda: len(ended(task)) == 2, what="the end of the second process")
    assert [(one.code, one.expected, one.said) for one in ended(task)[:2]] == [
        (1, False, "start 1\n"),
        (1, False, "start 2\n"),
    ]


def test_what_watches_a_job_does_not_end_unseen(tmp_path: Path) -> None:
    task = task_in(tmp_path, "parquet")
    command = tmp_path / "job"
    command.write_text(f"#!{sys.executable}\n{JOB}")
    command.chmod(0o755)
    with Recorder(task.history, "run", 0.0) as recorder, JobProcess((str(command),), task, recorder) as job:
        job.check()
        command.unlink()
        job.kill()

        def failure() -> str:
            try:
                job.check()
            except LocalKafkaError as error:
                return str(error)
            return ""

        assert "No such file" in wait_for(failure, what="the error of the next start")


OWNER = """
import json, sys, time
from pathlib import Path
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.chaos.job.process import JobProcess
from tests.unit.testing.chaos.test_watch import JOB, task_in
task = task_in(Path(sys.argv[1]), "parquet")
with Recorder(task.history, "run", 0.0) as recorder, JobProcess((sys.executable, "-c", JOB), task, recorder) as job:
    print(job.pid, flush=True)
    time.sleep(600)
"""


def test_a_job_does_not_outlive_a_run_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as owner:
        assert owner.stdout is not None
        job = int(owner.stdout.readline())
        assert command_line(job)
        owner.kill()
    wait_for(lambda: not command_line(job), what="the end of the job")
