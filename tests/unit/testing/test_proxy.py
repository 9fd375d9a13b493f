"""The network that fails: each kind of trouble is seen by a client, and over when it is taken away."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from evensplit.errors import LocalKafkaError
from evensplit.testing.network.metadata_memory import Conversation, MetadataMemory
from evensplit.testing.network.proxy import NetworkProxy, Trouble

SOON_S = 0.3


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while data := connection.recv(65_536):
                connection.sendall(data)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield listener.getsockname()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.fixture
def proxy(echo: tuple[str, int]) -> Iterator[NetworkProxy]:
    with NetworkProxy(echo, seed=7) as one:
        yield one


def connected(proxy: NetworkProxy) -> socket.socket:
    """A connection through which data has come back."""
    client = socket.create_connection(proxy.address, 30)
    assert echoed(client, b"first")
    return client


def echoed(client: socket.socket, data: bytes) -> bool:
    client.sendall(data)
    return received(client, len(data)) == data


def received(client: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size and (piece := client.recv(size - len(found))):
        found += piece
    return found


def is_silent(client: socket.socket) -> bool:
    client.settimeout(SOON_S)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(30)
    return False


def test_much_data_is_passed_on_unchanged(proxy: NetworkProxy) -> None:
    data = bytes(range(256)) * 20_000
    with connected(proxy) as client:
        sender = threading.Thread(target=client.sendall, args=(data,))
        sender.start()
        assert received(client, len(data)) == data
        sender.join()


def test_a_cut_closes_connections_and_takes_none(proxy: NetworkProxy) -> None:
    with connected(proxy) as client:
        proxy.trouble = Trouble(cut=True)
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""
    with suppress(OSError), socket.create_connection(proxy.address, 30) as refused:
        assert refused.recv(1) == b""
    proxy.trouble = Trouble()
    connected(proxy).close()


@pytest.mark.parametrize(
    "trouble",
    [
        Trouble(requests_held=True),
        Trouble(answers_held=True),
        Trouble(requests_held=True, answers_held=True),
    ],
)
def test_what_is_held_comes_when_the_trouble_is_over(proxy: NetworkProxy, trouble: Trouble) -> None:
    with connected(proxy) as client:
        proxy.trouble = trouble
        client.sendall(b"held")
        assert is_silent(client)
        with socket.create_connection(proxy.address, 30) as another:
            another.sendall(b"taken, and held")
            assert is_silent(another)
            proxy.trouble = Trouble()
            assert received(client, 4) == b"held"
            assert received(another, 15) == b"taken, and held"


@pytest.mark.parametrize("trouble", [Trouble(delay_s=0.1), Trouble(bytes_per_s_max=40)])
def test_slow_networks_are_slow(proxy: NetworkProxy, trouble: Trouble) -> None:
    with connected(proxy) as client:
        proxy.trouble = trouble
        began = time.monotonic()
        assert echoed(client, b"four")
        assert time.monotonic() - began >= 0.19
        proxy.trouble = Trouble()
        assert echoed(client, b"four")


def test_lost_data_resets_the_connection(proxy: NetworkProxy) -> None:
    with connected(proxy) as client:
        proxy.trouble = Trouble(reset_chance=1.0)
        client.sendall(b"lost")
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""
    proxy.trouble = Trouble()
    connected(proxy).close()


def test_a_broker_that_is_down_is_seen(echo: tuple[str, int]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        down = unused.getsockname()
    with (
        NetworkProxy(down) as proxy,
        socket.create_connection(proxy.address, 30) as client,
        suppress(ConnectionResetError),
    ):
        assert client.recv(1) == b""
    with pytest.raises(OSError):
        socket.create_connection(proxy.address, 5)


def test_open_connections_are_dropped_and_new_ones_taken(proxy: NetworkProxy) -> None:
    with connected(proxy) as client:
        proxy.drop_connections()
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""
    connected(proxy).close()


def framed(*parts: bytes) -> bytes:
    whole = b"".join(parts)
    return struct.pack(">i", len(whole)) + whole


def asked(conversation: Conversation, key: int, correlation: int, rest: bytes) -> None:
    request = framed(struct.pack(">hhi", key, 12, correlation), rest)
    # In two pieces, as TCP may bring it.
    assert conversation.request(request[:9]) + conversation.request(request[9:]) == request


def test_stale_metadata_are_those_of_the_last_answer_to_the_same_request() -> None:
    memory = MetadataMemory()
    one, other = Conversation(memory), Conversation(memory)
    for conversation, correlation, said in ((one, 1, b"oldest"), (other, 1, b"older")):
        asked(conversation, 3, correlation, b"orders")
        answer = framed(struct.pack(">i", correlation), said)
        assert conversation.answer(answer, stale=False) == answer
    asked(one, 3, 2, b"orders")
    asked(one, 1, 3, b"a fetch")
    asked(one, 3, 4, b"never asked before")
    answers = [framed(struct.pack(">i", number), b"new") for number in (2, 3, 4)]
    cut = b"".join(answers)
    got = one.answer(cut[:7], stale=True) + one.answer(cut[7:], stale=True)
    assert got == framed(struct.pack(">i", 2), b"older") + answers[1] + answers[2]


def test_data_that_are_not_kafkas_have_no_stale_metadata(proxy: NetworkProxy) -> None:
    with pytest.raises(LocalKafkaError, match="reads_kafka"):
        proxy.trouble = Trouble(stale_metadata=True)
