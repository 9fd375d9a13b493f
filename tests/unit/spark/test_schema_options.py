"""The options of schemas: of Avro, of Protocol Buffers, and of a registry."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from evensplit.errors import OptionError, SchemaUnknown
from evensplit.registry.schemas import Reference, Schema
from evensplit.registry.settings import RegistrySettings
from evensplit.spark.options.parse import SourceOptions, parse_options

BASE = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}
REGISTRY = {**BASE, "schema.registry.url": "http://registry:8081"}
MONEY = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "shop.Money"}],
}
AVRO = Schema(7, "AVRO", json.dumps(ORDER), (Reference("shop.Money", Schema(6, "AVRO", json.dumps(MONEY)), "m", 1),))
PLAIN = json.dumps({"type": "record", "name": "Id", "fields": [{"name": "id", "type": ["null", "long"]}]})


def descriptors(*names: str) -> FileDescriptorSet:
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    for name in names:
        field = file.message_type.add(name=name).field.add(name=f"{name.lower()}_id", number=1)
        field.type, field.label = FieldDescriptorProto.TYPE_INT64, FieldDescriptorProto.LABEL_OPTIONAL
    return FileDescriptorSet(file=[file])


class Registry:
    """Notes what it was asked for."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self.asked: list[tuple[str, str, int | None]] = []

    def __call__(self, settings: RegistrySettings, subject: str, version: int | None) -> Schema:
        self.asked.append((settings.shown, subject, version))
        if subject not in self._schemas:
            raise SchemaUnknown(settings.shown, "it has no such subject")
        return self._schemas[subject]


def values(parsed: SourceOptions) -> str:
    decoding = parsed.reading.value
    return "" if decoding is None else str(decoding.type)


def problems(options: Mapping[str, str], registry: Registry | None = None) -> tuple[str, ...]:
    with pytest.raises(OptionError) as caught:
        parse_options(options, registry)
    return tuple(caught.value.problems)


def test_a_schema_of_avro_in_a_file_and_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "id.avsc"
    file.write_text(PLAIN)
    for schema in (PLAIN, f"file:{file}"):
        parsed = parse_options({**BASE, "value.format": "avro", "value.schema": schema})
        decoding = parsed.reading.value
        assert decoding is not None
        assert (str(decoding.type), decoding.framed, decoding.by_writer) == ("struct<id:bigint>", False, False)
        assert decoding.program is not None
        assert parsed.settings.value_schema.column == '["struct",[["id",["long"]]]]'
    (found,) = problems({**BASE, "value.format": "avro", "value.schema": "id BIGINT"})
    assert "expected a schema of Avro in JSON" in found


def test_a_message_of_a_descriptor_set(tmp_path: Path) -> None:
    data = descriptors("Order", "OrderId").SerializeToString()
    file = tmp_path / "shop.pb"
    file.write_bytes(data)
    given = {**BASE, "value.format": "protobuf", "value.schema": f"file:{file}"}
    assert values(parse_options(given)) == "struct<order_id:bigint>"
    assert values(parse_options({**given, "value.message": "OrderId"})) == "struct<orderid_id:bigint>"
    text = base64.b64encode(data).decode()
    assert values(parse_options({**given, "value.schema": text, "value.message": "shop.Order"})) == (
        "struct<order_id:bigint>"
    )
    # As `base64` prints it, and as it stands in a text of several lines.
    lines = (
        f"\n  {base64.encodebytes(descriptors(*(f'M{number}' for number in range(50))).SerializeToString()).decode()}"
    )
    assert lines.count("\n") > 20
    assert values(parse_options({**given, "value.schema": lines, "value.message": "M7"})) == "struct<m7_id:bigint>"
    (found,) = problems({**given, "value.message": "Orders"})
    assert "there is no message 'Orders'; expected one of shop.Order, shop.OrderId" in found
    (found,) = problems({**given, "value.schema": "syntax = proto3;"})
    assert "it is no base64" in found


@pytest.mark.parametrize(
    "options, said",
    [
        ({"value.format": "protobuf", "value.schema": "AAAA" * 3_333_334}, "it has more than 10,000,000 bytes"),
        ({"value.format": "avro", "value.schema": f'"int"{" " * 10_000_000}'}, "it has more than 10,000,000 bytes"),
        ({"value.format": "json", "value.schema": "id " + "\u00e9" * 5_000_000}, "it has more than 10,000,000 bytes"),
    ],
)
def test_what_is_in_an_option_is_bounded_as_files_are(options: dict[str, str], said: str) -> None:
    (found,) = problems({**BASE, **options})
    assert said in found
    assert len(found) < 500


@pytest.mark.parametrize(
    "more",
    [
        {"value.schema": PLAIN, "value.framing": "confluent"},
        {"value.subject": "s", "schema.registry.url": "http://registry:8081"},
        {"value.schema": "AAAA", "value.message": "M", "columns": "value.id, value_error", "onDecodeError": "column"},
        {"value.schema": "id BIGINT", "where": "value.id > 1"},
    ],
)
def test_a_format_that_is_none_is_one_sentence(more: dict[str, str]) -> None:
    (found,) = problems({**BASE, "value.format": "yaml", **more})
    assert found.startswith("value.format is 'yaml'; expected ")


def test_the_subject_is_that_of_the_topic_or_the_one_that_is_named() -> None:
    registry = Registry({"orders-value": AVRO, "mine": AVRO})
    given = {**REGISTRY, "value.format": "avro"}
    parsed = parse_options(given, registry)
    assert values(parsed) == "struct<id:bigint,amount:struct<cents:bigint>>"
    decoding = parsed.reading.value
    assert decoding is not None
    assert (decoding.framed, decoding.by_writer, decoding.program) == (True, True, None)
    for subject in ("mine", "mine:3", "mine:latest"):
        parse_options({**given, "value.subject": subject}, registry)
    at = "http://registry:8081"
    assert registry.asked == [(at, "orders-value", None), (at, "mine", None), (at, "mine", 3), (at, "mine", None)]
    with pytest.raises(SchemaUnknown):
        parse_options({**given, "value.subject": "other"}, registry)
    (found,) = problems({**given, "subscribe": "orders,clicks"}, registry)
    assert found.startswith("value.subject is not given, and more than one topic can be read; expected the subject")
    (found,) = problems({**given, "value.format": "protobuf"}, registry)
    assert "the schema of 'orders-value' in the registry is AVRO" in found


def test_what_only_the_registry_knows_stays_open_until_it_is_asked() -> None:
    parsed = parse_options({**REGISTRY, "value.format": "avro", "columns": "value.id, offset", "where": "value.id > 1"})
    assert (parsed.reading.value, parsed.reading.where, parsed.reading.columns) == (None, None, ("value", "offset"))


def test_a_schema_of_the_registry_that_cannot_be_used() -> None:
    registry = Registry({"orders-value": Schema(7, "AVRO", '{"type": "record"}')})
    (found,) = problems({**REGISTRY, "value.format": "avro"}, registry)
    assert found.startswith("the schema of 'orders-value' in the registry (id 7) cannot be used: ")


def test_protobuf_and_json_of_a_registry() -> None:
    message = Schema(7, "PROTOBUF", "…", (), descriptors("Order", "OrderId").file[0].SerializeToString())
    documents = Schema(8, "JSON", json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}}))
    registry = Registry({"orders-value": message, "orders-key": documents})
    given = {**REGISTRY, "value.format": "protobuf", "value.message": "OrderId", "key.format": "json"}
    parsed = parse_options(given, registry)
    assert values(parsed) == "struct<orderid_id:bigint>"
    value, key = parsed.reading.value, parsed.reading.key
    assert value is not None
    assert key is not None
    assert value.tree == (None, value.type.tree, "id and indexes")
    assert key.tree == (("json",), ("struct", (("id", ("long",)),)), "id")


def test_framing_is_that_of_the_registry_unless_it_is_said() -> None:
    given = {**BASE, "value.format": "avro", "value.schema": PLAIN}
    framings = {}
    for name, more in {
        "alone": {},
        "framed": {"value.framing": "confluent"},
        "registry": {"schema.registry.url": "http://registry:8081"},
        "unframed": {"schema.registry.url": "http://registry:8081", "value.framing": "none"},
    }.items():
        decoding = parse_options({**given, **more}).reading.value
        assert decoding is not None
        framings[name] = (decoding.framed, decoding.by_writer)
    assert framings == {
        "alone": (False, False),
        "framed": (True, False),
        "registry": (True, True),
        "unframed": (False, False),
    }


def test_each_cluster_can_have_a_registry_with_a_login_of_its_own() -> None:
    clusters = {
        "east": {"kafka.bootstrap.servers": "e:9092", "schema.registry.url": "http://east:8081"},
        "west": {"kafka.bootstrap.servers": "w:9092"},
    }
    given = {
        "subscribe": "orders",
        "clusters": json.dumps(clusters),
        "schema.registry.url": "http://all:8081",
        "schema.registry.basic.auth.user.info": "me:secret",
    }
    parsed = parse_options(given)
    east, west = parsed.clusters
    assert east.registry is not None
    assert west.registry is not None
    assert (east.registry.shown, east.registry.authorization()) == ("http://east:8081", "")
    assert (west.registry.shown, west.registry.authorization()[:6]) == ("http://all:8081", "Basic ")
    assert "secret" not in repr(parsed)


def test_a_registry_that_nothing_is_read_by_is_named_as_ignored() -> None:
    assert parse_options(REGISTRY).ignored == ("schema.registry.url",)
    assert parse_options({**REGISTRY, "value.format": "avro"}).ignored == ()


def test_a_subject_needs_a_registry_and_no_schema() -> None:
    given = {**BASE, "value.format": "avro", "value.subject": "orders-value"}
    (found,) = problems(given)
    assert found == "value.subject is given without a schema registry; expected schema.registry.url too"
    (found,) = problems({**REGISTRY, **given, "value.schema": PLAIN})
    assert found.startswith("value.subject is given beside value.schema")


@pytest.mark.parametrize(
    "more, said",
    [
        ({"schema.registry.url": "registry:8081"}, "schema.registry.url has"),
        ({"schema.registry.basic.auth.user.info": "me"}, "schema.registry.basic.auth.user.info has no colon"),
        (
            {"schema.registry.ssl.truststor.location": "/x"},
            "is not an option; did you mean schema.registry.ssl.truststore.location",
        ),
        ({"value.message": "Order"}, "value.message is given and value.format is avro, which has no message"),
        ({"value.subject": ""}, "value.subject is ''; expected a subject"),
    ],
)
def test_what_is_wrong_is_one_sentence(more: dict[str, str], said: str) -> None:
    (found,) = problems({**REGISTRY, "value.format": "avro", **more}, Registry({"orders-value": AVRO}))
    assert said in found
    assert found.count("secret") == 0
