"""The run that PR 223 shows for its global mode: seven readers, four clusters of four partitions, then five readers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest

from evensplit.core.state.state import EnumeratorState
from evensplit.explain.changes import loads
from evensplit.explain.evenness import evenness
from evensplit.testing import LocalKafka
from tests.support.live import Row
from tests.support.world import Topic, World

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
def topics(east: LocalKafka, west: LocalKafka, world: World) -> Iterator[dict[str, Topic]]:
    """One in each of four clusters, since no two of them may be one."""
    with LocalKafka() as third, LocalKafka() as fourth:
        brokers = {f"local-{number}": kafka for number, kafka in enumerate([east, west, third, fourth])}
        yield {name: world.cluster(name, kafka).topic(partitions=PARTITIONS) for name, kafka in brokers.items()}


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


def test_the_trace(world: World, topics: dict[str, Topic]) -> None:
    def write_to_all() -> None:
        for topic in topics.values():
            topic.write(10 * PARTITIONS)

    def everything() -> list[Row]:
        return [row for topic in topics.values() for row in topic.rows()]

    write_to_all()
    world.publish(*(topics[f"local-{number}"] for number in range(3)))
    with world.live(readers=7) as query:
        query.expect(*(topics[f"local-{number}"].rows() for number in range(3)))
        check(query.state(), "begun")

        world.publish(topics["local-3"])
        query.expect(everything())
        check(query.state(), "local-3 added")

        world.metadata.remove("local-2")
        query.wait_for_removal("local-2")
        check(query.state(), "local-2 removed")
        read = topics["local-2"].rows()
        write_to_all()
        query.expect(read, *(topic.rows() for name, topic in topics.items() if name != "local-2"))

        world.publish(topics["local-2"])
        query.expect(everything())
        check(query.state(), "local-2 added again")

        query.stop()
        write_to_all()
        query.start(readers=5)
        query.expect(everything())
        check(query.state(), "five readers")
        assert query.losses() == []
        # Every step was made with the fewest moves that it takes to be so even.
        for before, after in pairwise(query.states()):
            (proof,) = (one.certificate for one in evenness(before, after))
            assert proof is not None
            assert proof.even
            assert proof.fewest_moves
