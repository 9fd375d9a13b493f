"""Brokers whose metadata is older than what was said before: cut off from the others, and asked in turn with them."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from evensplit.core.batch.plan import batch_ranges
from evensplit.core.model import Partitions, Topics
from evensplit.core.state.offset_strategies import Earliest
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.admin import cluster_session
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.wire.api import METADATA
from evensplit.spark.driver.coordinator import Coordinator
from evensplit.spark.options.parse import parse_options
from evensplit.testing import LocalKafka
from tests.support.proxies import MetadataProxy
from tests.support.records import Draft, produce
from tests.support.scripted import Scripted
from tests.support.waiting import SLACK_S, wait_for

OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)


class Told(Scripted):
    """What its metadata says of the topic `t` can be changed."""

    def __init__(self, epoch: int, topic_id: uuid.UUID = OLD) -> None:
        super().__init__([])
        self.epoch, self.topic_id = epoch, topic_id
        self.hangs_up = False

    def answer(self, key: int, version: int, request: bytes) -> bytes | None:
        if self.hangs_up and key == METADATA.key:
            return None
        return super().answer(key, version, request)

    def _metadata(self, api: Any, version: int) -> Any:
        response = super()._metadata(api, version)
        response.topics[0].topic_id = self.topic_id
        response.topics[0].partitions[0].leader_epoch = self.epoch
        return response


def ids(port: ClusterClient) -> list[str]:
    return [one.topic_id for one in port.list_partitions(Topics(("t",))).partitions]


def test_earlier_leader_epochs_are_not_believed_and_another_broker_is_asked(
    connect: Callable[..., ClusterClient],
) -> None:
    one, other = Told(3), Told(5)
    with one as first, other as second:
        port = connect(first, second)
        ids(port)
        one.epoch = 4
        # The other one names itself as the only broker, and both are asked in turn.
        port.turn()
        ids(port)
        assert other.asked.count("Metadata") == 1
        port.turn()
        ids(port)
        assert (one.asked.count("Metadata"), other.asked.count("Metadata")) == (2, 2)
        # That it was wrong once does not keep it from being asked: it may be the one that knows better.
        one.epoch = 6
        port.turn()
        ids(port)
        assert (one.asked.count("Metadata"), other.asked.count("Metadata")) == (3, 2)
        port.close()


@pytest.mark.slow
def test_where_all_brokers_tell_what_is_older_the_error_says_so(connect: Callable[..., ClusterClient]) -> None:
    script, why = Told(0), "topic 't', partition 0: expected leader epoch 5 or a later one, found 4"
    with script as server:
        port = connect(server, timeout_ms=600)
        ids(port)
        script.epoch = 5
        ids(port)
        script.epoch = 4
        with pytest.raises(ClusterUnreachable) as caught:
            ids(port)
        assert str(caught.value).startswith(
            f"cluster 'east': every broker that answered said what is older than what was said before: {server}: {why}"
        )
        assert "If the cluster's metadata was restored from a backup, start the query again" in str(caught.value)
        script.epoch = 5
        assert len(ids(port)) == 1, "it goes on when the metadata is as new as it was"
        port.close()
        assert len(ids(connect(server))) == 1


def test_a_broker_that_hung_up_a_moment_ago_is_asked_when_it_is_its_turn(
    connect: Callable[..., ClusterClient],
) -> None:
    """It may be the only one that knows better, so that it rests does not count."""
    one, other = Told(0), Told(0, NEW)
    with one as first, other as second:
        port = connect(first, second)
        told = set(ids(port))
        other.hangs_up = True
        for _ in range(3):
            port.turn()
            told.update(ids(port))
        assert len(told) == 1
        other.hangs_up = False
        port.turn()
        assert told.isdisjoint(ids(port))
        port.close()


def test_of_three_brokers_the_one_that_is_away_keeps_none_from_being_asked(
    connect: Callable[..., ClusterClient],
) -> None:
    away, others = Told(0), (Told(0), Told(0))
    away.hangs_up = True
    with others[0] as first, away as second, others[1] as third:
        port = connect(first, second, third)
        ids(port)
        for _ in range(6):
            port.turn()
            ids(port)
        assert min(one.asked.count("Metadata") for one in others) >= 3
        port.close()


@pytest.mark.kafka
def test_what_one_server_does_not_know_is_found_through_another(own_kafka: LocalKafka) -> None:
    own_kafka.create_topic("t")
    produce(own_kafka.bootstrap_servers, "t", [Draft(b"first")])

    def freeze(response: Any) -> None:
        response.topics[0].partitions = response.topics[0].partitions[:1]

    with MetadataProxy(("127.0.0.1", own_kafka.broker(0).port), freeze) as frozen:
        options = {
            "kafka.bootstrap.servers": f"{frozen.servers},{own_kafka.bootstrap_servers}",
            "subscribe": "t",
            "discoveryInterval": "500ms",
        }
        one = Coordinator(parse_options(options), readers_default=1, starting_default=Earliest())
        state = one.plan(EnumeratorState(), limited=False)
        own_kafka.add_partitions("t", 2)
        produce(own_kafka.bootstrap_servers, "t", [Draft(b"late", partition=1)])
        read: list[str] = []

        def found() -> bool:
            nonlocal state
            end = one.plan(state, limited=False)
            read.extend(f"{part.split.partition}: {part.start}..{part.end}" for part in batch_ranges(state, end))
            state = end
            return bool(read)

        wait_for(found, within_s=10)
        # It does not come and go with the server that is asked.
        begun = time.monotonic()
        wait_for(lambda: found() and time.monotonic() - begun > 2)
        assert read == ["1: 0..1"]
        assert sorted(key.partition for key, split in state.splits.items() if split.active) == [0, 1]
        one.close()


@pytest.mark.kafka
@pytest.mark.parametrize("fix_ends", [True, False], ids=["to-the-end", "on-and-on"])
def test_what_the_first_server_does_not_know_is_read_by_a_new_query(own_kafka: LocalKafka, fix_ends: bool) -> None:
    own_kafka.create_topic("t", 2)
    produce(own_kafka.bootstrap_servers, "t", [Draft(b"one"), Draft(b"other", partition=1)])

    def freeze(response: Any) -> None:
        response.topics[0].partitions = response.topics[0].partitions[:1]

    with MetadataProxy(("127.0.0.1", own_kafka.broker(0).port), freeze) as frozen:
        servers = f"{frozen.servers},{own_kafka.bootstrap_servers}"
        options = parse_options({"kafka.bootstrap.servers": servers, "subscribe": "t"})
        one = Coordinator(options, readers_default=1, starting_default=Earliest())
        start = EnumeratorState()
        end = one.plan(start, limited=False, fix_ends=fix_ends)
        found = [f"{part.split.partition}: {part.start}..{part.end}" for part in batch_ranges(start, end)]
        one.close()
        assert found == ["0: 0..1", "1: 0..1"]
        assert frozen.answers, "it was asked first"


def test_a_broker_that_does_not_answer_costs_no_more_than_its_turn(
    connect: Callable[..., ClusterClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_session, "TURN_S", 0.3)
    script = Told(0)
    with script as server, socket.create_server(("127.0.0.1", 0)) as mute:
        silent = f"127.0.0.1:{mute.getsockname()[1]}"
        port = connect(server, silent, timeout_ms=60_000)
        ids(port)
        took = []
        for _ in range(6):
            begun = time.monotonic()
            port.turn()
            ids(port)
            took.append(time.monotonic() - begun)
        assert max(took) < 0.3 + SLACK_S
        # The longer it is away, the less often it is tried.
        with port._calls.call() as (one, _):
            address = mute.getsockname()
            rests = []
            for _ in range(8):
                rests.append(one._rests[address][1])
                one._rests[address] = (0.0, rests[-1])
                one._let_rest(address, ClusterUnreachable("east", "it is away"))
        assert rests == [2.0, 4.0, 8.0, 10.0, 10.0, 10.0, 10.0, 10.0]
        port.close()


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("how", ["pause", "kill"])
def test_one_of_three_brokers_that_is_away_does_not_slow_discoveries_down(
    connect: Callable[..., ClusterClient], how: str
) -> None:
    with LocalKafka(brokers=3) as three:
        three.create_topic("t", 3, 3)
        port = connect(*three.bootstrap_servers.split(","), timeout_ms=60_000)
        wanted = Partitions({"t": (0, 1, 2)})
        for _ in range(4):
            port.turn()
            port.list_partitions(wanted)
        getattr(three, how)(1)
        took = []
        for _ in range(12):
            begun = time.monotonic()
            port.turn()
            assert len(port.list_partitions(wanted).partitions) == 3
            took.append(time.monotonic() - begun)
        assert sum(one >= cluster_session.TURN_S for one in took) <= 1
        assert max(took) < cluster_session.TURN_S + SLACK_S
