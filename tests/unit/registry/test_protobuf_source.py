"""Descriptors of `.proto` sources by protoc, whatever their references are called."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from evensplit.registry.protobuf_source import descriptor_of, descriptors_of
from evensplit.registry.schemas import Reference, Schema
from evensplit.typed.protobuf.descriptors import from_registry, from_set

HEAD = 'syntax = "proto3";\n'
OTHER = HEAD + "package other;\nmessage Address { string city = 1; } // Köln"


def schema(text: str, descriptor: bytes = b"", **references: str) -> Schema:
    return named(text, references, descriptor)


def named(text: str, references: dict[str, str], descriptor: bytes = b"") -> Schema:
    made = [
        Reference(name, Schema(number, "PROTOBUF", one), f"s{number}", 1)
        for number, (name, one) in enumerate(references.items())
    ]
    return Schema(9, "PROTOBUF", text, tuple(made), descriptor)


def importing(*names: str) -> str:
    return HEAD + "".join(f'import "{name}";\n' for name in names)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(inner))
    return tmp_path


def message_fields(of: Schema) -> dict[str, list[str]]:
    described = from_set(from_registry(*descriptors_of(of)))
    return {name: list(one.fields_by_name) for name, one in described.main.message_types_by_name.items()}


@pytest.mark.parametrize("name", ["other.proto", "schema.proto", "SCHEMA.proto", "schema.proto/a", "descriptors"])
def test_a_reference_may_be_called_as_anything_that_is_made_here(name: str, empty: Path) -> None:
    text = importing(name) + "message Order { other.Address address = 1; }"
    assert message_fields(named(text, {name: OTHER})) == {"Order": ["address"]}
    assert FileDescriptorProto.FromString(descriptor_of(named(text, {name: OTHER}))).dependency == [name]
    assert not list(empty.glob("a/b/*"))


@pytest.mark.parametrize(
    "name",
    [
        *("/etc/x.proto", "../x.proto", "a/../../../x.proto", "a/./x.proto", "a//x.proto", "x/", "/", ".", ".."),
        *("a\0b", "a\nb", "a\\b", "x" * 300, "ö" * 150, "x/" * 900 + "x", "\ud800.proto", ""),
    ],
)
def test_a_reference_that_is_no_path_of_an_import(name: str, empty: Path) -> None:
    with pytest.raises(ValueError, match=r"refers to .*; expected the path of an import") as caught:
        descriptors_of(named(HEAD, {name: OTHER}))
    assert type(caught.value) is ValueError
    assert len(str(caught.value)) < 250
    assert [one.name for one in empty.rglob("*")] == ["a", "b"]


def test_references_of_which_one_is_a_directory_of_another() -> None:
    with pytest.raises(
        ValueError, match=r"refers to 'a/b' and to 'a/b/c\.proto'; expected no file to be a folder, too"
    ):
        descriptors_of(named(HEAD, {"a/b": OTHER, "a/b/c.proto": OTHER}))


@given(st.lists(st.text(st.sampled_from("a/.\0\\ö:"), max_size=6) | st.text(max_size=9), min_size=1, max_size=3))
def test_names_that_anyone_may_think_of(names: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        descriptors_of(named("no source", dict.fromkeys(names, OTHER)))
    assert type(caught.value) is ValueError


def test_a_text_that_has_no_utf_8() -> None:
    with pytest.raises(ValueError, match="the source of schema 9 has characters that UTF-8 cannot have"):
        descriptors_of(schema(HEAD + "// \ud800"))


def test_imports_that_everyone_has() -> None:
    text = importing("google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto") + (
        "message Order { google.protobuf.Timestamp at = 1; google.protobuf.Int64Value id = 2; }"
    )
    assert message_fields(schema(text)) == {"Order": ["at", "id"]}
    assert descriptors_of(schema(text))[1] == {}


WITH_META = importing("confluent/meta.proto", "confluent/type/decimal.proto") + (
    'option (confluent.file_meta).doc = "orders";\n'
    'message Order { option (confluent.message_meta) = { doc: "one", params: [{key: "a", value: "b"}], '
    'tags: ["PII"] };\n'
    'confluent.type.Decimal price = 1 [(confluent.field_meta).params = { key: "precision", value: "9" }]; }\n'
    'enum Kind { option (confluent.enum_meta).doc = "x"; NEW = 0 [(confluent.enum_value_meta).tags = "y"]; }'
)


def test_imports_that_confluent_adds() -> None:
    assert message_fields(schema(WITH_META)) == {"Order": ["price"]}
    main, others = descriptors_of(schema(WITH_META))
    assert sorted(others) == ["confluent/meta.proto", "confluent/type/decimal.proto"]
    # What a registry says of these is what counts.
    own = HEAD + "package confluent.type; message Decimal { string text = 1; }"
    given = descriptors_of(named(WITH_META, {"confluent/type/decimal.proto": own}))[1]
    (decimal,) = FileDescriptorProto.FromString(given["confluent/type/decimal.proto"]).message_type
    assert [one.name for one in decimal.field] == ["text"]
    # So is it where the registry's compiler has given the file without these.
    assert sorted(descriptors_of(schema(WITH_META, main))[1]) == sorted(others)


def test_an_import_that_is_not_there_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    text = (
        importing("google/type/money.proto", "google/protobuf/any.proto")
        + "message Order { google.type.Money price = 1; }"
    )
    with pytest.raises(
        ValueError, match=r"schema 9: 'google/type/money\.proto' is imported, and is not among its refer"
    ):
        descriptors_of(schema(text))
    with pytest.raises(ValueError, match="protoc refuses the source of schema 9; it has said why on stderr"):
        descriptor_of(schema("message {"))
    assert "Expected message name" in capfd.readouterr().err


def test_without_protoc(monkeypatch: pytest.MonkeyPatch) -> None:
    main, _ = descriptors_of(schema(WITH_META))
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    assert descriptor_of(schema(OTHER)) == b""
    for one in (schema(OTHER), schema(WITH_META, main)):
        with pytest.raises(ValueError, match="pip install grpcio-tools, which has protoc, or give a descriptor set"):
            descriptors_of(one)
