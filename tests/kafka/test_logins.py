"""Logins with names and passwords, at brokers in this process, which can be wrong in ways that real ones are not."""

from __future__ import annotations

from contextlib import closing

import pytest

from evensplit.errors import UnsupportedBroker
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.fetch.connection_pool import Pool
from tests.support.clients import NOWHERE
from tests.support.login_client import PLAIN, SCRAM, accept_plain, end_of, fails, settings
from tests.support.logins import AUTHENTICATION_FAILED, LoginBroker, scram_login
from tests.support.scripted import Scripted
from tests.support.waiting import wait_for


def test_a_name_and_a_password() -> None:
    broker = LoginBroker(accept_plain)
    with broker as server:
        assert end_of(server, PLAIN) == 42
    assert broker.asked[:4] == ["ApiVersions", "SaslHandshake", "SaslAuthenticate", "Metadata"]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_the_request(version: int) -> None:
    with LoginBroker(accept_plain, authenticate_version=version) as server:
        assert end_of(server, PLAIN) == 42


def test_refused_credentials_are_no_reason_to_try_again_and_not_repeated() -> None:
    broker = LoginBroker(lambda: lambda message: (AUTHENTICATION_FAILED, f"no: {message.decode()}", b""))
    with broker as server:
        message = fails(server, PLAIN)
    assert "PLAIN: the broker refused the credentials; check the name and the password (kafka.sasl.jaas.c" in message
    assert r"alice\x00***" in message
    assert broker.logins == 1


def test_one_of_two_servers_that_lets_nobody_in_does_no_harm() -> None:
    with LoginBroker(accept_plain) as good, LoginBroker(lambda: lambda _: (AUTHENTICATION_FAILED, "", b"")) as bad:
        assert end_of(f"{bad},{good}", PLAIN) == 42
        assert "refused the credentials" in fails(f"{NOWHERE},{bad}", PLAIN)


def test_a_mechanism_that_is_not_enabled() -> None:
    with LoginBroker(accept_plain, mechanisms=("GSSAPI", "SCRAM-SHA-512")) as server:
        message = fails(server, PLAIN)
    assert (
        "the mechanism PLAIN (kafka.sasl.mechanism) is not enabled on the broker; it has: GSSAPI, SCRAM-SHA-512"
        in message
    )


def test_a_listener_without_logins() -> None:
    with LoginBroker(accept_plain, handshake_code=34) as server:
        assert "this listener has no SASL; set kafka.security.protocol to PLAINTEXT" in fails(server, PLAIN)
    with Scripted() as server:
        assert "the broker knows versions of SaslHandshake: none" in fails(server, PLAIN, UnsupportedBroker)


def test_scram_proves_both_sides() -> None:
    with LoginBroker(lambda: scram_login("SCRAM-SHA-256", "alice", "hunter2"), mechanisms=["SCRAM-SHA-256"]) as server:
        assert end_of(server, SCRAM) == 42
    with LoginBroker(lambda: scram_login("SCRAM-SHA-256", "alice", "other"), mechanisms=["SCRAM-SHA-256"]) as server:
        assert "refused the credentials" in fails(server, SCRAM)


def test_a_server_that_takes_every_password_is_not_believed() -> None:
    forged = LoginBroker(
        lambda: scram_login("SCRAM-SHA-256", "alice", "hunter2", forged=True), mechanisms=["SCRAM-SHA-256"]
    )
    with forged as server:
        assert "the server's signature is wrong: it does not know the password" in fails(server, SCRAM)
    assert "Metadata" not in forged.asked


def test_a_server_that_asks_for_too_little_work() -> None:
    weak = LoginBroker(
        lambda: scram_login("SCRAM-SHA-256", "alice", "hunter2", iterations=4095), mechanisms=["SCRAM-SHA-256"]
    )
    with weak as server:
        assert "asks for 4095 iterations; expected 4096" in fails(server, SCRAM)


def test_an_exchange_without_an_end() -> None:
    oauth_login = {
        **PLAIN,
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";',
    }
    with LoginBroker(lambda: lambda _: (0, "", b"more"), mechanisms=["OAUTHBEARER"]) as server:
        assert "no result after 16 rounds" in fails(server, oauth_login)


def test_a_connection_is_given_up_before_its_login_ends() -> None:
    broker = LoginBroker(accept_plain, lifetime_ms=6_000)
    pool = Pool()
    with broker as server, closing(pool), closing(ClusterClient("east", settings(server, PLAIN))) as client:
        given = settings(server, PLAIN)
        address = given.addresses[0]
        first = pool.take("east", given, address, Deadline.after(5))
        pool.give_back(first, given)
        assert pool.take("east", given, address, Deadline.after(5)) is first
        pool.give_back(first, given)
        assert client.list_offsets({("t", 0): -1}) == {("t", 0): 42}
        before = broker.logins
        wait_for(lambda: not first.usable, what="the end of a login")
        another = pool.take("east", given, address, Deadline.after(5))
        assert another is not first
        pool.give_back(another, given)
        wait_for(lambda: client.list_offsets({("t", 0): -1}) and broker.logins >= before + 2, what="a new login")


def test_a_login_without_an_end_is_used_on() -> None:
    broker = LoginBroker(accept_plain)
    with broker as server, closing(ClusterClient("east", settings(server, PLAIN))) as client:
        for _ in range(3):
            client.list_offsets({("t", 0): -1})
    assert broker.logins == 1
