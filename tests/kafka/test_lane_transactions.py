"""What the lane delivers of transactions, against an independent client under the same isolation level."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from evensplit.core.model import Range, SplitId
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.fetch import fetcher, response
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import LaneLimits, read_ranges
from evensplit.kafka.wire.api import FETCH
from evensplit.testing import LocalKafka
from tests.support.lanes import settings_of
from tests.support.records import numbers
from tests.support.transactions import COMMITTED, UNCOMMITTED, Writer, decided, ends, witness
from tests.support.waiting import SLACK_S

TINY = LaneLimits(rows_max=20, response_bytes_max=2_000)
"""Several responses for a few records, several batches for one response."""

pytestmark = pytest.mark.kafka

Record = tuple[int, bytes | None]


def read(
    kafka: LocalKafka,
    topic: str,
    bounds: Sequence[tuple[int, int]],
    pool: Pool,
    *,
    isolation: str = COMMITTED,
    limits: LaneLimits = TINY,
    **changes: Any,
) -> list[Record]:
    """Offset and value of what the lane gives for ranges of partition 0."""
    settings = replace(settings_of(kafka)["east"], read_committed=isolation == COMMITTED, **changes)
    ranges = [Range(SplitId("east", topic, 0), start, end) for start, end in bounds]
    found: list[Record] = []
    for batch in read_ranges(ranges, {"east": settings}, columns=("value", "offset"), limits=limits, pool=pool):
        assert batch.num_rows > 0
        found.extend(zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True))
    return found


def fill(kafka: LocalKafka, topic: str, codecs: Sequence[str], seed: int = 1) -> None:
    """Interleaved transactions of several producers, some aborted, with records outside of any between them."""
    dice = random.Random(seed)
    writers = [Writer(kafka, topic, codec=codec) for codec in codecs]
    for step in range(40):
        if dice.random() < 0.15:
            numbers(kafka.bootstrap_servers, topic, [step])
            continue
        writer = dice.choice(writers)
        writer.write(*(b"%d-%d-" % (step, n) + b"x" * dice.randrange(200) for n in range(dice.randrange(1, 8))))
        if dice.random() < 0.4:
            writer.end(commit=dice.random() < 0.5)
    # What every producer does last is decided as well.
    for number, writer in enumerate(writers):
        writer.write(b"last")
        writer.end(commit=bool(number % 2))


@pytest.mark.parametrize("codecs", [("none", "none", "none"), ("gzip", "snappy", "lz4", "zstd")])
def test_interleaved_transactions_are_what_another_client_reads(
    kafka: LocalKafka, topic: str, pool: Pool, codecs: tuple[str, ...]
) -> None:
    kafka.create_topic(topic)
    fill(kafka, topic, codecs)
    _, (end,) = ends(kafka, topic)
    decided(kafka, topic, end)
    expected = {isolation: witness(kafka, topic, isolation) for isolation in (COMMITTED, UNCOMMITTED)}
    assert 0 < len(expected[COMMITTED]) < len(expected[UNCOMMITTED]) < end
    for isolation, limits in itertools.product(expected, (TINY, LaneLimits(), LaneLimits(rows_max=1, bytes_max=1))):
        assert read(kafka, topic, [(0, end)], pool, isolation=isolation, limits=limits) == expected[isolation]
    # From every offset on, also from within aborted transactions, and up to every offset.
    for at in range(0, end, 3):
        behind = [record for record in expected[COMMITTED] if record[0] >= at]
        assert read(kafka, topic, [(at, end)], pool) == behind
        assert read(kafka, topic, [(0, at)], pool) == expected[COMMITTED][: len(expected[COMMITTED]) - len(behind)]
    # In ranges that touch each other, and in every second one of them.
    edges = sorted({0, end, *random.Random(2).sample(range(end), 12)})
    parts = list(itertools.pairwise(edges))
    assert read(kafka, topic, parts, pool) == expected[COMMITTED]
    alternate = [record for record in expected[COMMITTED] if any(a <= record[0] < b for a, b in parts[::2])]
    assert read(kafka, topic, parts[::2], pool) == alternate


@pytest.mark.parametrize("highest", [4, 7, 11, FETCH.highest])
def test_versions_of_fetch(
    kafka: LocalKafka, topic: str, pool: Pool, monkeypatch: pytest.MonkeyPatch, highest: int
) -> None:
    kafka.create_topic(topic)
    fill(kafka, topic, ("none", "lz4"), seed=3)
    _, (end,) = ends(kafka, topic)
    decided(kafka, topic, end)
    monkeypatch.setattr(fetcher, "FETCH", replace(FETCH, highest=highest))
    assert read(kafka, topic, [(0, end)], pool) == witness(kafka, topic, COMMITTED)


def test_a_long_aborted_transaction_is_gone_through_without_rows(
    kafka: LocalKafka, topic: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create_topic(topic)
    first, second = Writer(kafka, topic), Writer(kafka, topic)
    first.write(b"before")
    first.end(commit=True)
    for _ in range(30):
        first.write(*(b"x" * 100 for _ in range(20)))
    second.write(b"between")
    second.end(commit=True)
    first.end(commit=False)
    first.write(b"after")
    first.end(commit=True)
    decided(kafka, topic, 607)
    expected = witness(kafka, topic, COMMITTED)
    assert expected == [(0, b"before"), (602, b"between"), (605, b"after")]
    begun = time.monotonic()
    assert read(kafka, topic, [(0, 607)], pool) == expected
    # Nothing but aborted records, in one range and in many, gets on and comes to an end.
    assert read(kafka, topic, [(2, 602)], pool) == []
    assert read(kafka, topic, [(at, at + 50) for at in range(2, 552, 50)], pool) == []
    assert read(kafka, topic, [(100, 101)], pool) == []
    # Also where only decoding shows where to go on.
    monkeypatch.setattr(response, "BATCHES_WALKED_MAX", 1)
    assert read(kafka, topic, [(0, 607)], pool) == expected
    assert time.monotonic() - begun < 60


def test_what_is_open_is_waited_for(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic)
    first, second = Writer(kafka, topic), Writer(kafka, topic)
    first.write(b"a")
    first.end(commit=True)
    second.write(b"b")
    first.write(b"c")
    first.end(commit=True)
    # Three records, and one marker behind the first and the third: all before offset 2 is decided.
    decided(kafka, topic, 2)
    assert witness(kafka, topic, COMMITTED) == [(0, b"a")]
    assert read(kafka, topic, [(0, 2)], pool) == [(0, b"a")]
    assert read(kafka, topic, [(0, 5)], pool, isolation=UNCOMMITTED) == [(0, b"a"), (2, b"b"), (3, b"c")]
    begun = time.monotonic()
    with pytest.raises(ClusterUnreachable, match="from offset 2 on there is a transaction that is neither") as caught:
        read(kafka, topic, [(0, 5)], pool, request_timeout_ms=2500, fetch_max_wait_ms=0)
    assert 2.5 <= time.monotonic() - begun < 4 + SLACK_S
    assert "offsets 2 to 4 were to be read" in str(caught.value)
    with ThreadPoolExecutor() as background:
        reading = background.submit(read, kafka, topic, [(0, 5)], pool)
        second.end(commit=True)
        assert reading.result(120) == [(0, b"a"), (2, b"b"), (3, b"c")]


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_over_partitions_and_batches(kafka: LocalKafka, topic: str, pool: Pool, commit: bool) -> None:
    kafka.create_topic(topic, 3)
    writer = Writer(kafka, topic, codec="zstd")
    for number in range(12):
        writer.write(*(b"%d" % n for n in range(number)), b"end", partition=number % 3)
    writer.end(commit=commit)
    _, behind = ends(kafka, topic, range(3))
    decided(kafka, topic, *behind)
    settings = {"east": replace(settings_of(kafka)["east"], read_committed=True)}
    ranges = [Range(SplitId("east", topic, partition), 0, behind[partition]) for partition in range(3)]
    found: dict[int, list[Record]] = {partition: [] for partition in range(3)}
    columns = ("value", "partition", "offset")
    for batch in read_ranges(ranges, settings, columns=columns, limits=TINY, pool=pool):
        for row in batch.to_pylist():
            found[row["partition"]].append((row["offset"], row["value"]))
    assert found == {partition: witness(kafka, topic, COMMITTED, partition) for partition in range(3)}
    assert any(found.values()) == commit
