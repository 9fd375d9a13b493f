"""TLS at brokers in this process: who is trusted, what is spoken, and how long it may take."""

from __future__ import annotations

import select
import socket
import threading
import time
from contextlib import closing, suppress
from functools import partial

import pytest

from evensplit.errors import ClusterUnreachable
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.wire.api import METADATA
from evensplit.kafka.wire.requests import write_metadata
from evensplit.testing.secured.certificates import Certificates
from tests.support.authority import serving
from tests.support.login_client import PLAIN, accept_plain, end_of, fails, settings, tls
from tests.support.logins import LoginBroker
from tests.support.scripted import Scripted
from tests.support.waiting import SLACK_S


@pytest.mark.parametrize("old", [False, True])
def test_tls(made: Certificates, old: bool) -> None:
    with Scripted(tls=serving(made, old=old)) as server:
        assert end_of(server, tls(made)) == 42
        assert end_of(server.replace("127.0.0.1", "localhost"), tls(made)) == 42


def test_a_login_over_tls(made: Certificates) -> None:
    with LoginBroker(accept_plain, tls=serving(made)) as server:
        assert end_of(server, {**tls(made), **PLAIN, "security.protocol": "SASL_SSL"}) == 42


@pytest.mark.parametrize(
    "which, said",
    [
        ("expired", "the certificate of the broker, or of who signed it, has expired"),
        ("other-host", "the certificate of the broker is not for the host '127.0.0.1'; use a name that is in it"),
    ],
)
def test_certificates_that_are_not_trusted(made: Certificates, which: str, said: str) -> None:
    with Scripted(tls=serving(made, which)) as server:
        assert said in fails(server, tls(made))
        if which == "other-host":
            assert end_of(server, tls(made, **{"ssl.endpoint.identification.algorithm": ""})) == 42


def test_certificates_of_somebody_else(made: Certificates) -> None:
    with Scripted(tls=serving(made)) as server:
        for given in ({"ssl.truststore.location": str(made.other_ca)}, {}):
            message = fails(server, {"security.protocol": "SSL", **given})
            assert "signed by an authority that is not trusted here; give the certificate of the authority" in message


@pytest.mark.parametrize("old", [False, True])
def test_client_certificates(made: Certificates, old: bool) -> None:
    with Scripted(tls=serving(made, wants_client=True, old=old)) as server:
        assert end_of(server, tls(made, **{"ssl.keystore.location": str(made.client_pem)})) == 42
        assert "asks for a client certificate" in fails(server, tls(made)) or old
        message = fails(server, tls(made, **{"ssl.keystore.location": str(made.other_client_pem)}))
        assert "the broker does not trust who signed the client certificate" in message


def test_versions_that_the_other_side_does_not_have(made: Certificates) -> None:
    with Scripted(tls=serving(made, old=True)) as server:
        message = fails(server, tls(made, **{"ssl.enabled.protocols": "TLSv1.3"}))
        assert "supports no version of TLS that is allowed here" in message


def test_each_side_speaks_something_else(made: Certificates) -> None:
    with Scripted(tls=serving(made)) as server:
        assert "the listener speaks TLS; set kafka.security.protocol to SSL or SASL_SSL" in fails(server, {})
        assert "the listener speaks TLS" in fails(server, PLAIN)


class Silent:
    """Accepts connections, answers each with `sent`, and then with nothing, or hangs up."""

    def __init__(self, sent: bytes = b"", *, hangs_up: bool = False) -> None:
        self._sent, self._hangs_up = sent, hangs_up
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)

    def __enter__(self) -> str:
        self._thread.start()
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        for one in (*self._open, self._listener):
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.sendall(self._sent)
                if self._hangs_up:
                    connection.recv(10)
                    connection.close()
                else:
                    self._open.append(connection)


def test_a_handshake_ends_by_the_deadline(made: Certificates) -> None:
    with Silent() as server:
        begun = time.monotonic()
        with pytest.raises(ClusterUnreachable, match="connected, but the TLS handshake failed: it did not end within"):
            end_of(server, tls(made), 500)
        assert time.monotonic() - begun < 0.5 + SLACK_S


def test_a_listener_that_hangs_up_on_everybody_is_tried_again(made: Certificates) -> None:
    with Silent(hangs_up=True) as server:
        with pytest.raises(ClusterUnreachable, match="the TLS handshake failed"):
            end_of(server, tls(made), 500)
        with pytest.raises(ClusterUnreachable, match=r"closed the connection|the connection broke"):
            end_of(server, {}, 500)


def test_something_else_than_tls(made: Certificates) -> None:
    with Silent(b"220 mail.example ESMTP\r\n") as server:
        assert "does not speak TLS; set kafka.security.protocol to PLAINTEXT or SASL_PLAINTEXT" in fails(
            server, tls(made)
        )


def test_bytes_that_are_for_tls_alone_do_not_make_a_connection_unusable(made: Certificates) -> None:
    with Scripted(tls=serving(made)) as server:
        given = settings(server, tls(made))
        with closing(Connection("east", given.addresses[0], given, Deadline.after(5))) as connection:
            assert connection.is_quiet()

            class Readable:
                """The socket has bytes, as when a session ticket comes."""

                def modify(self, *_: object) -> None:
                    return

                def poll(self, *_: object) -> list[tuple[int, int]]:
                    return [(connection.fileno(), select.POLLIN)]

            poll, connection._poll = connection._poll, Readable()  # type: ignore[assignment]
            assert connection.is_quiet()
            connection._poll = poll
            response = connection.request(METADATA, partial(write_metadata, ()), Deadline.after(5))
            assert response.brokers


def test_a_tls_connection_that_has_ended_is_not_quiet(made: Certificates) -> None:
    with Scripted(tls=serving(made)) as server:
        given = settings(server, tls(made))
        with closing(Connection("east", given.addresses[0], given, Deadline.after(5))) as connection:
            assert connection.is_quiet()
            connection._socket.shutdown(socket.SHUT_RD)
            assert not connection.is_quiet()
