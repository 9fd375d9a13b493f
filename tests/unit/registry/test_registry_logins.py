"""Logins and certificates: what is sent, to whom, and what is said when it is refused: never a secret."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from evensplit.errors import RegistryRefused, RegistryUnreachable
from evensplit.registry.client import Registry
from evensplit.registry.settings import RegistrySettings
from tests.support.authority import make_certificates, serving
from tests.support.metadata_server import CERTIFICATE, Server
from tests.support.registry_clients import SECRET, client, refusal
from tests.support.registry_server import FakeRegistry, status

TEXT = '"string"'


@pytest.fixture
def guarded() -> Iterator[FakeRegistry]:
    with FakeRegistry(users={"alice": SECRET, "mallory": SECRET}, denied=("mallory",)) as running:
        running.add("a", "AVRO", TEXT)
        yield running


def test_a_user(guarded: FakeRegistry) -> None:
    assert client(guarded, basic_auth_user_info=f"alice:{SECRET}").schema_by_id(1).text == TEXT
    in_url = guarded.url.replace("//", f"//alice:{SECRET}@")
    settings = RegistrySettings.of({"url": in_url, "basic.auth.credentials.source": "URL"})
    assert Registry(settings).latest("a").version == 1
    assert SECRET not in repr(settings) + repr(Registry(settings)) + settings.shown + repr(settings.identity)
    assert all(headers["Authorization"].startswith("Basic ") for _, headers in guarded.server.requests)
    assert all("@" not in headers["Host"] for _, headers in guarded.server.requests)


def test_a_token() -> None:
    with FakeRegistry(token=SECRET) as fake:
        fake.add("a", "AVRO", TEXT)
        assert client(fake, bearer_auth_token=SECRET).schema_by_id(1).text == TEXT
        told = refusal(lambda: client(fake, bearer_auth_token=f"{SECRET}x").schema_by_id(1), RegistryRefused)
        assert "schema 1: expected status 200, found status 401, error 401: it does not accept the login" in told
        assert "schema.registry.bearer.auth.token" in told


def test_no_login_a_wrong_one_and_one_that_may_not(guarded: FakeRegistry) -> None:
    assert "status 401, error 401: it wants a login, and there is none; check schema.registry.basic" in refusal(
        lambda: client(guarded).schema_by_id(1), RegistryRefused
    )
    assert "it does not accept the login" in refusal(
        lambda: client(guarded, basic_auth_user_info=f"bob:{SECRET}").schema_by_id(1), RegistryRefused
    )
    assert "status 403, error 40301: it does not let this login read that" in refusal(
        lambda: client(guarded, basic_auth_user_info=f"mallory:{SECRET}").schema_by_id(1), RegistryRefused
    )
    assert len(guarded.asked) == 3


def test_denied_without_a_login() -> None:
    with FakeRegistry() as fake:
        fake.troubles.append(status(403))
        with pytest.raises(RegistryRefused, match="it does not let anybody without a login read that"):
            client(fake).schema_by_id(1)


def test_secrets_that_change(guarded: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}-old\n")
    monkeypatch.setenv("REGISTRY_USER", "alice")
    registry = client(guarded, basic_auth_user_info=f"${{env:REGISTRY_USER}}:${{file:{file}}}")
    assert "does not accept the login" in refusal(lambda: registry.schema_by_id(1), RegistryRefused)
    file.write_text(f"{SECRET}\n")
    assert registry.schema_by_id(1).text == TEXT


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("bearer.auth.token", "${env:NOT_THERE}", "the environment variable 'NOT_THERE' is not set in this process"),
        ("bearer.auth.token", "${env:TWO_WORDS}", "schema.registry.bearer.auth.token has characters that no token has"),
        ("bearer.auth.token", "${env:NOTHING}", "schema.registry.bearer.auth.token is empty; expected a token"),
        ("basic.auth.user.info", "${env:ONE_WORD}", "basic.auth.user.info has no colon; expected user:password"),
    ],
)
def test_secrets_that_cannot_be_sent(
    guarded: FakeRegistry, monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: str
) -> None:
    monkeypatch.setenv("TWO_WORDS", f"{SECRET}\r\nX: y")
    monkeypatch.setenv("NOTHING", "")
    monkeypatch.setenv("ONE_WORD", SECRET)
    registry = Registry(RegistrySettings.of({"url": guarded.url, name: value}))
    assert expected in refusal(lambda: registry.schema_by_id(1), RegistryRefused)
    assert guarded.asked == []


def test_a_login_is_for_the_registry_alone(guarded: FakeRegistry) -> None:
    """A redirect to elsewhere is followed without it."""
    with Server(lambda exchange: exchange.answer(200, b'{"schema": "x"}')) as elsewhere:
        guarded.troubles.append(status(307, {"Location": elsewhere.url("/there")}))
        found = client(guarded, basic_auth_user_info=f"alice:{SECRET}").schema_by_id(1)
        assert found.text == "x"
        assert [(path, "Authorization" in headers) for path, headers in elsewhere.requests] == [("/there", False)]


def test_redirects_that_are_not_followed(guarded: FakeRegistry) -> None:
    guarded.troubles.append(status(302, {"Location": f"ftp://{SECRET}@there/"}))
    assert "found status 302 with no URL that can be asked" in refusal(lambda: client(guarded).schema_by_id(1))


def secured(tmp_path: Path, *, wants_client: bool = False) -> tuple[FakeRegistry, RegistrySettings, dict[str, str]]:
    certificates = make_certificates(tmp_path)
    fake = FakeRegistry()
    fake.add("a", "AVRO", TEXT)
    fake.server.socket = serving(certificates, wants_client=wants_client).wrap_socket(
        fake.server.socket, server_side=True
    )
    fake.server._scheme = "https"
    values = {"url": fake.url, "ssl.truststore.location": str(certificates.ca)}
    own = {
        "ssl.keystore.certificate.chain": certificates.client_certificate.read_text(),
        "ssl.keystore.key": certificates.client_key.read_text(),
    }
    return fake, RegistrySettings.of(values, timeout_ms=20_000), {**values, **own}


def test_tls_with_an_authority_of_ones_own(tmp_path: Path) -> None:
    fake, settings, _ = secured(tmp_path)
    with fake:
        assert Registry(settings).schema_by_id(1).text == TEXT


def test_a_certificate_of_ones_own(tmp_path: Path) -> None:
    fake, settings, values = secured(tmp_path, wants_client=True)
    with fake:
        assert Registry(RegistrySettings.of(values)).schema_by_id(1).text == TEXT
        told = refusal(lambda: Registry(settings).latest("a"), RegistryRefused)
        assert "TLS failed: " in told
        assert "CERTIFICATE_REQUIRED" in told
        assert "schema.registry.ssl.keystore.* if it wants a certificate" in told


def test_a_certificate_that_is_not_trusted() -> None:
    with FakeRegistry(tls=True) as fake:
        fake.add("a", "AVRO", TEXT)
        told = refusal(lambda: client(fake).schema_by_id(1), RegistryRefused)
        assert "TLS failed: CERTIFICATE_VERIFY_FAILED (self-signed certificate); check schema.registry.url and" in told
        assert client(fake, ssl_truststore_location=str(CERTIFICATE)).schema_by_id(1).text == TEXT


def test_a_registry_without_tls() -> None:
    with FakeRegistry() as fake:
        url = fake.url.replace("http:", "https:")
        told = refusal(lambda: Registry(RegistrySettings.of({"url": url})).schema_by_id(1), RegistryRefused)
        assert "TLS failed: " in told


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    settings = RegistrySettings.of(
        {"url": "https://127.0.0.1:1/x", "ssl.truststore.location": str(tmp_path / "no.pem")}
    )
    told = refusal(lambda: Registry(settings).schema_by_id(1), RegistryRefused)
    assert "schema.registry.ssl.truststore.location" in told
    assert "kafka." not in told
    assert "No such file" in told


def test_a_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy")
    with Server(lambda exchange: exchange.answer(200, b'{"schema": "by proxy"}')) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url(""))
        assert Registry(RegistrySettings.of({"url": "http://registry.test"})).schema_by_id(1).text == "by proxy"
        assert proxy.requests[0][0] == "http://registry.test/schemas/ids/1"


def test_a_host_that_does_not_exist() -> None:
    settings = RegistrySettings.of({"url": f"http://alice:{SECRET}@registry.invalid"}, timeout_ms=300)
    assert "http://registry.invalid: expected an answer, found gaierror" in refusal(
        lambda: Registry(settings).schema_by_id(1), RegistryUnreachable
    )


def test_passwords_may_have_any_characters() -> None:
    with FakeRegistry(users={"älice": "p:ß ,"}) as fake:
        fake.add("a", "AVRO", TEXT)
        assert client(fake, basic_auth_user_info="älice:p:ß ,").schema_by_id(1).text == TEXT
        sent = fake.server.requests[0][1]["Authorization"].removeprefix("Basic ")
        assert base64.b64decode(sent).decode() == "älice:p:ß ,"
        url = fake.url.replace("//", "//%C3%A4lice:p%3A%C3%9F%20%2C@")
        assert Registry(RegistrySettings.of({"url": url})).latest("a").version == 1
