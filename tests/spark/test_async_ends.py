"""A query with asynchronous progress that has failed: Spark takes it for active, and our own job starts it again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from evensplit.testing import LocalKafka
from evensplit.testing.chaos.history.events import Event, JobStarted, QueryEnded, QueryStarted
from evensplit.testing.chaos.history.recorder import Recorder, read_history
from evensplit.testing.chaos.job.process import JobProcess
from evensplit.testing.chaos.job.task import Task
from tests.support.records import numbers
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(300)]

# Each batch stores its offset, so there always is one that Spark has not told to the source.
JOB = """
from evensplit.testing.chaos.job import driver, sinks
sinks.OFFSETS_EVERY_MS = 0
driver.main()
"""


def test_a_query_that_spark_takes_for_active_although_it_failed_is_started_again(
    east: LocalKafka, topic: str, tmp_path: Path
) -> None:
    def told(kind: type[Event], query: str = "") -> list[Event]:
        return [one for one in read_history(history) if type(one) is kind and getattr(one, "query", "") == query]

    def delivered(of: str, since: int = 0) -> int:
        return len(list(sinks[of].glob("batch-*/*/_SUCCESS"))) - since

    history, away = tmp_path / "history", tmp_path / "away"
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(10))
    clusters = json.dumps({"east": {"kafka.bootstrap.servers": east.bootstrap_servers}})
    options = {"clusters": clusters, "subscribe": topic, "startingOffsets": "earliest"}
    with Recorder(history, "run") as recorder:
        queries = ("async", "foreach-batch")
        task = Task(
            master="local[2]",
            source="evensplit",
            options=options,
            queries=queries,
            directory=tmp_path,
            history=history,
            began_s=recorder.began_s,
        )
        sinks = {name: task.sink(name) for name in queries}
        with JobProcess((sys.executable, "-c", JOB), task, recorder):
            wait_for(lambda: all(map(delivered, queries)), within_s=240, what="a batch of each query")
            numbers(east.bootstrap_servers, topic, range(10, 20))
            wait_for(lambda: delivered("async") > 1, within_s=60, what="a second batch")
            sinks["async"].rename(away)
            sinks["async"].write_text("in the way")
            numbers(east.bootstrap_servers, topic, range(20, 30))
            wait_for(lambda: told(QueryEnded, "async"), within_s=60, what="the end of the query")
            sinks["async"].unlink()
            before = delivered("foreach-batch")
            numbers(east.bootstrap_servers, topic, range(30, 40))
            wait_for(lambda: delivered("async"), within_s=120, what="a batch after the new start")
            wait_for(lambda: delivered("foreach-batch", before) > 0, within_s=60, what="a batch of the other query")
    assert len(told(QueryStarted, "async")) == 2
    assert len(told(QueryStarted, "foreach-batch")) == 2, "Spark was started again"
    assert len(told(JobStarted)) == 1, "in the same process"
