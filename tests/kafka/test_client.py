"""The real client against brokers that move, stop, die and come back."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from evensplit.core.model import Topics
from evensplit.core.state.offset_strategies import EARLIEST, LATEST
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.admin import client as client_module
from evensplit.kafka.admin import cluster_session as session_module
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.admin.cluster_session import Broker
from evensplit.kafka.wire.api import LIST_OFFSETS, METADATA
from evensplit.testing import LocalKafka
from tests.support.clients import NOWHERE
from tests.support.records import numbers
from tests.support.waiting import SLACK_S, wait_for


def accepted(listener: socket.socket) -> int:
    """How many connections have come since it was last asked."""
    listener.setblocking(False)
    count = 0
    with suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            count += 1
    return count


@pytest.fixture(scope="module")
def own() -> Iterator[LocalKafka]:
    """A broker that the tests of this module may stop."""
    with LocalKafka() as running:
        yield running


@pytest.mark.slow
@pytest.mark.kafka
def test_any_bootstrap_server_will_do(kafka: LocalKafka, topic: str, connect: Callable[..., ClusterClient]) -> None:
    kafka.create_topic(topic)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        silent = f"127.0.0.1:{mute.getsockname()[1]}"
        port = connect(NOWHERE, silent, kafka.bootstrap_servers, timeout_ms=20_000)
        assert len(port.list_partitions(Topics((topic,))).partitions) == 1
        assert accepted(mute) >= 1
        # The open connection comes first from now on.
        assert port.list_offsets({(topic, 0): LATEST}) == {(topic, 0): 0}
        assert len(port.list_partitions(Topics((topic,))).partitions) == 1
        assert accepted(mute) == 0


def test_no_server_answers(connect: Callable[..., ClusterClient]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        silent = f"127.0.0.1:{mute.getsockname()[1]}"
        port = connect(NOWHERE, silent, timeout_ms=600)
        begun = time.monotonic()
        with pytest.raises(ClusterUnreachable) as caught:
            port.list_partitions(Topics(("t",)))
        assert time.monotonic() - begun < 0.6 + SLACK_S
    message = str(caught.value)
    assert message.startswith("cluster 'east': no broker could be asked. ")
    assert f"{NOWHERE}: connection refused" in message
    assert f"{silent}: connected, but no complete answer to ApiVersions in time" in message
    assert "check kafka.bootstrap.servers" in message


@pytest.mark.slow
@pytest.mark.kafka
def test_paused_broker(own: LocalKafka, topic: str, connect: Callable[..., ClusterClient]) -> None:
    own.create_topic(topic)
    warm, cold = (connect(own.bootstrap_servers, timeout_ms=2500) for _ in range(2))
    assert warm.list_offsets({(topic, 0): LATEST}) == {(topic, 0): 0}
    own.pause()
    try:
        for port, ask in (
            (warm, lambda: warm.list_offsets({(topic, 0): LATEST})),
            (warm, lambda: warm.list_partitions(Topics((topic,)))),
            (cold, lambda: cold.list_partitions(Topics((topic,)))),
            (cold, lambda: cold.list_offsets({(topic, 0): LATEST})),
        ):
            begun = time.monotonic()
            with pytest.raises(ClusterUnreachable, match=own.bootstrap_servers) as caught:
                ask()
            assert time.monotonic() - begun < 2.5 + SLACK_S, port
            assert "in time" in str(caught.value)
    finally:
        own.resume()
    for port in (warm, cold):
        assert port.list_offsets({(topic, 0): EARLIEST}) == {(topic, 0): 0}


@pytest.mark.slow
@pytest.mark.kafka
def test_broker_that_dies_and_comes_back(own: LocalKafka, topic: str, connect: Callable[..., ClusterClient]) -> None:
    own.create_topic(topic)
    port, impatient = (connect(own.bootstrap_servers, timeout_ms=limit_ms) for limit_ms in (150_000, 4000))
    assert port.list_offsets({(topic, 0): LATEST}) == impatient.list_offsets({(topic, 0): LATEST})
    own.kill()
    with pytest.raises(ClusterUnreachable, match="connection refused"):
        impatient.list_partitions(Topics((topic,)))
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(port.list_offsets, {(topic, 0): LATEST})
        own.start()
        assert waiting.result(180) == {(topic, 0): 0}
    assert len(port.list_partitions(Topics((topic,))).partitions) == 1


@pytest.mark.kafka
def test_leaders(kafka: LocalKafka, topic: str, connect: Callable[..., ClusterClient]) -> None:
    kafka.create_topic(topic, 2)
    port = connect(kafka.bootstrap_servers)
    for refresh in (False, True, False):
        found = port.leaders([(topic, 1), (topic, 0), (topic, 2), ("nowhere", 0)], refresh=refresh)
        broker = Broker(0, "127.0.0.1", kafka.broker(0).port)
        assert dict(found.known) == {(topic, 1): broker, (topic, 0): broker}
        assert dict(found.unknown) == {(topic, 2): 3, ("nowhere", 0): 3}


@pytest.mark.slow
@pytest.mark.kafka
def test_several_leaders_and_one_that_fails(topic: str, connect: Callable[..., ClusterClient]) -> None:
    with LocalKafka(brokers=3, racks=["a", "b", "c"]) as three:
        three.create_topic(topic, 6, 3)
        three.create_topic(f"{topic}-single", 6, 1)
        port = connect(*three.bootstrap_servers.split(","), timeout_ms=60_000)
        every = [(topic, number) for number in range(6)]
        leaders = port.leaders(every).known
        assert {broker.rack for broker in leaders.values()} == {"a", "b", "c"}
        assert port.list_offsets(dict.fromkeys(every, LATEST)) == dict.fromkeys(every, 0)
        early = connect(*three.bootstrap_servers.split(","), timeout_ms=60_000)
        assert len(early.list_offsets(dict.fromkeys([(f"{topic}-single", n) for n in range(6)], LATEST))) == 6
        gone = leaders[topic, 0]
        three.kill(gone.node_id)
        # Another replica takes over; what had only one has no leader, but is still listed.
        assert port.list_offsets(dict.fromkeys(every, LATEST)) == dict.fromkeys(every, 0)
        moved = port.leaders(every).known
        assert gone not in moved.values()
        assert moved.keys() == leaders.keys()
        listing = port.list_partitions(Topics((f"{topic}-single",)))
        assert len(listing.partitions) == 6
        assert listing.incomplete == ()
        single = [(f"{topic}-single", n) for n in range(6)]
        # One broker may learn of it later than another.
        wait_for(lambda: set(port.leaders(single, refresh=True).unknown.values()) == {5}, what="no leader")
        leaderless = port.leaders(single).unknown
        # Whoever can do without them has the others at once, from a port that knew them before and one that did not.
        for asking in (early, connect(*three.bootstrap_servers.split(","), timeout_ms=60_000)):
            begun = time.monotonic()
            found = asking.list_offsets(dict.fromkeys(single, LATEST), complete=False)
            assert time.monotonic() - begun < session_module.ATTEMPT_S + SLACK_S
            assert found == {key: 0 for key in single if key not in leaderless}
            assert 0 < len(found) < 6
        for node_id in {broker.node_id for broker in moved.values()}:
            three.broker(node_id).pause()
            try:
                begun = time.monotonic()
                found = early.list_offsets(dict.fromkeys(single, LATEST), complete=False)
                assert time.monotonic() - begun < 2 * session_module.ATTEMPT_S + SLACK_S
                assert 0 < len(found) < 6 - len(leaderless)
            finally:
                three.broker(node_id).resume()


@pytest.mark.slow
@pytest.mark.kafka
def test_no_offset_at_all(own: LocalKafka, topic: str, connect: Callable[..., ClusterClient]) -> None:
    own.create_topic(topic)
    port = connect(own.bootstrap_servers, timeout_ms=2500)
    assert port.list_offsets({(topic, 0): LATEST}, complete=False) == {(topic, 0): 0}
    own.kill()
    try:
        begun = time.monotonic()
        with pytest.raises(ClusterUnreachable, match="connection refused"):
            port.list_offsets({(topic, 0): LATEST}, complete=False)
        assert time.monotonic() - begun < 2.5 + SLACK_S
    finally:
        own.start()


@pytest.mark.kafka
@pytest.mark.parametrize("highest", range(METADATA.lowest, METADATA.highest + 1))
def test_every_version_of_metadata(
    kafka: LocalKafka,
    topic: str,
    connect: Callable[..., ClusterClient],
    monkeypatch: pytest.MonkeyPatch,
    highest: int,
) -> None:
    kafka.create_topic(topic, 2)
    monkeypatch.setattr(session_module, "METADATA", replace(METADATA, highest=highest))
    listing = connect(kafka.bootstrap_servers).list_partitions(Topics((topic, "nowhere")))
    assert [listed[:2] for listed in listing.partitions] == [(topic, 0), (topic, 1)]
    assert [bool(listed.topic_id) for listed in listing.partitions] == [highest >= 10] * 2
    assert [str(one) for one in listing.missing] == ["topic 'nowhere' does not exist"]
    assert listing.cluster_id == kafka.cluster_id


@pytest.mark.kafka
@pytest.mark.parametrize("highest", range(LIST_OFFSETS.lowest, LIST_OFFSETS.highest + 1))
def test_every_version_of_list_offsets(
    kafka: LocalKafka,
    topic: str,
    connect: Callable[..., ClusterClient],
    monkeypatch: pytest.MonkeyPatch,
    highest: int,
) -> None:
    kafka.create_topic(topic, 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for time_ms in (1000, 2000, 3000):
        producer.produce(topic, b"value", partition=1, timestamp=time_ms)
    assert producer.flush(60) == 0
    monkeypatch.setattr(client_module, "LIST_OFFSETS", replace(LIST_OFFSETS, highest=highest))
    port = connect(kafka.bootstrap_servers)
    for wanted, offsets in ((EARLIEST, (0, 0)), (LATEST, (0, 3)), (1500, (-1, 1)), (9000, (-1, -1))):
        assert tuple(port.list_offsets({(topic, 0): wanted, (topic, 1): wanted}).values()) == offsets


@pytest.mark.kafka
def test_first_offset_that_is_not_in_remote_storage_alone(
    kafka: LocalKafka, topic: str, connect: Callable[..., ClusterClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(5))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        future.result(60)
    port = connect(kafka.bootstrap_servers)
    assert port.earliest_local((topic, 0), timeout_s=5) == 2
    monkeypatch.setattr(client_module, "LIST_OFFSETS", replace(LIST_OFFSETS, highest=7))
    assert port.earliest_local((topic, 0), timeout_s=5) == -1


@pytest.mark.kafka
def test_calls_from_several_threads(kafka: LocalKafka, topic: str, connect: Callable[..., ClusterClient]) -> None:
    kafka.create_topic(topic, 3)
    port = connect(kafka.bootstrap_servers)
    every = dict.fromkeys([(topic, number) for number in range(3)], LATEST)

    def ask(number: int) -> bool:
        if number % 10 == 9:
            port.close()
        committed = dict.fromkeys(every, number)
        port.commit_offsets(f"{topic}-{number}", committed)
        assert port.committed_offsets(f"{topic}-{number}", every) == committed
        return len(port.list_partitions(Topics((topic,))).partitions) == len(port.list_offsets(every)) == 3

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(60)))


def test_call_that_waits_for_another_one(connect: Callable[..., ClusterClient]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = connect(f"127.0.0.1:{mute.getsockname()[1]}", timeout_ms=5000)
        with ThreadPoolExecutor() as pool:
            begun = time.monotonic()
            calls = [pool.submit(port.list_partitions, Topics(("t",))) for _ in range(3)]
            for call in calls:
                assert isinstance(call.exception(60), ClusterUnreachable)
            # One after another they would take 15 s.
            assert time.monotonic() - begun < 5 + SLACK_S


@pytest.mark.parametrize(
    "ask",
    [lambda port: port.list_partitions(Topics(("t",))), lambda port: port.committed_offsets("g", [("t", 0)])],
    ids=["metadata", "group"],
)
def test_closing_does_not_wait_for_a_call(
    connect: Callable[..., ClusterClient], ask: Callable[[ClusterClient], object]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute, ThreadPoolExecutor() as pool:
        mute.settimeout(60)
        port = connect(f"127.0.0.1:{mute.getsockname()[1]}", timeout_ms=4000)
        call = pool.submit(ask, port)
        connection, _ = mute.accept()
        with connection:
            for _ in range(3):
                port.close()
            assert not call.done()
            # The call is as it would have been, and what it has opened is closed afterwards.
            assert isinstance(call.exception(60), ClusterUnreachable)
            connection.settimeout(60)
            while connection.recv(4096):
                continue


@pytest.mark.kafka
def test_what_is_closed_during_a_call_does_not_stay_open(
    kafka: LocalKafka, topic: str, connect: Callable[..., ClusterClient]
) -> None:
    kafka.create_topic(topic)
    port = connect(kafka.bootstrap_servers)
    with port._calls.call() as (session, deadline):
        session.metadata([topic], deadline)
        (connection,) = session._connections.values()
        port.close()
        meanwhile = connection.usable
    assert (meanwhile, connection.usable, session._connections) == (True, False, {})


@pytest.mark.kafka
def test_fork(kafka: LocalKafka, topic: str) -> None:
    kafka.create_topic(topic)
    script = textwrap.dedent("""
        import os, sys
        from evensplit.core.model import Topics
        from evensplit.kafka.admin.client import ClusterClient
        from evensplit.kafka.options.client import ClientSettings

        server, topic = sys.argv[1:]
        port = ClusterClient("east", ClientSettings((server,), request_timeout_ms=10_000))
        connections = lambda: list(port._calls.session._connections.values())
        ask = lambda: [one.topic for one in port.list_partitions(Topics((topic,))).partitions] == [topic]
        assert ask()
        of_parent = connections()
        # A fork at the moment of a call leaves the lock held in the child, for ever.
        port._calls.session.lock.acquire()
        child = os.fork()
        if not child:
            assert not of_parent[0].usable
            fine = ask() and ask() and connections()[0] is not of_parent[0] and of_parent[0].fileno() == -1
            port.close()
            os._exit(0 if fine else 1)
        port._calls.session.lock.release()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert ask() and connections() == of_parent
        port.close()
        sys.exit(status)
    """)
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, kafka.bootstrap_servers, topic],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
