"""From Spark's own Kafka source to this one and back, on the Spark that has both: nothing lost, nothing repeated.

Each query counts how often each value was seen, which takes state, and leaves what it counted under the number of each
batch. `make test-slow` makes the environment with that Spark.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from evensplit.cli.group import evensplit
from evensplit.testing import LocalKafka
from tests.support.peer_query import Peer
from tests.support.queries import committed
from tests.support.records import Draft, produce

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

VALUES = 7
"""So many different values there are."""


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """One session for all."""
    one = Peer(tmp_path_factory.mktemp("peer") / "log")
    yield one
    one.close()


class Job:
    """A query over one topic, its records and its sink."""

    def __init__(self, peer: Peer, kafka: LocalKafka, topic: str, place: Path) -> None:
        self._peer = peer
        self._kafka = kafka
        self._topic = topic
        self._written = 0
        self.partitions = 3
        self.out = place / "out"
        self.checkpoint = place / "checkpoint"
        kafka.create_topic(topic, partitions=self.partitions)

    def write(self, count: int) -> None:
        """So many records more: number n has the value n % VALUES, in partition n % partitions."""
        drafts = [
            Draft(b"%d" % (n % VALUES), partition=n % self.partitions)
            for n in range(self._written, self._written + count)
        ]
        produce(self._kafka.bootstrap_servers, self._topic, drafts)
        self._written += count

    def run(self, source: str, *, fails_in: int | None = None, error: str = "", **options: str) -> None:
        """Read what there is with one of the two sources; in batch `fails_in`, the sink fails. `error`: it has to."""
        given = {
            "kafka.bootstrap.servers": self._kafka.bootstrap_servers,
            "subscribe": self._topic,
            "startingOffsets": "earliest",
            **options,
        }
        done = self._peer.run(
            sources=[{"format": source, "options": given}],
            checkpoint=str(self.checkpoint),
            out=str(self.out),
            counts=True,
            fails_in=fails_in,
        )
        wanted = error if fails_in is None else "the sink fails"
        assert (wanted in done["error"]) if wanted else not done["error"], done["error"]

    def migrate(self, *options: str) -> None:
        """Go on with a checkpoint for the other source."""
        target = self.checkpoint.with_name(f"{self.checkpoint.name}-next")
        command = ["migrate", str(self.checkpoint), str(target), "--yes", "--assume-stopped", *options]
        result = CliRunner().invoke(evensplit, command)
        assert result.exit_code == 0, result.output
        self.checkpoint = target

    def batches(self) -> list[int]:
        """The batches that the sink has seen."""
        return sorted(int(path.stem) for path in self.out.glob("*.json"))

    def counted(self, batch: int) -> dict[str, int]:
        """What the sink was given in one batch: all counts so far."""
        found: list[tuple[str, int]] = json.loads((self.out / f"{batch}.json").read_text())
        return dict(found)

    def check(self) -> None:
        """All records that were written are counted once, under numbers of batches that go on."""
        seen = self.batches()
        assert seen == list(range(len(seen)))
        assert committed(self.checkpoint)[-1] == seen[-1]
        expected = Counter(str(n % VALUES) for n in range(self._written))
        assert self.counted(seen[-1]) == expected
        assert sum(self.counted(seen[-1]).values()) == self._written


@pytest.fixture
def job(peer: Peer, east: LocalKafka, topic: str, tmp_path: Path) -> Job:
    """A query that has not run yet."""
    return Job(peer, east, topic, tmp_path)


def test_there_and_back(job: Job) -> None:
    job.write(700)
    job.run("kafka", maxOffsetsPerTrigger="300")
    job.check()
    job.migrate()
    job.run("evensplit")
    job.check()
    job.write(500)
    job.run("evensplit", readers="2", maxOffsetsPerTrigger="200")
    job.check()
    there = job.batches()[-1]
    job.migrate("--to", "kafka")
    job.write(300)
    job.run("kafka")
    job.check()
    assert job.batches()[-1] > there


def test_in_the_middle_of_a_batch_each_time(job: Job, east: LocalKafka, topic: str) -> None:
    """The batch is planned again by the other source, partitions that begin with it included: the same rows."""
    job.write(600)
    job.run("kafka")
    job.partitions = 5
    east.add_partitions(topic, 5)
    job.write(400)
    job.run("kafka", fails_in=1)
    job.migrate()
    # What comes after the batch was planned is not in it.
    job.write(100)
    job.run("evensplit", readers="2")
    assert sum(job.counted(1).values()) == 1_000
    job.check()
    job.partitions = 6
    east.add_partitions(topic, 6)
    job.write(300)
    failed = job.batches()[-1] + 1
    job.run("evensplit", fails_in=failed)
    job.migrate("--to", "kafka")
    job.write(50)
    job.run("kafka")
    assert sum(job.counted(failed).values()) == 1_400
    job.check()


def test_before_the_first_batch_is_done(job: Job, topic: str) -> None:
    job.write(600)
    start = json.dumps({topic: {"0": 0, "1": 0, "2": 0}})
    job.run("kafka", fails_in=0, startingOffsets=start)
    job.migrate()
    job.write(100)
    job.run("evensplit", startingOffsets="latest")
    assert sum(job.counted(0).values()) == 600
    job.check()
    job.migrate("--to", "kafka")
    job.write(10)
    job.run("kafka", startingOffsets="latest")
    job.check()


def test_a_first_batch_of_this_source_that_is_not_done(job: Job) -> None:
    job.write(600)
    job.run("evensplit", fails_in=0)
    job.migrate("--to", "kafka")
    job.write(100)
    job.run("kafka", startingOffsets="latest")
    assert sum(job.counted(0).values()) == 600
    job.check()


@pytest.mark.parametrize("fails", [False, True], ids=["between two batches", "in the middle of one"])
def test_the_word_alone(job: Job, fails: bool) -> None:
    """Without migrating: the checkpoint is the same directory."""
    job.write(600)
    job.run("kafka")
    job.write(300)
    if fails:
        job.run("kafka", fails_in=1)
        job.write(100)
    job.run("evensplit", startingOffsets="latest")
    if fails:
        assert sum(job.counted(1).values()) == 900
    job.check()
    job.write(100)
    job.run("evensplit", startingOffsets="latest")
    job.check()


def test_the_word_alone_does_not_help_before_the_first_batch_is_done(job: Job) -> None:
    job.write(60)
    job.run("kafka", fails_in=0)
    job.run("evensplit", error="evensplit migrate FROM TO")
    assert job.batches() == []
