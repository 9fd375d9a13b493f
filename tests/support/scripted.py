"""Brokers that follow a script: their responses are given beforehand."""

from __future__ import annotations

import socket
import socketserver
import ssl
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from evensplit.kafka.wire.api import (
    API_VERSIONS,
    FIND_COORDINATOR,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    Api,
)
from evensplit.testing.messages import read_request, response_class, write_response

APIS = (METADATA, LIST_OFFSETS, FIND_COORDINATOR, OFFSET_FETCH, OFFSET_COMMIT)

LEFT_OUT = -1000
HANG_UP = -2000


class _Quiet(socketserver.ThreadingTCPServer):
    """Ends its connections when it is closed, as a broker does that stops."""

    def __init__(self, address: tuple[str, int], handler: type[socketserver.BaseRequestHandler]) -> None:
        self._connections: list[socket.socket] = []
        super().__init__(address, handler)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        # A handler may put TLS around its socket; a duplicate is still the same connection.
        with request.dup() as connection:
            self._connections.append(connection)
            super().process_request_thread(request, client_address)
            self._connections.remove(connection)

    def server_close(self) -> None:
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away, or does not like the certificate, is what some tests are about."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Serving:
    """A server on a free port whose every connection `handler` serves. Enters as its `host:port`."""

    def __init__(self, handler: type[socketserver.BaseRequestHandler]) -> None:
        self._server = _Quiet(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> str:
        self._thread.start()
        return f"127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Scripted:
    """A broker with one topic `t` of one partition; each ListOffsets is answered with the next of `codes`, then 0.

    It is the coordinator of every group as well. `group_codes` has the codes for FindCoordinator, OffsetFetch and
    OffsetCommit, by these names; -1000 stands for an answer without any partition, -2000 for hanging up. `commits` are
    the partitions and offsets of each OffsetCommit. `highest`: the versions that it knows, where not ours. `tls`: what
    it speaks TLS with.
    """

    def __init__(
        self,
        codes: Sequence[int] = (),
        *,
        leader: int = 7,
        topic_code: int = 0,
        brokers: bool = True,
        group_codes: Mapping[str, Sequence[int]] | None = None,
        highest: Mapping[Api[Any], int] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.asked: list[str] = []
        self.commits: list[dict[tuple[str, int], int]] = []
        self._codes, self._leader, self._topic_code, self._brokers = list(codes), leader, topic_code, brokers
        self._group_codes = {name: list(listed) for name, listed in (group_codes or {}).items()}
        self._highest = {api: api.highest for api in APIS} | dict(highest or {})
        self._server = ""
        script = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = 10

            def setup(self) -> None:
                if tls is not None:
                    self.request = tls.wrap_socket(self.request, server_side=True)
                super().setup()

            def finish(self) -> None:
                super().finish()
                self.request.close()

            def handle(self) -> None:
                while prefix := self._next():
                    request = self.rfile.read(*struct.unpack(">i", prefix))
                    key, version, number = struct.unpack(">hhi", request[:8])
                    body = script.answer(key, version, request)
                    if body is None:
                        return
                    script.send(self.request, key, struct.pack(">ii", len(body) + 4, number) + body)

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

    def answer(self, key: int, version: int, request: bytes) -> bytes | None:
        """The body of the response; None for hanging up."""
        api = next(known for known in (API_VERSIONS, *APIS) if known.key == key)
        self.asked.append(api.name)
        if api in (FIND_COORDINATOR, OFFSET_FETCH, OFFSET_COMMIT):
            codes = self._group_codes.get(api.name, [])
            code = codes.pop(0) if codes else 0
            if code == HANG_UP:
                return None
            if api is FIND_COORDINATOR:
                message = self._coordinator(version, code)
            elif api is OFFSET_FETCH:
                message = self._committed(version, code)
            else:
                message = self._commit(version, code, read_request(api, request, version))
        else:
            message = {18: self._versions, 3: self._metadata, 2: self._offsets}[key](api, version)
        return write_response(api, message, version)

    def send(self, connection: socket.socket, key: int, response: bytes) -> None:
        """Send a response."""
        connection.sendall(response)

    def _versions(self, api: Api[Any], version: int) -> Any:
        keys = [
            response_class(api).ApiVersion(version=version, api_key=one.key, min_version=0, max_version=highest)
            for one, highest in self._highest.items()
        ]
        return response_class(api)(version=version, error_code=0, api_keys=keys)

    def _coordinator(self, version: int, code: int) -> Any:
        host, _, port = self._server.partition(":")
        where = {"error_code": code, "node_id": -1 if code else 7, "host": "" if code else host}
        where["port"] = -1 if code else int(port)
        if version < 4:
            return response_class(FIND_COORDINATOR)(version=version, **where)
        one = response_class(FIND_COORDINATOR).Coordinator(version=version, key="g", **where)
        return response_class(FIND_COORDINATOR)(version=version, coordinators=[one])

    def _committed(self, version: int, code: int) -> Any:
        """Negative codes are those of the group, positive ones those of the partition."""
        response, whole, part = response_class(OFFSET_FETCH), max(0, -code), max(0, code)
        outer = response.OffsetFetchResponseGroup if version >= 8 else response
        topic = outer.OffsetFetchResponseTopics if version >= 8 else outer.OffsetFetchResponseTopic
        partition = topic.OffsetFetchResponsePartitions if version >= 8 else topic.OffsetFetchResponsePartition
        one = partition(
            version=version, partition_index=0, committed_offset=-1 if code else 42, metadata="", error_code=part
        )
        topics = [] if whole else [topic(version=version, name="t", partitions=[one])]
        if version < 8:
            return response(version=version, topics=topics, error_code=whole)
        return response(version=version, groups=[outer(version=version, group_id="g", topics=topics, error_code=whole)])

    def _commit(self, version: int, code: int, request: Any) -> Any:
        self.commits.append(
            {
                (topic.name, one.partition_index): one.committed_offset
                for topic in request.topics
                for one in topic.partitions
            }
        )
        assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("g", -1, "")
        topic_class = response_class(OFFSET_COMMIT).OffsetCommitResponseTopic
        topics = [
            topic_class(
                version=version,
                name=topic.name,
                partitions=[
                    topic_class.OffsetCommitResponsePartition(
                        version=version, partition_index=one.partition_index, error_code=code
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return response_class(OFFSET_COMMIT)(version=version, topics=[] if code == LEFT_OUT else topics)

    def _metadata(self, api: Api[Any], version: int) -> Any:
        topic = response_class(api).MetadataResponseTopic
        partition = topic.MetadataResponsePartition(
            version=version, partition_index=0, leader_id=self._leader, replica_nodes=[], isr_nodes=[]
        )
        listed = [] if self._topic_code else [partition]
        host, _, port = self._server.partition(":")
        broker = response_class(api).MetadataResponseBroker(version=version, node_id=7, host=host, port=int(port))
        return response_class(api)(
            version=version,
            brokers=[broker] if self._brokers else [],
            topics=[topic(version=version, error_code=self._topic_code, name="t", partitions=listed)],
        )

    def _offsets(self, api: Api[Any], version: int) -> Any:
        code = self._codes.pop(0) if self._codes else 0
        topic = response_class(api).ListOffsetsTopicResponse
        partition = topic.ListOffsetsPartitionResponse(
            version=version, partition_index=0, error_code=code, offset=-1 if code else 42
        )
        return response_class(api)(version=version, topics=[topic(version=version, name="t", partitions=[partition])])
