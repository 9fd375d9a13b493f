"""The lane and brokers that give records by the topic's name only, as told beforehand."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from functools import partial

import pytest

from evensplit.errors import ClusterUnreachable, DataLossError
from evensplit.kafka.fetch import routing
from evensplit.kafka.fetch.connection_pool import Pool
from tests.support.scripted_cluster import NEW, OLD, Log, ScriptedCluster, Told, read, topic_id


@pytest.fixture
def former() -> Iterator[ScriptedCluster]:
    """Two brokers that give records by name only, and ids in their metadata: Kafka 2.8 to 3.0. The second one leads."""
    with ScriptedCluster(2, fetch_highest=12) as cluster:
        cluster.tell(Told(OLD, leader=1))
        cluster.brokers[1].log = Log(OLD, "old")
        yield cluster


@pytest.mark.parametrize("skip_lost", [False, True])
def test_who_gave_records_by_name_is_asked_itself_whose_they_were(
    former: ScriptedCluster, pool: Pool, skip_lost: bool
) -> None:
    """The other broker's metadata is behind, and says what was expected."""
    leader = former.brokers[1]

    def create_anew(offset: int) -> None:
        if offset >= 20:
            leader.log, leader.told = Log(NEW, "new"), Told(NEW, leader=1)

    leader.on_fetch = create_anew
    with pytest.raises(DataLossError) as caught:
        read(former, pool, timeout_ms=2000, skip_lost=skip_lost)
    assert f"expected the topic id {topic_id(OLD)}, found {topic_id(NEW)}" in str(caught.value)


def test_who_gave_no_records_has_no_word_on_whose_they_were(former: ScriptedCluster, pool: Pool) -> None:
    """It may name an id that the topic had before."""
    other, leader = former.brokers

    def mislead(offset: int) -> None:
        other.told = Told(NEW, leader=1)

    leader.on_fetch = mislead
    assert len(read(former, pool)) == 40


def test_who_gave_records_and_cannot_be_asked_any_more_leaves_a_doubt(former: ScriptedCluster, pool: Pool) -> None:
    """Another one's word does not stand for its own, as long as the cluster counts it as one of its brokers."""
    leader = former.brokers[1]

    def hang(offset: int) -> None:
        leader.silent = "Metadata" if offset == 30 else ""

    leader.on_fetch = hang
    with pytest.raises(ClusterUnreachable) as caught:
        read(former, pool, timeout_ms=1500)
    assert f"which gave the records, did not confirm it: {former.servers[1]}. See whether they run" in str(caught.value)


def test_all_who_gave_records_are_asked_one_after_the_other(pool: Pool) -> None:
    with ScriptedCluster(4, fetch_highest=12) as cluster:
        cluster.tell(Told(OLD))
        fetched = 0.0

        def lead(number: int, offset: int) -> None:
            """Each leads for ten records, and then the next one does."""
            nonlocal fetched
            fetched = time.monotonic()
            if offset >= 10 * (number + 1):
                cluster.brokers[number].fetch_code = 6
                cluster.tell(Told(OLD, number + 1, number + 1))

        for number, broker in enumerate(cluster.brokers):
            broker.log, broker.on_fetch = Log(OLD, "old"), partial(lead, number)
        assert len(read(cluster, pool)) == 40
        assert [sum(at > fetched for at in broker.metadata_at) for broker in cluster.brokers] == [1] * 4
        pool.close()


@pytest.mark.parametrize("named", [None, NEW], ids=["said nothing", "had named another id"])
def test_who_gave_records_and_was_given_up_needs_no_word(
    former: ScriptedCluster, pool: Pool, named: uuid.UUID | None
) -> None:
    """Who does not list it any more knows of all that happened while it was there."""
    other, leader = former.brokers
    asked = 0

    def give_up() -> None:
        nonlocal asked
        asked += 1
        if named is None or asked > 1:
            leader.silent, former.listed = "Metadata", [0]
            other.told = Told(OLD, leader=0)

    def begin(offset: int) -> None:
        if offset == 30:
            leader.on_metadata = give_up
            if named is not None:
                leader.told = Told(named, leader=1)

    leader.on_fetch = begin
    assert len(read(former, pool)) == 40


def test_who_named_another_topic_and_then_none_has_not_taken_that_back(former: ScriptedCluster, pool: Pool) -> None:
    """The topic was created anew, read, and deleted: what came may be of the new one."""
    leader = former.brokers[1]

    def delete() -> None:
        if leader.metadata_at[-2:-1] and leader.metadata_at[-2] > fetched:
            former.tell(None)

    fetched = float("inf")

    def create_anew(offset: int) -> None:
        nonlocal fetched
        if offset >= 20:
            fetched = time.monotonic()
            leader.log, leader.told, leader.on_metadata = Log(NEW, "new"), Told(NEW, leader=1), delete

    leader.on_fetch = create_anew
    with pytest.raises(DataLossError, match="deleted and created anew while it was read"):
        read(former, pool, timeout_ms=2000, skip_lost=True)


@pytest.mark.parametrize("skip_lost", [False, True])
def test_topic_that_is_gone_when_rows_were_read_by_name_fails_the_task(
    former: ScriptedCluster, pool: Pool, monkeypatch: pytest.MonkeyPatch, skip_lost: bool
) -> None:
    """Another one may have had its name in between."""
    monkeypatch.setattr(routing, "GONE_AFTER_S", 0.3)
    former.brokers[1].on_fetch = lambda offset: former.tell(None) if offset == 30 else None
    with pytest.raises(DataLossError, match="the topic was deleted while it was read") as caught:
        read(former, pool, skip_lost=skip_lost)
    assert "run again" in str(caught.value)
    assert read(former, pool, skip_lost=True) == [], "the next attempt of the task"


def test_topic_that_is_gone_when_the_time_is_over_fails_the_task(former: ScriptedCluster, pool: Pool) -> None:
    """The time is shorter than that after which a topic that is denied is gone."""
    former.brokers[1].on_fetch = lambda offset: former.tell(None) if offset == 30 else None
    with pytest.raises(DataLossError, match="the topic was deleted while it was read"):
        read(former, pool, timeout_ms=1000)


def test_topic_that_is_denied_for_a_moment_is_not_gone(former: ScriptedCluster, pool: Pool) -> None:
    """Who gave rows by name has just started again, and knows no topic yet."""
    leader = former.brokers[1]

    def start_again() -> None:
        if len(leader.metadata_at) > asked + 3:
            former.tell(Told(OLD, leader=1))

    asked = 0

    def forget(offset: int) -> None:
        nonlocal asked
        if offset == 30:
            asked, leader.on_metadata = len(leader.metadata_at), start_again
            former.tell(None)

    leader.on_fetch = forget
    assert len(read(former, pool)) == 40
    assert len(leader.metadata_at) > asked + 3


def test_topic_that_is_gone_when_it_had_nothing_to_read_is_no_error(former: ScriptedCluster, pool: Pool) -> None:
    """It was asked for by its name, and gave no rows."""
    leader = former.brokers[1]
    leader.log, leader.on_fetch = None, lambda offset: former.tell(None)
    assert read(former, pool, timeout_ms=1000, skip_lost=True) == []
