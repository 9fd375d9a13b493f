"""The lane under a quota: the broker says how long to leave it alone (KIP-219)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from evensplit.core.model import Range, SplitId
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.kafka.fetch import fetcher, leader
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import LaneLimits, read_ranges
from evensplit.kafka.net.connection import Connection
from evensplit.testing import LocalKafka
from tests.support.lanes import lane, settings_of, spread, values, whole
from tests.support.proxies import Detour, Tamper, rewritten

pytestmark = pytest.mark.kafka

THROTTLE_S = 2.5


@pytest.fixture(scope="module")
def limiting() -> Iterator[LocalKafka]:
    """A broker that looks at the last second alone when it measures."""
    with LocalKafka(properties={"quota.window.num": "2", "quota.window.size.seconds": "1"}) as running:
        yield running


@pytest.fixture
def debug(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    with caplog.at_level(logging.DEBUG, logger="evensplit"):
        yield lambda: [one.getMessage() for one in caplog.records if "throttled by a quota" in one.getMessage()]


@pytest.mark.parametrize("emptied", [True, False], ids=["without records", "with records"])
def test_broker_that_throttles_is_left_alone(
    kafka: LocalKafka,
    topic: str,
    detour: Callable[[Tamper], Detour],
    debug: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    emptied: bool,
) -> None:
    """As long as it says, which is longer than a partition may take, and no longer."""
    kafka.create_topic(topic)
    expected = spread(kafka, topic, 1500)
    answered: list[float] = []
    # A broker that is slow for other reasons is not given up.
    monkeypatch.setattr(fetcher, "PATIENCE_MIN_S", 10.0)

    def throttle(response: Any) -> None:
        response.throttle_time_ms = int(THROTTLE_S * 1000)
        if emptied:
            response.responses = []

    def tamper(frame: bytearray) -> bytearray:
        answered.append(time.monotonic())
        return rewritten(throttle)(frame) if len(answered) <= 2 else frame

    batches = lane(kafka, whole(topic, 1500), detour(tamper), timeout_ms=2000)
    assert values(batches) == expected
    first, second, third = answered[:3]
    assert min(second - first, third - second) >= THROTTLE_S - 0.01
    assert (
        debug()
        == [f"cluster 'east', {kafka.bootstrap_servers}: throttled by a quota, nothing is asked of it for 2500 ms"] * 2
    )


def test_next_reader_waits_too(kafka: LocalKafka, topic: str, detour: Callable[[Tamper], Detour]) -> None:
    """The broker reads nothing from the connection, whoever has it."""
    kafka.create_topic(topic)
    expected = spread(kafka, topic, 500)
    answered: list[float] = []

    def throttle(response: Any) -> None:
        response.throttle_time_ms = int(THROTTLE_S * 1000)

    def tamper(frame: bytearray) -> bytearray:
        answered.append(time.monotonic())
        return rewritten(throttle)(frame) if len(answered) == 1 else frame

    pool = detour(tamper)
    large = LaneLimits()
    assert values(lane(kafka, whole(topic, 500), pool, limits=large)) == expected
    assert len(answered) == 1
    assert values(lane(kafka, whole(topic, 500), pool, limits=large)) == expected
    assert answered[1] - answered[0] >= THROTTLE_S - 0.01


@pytest.mark.slow
def test_quota_of_a_real_broker(
    kafka: LocalKafka,
    limiting: LocalKafka,
    topic: str,
    pool: Pool,
    debug: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is kept, over one connection, however short the deadline; another cluster's leader goes on meanwhile."""
    for one in (kafka, limiting):
        one.create_topic(topic)
        expected = spread(one, topic, 4000)
    bytes_per_s = 60_000
    limiting.limit_client(topic, consumer_byte_rate=bytes_per_s)
    opened: list[str] = []
    open_connection = Connection.__init__

    def count(self: Connection, cluster: str, *arguments: Any) -> None:
        opened.append(cluster)
        open_connection(self, cluster, *arguments)

    monkeypatch.setattr(Connection, "__init__", count)
    monkeypatch.setattr(fetcher, "PATIENCE_MIN_S", 10.0)
    settings = {
        "east": replace(settings_of(limiting, timeout_ms=3000)["east"], client_id=topic),
        "west": settings_of(kafka)["east"],
    }
    ranges = [Range(SplitId(cluster, topic, 0), 0, 4000) for cluster in settings]
    begun = time.monotonic()
    batches = read_ranges(
        ranges, settings, columns=(*KAFKA_COLUMNS, "cluster"), limits=LaneLimits(rows_max=100), pool=pool
    )
    found: dict[str, list[bytes]] = {"east": [], "west": []}
    done: dict[str, float] = {}
    for batch in batches:
        for cluster, value in zip(batch.column("cluster").to_pylist(), batch.column("value").to_pylist(), strict=True):
            found[cluster].append(value)
            done[cluster] = time.monotonic() - begun
    assert found == {"east": expected, "west": expected}
    # What a second brings is served before it is measured.
    assert done["east"] > 4000 * 108 / bytes_per_s - 2.5
    assert done["west"] < done["east"] / 2
    # One for metadata and one for records each.
    assert sorted(opened) == ["east", "east", "west", "west"]
    assert len(debug()) >= 2


def test_broker_that_throttles_for_ever_is_an_error(
    kafka: LocalKafka,
    topic: str,
    detour: Callable[[Tamper], Detour],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a quota holds back comes in the end; a broker that only says so would hold a task for ever."""
    kafka.create_topic(topic)
    spread(kafka, topic, 500)
    monkeypatch.setattr(leader, "THROTTLED_MAX_S", 1.0)

    def throttle(response: Any) -> None:
        response.throttle_time_ms = 300
        response.responses = []

    with pytest.raises(ClusterUnreachable, match="throttled by a quota for more than 1 s, in which nothing came"):
        values(lane(kafka, whole(topic, 500), detour(rewritten(throttle)), timeout_ms=1000))


def test_quota_that_many_partitions_share_is_waited_for(
    kafka: LocalKafka, topic: str, detour: Callable[[Tamper], Detour], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it is until the turn of one of them comes, as long as something comes of the others."""
    kafka.create_topic(topic, 6)
    expected = spread(kafka, topic, 1200, partitions=6)
    monkeypatch.setattr(leader, "THROTTLED_MAX_S", 0.5)
    answered: list[float] = []

    def throttle(response: Any) -> None:
        response.throttle_time_ms = 400
        response.responses = []

    def tamper(frame: bytearray) -> bytearray:
        answered.append(time.monotonic())
        return rewritten(throttle)(frame) if len(answered) % 2 and len(answered) < 8 else frame

    ranges = [one for partition in range(6) for one in whole(topic, 200, partition)]
    assert sorted(values(lane(kafka, ranges, detour(tamper), timeout_ms=500))) == expected
    assert len(answered) >= 8
