"""Positions on their way to consumer groups: in the background, once per change, and never in anybody's way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby

import pytest

from evensplit.core.model import ClusterState, Split, SplitId
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.admin.protocol import ClusterPort
from evensplit.spark.driver import group_commits
from evensplit.spark.driver.group_commits import GroupCommitter
from evensplit.spark.options.parse import ClusterOptions, parse_options
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.waiting import wait_for


class Kafka(FakeKafka):
    """Notes what is committed; holds commits back if it is told to."""

    def __init__(self, cluster: str) -> None:
        super().__init__(cluster)
        self.requests: list[dict[TopicPartition, int]] = []
        self.free = threading.Event()
        self.free.set()

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        self.requests.append(dict(offsets))
        assert self.free.wait(30)
        super().commit_offsets(group, offsets)


def options(name: str) -> ClusterOptions | None:
    if name not in ("east", "west"):
        return None
    given = {"clusters": f'{{"{name}": {{"kafka.bootstrap.servers": "{name}:9092", "subscribe": "t"}}}}'}
    return parse_options(given).clusters[0]


def state(topic_id: str = "id", **positions: int | None) -> EnumeratorState:
    """Split 0 of topic `t` of each cluster at a position."""
    splits = {}
    for name in sorted(positions):
        key = SplitId(name, "t", 0)
        splits[key] = Split(key, topic_id, positions[name], owner=None if positions[name] is None else 0)
    clusters = {name: ClusterState(name, (f"{name}:9092",), False, True) for name in sorted(positions)}
    return EnumeratorState(1, clusters, splits, begun=True)


@pytest.fixture
def fakes() -> dict[str, Kafka]:
    found = {name: Kafka(name) for name in ("east", "west")}
    for one in found.values():
        one.create_topic("t")
    return found


@pytest.fixture
def committer(fakes: dict[str, Kafka]) -> GroupCommitter:
    def connect(cluster: ClusterOptions) -> ClusterPort:
        return fakes[cluster.id]

    return GroupCommitter("g", connect)


def test_positions_reach_the_group_of_each_cluster(committer: GroupCommitter, fakes: dict[str, Kafka]) -> None:
    committer.offer(state(east=5, west=7, gone=9), options)
    committer.flush(30)
    assert [dict(fakes[name].committed("g")) for name in ("east", "west")] == [{("t", 0): 5}, {("t", 0): 7}]


def test_each_change_is_committed_once(committer: GroupCommitter, fakes: dict[str, Kafka]) -> None:
    for position in (5, 5, 6, 6, 6):
        committer.offer(state(east=position, west=1), options)
        committer.flush(30)
    assert fakes["east"].requests == [{("t", 0): 5}, {("t", 0): 6}]
    assert fakes["west"].requests == [{("t", 0): 1}]


def test_what_is_overtaken_while_a_commit_is_under_way_is_left_out(
    committer: GroupCommitter, fakes: dict[str, Kafka]
) -> None:
    fakes["east"].free.clear()
    for position in (1, 2, 3):
        committer.offer(state(east=position), options)
        wait_for(lambda: fakes["east"].requests)
    fakes["east"].free.set()
    committer.flush(30)
    assert fakes["east"].requests == [{("t", 0): 1}, {("t", 0): 3}]


def test_a_position_that_goes_back_is_committed_too(committer: GroupCommitter, fakes: dict[str, Kafka]) -> None:
    """A topic that was created anew is read from its beginning."""
    for position in (100, 3):
        committer.offer(state(east=position), options)
        committer.flush(30)
    assert dict(fakes["east"].committed("g")) == {("t", 0): 3}


def test_the_same_position_in_another_incarnation_is_a_change(
    committer: GroupCommitter, fakes: dict[str, Kafka]
) -> None:
    for topic_id in ("old", "new"):
        committer.offer(state(topic_id, east=10), options)
        committer.flush(30)
    assert fakes["east"].requests == [{("t", 0): 10}] * 2


def test_what_was_away_for_a_time_is_committed_again(committer: GroupCommitter, fakes: dict[str, Kafka]) -> None:
    for position in (10, None, 10):
        committer.offer(state(east=position, west=1), options)
        committer.flush(30)
    assert fakes["east"].requests == [{("t", 0): 10}] * 2


def test_a_split_without_a_start_has_nothing_to_commit(committer: GroupCommitter, fakes: dict[str, Kafka]) -> None:
    committer.offer(state(east=None), options)
    committer.flush(30)
    assert fakes["east"].requests == []


def test_a_commit_that_fails_is_said_once_and_made_again(
    committer: GroupCommitter,
    fakes: dict[str, Kafka],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.WARNING, "evensplit")
    east = fakes["east"]
    east.fail_with(ClusterUnreachable("east", "nobody is there"))
    committer.offer(state(east=5), options)
    committer.flush(30)
    committer.retry()
    committer.flush(30)
    assert len(east.requests) == 1, "its time has not come"
    monkeypatch.setattr(group_commits, "RETRY_S", 0.0)
    committer.retry()
    committer.flush(30)
    assert [record.getMessage() for record in caplog.records] == [
        "group g of cluster east: could not commit 1 position, and will try again: "
        "cluster 'east': nobody is there (ES-201)"
    ]
    east.recover()
    committer.retry()
    committer.flush(30)
    assert dict(east.committed("g")) == {("t", 0): 5}
    committer.retry()
    committer.flush(30)
    assert len(east.requests) == 3


def test_what_is_refused_is_made_again_without_the_rest(
    committer: GroupCommitter, fakes: dict[str, Kafka], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commits, "RETRY_S", 0.0)
    east = fakes["east"]
    gone = SplitId("east", "gone", 0)
    for position in (5, 6):
        one = state(east=position)
        committer.offer(replace(one, splits={gone: Split(gone, "id", 3, owner=0), **one.splits}), options)
        committer.flush(30)
        committer.retry()
        committer.flush(30)
    committer.offer(state(east=5), options)
    committer.flush(30)
    refused = {("gone", 0): 3}
    assert [request for request, _ in groupby(east.requests)] == [
        {("t", 0): 5, **refused},
        refused,
        {("t", 0): 6, **refused},
        refused,
        {("t", 0): 5},
    ]


def test_waiting_for_a_commit_has_an_end(committer: GroupCommitter, fakes: dict[str, Kafka]) -> None:
    fakes["east"].free.clear()
    committer.offer(state(east=5), options)
    committer.flush(0.01)
    fakes["east"].free.set()
    committer.flush(30)
    committer.close()
    assert fakes["east"].closed == 1
