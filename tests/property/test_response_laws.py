"""What brokers answer is read as kafka-python writes it, in every version, and noise is refused at little cost.

kafka-python has Kafka's own message definitions, so it is the second opinion.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evensplit.core.text import short
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.wire import api as apis
from evensplit.kafka.wire.api import FETCH, Api
from evensplit.kafka.wire.group_responses import DescribedGroup
from evensplit.kafka.wire.primitives import Undecodable
from evensplit.kafka.wire.produce import PartitionProduced
from evensplit.kafka.wire.responses import ApiVersions, MetadataPartition, MetadataTopic
from evensplit.testing.messages import response_class, write_response
from tests.support.scripted_cluster import topic_id

READ_HERE = [one for one in vars(apis).values() if isinstance(one, Api) and one is not FETCH]
VERSIONS = [(api, version) for api in READ_HERE for version in range(api.lowest, api.highest + 1)]
NUMBERS = {"b": 8, "h": 16, "i": 32, "q": 64}

each_version = pytest.mark.parametrize(
    "api, version", VERSIONS, ids=[f"{api.name}-{version}" for api, version in VERSIONS]
)


def deadline() -> Deadline:
    return Deadline.after(60)


def values(field: Any, version: int) -> st.SearchStrategy[Any]:
    """Values of a field of one of kafka-python's classes."""
    if field.is_struct_array():
        names = {one.name for one in field.array_of.untagged_fields(version)}
        once = (lambda one: one.partition_index) if "partition_index" in names else None
        return st.lists(structures(field, version), min_size=1, max_size=3, unique_by=once)
    if field.is_array():
        return st.lists(values(field.array_of, version), max_size=3)
    kind = field._json["type"].removeprefix("[]")
    if field.name == "port":
        return st.integers(0, 65535)
    if field.name == "partition_index" and field._json["type"] == "int32":
        return st.integers(0, 2**31 - 1)
    if kind == "string":
        text = st.text(max_size=8)
        return st.none() | text if field.nullable_for_version_q(version) and field.name != "name" else text
    if kind == "bytes":
        return st.binary(max_size=8)
    if kind == "uuid":
        return st.uuids()
    if kind == "bool":
        return st.booleans()
    if field.name.endswith("authorized_operations"):
        return st.sets(st.integers(0, 30))
    bits = int(kind.removeprefix("int"))
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def structures(field: Any, version: int) -> st.SearchStrategy[Any]:
    given = {one.name: values(one, version) for one in field.array_of.untagged_fields(version)}
    return st.fixed_dictionaries(given).map(lambda found: field.data_class(version=version, **found))


def messages(api: Api[Any], version: int) -> st.SearchStrategy[Any]:
    given = {one.name: values(one, version) for one in response_class(api)._struct.untagged_fields(version)}
    return st.fixed_dictionaries(given).map(lambda found: response_class(api)(version=version, **found))


def as_kafka_python(found: Any) -> Any:
    """What was read, with what kafka-python has in its place."""
    if isinstance(found, list):
        return [as_kafka_python(one) for one in found]
    if not dataclasses.is_dataclass(found):
        return found
    fields = {one.name: as_kafka_python(getattr(found, one.name)) for one in dataclasses.fields(found)}
    if isinstance(found, DescribedGroup | MetadataTopic):
        fields["authorized_operations"] = bits(fields["authorized_operations"])
    if isinstance(found, MetadataPartition):
        # Of all replicas it keeps how many there are.
        fields["replica_nodes"] = fields.pop("replicas")
    if isinstance(found, PartitionProduced):
        # They have it in a tagged field, of which none are written here.
        assert fields.pop("leader_id") == -1
    return fields


def as_shown(name: str, written: Any) -> Any:
    """What was written, in the form in which it is read where that is another one."""
    if name in ("host", "cluster_id"):
        return short(written or "")
    if name == "replica_nodes":
        return len(written)
    return topic_id(written) if name == "topic_id" and written else written


def bits(number: int) -> set[int]:
    return {one for one in range(32) if number >> one & 1}


def agree(found: Any, message: Any) -> None:
    """Every field that was read is as kafka-python has it, null as nothing."""
    if isinstance(found, list):
        assert len(found) == len(message)
        for one, other in zip(found, message, strict=True):
            agree(one, other)
    elif isinstance(found, dict):
        for name, value in found.items():
            # One of Kafka's messages calls a topic's name otherwise.
            written = getattr(message, name if name != "name" or hasattr(message, name) else "topic")
            agree(value, as_shown(name, written))
    elif isinstance(found, set):
        assert found in (message, {31} if message is None else message)
    else:
        assert found == message or (not found and not message)


@each_version
@given(st.data())
@settings(max_examples=6)
def test_read_as_written(api: Api[Any], version: int, data: st.DataObject) -> None:
    message = data.draw(messages(api, version))
    found = api.decode(memoryview(write_response(api, message, version)), version, deadline())
    if isinstance(found, ApiVersions):
        assert found.error_code == message.error_code
        told = {one.api_key: (one.min_version, one.max_version) for one in message.api_keys}
        assert found.versions == ({} if message.error_code == 35 else told)
        return
    plain = as_kafka_python(found)
    if api is apis.FIND_COORDINATOR and version < 4:
        plain = plain["coordinators"][0]
        assert plain.pop("key") == ""
    if api is apis.OFFSET_FETCH and version < 8:
        plain = plain["groups"][0]
    agree(plain, message)


@each_version
@given(st.data())
@settings(max_examples=6)
def test_cut_off_anywhere_it_is_refused_or_says_the_same(api: Api[Any], version: int, data: st.DataObject) -> None:
    """The last fields of some answers are not read, so that they need not be there."""
    whole = memoryview(write_response(api, data.draw(messages(api, version)), version))
    end = data.draw(st.integers(0, len(whole) - 1))
    try:
        found = api.decode(whole[:end], version, deadline())
    except Undecodable:
        return
    assert found == api.decode(whole, version, deadline())


@each_version
@given(st.binary(max_size=300), st.integers(0, 2**31 - 1))
@settings(max_examples=10)
def test_of_noise_no_more_is_made_than_there_are_bytes(api: Api[Any], version: int, noise: bytes, number: int) -> None:
    for body in (noise, b"\0" + number.to_bytes(4, "big") + noise):
        try:
            found = api.decode(memoryview(body), version, deadline())
        except Undecodable:
            continue
        assert size(found) <= len(body)


def size(found: Any) -> int:
    """How many entries there are in all lists."""
    if isinstance(found, ApiVersions):
        return len(found.versions)
    if isinstance(found, list):
        return len(found) + sum(map(size, found))
    if dataclasses.is_dataclass(found):
        return sum(size(getattr(found, one.name)) for one in dataclasses.fields(found))
    return 0
