"""The client against brokers that follow a script: errors that pass, and errors that do not."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from evensplit.core.model import Topics
from evensplit.core.state.offset_strategies import EARLIEST, LATEST
from evensplit.errors import BrokerError, ClusterUnreachable, UnsupportedBroker
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.deadline import in_background
from evensplit.kafka.wire.api import (
    API_VERSIONS,
    FIND_COORDINATOR,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    Api,
)
from evensplit.kafka.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from evensplit.testing.messages import response_class
from tests.support.clients import NOWHERE
from tests.support.scripted import Scripted, Serving
from tests.support.waiting import SLACK_S, wait_for

NOT_LEADER = 6
LOADING = 14
OFFSET_NOT_AVAILABLE = 78


def test_retriable_errors_are_retried_with_new_metadata(connect: Callable[..., ClusterClient]) -> None:
    script = Scripted([NOT_LEADER, OFFSET_NOT_AVAILABLE])
    with script as server:
        port = connect(server)
        assert port.list_offsets({("t", 0): LATEST}) == {("t", 0): 42}
        assert script.asked == ["ApiVersions", *["Metadata", "ListOffsets"] * 3]
        assert port.list_offsets({("t", 0): LATEST}) == {("t", 0): 42}
        assert script.asked[7:] == ["ListOffsets"]
        port.close()


def test_no_answer_is_read_by_kafka_python(
    connect: Callable[..., ClusterClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its decoders have no bounds, and who answers may be anybody."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("kafka-python was given an answer")

    for api in (API_VERSIONS, METADATA, LIST_OFFSETS, FIND_COORDINATOR, OFFSET_FETCH, OFFSET_COMMIT):
        monkeypatch.setattr(response_class(api), "decode", refuse)
    with Scripted() as server:
        port = connect(server)
        assert [one.topic for one in port.list_partitions(Topics(("t",))).partitions] == ["t"]
        assert port.list_offsets({("t", 0): LATEST}) == {("t", 0): 42}
        port.commit_offsets("g", {("t", 0): 7})
        assert port.committed_offsets("g", [("t", 0)]).keys() == {("t", 0)}
        port.close()


def test_what_can_be_done_without_is_tried_twice(connect: Callable[..., ClusterClient]) -> None:
    script = Scripted([NOT_LEADER, NOT_LEADER, OFFSET_NOT_AVAILABLE, 0, 29])
    with script as server:
        port = connect(server)
        assert port.list_offsets({("t", 0): LATEST}, complete=False) == {}
        assert script.asked == ["ApiVersions", *["Metadata", "ListOffsets"] * 2]
        assert port.list_offsets({("t", 0): LATEST}, complete=False) == {("t", 0): 42}
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            port.list_offsets({("t", 0): LATEST}, complete=False)
        port.close()


def test_what_keeps_it_from_an_answer_is_known_while_it_tries_again(connect: Callable[..., ClusterClient]) -> None:
    port = connect(NOWHERE, timeout_ms=3_000)
    assert port.trouble == ""
    asked = in_background(lambda: port.list_partitions(Topics(("t",))), "asks")
    wait_for(lambda: port.trouble == f"{NOWHERE}: connection refused, nothing listens there", what="what it met with")
    with pytest.raises(ClusterUnreachable):
        asked.result(timeout=3 + SLACK_S)


def test_one_broker_that_answers_is_no_trouble(connect: Callable[..., ClusterClient]) -> None:
    with Scripted() as server:
        port = connect(NOWHERE, server)
        port.list_partitions(Topics(("t",)))
        assert port.trouble == ""
        port.close()


def test_retries_end_at_the_deadline(connect: Callable[..., ClusterClient]) -> None:
    with Scripted([NOT_LEADER] * 10_000) as server:
        port = connect(server, timeout_ms=400)
        begun = time.monotonic()
        with pytest.raises(BrokerError) as caught:
            port.list_offsets({("t", 0): LATEST})
        assert time.monotonic() - begun < 0.4 + SLACK_S
        assert caught.value.code == NOT_LEADER
        assert str(caught.value) == (
            "cluster 'east': topic 't', partition 0: its offset is not known: NOT_LEADER_FOR_PARTITION (6): see "
            "whether the partition has a leader and in-sync replicas; retried in vain within 400 ms "
            "(kafka.request.timeout.ms)"
        )
        port.close()


class Falling(Scripted):
    """Refuses for a while, and from the question number `silent_from` on says nothing any more."""

    def __init__(self, silent_from: int, code: int = NOT_LEADER) -> None:
        super().__init__([code] * 1000, group_codes={"OffsetCommit": [LOADING] * 1000})
        self._silent_from = silent_from
        self._over = threading.Event()

    def __exit__(self, *details: object) -> None:
        self._over.set()
        super().__exit__(*details)

    def send(self, connection: socket.socket, key: int, response: bytes) -> None:
        if len(self.asked) > self._silent_from:
            self._over.wait(60)
        super().send(connection, key, response)


@pytest.mark.parametrize("silent_from", [3, 4], ids=["metadata", "offsets"])
def test_a_last_moment_without_an_answer_hides_nothing(connect: Callable[..., ClusterClient], silent_from: int) -> None:
    """What was wrong all along is the error, and not that the deadline came before another answer."""
    script = Falling(silent_from)
    with script as server:
        port = connect(server, timeout_ms=600)
        with pytest.raises(BrokerError, match=r"NOT_LEADER_FOR_PARTITION \(6\): .*; retried in vain within 600 ms"):
            port.list_offsets({("t", 0): LATEST})
        port.close()


def test_a_topic_that_is_unknown_as_yet_is_not_said_to_be_deleted(connect: Callable[..., ClusterClient]) -> None:
    script = Falling(4, UNKNOWN_TOPIC_OR_PARTITION)
    with script as server:
        port = connect(server, timeout_ms=600)
        with pytest.raises(ClusterUnreachable):
            port.list_offsets({("t", 0): LATEST})
        port.close()


def test_a_last_moment_without_an_answer_hides_nothing_of_groups(connect: Callable[..., ClusterClient]) -> None:
    script = Falling(3)
    with script as server:
        port = connect(server, timeout_ms=600)
        with pytest.raises(BrokerError, match=r"COORDINATOR_LOAD_IN_PROGRESS \(14\); retried in vain within 600 ms"):
            port.commit_offsets("g", {("t", 0): 3})
        port.close()


def test_partition_without_a_leader(connect: Callable[..., ClusterClient]) -> None:
    script = Scripted([], leader=-1)
    with script as server:
        port = connect(server, timeout_ms=1500)
        assert len(port.list_partitions(Topics(("t",))).partitions) == 1
        with pytest.raises(BrokerError, match=r"topic 't', partition 0: .* LEADER_NOT_AVAILABLE \(5\)"):
            port.list_offsets({("t", 0): LATEST})
        assert "ListOffsets" not in script.asked
        port.close()


@pytest.mark.parametrize("code, name", [(29, "TOPIC_AUTHORIZATION_FAILED"), (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT")])
def test_final_errors_are_not_retried(connect: Callable[..., ClusterClient], code: int, name: str) -> None:
    script = Scripted([code])
    with script as server:
        port = connect(server)
        with pytest.raises(BrokerError, match=rf"topic 't', partition 0: .* {name} \({code}\)") as caught:
            port.list_offsets({("t", 0): LATEST})
        assert caught.value.code == code
        assert script.asked.count("ListOffsets") == 1
        port.close()


@pytest.mark.parametrize("code, name", [(29, "TOPIC_AUTHORIZATION_FAILED"), (5, "LEADER_NOT_AVAILABLE")])
def test_topic_errors_make_a_listing_incomplete(connect: Callable[..., ClusterClient], code: int, name: str) -> None:
    with Scripted([], topic_code=code) as server:
        port = connect(server)
        listing = port.list_partitions(Topics(("t",)))
        assert (listing.partitions, listing.missing) == ((), ())
        (sentence,) = listing.incomplete
        assert sentence.startswith(f"topic 't' cannot be listed: {name} ({code})")
        assert ("allow it the operations Describe and Read on the topic" in sentence) == (code == 29)
        port.close()


def test_broker_that_knows_no_brokers_yet(connect: Callable[..., ClusterClient]) -> None:
    with Scripted([], brokers=False) as server:
        port = connect(server, timeout_ms=1500)
        with pytest.raises(ClusterUnreachable, match=f"{server}: it knows no brokers yet"):
            port.list_partitions(Topics(("t",)))
        port.close()


def test_strangers_are_not_asked_again(connect: Callable[..., ClusterClient]) -> None:
    class Web(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1024)
            self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with Serving(Web) as server:
        begun = time.monotonic()
        with pytest.raises(UnsupportedBroker, match="in HTTP, so the port belongs to another service"):
            connect(server).list_partitions(Topics(("t",)))
        assert time.monotonic() - begun < SLACK_S


class Saying(Scripted):
    """Says that an offset is `offset`, whatever is asked for."""

    def __init__(self, offset: int) -> None:
        super().__init__()
        self._offset = offset

    def _offsets(self, api: Api[Any], version: int) -> Any:
        message = super()._offsets(api, version)
        message.topics[0].partitions[0].offset = self._offset
        return message


@pytest.mark.parametrize("offset", [-1, -5, -(1 << 63), (1 << 63) - 1])
def test_an_offset_that_there_cannot_be_is_none(connect: Callable[..., ClusterClient], offset: int) -> None:
    with Saying(offset) as server:
        port = connect(server, timeout_ms=3_000)
        with pytest.raises(ClusterUnreachable, match=f"the broker says offset {offset}, which none has"):
            port.list_offsets({("t", 0): EARLIEST if offset < 0 else LATEST})
        port.close()


def test_no_offset_is_an_answer_to_a_time(connect: Callable[..., ClusterClient]) -> None:
    with Saying(-1) as server:
        assert connect(server).list_offsets({("t", 0): 1_700_000_000_000}) == {("t", 0): -1}
