"""How the lane asks: everything at once, and again before it works on what came."""

from __future__ import annotations

from typing import Any

import pytest

from evensplit.kafka.fetch import fetcher
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import LaneLimits
from evensplit.kafka.fetch.request import fetch_request
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.wire.frames import Frame
from evensplit.testing import LocalKafka
from tests.support.lanes import SMALL, lane, spread, values, whole
from tests.support.records import numbers

pytestmark = pytest.mark.kafka


class Watching(Pool):
    """A pool that remembers which connections it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[Connection] = []

    def take(self, *arguments: Any) -> Connection:
        self.taken.append(super().take(*arguments))
        return self.taken[-1]


def test_one_request_for_all_partitions_of_a_leader(
    kafka: LocalKafka, topic: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trickle over many partitions costs one request in each batch."""
    names, partitions = (topic, f"{topic}-b"), 20
    for name in names:
        kafka.create_topic(name, partitions)
        numbers(kafka.bootstrap_servers, name, range(3 * partitions), partitions=partitions)
    asked: list[int] = []

    def request(chosen: list[Any], *rest: Any) -> Any:
        asked.append(len(chosen))
        return fetch_request(chosen, *rest)

    monkeypatch.setattr(fetcher, "fetch_request", request)
    ranges = [one for name in names for n in range(partitions) for one in whole(name, 3, n)]
    assert len(values(lane(kafka, ranges, pool, limits=LaneLimits()))) == 2 * 3 * partitions
    assert asked == [2 * partitions]


def test_next_request_is_under_way_while_rows_are_worked_on(
    kafka: LocalKafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And all responses go through one buffer."""
    kafka.create_topic(topic)
    expected = spread(kafka, topic)
    frames: list[Frame] = []

    def frame() -> Frame:
        frames.append(Frame())
        return frames[-1]

    monkeypatch.setattr(fetcher, "Frame", frame)
    pool = Watching()
    batches = lane(kafka, whole(topic, len(expected)), pool, limits=SMALL)
    found = values(iter([next(batches)]))
    (connection,) = pool.taken
    owes = [not connection.usable]
    for batch in batches:
        found.extend(batch.column("value").to_pylist())
        owes.append(not connection.usable)
    assert found == expected
    # The last response alone is worked on without another one to come.
    last = owes.index(False)
    assert last >= len(owes) // 2
    assert not any(owes[last:])
    assert len(frames) == 1
    pool.close()
