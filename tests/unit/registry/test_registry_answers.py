"""What a registry answers, and what of it is refused: nonsense, too much, circles."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.errors import RegistryError, SchemaUnknown, SchemaUnusable
from evensplit.registry import kept, schemas
from evensplit.registry.asking import ANSWER_BYTES_MAX
from evensplit.registry.schemas import Schema, descriptor_of, parse_answer
from evensplit.registry.settings import RegistrySettings
from tests.support.registry_clients import client, refusal
from tests.support.registry_server import FakeRegistry, nonsense, status


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with FakeRegistry() as running:
        yield running


@pytest.fixture
def serializing() -> Iterator[FakeRegistry]:
    with FakeRegistry(serializes=True) as running:
        yield running


def test_an_id_is_asked_for_once_in_a_process(fake: FakeRegistry) -> None:
    made = fake.register("a", '"string"')
    first = client(fake).schema_by_id(made)
    fake.troubles.extend([status(404)] * 5)
    assert client(fake, timeout_ms=1).schema_by_id(made) is first
    assert fake.asked[1:] == [f"/schemas/ids/{made}"]


def test_versions_are_asked_for_each_time(fake: FakeRegistry) -> None:
    fake.register("a", '"string"')
    registry = client(fake)
    assert registry.latest("a").version == 1
    fake.register("a", '"long"')
    assert registry.latest("a").version == 2
    assert registry.version("a", 1).schema.text == '"string"'
    assert fake.asked[1::2] == ["/subjects/a/versions/latest", "/subjects/a/versions/latest"]


def test_a_login_does_not_see_what_another_one_was_given() -> None:
    with FakeRegistry(users={"alice": "a", "bob": "b"}, denied=("bob",)) as fake:
        made = fake.add("a", "AVRO", '"string"')
        assert client(fake, basic_auth_user_info="alice:a").schema_by_id(made).text == '"string"'
        with pytest.raises(RegistryError, match="status 403"):
            client(fake, basic_auth_user_info="bob:b").schema_by_id(made)


def test_of_many_schemas_those_used_last_are_kept() -> None:
    few = kept.Kept(2)
    settings = RegistrySettings(("http://registry",))
    for number in (1, 2):
        few.put(settings, Schema(number, "AVRO", "x"))
    assert few.get(settings, 1) is not None
    few.put(settings, Schema(3, "AVRO", "x"))
    assert [few.get(settings, number) is None for number in (1, 2, 3)] == [False, True, False]
    assert len(few) == 2


def test_many_threads_at_once(fake: FakeRegistry) -> None:
    ids = [fake.add(f"s{number}", "AVRO", json.dumps(f"n{number}")) for number in range(2)]
    registry = client(fake)
    ready = threading.Barrier(4)

    def ask(number: int) -> Schema:
        ready.wait()
        return registry.schema_by_id(ids[number % 2])

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(4)))
    assert [schema.text for schema in found] == [json.dumps(f"n{number % 2}") for number in range(4)]


def test_what_a_schema_refers_to_with_all_that_this_refers_to(fake: FakeRegistry) -> None:
    fake.register("c", '"c"')
    fake.register("b", '"b"', references=[("C", "c", 1)])
    made = fake.register("a", '"a"', references=[("B", "b", 1), ("C", "c", 1)])
    found = client(fake).schema_by_id(made)
    assert [(one.name, one.schema.text) for one in found.references] == [("B", '"b"'), ("C", '"c"')]
    assert [(name, one.text) for name, one in found.all_references().items()] == [("C", '"c"'), ("B", '"b"')]
    assert pickle.loads(pickle.dumps(found)).all_references() == found.all_references()
    # One that several refer to is asked for once, and also where it was deleted.
    assert fake.asked[3:] == [
        f"/schemas/ids/{made}",
        "/subjects/b/versions/1?deleted=true",
        "/subjects/c/versions/1?deleted=true",
    ]


def test_of_two_schemas_with_one_name_the_first_counts() -> None:
    old, new = Schema(1, "AVRO", "old"), Schema(2, "AVRO", "new")
    inner = Schema(3, "AVRO", "b", (schemas.Reference("X", old, "x", 1),))
    outer = Schema(4, "AVRO", "a", (schemas.Reference("B", inner, "b", 1), schemas.Reference("X", new, "x", 2)))
    assert outer.all_references() == {"X": old, "B": inner}


def test_protobuf_with_the_descriptor_where_the_registry_compiles(serializing: FakeRegistry) -> None:
    inner, outer = "message Inner {}", 'import "inner.proto"; message Outer {}'
    serializing.descriptors = {inner: b"\n\x0binner.proto", outer: b"\n\x0bouter.proto"}
    serializing.register("i", inner, "PROTOBUF")
    made = serializing.register("o", outer, "PROTOBUF", [("inner.proto", "i", 1)])
    found = client(serializing).schema_by_id(made)
    assert (found.text, found.descriptor) == (outer, b"\n\x0bouter.proto")
    assert (found.references[0].schema.text, found.references[0].schema.descriptor) == (inner, b"\n\x0binner.proto")
    assert client(serializing).latest("o").schema.descriptor == b"\n\x0bouter.proto"
    assert "/subjects/i/versions/1?deleted=true&format=serialized" in serializing.asked


def test_protobuf_as_source_where_the_registry_does_not_compile_it(fake: FakeRegistry) -> None:
    made = fake.register("a", "message A {}", "PROTOBUF")
    assert client(fake).schema_by_id(made).descriptor == b""
    assert client(fake).latest("a").schema.descriptor == b""
    assert fake.asked[1:3] == [f"/schemas/ids/{made}", f"/schemas/ids/{made}?format=serialized"]


def test_a_registry_that_cannot_compile_a_schema_still_has_its_source(serializing: FakeRegistry) -> None:
    found = b'{"schema": "message A {}", "schemaType": "PROTOBUF"}'
    serializing.troubles.extend([nonsense(found), status(422)])
    schema = client(serializing).schema_by_id(1)
    assert (schema.text, schema.descriptor) == ("message A {}", b"")


def test_protobuf_that_was_registered_as_a_descriptor(fake: FakeRegistry) -> None:
    """As clients in Python and .NET do; Apicurio's registry gives it as it got it."""
    fake.troubles.append(nonsense(b'{"schema": "CgdhLnByb3Rv", "schemaType": "PROTOBUF"}'))
    assert client(fake).schema_by_id(1).descriptor == b"\n\x07a.proto"
    assert fake.asked == ["/schemas/ids/1"]


@pytest.mark.parametrize(
    "body, kind, expected",
    [
        (b"<html>", RegistryError, "schema 7: expected a JSON object, found something else"),
        (b"[]", RegistryError, "expected a JSON object"),
        (b"[" * 100_000, RegistryError, "expected a JSON object"),
        (b"{}", RegistryError, "expected a schema as a text, found None"),
        (b'{"schema": 7}', RegistryError, "expected a schema as a text, found 7"),
        (
            b'{"schema": "x", "schemaType": "XML"}',
            SchemaUnusable,
            "expected a schemaType of AVRO, JSON, PROTOBUF, found 'XML'",
        ),
        (
            b'{"schema": "x", "schemaType": {}}',
            SchemaUnusable,
            "expected a schemaType of AVRO, JSON, PROTOBUF, found an object",
        ),
        (
            b'{"schema": "x", "references": {"a": 1}}',
            SchemaUnusable,
            "expected at most 256 references as a list, found an object",
        ),
        (
            b'{"schema": "x", "references": [7]}',
            SchemaUnusable,
            "expected a reference with name, subject and version, found 7",
        ),
        (
            b'{"schema": "x", "references": [{"name": "a"}]}',
            SchemaUnusable,
            "expected a reference with a name and a subject",
        ),
        (b'{"schema": "\\ud800"}', SchemaUnusable, "expected a schema in Unicode"),
        (
            b'{"schema": "x", "references": [{"name": "a", "subject": "\\udc00", "version": 1}]}',
            SchemaUnusable,
            "expected a reference in Unicode, found 'a' and '\\udc00'",
        ),
        (
            b'{"schema": "x", "references": [{"name": "a", "subject": "b", "version": -1}]}',
            SchemaUnusable,
            "expected version: a whole number from 1, found -1",
        ),
        (
            b'{"schema": "x", "references": [{"name": "a", "subject": "b", "version": true}]}',
            SchemaUnusable,
            "expected version: a whole number from 1, found True",
        ),
        (
            json.dumps({"schema": "x", "references": [7] * 257}).encode(),
            SchemaUnusable,
            "references as a list, found a list of 257",
        ),
        (b"<html>" + b"x" * ANSWER_BYTES_MAX, RegistryError, f"expected at most {ANSWER_BYTES_MAX} bytes, found more"),
        (
            b'{"schema": "' + b"x" * ANSWER_BYTES_MAX + b'"}',
            SchemaUnusable,
            f"expected at most {ANSWER_BYTES_MAX} bytes, found more",
        ),
    ],
)
def test_answers_that_cannot_be_used(fake: FakeRegistry, body: bytes, kind: type[RegistryError], expected: str) -> None:
    fake.troubles.append(nonsense(body))
    told = refusal(lambda: client(fake).schema_by_id(7), kind)
    assert told.startswith(f"schema registry {fake.url}: schema 7: ")
    assert expected in told
    assert fake.asked == ["/schemas/ids/7"]


@pytest.mark.parametrize("wrong", [{"id": "1"}, {"id": -1}, {"version": 0}, {"version": 3}, {"id": 2**63}, {"id": 1.0}])
def test_an_answer_about_another_version(fake: FakeRegistry, wrong: dict[str, Any]) -> None:
    fake.troubles.append(nonsense(json.dumps({"schema": "x", "id": 1, "version": 2, **wrong}).encode()))
    assert "subject 'a', version 2: expected " in refusal(lambda: client(fake).version("a", 2), SchemaUnusable)


def test_what_is_not_there(fake: FakeRegistry) -> None:
    made = fake.add("a", "AVRO", '"a"', (("B", "gone", 4),))
    assert "schema 99: it has no such schema (error 40403)" in refusal(
        lambda: client(fake).schema_by_id(99), SchemaUnknown
    )
    told = refusal(lambda: client(fake).schema_by_id(made), SchemaUnknown)
    assert "subject 'gone', version 4, to which schema 1 refers: it has no such subject (error 40401)" in told
    fake.troubles.append(status(404, None, b'{"error_code": 40406}'))
    with pytest.raises(SchemaUnknown, match="the version was deleted"):
        client(fake).version("a", 1)
    assert len(fake.asked) == 4


@pytest.mark.parametrize("number", [204, 301, 400, 404, 405, 409, 422])
def test_statuses_that_say_nothing_about_a_schema(fake: FakeRegistry, number: int) -> None:
    fake.troubles.append(status(number, None, b""))
    assert f"found status {number}" in refusal(lambda: client(fake).schema_by_id(1))
    assert len(fake.asked) == 1


@pytest.mark.parametrize("number, code", [(404, 404), (404, 0), (404, 42201), (400, 40403), (422, 422), (422, 40403)])
def test_other_numbers_say_nothing_about_a_schema(fake: FakeRegistry, number: int, code: int) -> None:
    """A registry says 404 of a path that it does not have, and what is in front of it can say anything."""
    fake.troubles.append(status(number, None, json.dumps({"error_code": code}).encode()))
    assert "is that a schema registry" in refusal(lambda: client(fake).schema_by_id(1))


@pytest.mark.parametrize(
    "number, code, kind, said",
    [
        (
            404,
            40499,
            SchemaUnknown,
            "schema 1: it does not have it (error 40499); is it the registry of the producers?",
        ),
        (422, 42201, SchemaUnusable, "schema 1: expected status 200, found status 422, error 42201: it does not give"),
    ],
)
def test_numbers_of_a_registry_are_about_the_schema(
    fake: FakeRegistry, number: int, code: int, kind: type[RegistryError], said: str
) -> None:
    fake.troubles.append(status(number, None, json.dumps({"error_code": code}).encode()))
    assert said in refusal(lambda: client(fake).schema_by_id(1), kind)


def test_a_circle_is_refused(fake: FakeRegistry) -> None:
    fake.add("a", "AVRO", '"a"', (("B", "b", 1),))
    fake.add("b", "AVRO", '"b"', (("A", "a", 1),))
    told = refusal(lambda: client(fake).latest("a"), SchemaUnusable)
    assert "subject 'b', version 1: it refers to 'a', version 1, which needs it" in told
    assert "it refers to 'b', version 1, which needs it" in refusal(
        lambda: client(fake).schema_by_id(1), SchemaUnusable
    )


def test_schemas_deep_in_each_other_are_refused(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.add("s0", "AVRO", "0")
    for number in range(1, 40):
        fake.add(f"s{number}", "AVRO", str(number), (("X", f"s{number - 1}", 1),))
    registry = client(fake)
    assert registry.schema_by_id(schemas.DEPTH_MAX + 1).all_references()["X"].text == str(schemas.DEPTH_MAX - 1)
    assert "at most 32 deep" in refusal(lambda: registry.schema_by_id(schemas.DEPTH_MAX + 2), SchemaUnusable)


def test_a_schema_that_was_found_on_a_short_way_is_as_deep_on_a_long_one(fake: FakeRegistry) -> None:
    fake.add("s0", "AVRO", "0")
    for number in range(1, 31):
        fake.add(f"s{number}", "AVRO", str(number), (("X", f"s{number - 1}", 1),))
    fake.add("high", "AVRO", "high", (("X", "s30", 1),))
    fake.add("higher", "AVRO", "higher", (("Y", "high", 1),))
    made = fake.add("top", "AVRO", "top", (("X", "s30", 1), ("Z", "higher", 1)))
    assert "at most 32 deep" in refusal(lambda: client(fake).schema_by_id(made), SchemaUnusable)


def test_too_many_schemas_are_refused(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evensplit.registry.client.REFERENCES_MAX", 3)
    for number in range(4):
        fake.add(f"s{number}", "AVRO", str(number))
    three = tuple((f"X{number}", f"s{number}", 1) for number in range(3))
    few, many = fake.add("few", "AVRO", "few", three), fake.add("many", "AVRO", "many", (*three, ("X3", "s3", 1)))
    assert len(client(fake).schema_by_id(few).references) == 3
    assert "expected at most 3 schemas that one is made of" in refusal(
        lambda: client(fake).schema_by_id(many), SchemaUnusable
    )


def test_too_many_characters_are_refused(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evensplit.registry.client.CHARACTERS_MAX", 10)
    fake.add("a", "AVRO", "123456")
    made = fake.add("b", "AVRO", "12345", (("A", "a", 1),))
    assert client(fake).latest("a").schema.text == "123456"
    assert "expected at most 10 characters with all that it refers to" in refusal(
        lambda: client(fake).schema_by_id(made), SchemaUnusable
    )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["schema", "schemaType", "references", "id", "version", "name", "subject"]),
            inner,
            max_size=5,
        )
    ),
)


@given(found=st.dictionaries(st.sampled_from(["schema", "schemaType", "references", "id", "version"]), _JSON))
def test_any_object_is_an_answer_or_a_sentence(found: dict[str, Any]) -> None:
    for known in ({"schema_id": 1}, {"version": 1}, {}):
        told = ""
        try:
            text = parse_answer(found, **known).text
        except ValueError as error:
            told = str(error)
        assert told.startswith("expected ") if told else text == found["schema"]


@given(text=st.text())
def test_a_source_is_no_descriptor(text: str) -> None:
    assert descriptor_of(f"message {text}") == b""
