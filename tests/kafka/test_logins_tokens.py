"""Logins with tokens: from an endpoint, from a file, and unsecured ones."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evensplit.errors import ClusterUnreachable
from evensplit.kafka.auth import oauth
from tests.support.login_client import end_of, fails
from tests.support.logins import AUTHENTICATION_FAILED, LoginBroker
from tests.support.metadata_server import CERTIFICATE, Exchange, Respond
from tests.support.metadata_server import Server as HttpServer
from tests.support.waiting import SLACK_S


@pytest.fixture
def endpoint() -> Iterator[HttpServer]:
    server = HttpServer(lambda exchange: exchange.answer(500))
    with server:
        yield server
    oauth._tokens.clear()


def give_token(token: str, life_s: int | None = 3600) -> Respond:
    body = {"access_token": token, "token_type": "Bearer"} | ({} if life_s is None else {"expires_in": life_s})

    def respond(exchange: Exchange) -> None:
        exchange.answer(200, json.dumps(body).encode())

    return respond


def oauth_settings(url: str, **more: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.jaas.config": 'OAuthBearerLoginModule required clientId="me" clientSecret="hunter2" scope="kafka" '
        'extension_logicalCluster="lkc";',
        **more,
    }


def bearer(*tokens: str) -> tuple[LoginBroker, list[bytes]]:
    """A broker that takes these tokens alone, and what it was sent."""
    sent: list[bytes] = []

    def check(message: bytes) -> tuple[int, str, bytes]:
        sent.append(message)
        if message == b"\x01":
            return AUTHENTICATION_FAILED, '{"status":"invalid_token"}', b""
        right = any(f"auth=Bearer {token}\x01".encode() in message for token in tokens)
        return 0, "", b"" if right else b'{"status":"invalid_token"}'

    return LoginBroker(lambda: check, mechanisms=["OAUTHBEARER"]), sent


def test_a_token_is_asked_for_once_and_used_while_it_is_valid(endpoint: HttpServer) -> None:
    endpoint.respond = give_token("abc.def")
    broker, sent = bearer("abc.def")
    with broker as server:
        for _ in range(3):
            assert end_of(server, oauth_settings(endpoint.url("/token"))) == 42
    assert len(endpoint.requests) == 1
    path, headers = endpoint.requests[0]
    assert path == "/token"
    assert headers["Authorization"] == "Basic bWU6aHVudGVyMg=="
    assert endpoint.bodies == [b"grant_type=client_credentials&scope=kafka"]
    assert set(sent) == {b"n,,\x01auth=Bearer abc.def\x01logicalCluster=lkc\x01\x01"}


def test_a_token_that_is_refused_is_not_kept(endpoint: HttpServer) -> None:
    endpoint.respond = give_token("old-hunter2")
    broker, _ = bearer("new")
    with broker as server:
        message = fails(server, oauth_settings(endpoint.url("/token")))
        assert "the broker refused the token; check who issues it" in message
        assert "invalid_token" in message
        endpoint.respond = give_token("new", life_s=None)
        assert end_of(server, oauth_settings(endpoint.url("/token"))) == 42


def test_an_endpoint_that_refuses_and_one_that_has_trouble(endpoint: HttpServer) -> None:
    broker, _ = bearer("x")
    with broker as server:
        endpoint.respond = lambda exchange: exchange.answer(401, b'{"error":"invalid_client","x":"hunter2"}')
        message = fails(server, oauth_settings(endpoint.url("/token?key=hunter2")))
        assert "gave no token: status 401, invalid_client; check the client's id, secret and scope" in message
        endpoint.respond = give_token("with space hunter2")
        assert "has no token that can be one" in fails(server, oauth_settings(endpoint.url("/token")))
        endpoint.respond = lambda exchange: exchange.answer(503)
        with pytest.raises(ClusterUnreachable, match="gave no token: status 503"):
            end_of(server, oauth_settings(endpoint.url("/token")), 2_000)
        endpoint.respond = lambda exchange: exchange.trickle(b"HTTP/1.1 200 OK\r\n")
        begun = time.monotonic()
        with pytest.raises(ClusterUnreachable, match="gave no token"):
            end_of(server, oauth_settings(endpoint.url("/token")), 500)
        assert time.monotonic() - begun < 0.5 + SLACK_S


ENDLESS = "1" + "0" * 400


@pytest.mark.parametrize(
    "claims, life",
    [
        ("{}", ENDLESS),
        ("{}", f"-{ENDLESS}"),
        ("{}", "Infinity"),
        ("{}", "NaN"),
        ("{}", '"soon"'),
        ("[" * 100_000, "null"),
        (f'{{"exp":{ENDLESS}}}', "null"),
        ('{"exp":Infinity}', "null"),
        ('{"exp":"soon"}', "null"),
    ],
)
def test_a_token_that_says_nonsense_of_its_life_is_used_once(endpoint: HttpServer, claims: str, life: str) -> None:
    token = f"a.{base64.urlsafe_b64encode(claims.encode()).decode().rstrip('=')}.c"
    body = f'{{"access_token":"{token}","expires_in":{life}}}'.encode()
    endpoint.respond = lambda exchange: exchange.answer(200, body)
    broker, _ = bearer(token)
    with broker as server:
        for count in (1, 2):
            assert end_of(server, oauth_settings(endpoint.url("/token"))) == 42
            assert len(endpoint.requests) == count


def test_an_endpoint_with_a_certificate_of_its_own() -> None:
    broker, _ = bearer("abc")
    with HttpServer(give_token("abc"), tls=True) as https, broker as server:
        values = oauth_settings(https.url("/token", "localhost"))
        assert "gave no token: SSLCertVerificationError" in fails(server, values)
        trust = f' ssl.truststore.location="{CERTIFICATE}";'
        trusting = {**values, "sasl.jaas.config": values["sasl.jaas.config"].replace(";", trust)}
        assert end_of(server, trusting) == 42
        # The token is there by now, and not for those who do not trust where it is from.
        assert "gave no token: SSLCertVerificationError" in fails(server, values)
        assert end_of(server, trusting) == 42
        assert len(https.requests) == 1
        assert end_of(server, {**trusting, "sasl.oauthbearer.header.urlencode": "true"}) == 42
        assert len(https.requests) == 2
    oauth._tokens.clear()


def test_a_token_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("abc\n")
    broker, _ = bearer("abc")
    with broker as server:
        assert end_of(server, oauth_settings(f"file://{file}")) == 42
        file.unlink()
        assert "cannot be read here" in fails(server, oauth_settings(f"file://{file}"))


def test_unsecured_tokens_say_what_they_are_told_to() -> None:
    module = (
        'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice" unsecuredLoginNumberClaim_age="7" '
        'unsecuredLoginListClaim_scope="|a|b" unsecuredLoginExtension_tenant="t" unsecuredLoginLifetimeSeconds="60";'
    )
    values = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": module}
    sent: list[bytes] = []

    def check(message: bytes) -> tuple[int, str, bytes]:
        sent.append(message)
        return 0, "", b""

    with LoginBroker(lambda: check, mechanisms=["OAUTHBEARER"]) as server:
        assert end_of(server, values) == 42
        odd = {**values, "sasl.jaas.config": module.replace("60", "hunter2")}
        assert "an option unsecuredLogin... has a value that is no number" in fails(server, odd)
    _, auth, tenant, *_ = sent[0].split(b"\x01")
    assert tenant == b"tenant=t"
    payload = auth.removeprefix(b"auth=Bearer ").split(b".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
    assert claims["exp"] - claims["iat"] == 60
    assert {name: claims[name] for name in ("sub", "age", "scope")} == {"sub": "alice", "age": 7, "scope": ["a", "b"]}
