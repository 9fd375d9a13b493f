"""Record batches that are handed out in many parts."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from evensplit._kernel import ColumnBuilder
from evensplit.core.model import Range, SplitId
from evensplit.kafka.fetch import reader as lane_module
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import LaneLimits
from evensplit.testing import LocalKafka
from tests.support.lanes import lane, values, whole
from tests.support.records import Draft, produce

pytestmark = pytest.mark.kafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTS = LaneLimits(bytes_max=2_000)
"""Record batches of 200 KB come in dozens of parts."""


@pytest.fixture
def builders(monkeypatch: pytest.MonkeyPatch) -> list[ColumnBuilder]:
    """The builders that lanes make."""
    made: list[ColumnBuilder] = []

    def make(**arguments: Any) -> ColumnBuilder:
        made.append(ColumnBuilder(**arguments))
        return made[-1]

    monkeypatch.setattr(lane_module, "ColumnBuilder", make)
    return made


def fill(kafka: LocalKafka, topic: str, partitions: int, codec: str) -> dict[int, list[bytes]]:
    """Two long record batches in each partition."""
    kafka.create_topic(topic, partitions)
    written: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}
    for part in range(2):
        for partition, listed in written.items():
            made = [b"%d-%d-%d-" % (partition, part, n) + b"v" * 200 for n in range(1_000)]
            produce(kafka.bootstrap_servers, topic, [Draft(one, partition=partition) for one in made], codec=codec)
            listed += made
    return written


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("response_bytes_max", [10_000, 4 << 20], ids=["alone", "together"])
def test_each_is_opened_once(
    kafka: LocalKafka, topic: str, pool: Pool, builders: list[ColumnBuilder], codec: str, response_bytes_max: int
) -> None:
    written = fill(kafka, topic, 2, codec)
    limits = LaneLimits(bytes_max=PARTS.bytes_max, response_bytes_max=response_bytes_max)
    ranges = [Range(SplitId("east", topic, partition), 0, len(made)) for partition, made in written.items()]
    batches = list(lane(kafka, ranges, pool, limits=limits))
    assert len(batches) > 50
    for partition, made in written.items():
        own = (batch.filter(batch.column("partition").to_numpy() == partition) for batch in batches)
        assert values(own) == made
    (builder,) = builders
    # A producer may have cut one into two.
    assert builder.batches_opened < 20


def test_whoever_stops_in_the_middle_disturbs_nobody(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    written = fill(kafka, topic, 1, "zstd")
    for taken in (1, 2, 5):
        batches = lane(kafka, whole(topic, 2_000), pool, limits=PARTS)
        begun = [value for _ in range(taken) for value in next(batches).column("value").to_pylist()]
        assert isinstance(batches, Generator)
        batches.close()
        assert begun == written[0][: len(begun)]
    # A range that ends within a batch, and one that begins there.
    for first, behind in ((0, 500), (500, 1_500), (999, 1_001)):
        ranges = [Range(SplitId("east", topic, 0), first, behind)]
        assert values(lane(kafka, ranges, pool, limits=PARTS)) == written[0][first:behind]
