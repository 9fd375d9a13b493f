"""Leader epochs of brokers that are slow, or break off, as told beforehand."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from evensplit.core.model import EpochStart, EpochTable
from evensplit.kafka.admin.client import ClusterClient
from tests.support.scripted_cluster import KEY, Node, ScriptedCluster, Told
from tests.support.waiting import SLACK_S


@pytest.fixture
def leader() -> Iterator[Node]:
    with ScriptedCluster(1) as cluster:
        yield cluster.brokers[0]


@pytest.fixture
def ask(leader: Node, connect: Callable[..., ClusterClient]) -> Iterator[Callable[..., EpochTable | None]]:
    """The table that the leader of an epoch tells within a second, if it does."""
    port = connect(leader.cluster.servers[0], timeout_ms=1000)

    def asked(epoch: int, known: EpochTable = ()) -> EpochTable | None:
        leader.told = Told(uuid.UUID(int=1), epoch=epoch)
        return port.list_epochs({KEY: epoch}, {KEY: 0}, {KEY: known}).get(KEY)

    yield asked
    port.close()


def entries(first: int, last: int) -> EpochTable:
    return tuple(EpochStart(epoch, 10 * epoch) for epoch in range(first, last - 1, -1))


def test_a_leader_far_away_is_asked_for_as_much_as_there_is_time_for(
    leader: Node, ask: Callable[..., EpochTable | None]
) -> None:
    """And then for what is new."""
    asked: list[int] = []

    def slow(epoch: int) -> bool:
        asked.append(epoch)
        time.sleep(0.1)
        return True

    leader.on_epochs = slow
    begun = time.monotonic()
    found = ask(40)
    assert time.monotonic() - begun < 1 + SLACK_S
    assert found is not None
    assert found == entries(40, 41 - len(found))
    assert 3 <= len(found) < 10
    asked.clear()
    assert ask(41, found) == entries(41, 41 - len(found))
    assert asked == [40, 39]


def test_each_question_is_asked_twice_before_it_is_given_up(
    leader: Node, ask: Callable[..., EpochTable | None]
) -> None:
    failures: list[int] = []

    def hiccup(epoch: int) -> bool:
        if epoch in (2, 4) and epoch not in failures:
            failures.append(epoch)
            return False
        return True

    leader.on_epochs = hiccup
    assert ask(5) == entries(5, 1), "where the first one begins is not told"
    assert failures == [4, 2]
    leader.on_epochs = lambda epoch: epoch != 2
    assert ask(5) is None
