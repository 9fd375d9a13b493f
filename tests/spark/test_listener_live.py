"""Progress of real queries, under Spark and under Connect: heard, explained, and never to their harm."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import evensplit
from evensplit.cli.group import evensplit as evensplit_command
from evensplit.observe.recorder import QueryStatus
from evensplit.spark.listen.registration import Progress
from evensplit.testing import LocalKafka
from tests.support.connect import run_client
from tests.support.queries import run_available, stream
from tests.support.records import numbers
from tests.support.starting import started
from tests.support.waiting import wait_for


def to_memory(frame: object, name: str, checkpoint: Path) -> StreamingQuery:
    writer = frame.writeStream.format("memory").queryName(name)  # type: ignore[attr-defined]
    return started(writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="50 milliseconds"))


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.usefixtures("no_query_left")
def test_a_running_query_is_explained_batch_by_batch(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    east.create_topic(topic, partitions=4)
    name = topic.replace("-", "_")
    registration = evensplit.register(spark)
    options = {"subscribe": topic, "startingOffsets": "earliest", "readers": 2, "clusterWait": "20s"}
    query = to_memory(stream(spark, east.bootstrap_servers, **options), name, checkpoint)
    for start in (0, 40):
        numbers(east.bootstrap_servers, topic, range(start, start + 40), partitions=4)
        wait_for(lambda end=start + 40: read(registration, name) == end)  # type: ignore[misc]
    query.stop()

    def ended() -> bool:
        found = registration.recorder.find(query.id)
        return found is not None and found.stage is QueryStatus.ENDED

    # Nothing is told of it after that.
    wait_for(ended, what="word of the end")
    first, *later = registration.progress(name)
    assert first.query_id == str(query.id)
    assert first.batch_id == 0
    assert len(first.explanation.changes.discoveries) == 4
    assert [one.splits for one in first.explanation.readers] == [2, 2]
    assert first.explanation.sentences()[-1].startswith("assigned: 2 partitions per reader, as even as possible")
    assert not any(one.explanation.sentences() for one in later)
    assert all(one.explanation.clusters[0].lag_unknown == 0 for one in later)
    assert registration.progress(str(query.id)) == (first, *later)
    told = CliRunner().invoke(evensplit_command, ["why", str(checkpoint), f"{topic}/3", "--format", "json"])
    assert told.exit_code == 0, told.output
    (story,) = json.loads(told.stdout)["stories"]
    assert story["chapters"][0]["changes"] == ["was discovered", "starts at 0", "was given to reader 1"]
    assert story["now"]["position"] == 20


def read(registration: Any, name: str) -> int:
    """How many offsets the batches that were heard of have."""
    return sum(one.explanation.offsets for one in registration.progress(name))


@pytest.mark.spark
def test_there_is_one_listener_however_often_and_by_whatever_object_the_session_registers(spark: SparkSession) -> None:
    def listeners(session: SparkSession) -> int:
        return len(session._jsparkSession.streams().listListeners())

    first = evensplit.register(spark)
    count = listeners(spark)
    again = SparkSession(spark.sparkContext, spark._jsparkSession)
    assert evensplit.register(spark) is evensplit.register(again) is first
    assert listeners(spark) == count
    other = spark.newSession()
    before = listeners(other)
    assert evensplit.register(other) is not first
    assert evensplit.register(other) is evensplit.register(other)
    assert (listeners(other), listeners(spark)) == (before + 1, count)


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.usefixtures("no_query_left")
def test_a_callback_that_fails_does_not_harm_the_query(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    east.create_topic(topic, partitions=1)
    numbers(east.bootstrap_servers, topic, range(10), partitions=1)
    registration = evensplit.register(spark)

    def fails(one: Progress) -> None:
        raise SystemError("planted")

    unsubscribe = registration.subscribe(fails)
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest", readers=1)
    run_available(frame, tmp_path / "checkpoint", tmp_path / "out")
    wait_for(lambda: "planted" in caplog.text)
    unsubscribe()


@pytest.mark.spark
def test_a_session_that_takes_no_listener_is_registered_all_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = spark.newSession()

    def refuse(self: object, listener: object) -> None:
        raise PermissionError("no listeners here")

    with monkeypatch.context() as patched:
        patched.setattr("pyspark.sql.streaming.query.StreamingQueryManager.addListener", refuse)
        first = evensplit.register(other)
    assert first.progress() == ()
    assert "no listeners here" in caplog.text
    assert evensplit.register(other) is not first


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.usefixtures("no_query_left")
def test_what_a_real_query_does_is_known(spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path) -> None:
    """It runs, is idle, ends, is started again, and fails: in a sink, and in this source."""
    east.create_topic(topic, partitions=1)
    numbers(east.bootstrap_servers, topic, range(10), partitions=1)
    recorder = evensplit.register(spark).recorder
    stages: list[tuple[QueryStatus, str]] = []

    def start(sink: Callable[..., None]) -> StreamingQuery:
        frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest", readers=1)
        writer = frame.writeStream.foreachBatch(sink).queryName("stages")
        return started(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))

    def fail(*_: object) -> None:
        raise ValueError("hunter2")

    unsubscribe = recorder.subscribe(
        lambda one: stages.append((one.stage, one.failure)) if one.view.source.name == "stages" else None
    )
    try:
        query = start(lambda *_: None)
        wait_for(lambda: (QueryStatus.IDLE, "") in stages)
        query.stop()
        wait_for(lambda: stages[-1] == (QueryStatus.ENDED, ""))
        query = start(fail)
        numbers(east.bootstrap_servers, topic, range(10), partitions=1)
        wait_for(lambda: stages[-1] == (QueryStatus.FAILED, "FOREACH_BATCH_USER_FUNCTION_ERROR"))
        for file in (tmp_path / "checkpoint" / "offsets").iterdir():
            if file.suffix == ".crc":
                file.unlink()
            else:
                file.write_text(re.sub(r'"evensplit": ?\d+', '"evensplit":99', file.read_text()))
        query = start(lambda *_: None)
        wait_for(lambda: stages[-1] == (QueryStatus.FAILED, "CheckpointVersionUnknown"))
    finally:
        unsubscribe()


CONNECT = """
import json, sys, threading, time
from pyspark.sql import SparkSession
import evensplit

bootstrap, topic, directory = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
registration = evensplit.register(spark)
assert evensplit.register(spark) is registration
heard = threading.Event()
registration.subscribe(lambda one: heard.set())
reader = spark.readStream.format("evensplit").option("kafka.bootstrap.servers", bootstrap)
rows = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
query = (
    rows.writeStream.format("noop").option("checkpointLocation", f"{directory}/checkpoint")
    .queryName("counts").trigger(availableNow=True).start()
)
assert query.awaitTermination(240)
assert heard.wait(120)
deadline = time.monotonic() + 120
while registration.recorder.watched()[0].stage != "ended" and time.monotonic() < deadline:
    time.sleep(0.02)
assert registration.recorder.watched()[0].stage == "ended", registration.recorder.watched()[0].stage
handlers = [one.daemon for one in threading.enumerate() if "_query_event_handler" in one.name]
print(json.dumps({"not waited for": handlers, "heard": [one.to_json() for one in registration.progress("counts")]}))
if topic.endswith("stops"):
    spark.stop()
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(900)
@pytest.mark.parametrize("end", ["stops", "ends"])
def test_under_connect_the_same_is_heard_and_a_program_ends_that_does_not_stop_its_session(
    east: LocalKafka, topic: str, tmp_path: Path, end: str
) -> None:
    topic = f"{topic}-{end}"
    east.create_topic(topic, partitions=4)
    numbers(east.bootstrap_servers, topic, range(40), partitions=4)
    said = run_client(CONNECT, east.bootstrap_servers, topic, str(tmp_path), directory=tmp_path)
    (line,) = (line for line in said.splitlines() if line.startswith('{"not waited for"'))
    printed = json.loads(line)
    # What PySpark itself may warn of while a session stops says nothing of this.
    assert printed["not waited for"] == [True]
    (found,) = printed["heard"]
    assert (found["name"], found["offsets"], found["spread"]) == ("counts", 40, 0)
    assert found["evenness"][0]["even"]
    assert found["clusters"][0]["lag"] == {"sum": 0, "max": 0, "unknown": 0}


WITHOUT_STOP = """
import sys
from pyspark.sql import SparkSession
import evensplit

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
evensplit.register(spark)
frame = spark.readStream.format("evensplit").option("kafka.bootstrap.servers", sys.argv[1])
query = (
    frame.option("subscribe", sys.argv[2]).option("startingOffsets", "earliest").load().writeStream.format("noop")
    .option("checkpointLocation", sys.argv[3]).trigger(availableNow=True).start()
)
query.awaitTermination()
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
def test_a_program_that_ends_without_stop_logs_no_error(east: LocalKafka, topic: str, tmp_path: Path) -> None:
    """Spark tells of the end of a query when the program may be over already."""
    east.create_topic(topic, partitions=1)
    numbers(east.bootstrap_servers, topic, range(10), partitions=1)
    command = [sys.executable, "-c", WITHOUT_STOP, east.bootstrap_servers, topic, str(tmp_path / "checkpoint")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if " ERROR " in line]) == (0, [])
