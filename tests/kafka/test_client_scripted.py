"""The client against brokers that follow a script: errors that pass, and errors that do not."""

from __future__ import annotations

import socketserver
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from evensplit.core.model import Topics
from evensplit.core.starting import LATEST
from evensplit.errors import BrokerError, ClusterUnreachable, UnsupportedBroker
from evensplit.kafka.api import API_VERSIONS, LIST_OFFSETS, METADATA, Api
from evensplit.kafka.client import ClusterClient

SLACK_S = 0.5
NOT_LEADER = 6
OFFSET_NOT_AVAILABLE = 78


class Serving:
    """A server on a free port whose every connection `handler` serves. Enters as its `host:port`."""

    def __init__(self, handler: type[socketserver.BaseRequestHandler]) -> None:
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> str:
        self._thread.start()
        return f"127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Scripted:
    """A broker with one topic `t` of one partition; each ListOffsets is answered with the next of `codes`, then 0."""

    def __init__(self, codes: list[int], *, leader: int = 7, topic_code: int = 0, brokers: bool = True) -> None:
        self.asked: list[str] = []
        self._codes, self._leader, self._topic_code, self._brokers = codes, leader, topic_code, brokers
        self._server = ""
        script = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = 10

            def handle(self) -> None:
                while prefix := self._next():
                    request = self.rfile.read(*struct.unpack(">i", prefix))
                    key, version, number = struct.unpack(">hhi", request[:8])
                    body = script.answer(key, version)
                    self.wfile.write(struct.pack(">ii", len(body) + 4, number) + body)

            def _next(self) -> bytes:
                with suppress(OSError):
                    return self.rfile.read(4)
                return b""

        self._serving = Serving(Handler)

    def __enter__(self) -> str:
        self._server = self._serving.__enter__()
        return self._server

    def __exit__(self, *_: object) -> None:
        self._serving.__exit__()

    def answer(self, key: int, version: int) -> bytes:
        api = next(known for known in (API_VERSIONS, METADATA, LIST_OFFSETS) if known.key == key)
        self.asked.append(api.name)
        message = {18: self._versions, 3: self._metadata, 2: self._offsets}[key](api, version)
        flexible = api.response.flexible_version_q(version) and api is not API_VERSIONS
        return b"\0" * flexible + bytes(message.encode(version=version))

    def _versions(self, api: Api, version: int) -> Any:
        keys = [
            api.response.ApiVersion(version=version, api_key=one.key, min_version=0, max_version=one.highest)
            for one in (METADATA, LIST_OFFSETS)
        ]
        return api.response(version=version, error_code=0, api_keys=keys)

    def _metadata(self, api: Api, version: int) -> Any:
        topic = api.response.MetadataResponseTopic
        partition = topic.MetadataResponsePartition(
            version=version, partition_index=0, leader_id=self._leader, replica_nodes=[], isr_nodes=[]
        )
        listed = [] if self._topic_code else [partition]
        host, _, port = self._server.partition(":")
        broker = api.response.MetadataResponseBroker(version=version, node_id=7, host=host, port=int(port))
        return api.response(
            version=version,
            brokers=[broker] if self._brokers else [],
            topics=[topic(version=version, error_code=self._topic_code, name="t", partitions=listed)],
        )

    def _offsets(self, api: Api, version: int) -> Any:
        code = self._codes.pop(0) if self._codes else 0
        topic = api.response.ListOffsetsTopicResponse
        partition = topic.ListOffsetsPartitionResponse(
            version=version, partition_index=0, error_code=code, offset=-1 if code else 42
        )
        return api.response(version=version, topics=[topic(version=version, name="t", partitions=[partition])])


def test_retriable_errors_are_retried_with_new_metadata(connect: Callable[..., ClusterClient]) -> None:
    script = Scripted([NOT_LEADER, OFFSET_NOT_AVAILABLE])
    with script as server:
        port = connect(server)
        assert port.list_offsets({("t", 0): LATEST}) == {("t", 0): 42}
        assert script.asked == ["ApiVersions", *["Metadata", "ListOffsets"] * 3]
        assert port.list_offsets({("t", 0): LATEST}) == {("t", 0): 42}
        assert script.asked[7:] == ["ListOffsets"]
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


def test_retries_end_at_the_deadline(connect: Callable[..., ClusterClient]) -> None:
    with Scripted([NOT_LEADER] * 10_000) as server:
        port = connect(server, timeout_ms=400)
        begun = time.monotonic()
        with pytest.raises(BrokerError) as caught:
            port.list_offsets({("t", 0): LATEST})
        assert time.monotonic() - begun < 0.4 + SLACK_S
        assert caught.value.code == NOT_LEADER
        assert str(caught.value) == (
            "cluster 'east': topic 't', partition 0: its offset is not known: NOT_LEADER_FOR_PARTITION (6); retried in "
            "vain within 400 ms (kafka.request.timeout.ms); see whether the partition has a leader and in-sync replicas"
        )
        port.close()


def test_partition_without_a_leader(connect: Callable[..., ClusterClient]) -> None:
    script = Scripted([], leader=-1)
    with script as server:
        port = connect(server, timeout_ms=200)
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
        assert listing.incomplete == (f"topic 't' cannot be listed: {name} ({code})",)
        port.close()


def test_broker_that_knows_no_brokers_yet(connect: Callable[..., ClusterClient]) -> None:
    with Scripted([], brokers=False) as server:
        port = connect(server, timeout_ms=200)
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
        assert time.monotonic() - begun < 2
