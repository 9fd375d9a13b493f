"""One connection against servers that do what brokers do, and everything that they should not."""

from __future__ import annotations

import struct
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from evensplit.errors import AnswerRefused, BrokerError, ClusterError, ClusterUnreachable, UnsupportedBroker
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.net import transport
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.options.client import ClientSettings, join_address, split_address
from evensplit.kafka.wire.api import API_VERSIONS, FETCH, LIST_OFFSETS, METADATA
from evensplit.kafka.wire.frames import BODY_BEGIN, Frame
from evensplit.kafka.wire.requests import write_metadata
from evensplit.testing.messages import response_class, write_response
from tests.support.client_options import understood
from tests.support.clients import NOWHERE
from tests.support.peers import Handler, Peer, Server, flood_handshake, versions_body
from tests.support.waiting import SLACK_S


@pytest.fixture
def serve() -> Iterator[Callable[[Handler], Server]]:
    servers: list[Server] = []

    def start(handler: Handler) -> Server:
        servers.append(Server(handler))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def connect(address: tuple[str, int], timeout_s: float = 5.0) -> Connection:
    settings = ClientSettings((join_address(address),), receive_buffer_bytes=65536)
    return Connection("east", address, settings, Deadline.after(timeout_s))


def fails(kind: type[ClusterError], address: tuple[str, int], timeout_s: float = 5.0) -> str:
    """Connecting fails with `kind`, in time, naming cluster and address. Returns the message."""
    begun = time.monotonic()
    with pytest.raises(kind) as caught:
        connect(address, timeout_s)
    assert time.monotonic() - begun < timeout_s + SLACK_S
    assert "cluster 'east'" in str(caught.value)
    assert join_address(address) in str(caught.value)
    return str(caught.value)


def hang(peer: Peer) -> None:
    peer.ended.wait(10)


def test_refused() -> None:
    assert "connection refused" in fails(ClusterUnreachable, split_address(NOWHERE))


def test_name_that_nobody_knows() -> None:
    assert "cannot be resolved" in fails(ClusterUnreachable, ("no-such-host.invalid", 9092), timeout_s=60)


@pytest.mark.parametrize("host", ["b1..example", ".example", f"{'x' * 64}.example"])
def test_name_that_cannot_be_one(host: str) -> None:
    """Those that a user writes come through the settings, those that brokers advertise do not."""
    assert "cannot be resolved" in fails(ClusterUnreachable, (host, 9092))


def test_name_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    numeric = transport._look_up

    def stuck(host: str, port: int, flags: int) -> object:
        if flags:
            return numeric(host, port, flags)
        answered.wait(10)
        return []

    monkeypatch.setattr(transport, "_look_up", stuck)
    assert "no name server answered" in fails(ClusterUnreachable, ("kafka.example", 9092), timeout_s=0.3)
    answered.set()


def test_never_answers(serve: Callable[[Handler], Server]) -> None:
    message = fails(ClusterUnreachable, serve(hang).address, timeout_s=0.4)
    assert "no complete answer to ApiVersions in time" in message


def test_deadline_is_for_all_pieces_together(serve: Callable[[Handler], Server]) -> None:
    def slowly(peer: Peer) -> None:
        peer.connection.sendall(struct.pack(">i", 1000))
        while not peer.ended.wait(0.1):
            peer.connection.sendall(b"\0")

    assert "no complete answer" in fails(ClusterUnreachable, serve(slowly).address, timeout_s=0.5)


@pytest.mark.parametrize("sent", [b"", b"\0\0", struct.pack(">ii", 100, 1), struct.pack(">ii", 100, 1) + b"\0" * 95])
def test_closes_before_the_end(serve: Callable[[Handler], Server], sent: bytes) -> None:
    def cut(peer: Peer) -> None:
        peer.read_request()
        peer.connection.sendall(sent)

    message = fails(ClusterUnreachable, serve(cut).address)
    assert "closed the connection instead of answering ApiVersions" in message


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 3, API_VERSIONS.answer_bytes_max + 1, 2**31 - 1])
def test_garbage_length(serve: Callable[[Handler], Server], length: int) -> None:
    def lie(peer: Peer) -> None:
        peer.read_request()
        peer.connection.sendall(struct.pack(">i", length))
        hang(peer)

    assert f"length of {length} bytes" in fails(UnsupportedBroker, serve(lie).address)


def test_memory_grows_with_what_arrives_and_not_with_what_is_promised(serve: Callable[[Handler], Server]) -> None:
    def boast(peer: Peer) -> None:
        peer.agree_on((3, 0, 12))
        peer.read_request()
        peer.connection.sendall(struct.pack(">i", METADATA.answer_bytes_max) + b"\0" * 100_000)

    connection = connect(serve(boast).address)
    tracemalloc.start()
    try:
        with pytest.raises(ClusterUnreachable, match="closed the connection"):
            ask_metadata(connection)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


@pytest.mark.parametrize("noise", [b"\xff", b"\x80", b"\x7f", b"\x00", b"\x01"])
def test_noise_of_a_stranger_is_refused_at_once(serve: Callable[[Handler], Server], noise: bytes) -> None:
    """Whoever listens on the port, without a login, gets no work out of this side."""

    def babble(peer: Peer) -> None:
        _, _, number = peer.read_request()
        peer.answer(number, b"\0\0" + noise * 1_000_000)
        hang(peer)

    begun_s = time.process_time()
    if noise in (b"\x00", b"\x01"):
        # No version of anything, and more than is to be read.
        connect(serve(babble).address).close()
    else:
        assert "cannot be decoded" in fails(UnsupportedBroker, serve(babble).address)
    # It took seconds to read it once; the bytes alone take milliseconds.
    assert time.process_time() - begun_s < 1.0


def test_deadline_holds_while_an_answer_is_read(serve: Callable[[Handler], Server]) -> None:
    broker = struct.pack(">i", 1) + b"\x02h" + struct.pack(">i", 1) + b"\0\0"
    topic = struct.pack(">h", 0) + b"\x02t" + bytes(16) + b"\0\x01" + struct.pack(">i", 0) + b"\0"
    count = b"\x81\x89\x7a"
    head = b"\0" + struct.pack(">i", 0) + b"\x02" + broker + b"\0" + struct.pack(">i", 1)
    body = head + count + topic * 2_000_000

    def much(peer: Peer) -> None:
        peer.agree_on((3, 0, 12))
        peer.answer(peer.read_request()[2], body)
        hang(peer)

    connection = connect(serve(much).address)
    begun_s = time.monotonic()
    with pytest.raises(ClusterUnreachable, match="in time"):
        ask_metadata(connection, timeout_s=0.5)
    assert time.monotonic() - begun_s < 0.5 + SLACK_S
    assert not connection.usable


def test_deadline_holds_while_an_answer_comes_byte_by_byte(serve: Callable[[Handler], Server]) -> None:
    """As in TLS records of one byte each: there always is something to receive."""

    class Dripping:
        def __init__(self, through: Any) -> None:
            self.through = through

        def __getattr__(self, name: str) -> Any:
            return getattr(self.through, name)

        def recv_into(self, view: memoryview) -> int:
            return int(self.through.recv_into(view[:1]))

    def answer(peer: Peer) -> None:
        peer.agree_on((3, 0, 12))
        peer.answer(peer.read_request()[2], bytes(20_000_000))
        hang(peer)

    connection = connect(serve(answer).address)
    connection._socket = Dripping(connection._socket)  # type: ignore[assignment]
    begun_s = time.monotonic()
    with pytest.raises(ClusterUnreachable, match="no complete answer to Metadata in time"):
        ask_metadata(connection, timeout_s=0.2)
    assert time.monotonic() - begun_s < 0.2 + SLACK_S


@pytest.mark.timeout(60)
def test_deadline_holds_in_a_handshake_without_end(serve: Callable[[Handler], Server]) -> None:
    """OpenSSL does not come back from it as long as there is something to read."""
    begun_s = time.monotonic()
    with pytest.raises(ClusterUnreachable, match="the TLS handshake failed: it did not end within"):
        Connection(
            "east", serve(flood_handshake).address, understood({"security.protocol": "SSL"}), Deadline.after(0.5)
        )
    assert time.monotonic() - begun_s < 0.5 + SLACK_S


def test_answer_longer_than_its_request_allows(serve: Callable[[Handler], Server]) -> None:
    def long(peer: Peer) -> None:
        peer.agree_on((3, 0, 12))
        peer.read_request()
        peer.connection.sendall(struct.pack(">i", METADATA.answer_bytes_max + 1))
        hang(peer)

    connection = connect(serve(long).address)
    with pytest.raises(AnswerRefused, match=r"Metadata claims a length of 134217729 bytes, expected 4 to 134217728"):
        ask_metadata(connection)
    assert not connection.usable


def test_another_service(serve: Callable[[Handler], Server]) -> None:
    def other(peer: Peer) -> None:
        peer.read_request()
        peer.connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

    message = fails(UnsupportedBroker, serve(other).address)
    assert "in HTTP" in message
    assert "expected a listener that speaks Kafka's protocol" in message


def test_answer_with_another_number(serve: Callable[[Handler], Server]) -> None:
    def confuse(peer: Peer) -> None:
        _, version, number = peer.read_request()
        peer.answer(number + 7, versions_body(version, ((3, 0, 12),)))

    assert "number 1 with number 8" in fails(UnsupportedBroker, serve(confuse).address)


def test_answer_that_is_no_answer(serve: Callable[[Handler], Server]) -> None:
    def babble(peer: Peer) -> None:
        _, _, number = peer.read_request()
        peer.answer(number, b"\0\0\x7f\xff")

    assert "cannot be decoded" in fails(UnsupportedBroker, serve(babble).address)


def test_damage_later_on_is_no_verdict_on_the_broker(serve: Callable[[Handler], Server]) -> None:
    def turn_bad(peer: Peer) -> None:
        peer.agree_on((3, 0, 12))
        peer.read_request()
        peer.connection.sendall(struct.pack(">i", -5))
        hang(peer)

    connection = connect(serve(turn_bad).address)
    with pytest.raises(ClusterUnreachable, match="damaged on the way"):
        ask_metadata(connection)
    assert not connection.usable


def ask_metadata(connection: Connection, timeout_s: float = 5.0) -> object:
    return connection.request(METADATA, partial(write_metadata, ()), Deadline.after(timeout_s))


def metadata_body(version: int, cluster_id: str) -> bytes:
    message = response_class(METADATA)(version=version, brokers=[], cluster_id=cluster_id, controller_id=0, topics=[])
    return write_response(METADATA, message, version)


@pytest.mark.parametrize("supported", [((18, 0, 2), (3, 0, 8)), ((18, 0, 0), (3, 0, 8)), ()])
def test_broker_that_knows_an_older_version_of_the_question(
    serve: Callable[[Handler], Server], supported: tuple[tuple[int, int, int], ...]
) -> None:
    asked: list[int] = []

    def old(peer: Peer) -> None:
        _, version, number = peer.read_request()
        asked.append(version)
        peer.answer(number, versions_body(0, supported, error=35))
        _, version, number = peer.read_request()
        asked.append(version)
        peer.answer(number, versions_body(0, ((18, 0, 2), (3, 0, 8))))

    connection = connect(serve(old).address)
    assert asked == [3, 0]
    assert connection.version(METADATA) == 8
    connection.close()


def test_broker_that_refuses_to_say_its_versions(serve: Callable[[Handler], Server]) -> None:
    def refuse(peer: Peer) -> None:
        _, _, number = peer.read_request()
        peer.answer(number, versions_body(0, (), error=34))

    assert "ILLEGAL_SASL_STATE (34)" in fails(BrokerError, serve(refuse).address)


def test_highest_common_version(serve: Callable[[Handler], Server]) -> None:
    connection = connect(serve(lambda peer: peer.agree_on((3, 2, 99), (2, 0, 0), (1, 14, 17))).address)
    assert connection.version(METADATA) == METADATA.highest
    assert connection.version(METADATA, highest=6) == 6
    for api, has in ((LIST_OFFSETS, "0 to 0"), (FETCH, "14 to 17"), (API_VERSIONS, "none")):
        with pytest.raises(UnsupportedBroker, match=f"{api.name}: {has}, expected some of {api.lowest} to"):
            connection.version(api)
    connection.close()


def is_usable(connection: Connection) -> bool:
    return connection.usable


def test_several_requests_under_way(serve: Callable[[Handler], Server]) -> None:
    def two_at_once(peer: Peer) -> None:
        peer.agree_on((3, 0, 12))
        numbers = [peer.read_request()[2] for _ in range(2)]
        for number, name in zip(numbers, ("first", "second"), strict=True):
            peer.answer(number, metadata_body(12, name))

    connection = connect(serve(two_at_once).address)
    deadline = Deadline.after(5)
    for _ in range(2):
        assert connection.send(METADATA, partial(write_metadata, ()), deadline) == 12
    assert not is_usable(connection)
    assert connection.receive(deadline).cluster_id == "first"
    assert connection.receive(deadline).cluster_id == "second"
    assert is_usable(connection)
    connection.close()


def test_frames_come_into_one_buffer_that_grows(serve: Callable[[Handler], Server]) -> None:
    bodies = [b"a" * 10, b"b" * 3_000_000, b"c" * 20]

    def answer_all(peer: Peer) -> None:
        peer.agree_on((3, 0, 12))
        for body in bodies:
            peer.answer(peer.read_request()[2], body)

    connection = connect(serve(answer_all).address)
    frame, deadline, sizes = Frame(100), Deadline.after(5), []
    for body in bodies:
        connection.send(METADATA, partial(write_metadata, ()), deadline)
        length = connection.receive_into(frame, deadline)
        assert frame.data[BODY_BEGIN:length] == body
        sizes.append(len(frame.data))
    assert sizes == [100, 3_000_004, 3_000_004]
    connection.close()


def test_request_that_cannot_be_sent_in_time(serve: Callable[[Handler], Server]) -> None:
    def stop_reading(peer: Peer) -> None:
        peer.agree_on((3, 0, 12))
        hang(peer)

    connection = connect(serve(stop_reading).address)
    begun = time.monotonic()
    with pytest.raises(ClusterUnreachable, match="Metadata could not be sent in time"):
        connection.send(METADATA, lambda _: bytearray(32 << 20), Deadline.after(0.5))
    assert time.monotonic() - begun < 0.5 + SLACK_S
    assert not is_usable(connection)


def test_closing_twice_does_no_harm(serve: Callable[[Handler], Server]) -> None:
    connection = connect(serve(lambda peer: peer.agree_on((3, 0, 12))).address)
    assert is_usable(connection)
    connection.close()
    connection.close()
    assert not is_usable(connection)
    with pytest.raises(ClusterUnreachable):
        ask_metadata(connection)
