"""TLS at its edges: connections that break once it is spoken, and names that are written in another way."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from evensplit.errors import AuthenticationError, ClusterUnreachable
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.options.client import ClientSettings, parse_settings
from evensplit.kafka.wire.api import API_VERSIONS, METADATA, Api
from evensplit.kafka.wire.frames import Frame
from evensplit.kafka.wire.requests import write_metadata
from evensplit.testing.secured.certificates import Certificates
from tests.support.authority import serving
from tests.support.scripted import Scripted


def settings(server: str, values: Mapping[str, str]) -> ClientSettings:
    parsed, problems, _ = parse_settings({"bootstrap.servers": server, **values}, theirs=())
    assert problems == []
    assert parsed is not None
    return parsed


def over_tls(made: Certificates) -> dict[str, str]:
    return {"security.protocol": "SSL", "ssl.truststore.location": str(made.ca)}


def connect(given: ClientSettings) -> Connection:
    return Connection("east", given.addresses[0], given, Deadline.after(5))


class Stalling(Scripted):
    """Sends all but the end of each answer to Metadata."""

    def send(self, connection: socket.socket, key: int, response: bytes) -> None:
        connection.sendall(response[:-5] if key == METADATA.key else response)


@pytest.mark.parametrize("secured", [False, True])
def test_a_buffer_can_grow_after_an_answer_that_did_not_end(made: Certificates, secured: bool) -> None:
    with Stalling(tls=serving(made) if secured else None) as server:
        given = settings(server, over_tls(made) if secured else {})
        with closing(connect(given)) as connection:
            frame = Frame(1)
            connection.send(METADATA, partial(write_metadata, ()), Deadline.after(5))
            with pytest.raises(ClusterUnreachable, match="no complete answer to Metadata in time") as caught:
                connection.receive_into(frame, Deadline.after(0.2))
            frame.data.extend(b"more")
            assert caught.value.__context__ is not None


class Garbled(Scripted):
    """Sends `record` past TLS instead of the answer to `api`."""

    def __init__(self, made: Certificates, api: Api[Any], record: bytes) -> None:
        super().__init__(tls=serving(made))
        self._key, self._record = api.key, record

    def send(self, connection: socket.socket, key: int, response: bytes) -> None:
        if key == self._key:
            os.write(connection.fileno(), self._record)
        else:
            connection.sendall(response)


@pytest.mark.parametrize("api", [API_VERSIONS, METADATA])
@pytest.mark.parametrize(
    "record",
    [
        pytest.param(b"\x17\x13\x03\0\x10" + bytes(16), id="version"),
        pytest.param(b"\x17\x03\x03\xff\xff" + bytes(16), id="length"),
        pytest.param(b"\x17\x03\x03\0\x20" + bytes(32), id="payload"),
    ],
)
def test_damage_to_tls_that_is_spoken_already_is_no_refusal(made: Certificates, api: Api[Any], record: bytes) -> None:
    with Garbled(made, api, record) as server:
        given = settings(server, over_tls(made))
        with pytest.raises(ClusterUnreachable, match="TLS broke: "), closing(connect(given)) as connection:
            connection.request(METADATA, partial(write_metadata, ()), Deadline.after(5))


def test_a_full_name_with_its_dot_is_the_name_in_the_certificate(
    made: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **named: look_up(host.rstrip("."), *rest, **named))
    with Scripted(tls=serving(made)) as server:
        connect(settings(server.replace("127.0.0.1", "localhost."), over_tls(made))).close()
        other = settings(server.replace("127.0.0.1", "LocalHost."), over_tls(made))
        connect(other).close()
    with Scripted(tls=serving(made, "other-host")) as server:
        given = settings(server.replace("127.0.0.1", "localhost."), over_tls(made))
        with pytest.raises(AuthenticationError, match=r"is not for the host 'localhost\.'"):
            connect(given)
