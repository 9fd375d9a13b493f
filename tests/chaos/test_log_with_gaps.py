"""Offsets that Spark logs now and then only: whatever was found in between is read from its beginning after a crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evensplit.testing import LocalKafka
from tests.support.driver import ROOT
from tests.support.processes import kill_session
from tests.support.queries import offset_files
from tests.support.records import Draft, produce
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

INTERVAL_MS = 8_000
FOUND = 40
"""So many records are in each partition that is found between two offsets."""


class Job:
    """A driver that logs every 8 s, over the topics that begin with `topic`; what it reads is in `rows`."""

    def __init__(self, kafka: LocalKafka, topic: str, directory: Path) -> None:
        self.checkpoint, self.die, self._sink = directory / "checkpoint", directory / "die", directory / "sink"
        self._log = directory / "log"
        options = {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "subscribePattern": f"^{topic}",
            "startingOffsets": "earliest",
            "discoveryInterval": "300ms",
        }
        self._arguments = {
            "options": options,
            "checkpoint": str(self.checkpoint),
            "sink": str(self._sink),
            "interval_ms": INTERVAL_MS,
            "die": str(self.die),
        }
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        own = {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        with self._log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.async_driver", json.dumps(self._arguments)],
                cwd=self._log.parent,
                env={**os.environ, **own},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def close(self) -> None:
        for process in self._started:
            kill_session(process.pid)
            process.wait(60)

    def rows(self) -> dict[tuple[str, int], list[tuple[int, int]]]:
        """(topic, partition) -> the batch and the value of each row, in the order in which they came."""
        found: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for line in self._sink.read_text().splitlines() if self._sink.exists() else ():
            number, topic, partition, value = line.split()
            found[topic, int(partition)].append((int(number), int(value)))
        return found

    def logged(self) -> list[int]:
        return [int(path.name) for path in offset_files(self.checkpoint)]

    def wait(self, condition: Callable[[], object], what: str) -> None:
        def checked() -> object:
            assert self._started[-1].poll() is None, self._log.read_text()[-3000:]
            return condition()

        wait_for(checked, within_s=180, what=what)


@pytest.fixture
def job(east: LocalKafka, topic: str, tmp_path: Path) -> Iterator[Job]:
    started = Job(east, topic, tmp_path)
    yield started
    started.close()


def test_what_was_found_between_two_offsets_is_read_from_its_beginning(east: LocalKafka, topic: str, job: Job) -> None:
    other = f"{topic}-new"
    counts: defaultdict[tuple[str, int], int] = defaultdict(int)

    def put(name: str, partition: int, count: int) -> None:
        begin = counts[name, partition]
        counts[name, partition] += count
        drafts = [Draft(b"%d" % value, partition=partition) for value in range(begin, begin + count)]
        produce(east.bootstrap_servers, name, drafts, linger_ms=0)

    def has_all() -> bool:
        rows = job.rows()
        return all(rows[key] and max(value for _, value in rows[key]) == count - 1 for key, count in counts.items())

    east.create_topic(topic)
    put(topic, 0, 10)
    process = job.start()
    job.wait(has_all, "the first batch")
    # An offset has just been logged, so it takes 8 s until the next one is.
    before = job.logged()

    def goes_on() -> bool:
        put(topic, 0, 1)
        return job.logged() != before

    job.wait(goes_on, "another offset in the log")
    last = job.logged()[-1]
    east.add_partitions(topic, 2)
    east.create_topic(other)
    put(topic, 1, FOUND)
    put(other, 0, FOUND)
    job.wait(has_all, "the records of what was found")
    found_in = {job.rows()[key][0][0] for key in ((topic, 1), (other, 0))}
    assert job.logged()[-1] == last, "the batch in which they were found is not logged"
    assert all(number > last for number in found_in)

    job.die.touch()

    def is_dead() -> bool:
        put(topic, 1, 1)
        put(other, 0, 1)
        return process.poll() is not None

    wait_for(is_dead, within_s=180, what="a batch that is logged, in which the driver dies")
    assert job.logged()[-1] > max(found_in), "it died in a batch after the one in which they were found"
    kill_session(process.pid)
    job.die.unlink()
    put(topic, 0, 5)
    put(topic, 1, 5)
    put(other, 0, 5)
    job.start()
    job.wait(has_all, "the records that came last")
    rows = job.rows()
    for key, count in counts.items():
        assert sorted({value for _, value in rows[key]}) == list(range(count)), f"at least once: {key}"
