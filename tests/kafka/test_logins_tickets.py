"""Logins by what other packages know: Kerberos, and AWS."""

from __future__ import annotations

import json
import sys
import threading
import time
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pytest

from evensplit.errors import ClusterUnreachable
from evensplit.kafka.auth.gssapi import Kerberos
from evensplit.testing.secured.certificates import Certificates
from tests.support.authority import serving
from tests.support.login_client import accept_plain, end_of, fails, settings, tls
from tests.support.logins import LoginBroker
from tests.support.waiting import SLACK_S


@pytest.mark.parametrize(
    "package, values",
    [
        ("gssapi", {"security.protocol": "SASL_PLAINTEXT", "sasl.kerberos.service.name": "kafka"}),
        ("botocore", {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}),
    ],
)
def test_packages_that_are_not_there_are_named(
    made: Certificates, package: str, values: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What other tests of this process have loaded of it would be found without it.
    for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)
    over_tls = values["security.protocol"] == "SASL_SSL"
    with LoginBroker(accept_plain, tls=serving(made) if over_tls else None) as server:
        given = {**tls(made), **values} if over_tls else values
        assert f"needs the package {package}: pip install {package} on the driver and the" in fails(server, given)


class Tickets:
    """What python-gssapi does, without Kerberos: two steps, then a wrapped offer of layers."""

    class exceptions:  # noqa: N801 (their name)
        class GSSError(Exception):
            pass

    class NameType:
        hostbased_service = kerberos_principal = "name"

    class MechType:
        kerberos = "kerberos"

    @staticmethod
    def Name(text: str, name_type: str) -> str:  # noqa: N802 (their name)
        return text

    class Credentials(dict[str, object]):
        lifetime = None

    class SecurityContext:
        made: ClassVar[list[dict[str, object]]] = []

        def __init__(self, **given: object) -> None:
            self.made.append(given)
            self.complete = False

        def step(self, token: bytes | None) -> bytes | None:
            if token is None:
                return b"first"
            if token != b"server":
                raise Tickets.exceptions.GSSError("no")
            self.complete = True
            return None

        def unwrap(self, message: bytes) -> SimpleNamespace:
            return SimpleNamespace(message=message)

        def wrap(self, message: bytes, confidential: bool) -> SimpleNamespace:
            return SimpleNamespace(message=b"wrapped" + message)


@pytest.mark.parametrize("layers", [b"\x07\0\xff\xff", b"\x06\0\xff\xff"])
def test_kerberos_by_a_keytab(layers: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", Tickets)
    answers = {b"first": b"server", b"": layers, b"wrapped\x01\0\0\0": b""}
    values = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": 'Krb5LoginModule required useKeyTab=true keyTab="/a.keytab" principal="me@HERE";',
    }
    with LoginBroker(lambda: lambda message: (0, "", answers[message]), mechanisms=["GSSAPI"]) as server:
        if layers[0] & 1:
            assert end_of(server, values) == 42
            assert Tickets.SecurityContext.made[-1]["name"] == "kafka@127.0.0.1"
            store = {"client_keytab": "FILE:/a.keytab", "ccache": "MEMORY:evensplit FILE:/a.keytab me@HERE"}
            assert Tickets.SecurityContext.made[-1]["creds"] == {"name": "me@HERE", "usage": "initiate", "store": store}
        else:
            assert "insists on a security layer" in fails(server, values)


@pytest.mark.parametrize(
    "module, expected",
    [
        ("", None),
        ("useTicketCache=true", None),
        ("useTicketCache=true ticketCache='/c'", {"name": None, "store": {"ccache": "FILE:/c"}}),
        ("useTicketCache=true ticketCache='DIR:/c' principal=me", {"name": "me", "store": {"ccache": "DIR:/c"}}),
        ("useTicketCache=true principal=me", {"name": "me", "store": None}),
        (
            "useTicketCache=true ticketCache='/c' useKeyTab=true keyTab='/k' principal=me",
            {"name": "me", "store": {"ccache": "FILE:/c"}},
        ),
        (
            "useKeyTab=true keyTab='/k' principal=me",
            {"name": "me", "store": {"ccache": "MEMORY:evensplit FILE:/k me", "client_keytab": "FILE:/k"}},
        ),
    ],
)
def test_the_tickets_that_kerberos_is_to_use(
    module: str, expected: dict[str, object] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", Tickets)
    values = {"security.protocol": "SASL_PLAINTEXT", "sasl.kerberos.service.name": "kafka"}
    values["sasl.jaas.config"] = f"Krb5LoginModule required {module};"
    options = settings("b:1", values).security.resolve("east").sasl
    assert options is not None
    Kerberos("east", options, "b")
    found = Tickets.SecurityContext.made[-1]["creds"]
    assert found == (None if expected is None else {**expected, "usage": "initiate"})


@pytest.mark.parametrize("where", ["SecurityContext.step", "SecurityContext.__init__"])
def test_kerberos_without_an_answer_ends_by_the_deadline(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", Tickets)
    ended = threading.Event()
    monkeypatch.setattr(Tickets.SecurityContext, where.rpartition(".")[2], lambda *_, **__: ended.wait(60) and None)
    values = {"security.protocol": "SASL_PLAINTEXT", "sasl.kerberos.service.name": "kafka"}
    with LoginBroker(accept_plain, mechanisms=["GSSAPI"]) as server:
        begun = time.monotonic()
        with pytest.raises(ClusterUnreachable, match=r"GSSAPI: Kerberos \(a KDC of the realm\) did not answer in time"):
            end_of(server, values, 500)
        assert time.monotonic() - begun < 0.5 + SLACK_S
    ended.set()


@pytest.mark.parametrize(
    "minor, passing", [(-1765328228, True), (-1765328351 & 0xFFFFFFFF, True), (-1765328377, False)]
)
def test_errors_of_kerberos_that_pass(minor: int, passing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", Tickets)

    def step(*_: object) -> bytes:
        error = Tickets.exceptions.GSSError("said so")
        error.min_code = minor  # type: ignore[attr-defined]
        raise error

    monkeypatch.setattr(Tickets.SecurityContext, "step", step)
    values = {"security.protocol": "SASL_PLAINTEXT", "sasl.kerberos.service.name": "kafka"}
    with LoginBroker(accept_plain, mechanisms=["GSSAPI"]) as server:
        if passing:
            with pytest.raises(ClusterUnreachable, match=r"no ticket for kafka@127\.0\.0\.1 now: said so"):
                end_of(server, values, 500)
        else:
            assert "Kerberos says: said so; check the ticket" in fails(server, values)


class AwsSession:
    """What botocore has, without AWS."""

    key: ClassVar[str | None] = "AKIA"

    def get_credentials(self) -> SimpleNamespace | None:
        frozen = SimpleNamespace(access_key=self.key, secret_key="hunter2", token=None)
        return SimpleNamespace(get_frozen_credentials=lambda: frozen) if self.key else None

    def get_config_variable(self, name: str) -> str:
        return "eu-central-1"


def test_msk_by_the_class_of_kafka_python(made: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore", ModuleType("botocore"))
    session = ModuleType("botocore.session")
    session.Session = AwsSession  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "botocore.session", session)
    values = {
        **tls(made),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    }
    sent: list[bytes] = []

    def check(message: bytes) -> tuple[int, str, bytes]:
        sent.append(message)
        return 0, "", b'{"version": "2020_10_22"}'

    with LoginBroker(lambda: check, mechanisms=["AWS_MSK_IAM"], tls=serving(made)) as server:
        assert end_of(server, values) == 42
        asked = json.loads(sent[0])
        assert (asked["action"], asked["host"], asked["version"]) == (
            "kafka-cluster:Connect",
            "127.0.0.1",
            "2020_10_22",
        )
        assert b"hunter2" not in sent[0]
        ended = threading.Event()
        with monkeypatch.context() as patch:
            patch.setattr(AwsSession, "get_credentials", lambda _: ended.wait(60) and None)
            with pytest.raises(ClusterUnreachable, match=r"AWS_MSK_IAM: AWS .* did not answer in time"):
                end_of(server, values, 500)
        ended.set()
        monkeypatch.setattr(AwsSession, "key", None)
        assert "AWS gave no credentials or no region for AWS_MSK_IAM" in fails(server, values)
