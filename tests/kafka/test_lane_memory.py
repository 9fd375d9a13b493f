"""What a task takes of memory: a fresh process that reads, against the same process when it had only imported."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from evensplit.testing import LocalKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MIB = 1 << 20
TASK_BYTES = 64 * MIB
LONG_RECORD = 20 * MIB

SCRIPT = """
import json, re, sys
from pathlib import Path
import evensplit.spark.task.partition
from evensplit.core.model import Range, SplitId
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.kafka.fetch.look_ahead import LookAhead, Spare
from evensplit.kafka.fetch.reader import read_ranges
from evensplit.kafka.options.client import ClientSettings

def now(what):
    return int(re.search(what + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) << 10

class Idle(Spare):
    def is_there(self):
        return True

servers, topic, ends, ahead = json.loads(sys.argv[1])
idle = now("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
rows = size = 0
ranges = [Range(SplitId("east", topic, partition), 0, end) for partition, end in enumerate(ends)]
batches = read_ranges(ranges, {"east": ClientSettings((servers,))}, columns=KAFKA_COLUMNS)
for batch in LookAhead(batches, Idle()) if ahead else batches:
    rows, size = rows + batch.num_rows, size + batch.nbytes
print(json.dumps([idle, now("VmHWM"), rows, size]))
"""


@pytest.fixture(scope="module")
def large() -> Iterator[LocalKafka]:
    with LocalKafka(
        properties={"message.max.bytes": str(2 * LONG_RECORD), "socket.request.max.bytes": str(100 * MIB)}
    ) as running:
        yield running


def peak_of(kafka: LocalKafka, topic: str, ends: list[int], least_bytes: int, *, ahead: bool) -> int:
    """How many bytes above its idle self a process is at most while it reads the topic to `ends`.

    `ahead`: each batch is made while the caller has the one before it.
    """
    given = json.dumps([kafka.bootstrap_servers, topic, ends, ahead])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, given], capture_output=True, text=True, check=False, timeout=150
    )
    assert done.returncode == 0, done.stderr
    idle, peak, rows, size = json.loads(done.stdout)
    assert rows == sum(ends)
    assert size >= least_bytes
    more = f"at most {(peak - idle) / MIB:.1f} MiB more"
    print(f"{topic}, {ahead=}: idle {idle / MIB:.1f} MiB, {more}; {size / MIB:.0f} MiB read")
    return int(peak - idle)


def fill(kafka: LocalKafka, topic: str, partitions: int, count: int, values: list[bytes], **settings: object) -> None:
    """Write `count` of the values to each partition, in turn."""
    kafka.create_topic(topic, partitions, config={"max.message.bytes": str(2 * LONG_RECORD)})
    given = {"linger.ms": 50, "message.max.bytes": 2 * LONG_RECORD, "queue.buffering.max.kbytes": 1 << 20}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **given, **settings})
    for number in range(count * partitions):
        while True:
            try:
                producer.produce(topic, values[number % len(values)], partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def kilobytes(count: int) -> list[bytes]:
    dice = random.Random(3)
    return [dice.randbytes(500).hex().encode() for _ in range(count)]


AHEAD = pytest.mark.parametrize("ahead", [False, True], ids=["when asked", "ahead"])


@AHEAD
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_eight_partitions(large: LocalKafka, topic: str, codec: str, ahead: bool) -> None:
    fill(large, topic, 8, 20_000, kilobytes(999), **{"compression.type": codec})
    assert peak_of(large, topic, [20_000] * 8, 150 * MIB, ahead=ahead) <= TASK_BYTES


def test_two_hundred_partitions(large: LocalKafka, topic: str) -> None:
    fill(large, topic, 200, 700, kilobytes(999))
    assert peak_of(large, topic, [700] * 200, 130 * MIB, ahead=False) <= TASK_BYTES


@AHEAD
def test_batches_that_are_almost_nothing_when_compressed(large: LocalKafka, topic: str, ahead: bool) -> None:
    """Each of some hundred kilobytes decompressed, and so many in a response that all of it would be a gigabyte."""
    fill(large, topic, 4, 100_000, [b"0" * 1000], **{"compression.type": "zstd", "batch.num.messages": 1000})
    assert peak_of(large, topic, [100_000] * 4, 380 * MIB, ahead=ahead) <= TASK_BYTES


@AHEAD
def test_long_records(large: LocalKafka, topic: str, ahead: bool) -> None:
    """One at a time is in the buffer, one in the columns being built, and one with whoever works on the rows."""
    fill(large, topic, 2, 4, [random.Random(1).randbytes(LONG_RECORD)])
    assert peak_of(large, topic, [4] * 2, 8 * LONG_RECORD, ahead=ahead) <= TASK_BYTES + 3 * LONG_RECORD
