"""What consumer groups have committed: every version of the requests, and coordinators that move, fail and are slow."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from evensplit.core.model import Topics
from evensplit.errors import BrokerError, ClusterUnreachable, UnsupportedBroker
from evensplit.kafka.admin import groups
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.wire.api import FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH, Api
from evensplit.testing import LocalKafka
from tests.support.scripted import HANG_UP, LEFT_OUT, Scripted
from tests.support.waiting import SLACK_S

KEY = ("t", 0)


def witnessed(kafka: LocalKafka, group: str, topic: str, partitions: int) -> list[int]:
    """What confluent-kafka finds committed; -1001 for nothing."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    found = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], timeout=60)
    consumer.close()
    return [one.offset for one in found]


@pytest.mark.kafka
@pytest.mark.parametrize(
    "name, version",
    [
        *(("FIND_COORDINATOR", version) for version in range(FIND_COORDINATOR.lowest, FIND_COORDINATOR.highest + 1)),
        *(("OFFSET_FETCH", version) for version in range(OFFSET_FETCH.lowest, OFFSET_FETCH.highest + 1)),
        *(("OFFSET_COMMIT", version) for version in range(OFFSET_COMMIT.lowest, OFFSET_COMMIT.highest + 1)),
    ],
)
def test_every_version(
    kafka: LocalKafka,
    topic: str,
    connect: Callable[..., ClusterClient],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    version: int,
) -> None:
    kafka.create_topic(topic, 3)
    api: Api[Any] = getattr(groups, name)
    monkeypatch.setattr(groups, name, replace(api, highest=version))
    monkeypatch.setattr(groups, "UNKNOWN_TOPIC_GRACE_S", 0.1)
    port = connect(kafka.bootstrap_servers)
    every = [(topic, number) for number in range(4)]
    assert port.committed_offsets(topic, every) == {}
    port.commit_offsets(topic, {(topic, 2): 12, (topic, 0): 0})
    with pytest.raises(BrokerError, match=r"1 of 2 offsets .* UNKNOWN_TOPIC_OR_PARTITION \(3\)"):
        port.commit_offsets(topic, {(topic, 2): 13, (topic, 3): 1})
    assert port.committed_offsets(topic, every) == {(topic, 0): 0, (topic, 2): 13}
    assert witnessed(kafka, topic, topic, 3) == [0, -1001, 13]


@pytest.mark.slow
@pytest.mark.kafka
def test_first_group_of_a_cluster_and_a_coordinator_that_dies(
    own_kafka: LocalKafka, topic: str, connect: Callable[..., ClusterClient]
) -> None:
    own_kafka.create_topic(topic)
    port = connect(own_kafka.bootstrap_servers, timeout_ms=150_000)
    impatient = connect(own_kafka.bootstrap_servers, timeout_ms=4000)
    # No group was ever used here, so that the brokers have no topic for commits yet.
    assert port.committed_offsets("first", [(topic, 0)]) == {}
    port.commit_offsets("first", {(topic, 0): 5})
    assert impatient.committed_offsets("first", [(topic, 0)]) == {(topic, 0): 5}
    own_kafka.kill()
    begun = time.monotonic()
    with pytest.raises(ClusterUnreachable, match="connection refused"):
        impatient.commit_offsets("first", {(topic, 0): 6})
    assert time.monotonic() - begun < 4 + SLACK_S
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(port.commit_offsets, "first", {(topic, 0): 7})
        own_kafka.start()
        waiting.result(180)
    assert port.committed_offsets("first", [(topic, 0)]) == {(topic, 0): 7}
    assert witnessed(own_kafka, "first", topic, 1) == [7]


@pytest.mark.parametrize("code", [14, 15, 16])
def test_coordinators_that_move_or_load_are_waited_for(connect: Callable[..., ClusterClient], code: int) -> None:
    searches = {14: 1, 15: 3, 16: 3}[code]
    script = Scripted(group_codes={"OffsetCommit": [code, code], "OffsetFetch": [code, -code]})
    with script as server:
        port = connect(server)
        port.commit_offsets("g", {KEY: 3, ("u", 1): 4})
        assert script.commits == [{KEY: 3, ("u", 1): 4}] * 3
        assert script.asked.count("FindCoordinator") == searches
        assert port.committed_offsets("g", [KEY]) == {KEY: 42}
        assert script.asked.count("OffsetFetch") == 3
        port.close()


def test_coordinators_that_are_still_to_come(connect: Callable[..., ClusterClient]) -> None:
    script = Scripted(group_codes={"FindCoordinator": [15, 14, 15, HANG_UP]})
    with script as server:
        port = connect(server)
        port.commit_offsets("g", {KEY: 3})
        assert [name for name in script.asked if name != "ApiVersions"] == ["FindCoordinator"] * 5 + ["OffsetCommit"]
        # It is remembered.
        port.commit_offsets("g", {KEY: 4})
        assert script.asked[-1:] == ["OffsetCommit"]
        assert script.asked.count("FindCoordinator") == 5
        port.close()


def test_coordinators_that_hang_up_or_leave_out(connect: Callable[..., ClusterClient]) -> None:
    script = Scripted(group_codes={"OffsetCommit": [HANG_UP, LEFT_OUT, 3], "OffsetFetch": [HANG_UP]})
    with script as server:
        port = connect(server)
        port.commit_offsets("g", {KEY: 3})
        assert script.commits == [{KEY: 3}] * 3
        assert port.committed_offsets("g", [KEY]) == {KEY: 42}
        port.close()


def test_groups_and_partitions_that_do_not_exist_have_no_commits(connect: Callable[..., ClusterClient]) -> None:
    script = Scripted(group_codes={"OffsetFetch": [-69, 69, 3]})
    with script as server:
        port = connect(server)
        for _ in range(3):
            assert port.committed_offsets("g", [KEY]) == {}
        port.close()


@pytest.mark.parametrize(
    "codes, said",
    [
        ({"FindCoordinator": [30]}, "group 'g': its coordinator is not known: GROUP_AUTHORIZATION_FAILED (30)"),
        ({"OffsetFetch": [-30]}, "group 'g': its offsets are not known: GROUP_AUTHORIZATION_FAILED (30)"),
        (
            {"OffsetFetch": [29]},
            "group 'g': its offset of topic 't', partition 0, is not known: TOPIC_AUTHORIZATION_FAILED (29)",
        ),
    ],
)
def test_final_refusals_of_offsets(
    connect: Callable[..., ClusterClient], codes: dict[str, list[int]], said: str
) -> None:
    script = Scripted(group_codes=codes)
    with script as server:
        port = connect(server)
        with pytest.raises(BrokerError, match=re.escape(said)):
            port.committed_offsets("g", [KEY])
        assert script.asked.count(next(iter(codes))) == 1
        port.close()


@pytest.mark.parametrize("code, name", [(22, "ILLEGAL_GENERATION"), (25, "UNKNOWN_MEMBER_ID"), (27, "REBALANCE_IN_")])
def test_commits_to_groups_with_live_consumers(connect: Callable[..., ClusterClient], code: int, name: str) -> None:
    script = Scripted(group_codes={"OffsetCommit": [code]})
    with script as server:
        port = connect(server)
        with pytest.raises(BrokerError, match=rf"group 'g': 1 of 1 .* {name}\w* \({code}\) .* has live consumers"):
            port.commit_offsets("g", {KEY: 3})
        assert script.asked.count("OffsetCommit") == 1
        port.close()


@pytest.mark.parametrize(
    "codes, said",
    [
        ({"FindCoordinator": [15] * 1000}, "its coordinator is not known: COORDINATOR_NOT_AVAILABLE (15); retried"),
        (
            {"OffsetCommit": [14] * 1000},
            "the offset of topic 't', partition 0, could not be committed: COORDINATOR_LOAD_IN_PROGRESS (14); retried",
        ),
    ],
)
def test_retries_end_at_the_deadline_and_keep_nobody_else_waiting(
    connect: Callable[..., ClusterClient], codes: dict[str, list[int]], said: str
) -> None:
    with Scripted(group_codes=codes) as server, ThreadPoolExecutor() as pool:
        port = connect(server, timeout_ms=3_000)
        begun = time.monotonic()
        committing = pool.submit(port.commit_offsets, "g", {KEY: 3})
        for _ in range(3):
            assert port.list_partitions(Topics(("t",))).partitions
            assert not committing.done()
        error = committing.exception(120)
        assert 3 <= time.monotonic() - begun < 3 + SLACK_S
        assert isinstance(error, BrokerError)
        assert f"group 'g': {said} in vain within 3000 ms (kafka.request.timeout.ms)" in str(error)
        port.close()


@pytest.mark.parametrize("looked_for", [[], [0] + [HANG_UP] * 1000], ids=["found again", "not found again"])
def test_coordinator_that_hangs_up_for_good(connect: Callable[..., ClusterClient], looked_for: list[int]) -> None:
    with Scripted(group_codes={"OffsetCommit": [HANG_UP] * 1000, "FindCoordinator": looked_for}) as server:
        port = connect(server, timeout_ms=1000)
        # The last of many attempts has been hung up on, or was cut short by the deadline.
        with pytest.raises(
            ClusterUnreachable, match=r"group 'g': its coordinator did not answer within 1000 ms .* (closed|in time)"
        ):
            port.commit_offsets("g", {KEY: 3})
        port.close()


@pytest.mark.parametrize(
    "highest", [{FIND_COORDINATOR: 2, OFFSET_FETCH: 4, OFFSET_COMMIT: 4}, {FIND_COORDINATOR: 0, OFFSET_FETCH: 1}]
)
def test_older_brokers(connect: Callable[..., ClusterClient], highest: dict[Api[Any], int]) -> None:
    script = Scripted(highest=highest)
    with script as server:
        port = connect(server)
        port.commit_offsets("g", {KEY: 3})
        assert script.commits == [{KEY: 3}]
        assert port.committed_offsets("g", [KEY]) == {KEY: 42}
        port.close()
    with Scripted(highest={OFFSET_COMMIT: 1}) as server:
        port = connect(server)
        with pytest.raises(UnsupportedBroker, match="versions of OffsetCommit: 0 to 1"):
            port.commit_offsets("g", {KEY: 3})
        port.close()
