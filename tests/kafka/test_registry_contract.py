"""What a schema registry answers: the same for a real one and for the fake of the unit tests."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest

from evensplit.errors import LocalKafkaError, RegistryError, RegistryRefused, SchemaUnknown
from evensplit.registry.client import Registry
from evensplit.registry.kept import KEPT, MISSED
from evensplit.registry.schemas import Schema
from evensplit.registry.settings import RegistrySettings
from evensplit.testing import LocalRegistry
from evensplit.testing.registry.helpers import RegistryHelpers
from tests.support.metadata_server import Exchange, Server
from tests.support.registry_server import FakeRegistry

INNER = '{"type":"record","name":"Inner","namespace":"shop","fields":[{"name":"cents","type":"long"}]}'
OUTER = '{"type":"record","name":"Outer","namespace":"shop","fields":[{"name":"price","type":"shop.Inner"}]}'
PROTO_INNER = 'syntax = "proto3"; package shop; message Inner { int64 cents = 1; }'
PROTO_OUTER = 'syntax = "proto3"; package shop; import "inner.proto"; message Outer { Inner price = 1; }'
JSON_SCHEMA = '{"type":"object","properties":{"id":{"type":"integer"}}}'


@pytest.fixture(scope="module")
def real() -> Iterator[LocalRegistry]:
    with LocalRegistry() as running:
        yield running


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.kafka)])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryHelpers]:
    monkeypatch.setenv("no_proxy", "*")
    KEPT.clear()
    MISSED.clear()
    if request.param == "real":
        yield request.getfixturevalue("real")
        return
    with FakeRegistry() as fake:
        yield fake


@pytest.fixture
def subject() -> str:
    return f"s{uuid.uuid4().hex[:8]}"


def client(server: RegistryHelpers, **values: str) -> Registry:
    return Registry(RegistrySettings.of({"url": server.url, **values}, timeout_ms=20_000))


def test_a_schema_by_its_id_and_as_a_version_of_its_subject(server: RegistryHelpers, subject: str) -> None:
    first = server.register(subject, INNER)
    second = server.register(subject, '"string"')
    registry = client(server)
    assert registry.schema_by_id(first) == Schema(first, "AVRO", INNER)
    assert registry.schema_by_id(second) == Schema(second, "AVRO", '"string"')
    one, two = registry.version(subject, 1), registry.latest(subject)
    assert (one.subject, one.version, one.schema) == (subject, 1, Schema(first, "AVRO", INNER))
    assert (two.subject, two.version, two.schema) == (subject, 2, Schema(second, "AVRO", '"string"'))
    assert registry.version(subject, 2) == two


def test_a_schema_that_is_registered_again_keeps_its_id(server: RegistryHelpers, subject: str) -> None:
    first = server.register(subject, INNER)
    assert server.register(subject, INNER) == first
    assert client(server).latest(subject).version == 1
    assert server.register(f"{subject}-other", INNER) == first
    assert client(server).latest(f"{subject}-other").schema.id == first


@pytest.mark.parametrize("kind, text", [("AVRO", OUTER.replace("shop.Inner", "long")), ("JSON", JSON_SCHEMA)])
def test_kinds(server: RegistryHelpers, subject: str, kind: str, text: str) -> None:
    found = client(server).schema_by_id(server.register(subject, text, kind))
    assert (found.kind, found.text, found.descriptor, found.references) == (kind, text, b"", ())


def test_protobuf(server: RegistryHelpers, subject: str) -> None:
    server.register(f"{subject}-inner", PROTO_INNER, "PROTOBUF")
    outer = server.register(subject, PROTO_OUTER, "PROTOBUF", [("inner.proto", f"{subject}-inner", 1)])
    found = client(server).schema_by_id(outer)
    assert (found.kind, found.text) == ("PROTOBUF", PROTO_OUTER)
    assert {name: one.text for name, one in found.all_references().items()} == {"inner.proto": PROTO_INNER}


def test_references(server: RegistryHelpers, subject: str) -> None:
    inner = server.register(f"{subject}-inner", INNER)
    server.register(f"{subject}-inner", INNER.replace("cents", "euros"))
    outer = server.register(subject, OUTER, references=[("shop.Inner", f"{subject}-inner", 1)])
    for found in (client(server).schema_by_id(outer), client(server).latest(subject).schema):
        (reference,) = found.references
        assert (reference.name, reference.subject, reference.version) == ("shop.Inner", f"{subject}-inner", 1)
        assert reference.schema == Schema(inner, "AVRO", INNER)


def test_a_subject_may_have_any_name(server: RegistryHelpers, subject: str) -> None:
    name = f"{subject}/a b%2F+ü?#:-value"
    made = server.register(name, INNER)
    assert client(server).latest(name).schema.id == made


def test_what_is_not_there(server: RegistryHelpers, subject: str) -> None:
    server.register(subject, INNER)
    registry = client(server)
    for ask, expected in (
        (lambda: registry.schema_by_id(987_654), "schema 987654: it has no such schema (error 40403)"),
        (
            lambda: registry.latest(f"{subject}-no"),
            f"subject '{subject}-no', the latest version: it has no such subject",
        ),
        (lambda: registry.version(subject, 9), f"subject '{subject}', version 9: it has no such version (error 40402)"),
    ):
        with pytest.raises(SchemaUnknown) as caught:
            ask()
        assert expected in str(caught.value)
        assert caught.value.registry == server.url


def test_a_path_that_is_none_of_a_registry(server: RegistryHelpers) -> None:
    with pytest.raises(RegistryError, match=r"status 404.*is that a schema registry.*/apis/ccompat/v7") as caught:
        Registry(RegistrySettings.of({"url": server.url.replace("/ccompat", "/nothing")})).schema_by_id(1)
    assert type(caught.value) is RegistryError


def test_what_cannot_be_registered(server: RegistryHelpers, subject: str) -> None:
    with pytest.raises(LocalKafkaError, match=r"status 422.*42201"):
        server.register(subject, '{"type":')
    with pytest.raises(LocalKafkaError, match=r"status 422.*42201"):
        server.register(subject, OUTER, references=[("shop.Inner", f"{subject}-no", 1)])


def test_compatibility(server: RegistryHelpers, subject: str) -> None:
    server.register(subject, INNER)
    server.set_compatibility(subject, "FULL")
    with pytest.raises(LocalKafkaError, match=r"status 4"):
        server.set_compatibility(subject, "SILLY")


def test_behind_a_gateway_that_wants_a_login(server: RegistryHelpers, subject: str) -> None:
    """Apicurio's registry has no passwords of its own: these are checked by a server in front of it."""
    made = server.register(subject, INNER)

    def gateway(exchange: Exchange) -> None:
        if exchange.headers.get("Authorization") != "Basic YWxpY2U6c2VjcmV0":
            exchange.answer(401, b"who?")
            return
        path = exchange.path.removeprefix("/registry")
        exchange.answer(200, json.dumps(server.request("GET", path)).encode())

    with Server(gateway) as front:
        values = {"url": front.url("/registry"), "basic.auth.user.info": "alice:secret"}
        assert Registry(RegistrySettings.of(values)).schema_by_id(made).text == INNER
        values["url"] = values["url"].replace("//", "//alice:secret@")
        del values["basic.auth.user.info"]
        assert Registry(RegistrySettings.of(values)).latest(subject).schema.id == made
        with pytest.raises(RegistryRefused, match=r"status 401: it wants a login, and there is none"):
            Registry(RegistrySettings.of({"url": front.url("/registry")})).schema_by_id(made)
