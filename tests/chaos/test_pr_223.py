"""The run that PR 223 shows for its global mode: seven readers, four clusters of four partitions, then five readers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensplit.core.state.state import EnumeratorState
from evensplit.explain.changes import loads
from evensplit.explain.evenness import evenness
from evensplit.testing import LocalKafka
from tests.support.fleet_file import FleetFile
from tests.support.live import LiveQuery, Row, Writer, is_removed

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 4
THEIRS = {
    "begun": (2, 2, 2, 2, 2, 1, 1),
    "local-3 added": (3, 3, 2, 2, 2, 2, 2),
    "local-2 removed": (3, 2, 1, 1, 1, 2, 2),
    "local-2 added again": (4, 3, 1, 1, 1, 3, 3),
    "five readers": (4, 3, 3, 3, 3),
}
"""How many splits each reader has after each step there."""


@pytest.fixture
def brokers(east: LocalKafka, west: LocalKafka) -> Iterator[dict[str, LocalKafka]]:
    """Four clusters, since no two of them may be one."""
    with ExitStack() as stack:
        others = [stack.enter_context(LocalKafka()) for _ in range(2)]
        yield {f"local-{number}": broker for number, broker in enumerate([east, west, *others])}


def squares(counts: Sequence[int]) -> int:
    """The lower, the more even."""
    return sum(count * count for count in counts)


def check(state: EnumeratorState, step: str) -> None:
    """As many splits as there, and spread at least as evenly."""
    ours, theirs = loads(state), THEIRS[step]
    assert len(ours) == len(theirs)
    assert sum(ours) == sum(theirs)
    assert squares(ours) <= squares(theirs), f"{step}: {ours}"
    assert max(ours) - min(ours) <= 1, f"{step}: {ours}"


def test_the_trace(
    spark: SparkSession, brokers: dict[str, LocalKafka], topic: str, fleet: FleetFile, checkpoint: Path
) -> None:
    writers = {name: Writer(name, broker.bootstrap_servers) for name, broker in brokers.items()}
    for broker in brokers.values():
        broker.create_topic(topic, partitions=PARTITIONS)

    def write_to_all() -> None:
        for writer in writers.values():
            writer.write(topic, 10 * PARTITIONS, partitions=PARTITIONS)

    def witness(*names: str) -> list[Row]:
        return [row for name in names for row in writers[name].witness(topic, PARTITIONS)]

    write_to_all()
    for name in ("local-0", "local-1", "local-2"):
        fleet.put(name, brokers[name].bootstrap_servers, topic)
    with LiveQuery(spark, checkpoint, metadata=fleet.path, readers=7) as query:
        query.expect(witness("local-0", "local-1", "local-2"))
        check(query.state(), "begun")

        fleet.put("local-3", brokers["local-3"].bootstrap_servers, topic)
        query.expect(witness(*brokers))
        check(query.state(), "local-3 added")

        removed = fleet.remove("local-2")
        query.wait_for_state(lambda state: is_removed(state, "local-2"), "local-2 is removed")
        check(query.state(), "local-2 removed")
        read = witness("local-2")
        write_to_all()
        query.expect([*witness("local-0", "local-1", "local-3"), *read])

        fleet.clusters["local-2"] = removed
        fleet.write()
        query.expect(witness(*brokers))
        check(query.state(), "local-2 added again")

        query.stop()
        write_to_all()
        query.start(readers=5)
        query.expect(witness(*brokers))
        check(query.state(), "five readers")
        assert query.losses() == []
        # Every step was made with the fewest moves that it takes to be so even.
        for before, after in pairwise(query.states()):
            (proof,) = (one.certificate for one in evenness(before, after))
            assert proof is not None
            assert proof.even
            assert proof.fewest_moves
