"""What is sent is written as kafka-python writes it, byte for byte, in every version.

kafka-python has Kafka's own message definitions, so it is the second opinion.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.kafka.wire import api as apis
from evensplit.kafka.wire.api import (
    ADD_PARTITIONS_TO_TXN,
    API_VERSIONS,
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUPS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    LIST_TRANSACTIONS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Api,
)
from evensplit.kafka.wire.frames import framed
from evensplit.kafka.wire.group_requests import (
    write_describe_groups,
    write_find_coordinator,
    write_offset_commit,
    write_offset_fetch,
)
from evensplit.kafka.wire.produce import Records, write_produce
from evensplit.kafka.wire.requests import (
    FetchPartition,
    write_api_versions,
    write_fetch,
    write_list_offsets,
    write_metadata,
    write_offset_for_leader_epoch,
    write_sasl_authenticate,
    write_sasl_handshake,
)
from evensplit.kafka.wire.transaction_requests import (
    write_add_partitions_to_txn,
    write_describe_transactions,
    write_end_txn,
    write_init_producer_id,
    write_list_transactions,
)
from evensplit.testing.messages import request_class
from tests.support.admin_requests import Case, create_topic, describe_configs, describe_log_dirs, grouped, message

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
# Of 127 bytes and more a length takes a second byte.
TEXTS = st.text(max_size=8) | st.integers(120, 140).map(lambda size: "ä" * size)
PARTITIONS = st.tuples(TEXTS, INT32)


def of_partitions(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[TopicPartition, Any]]:
    """By partition: a few, of the same topics and of others; or so many of one that their number has two bytes."""
    few = st.dictionaries(PARTITIONS, values, max_size=6)
    alike = st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), values, max_size=8)
    many = st.builds(lambda count, value: {("t", n): value for n in range(count)}, st.integers(125, 300), values)
    return few | alike | many


def written_id(topic_id: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode() if topic_id.int else ""


def api_versions(name: str, software: str) -> Case:
    def build(_: Any, version: int) -> dict[str, Any]:
        return {"client_software_name": name, "client_software_version": software} if version >= 3 else {}

    return partial(write_api_versions, name, software), partial(message, API_VERSIONS, build)


def sasl_handshake(mechanism: str) -> Case:
    return partial(write_sasl_handshake, mechanism), partial(
        message, SASL_HANDSHAKE, lambda *_: {"mechanism": mechanism}
    )


def sasl_authenticate(data: bytes) -> Case:
    return partial(write_sasl_authenticate, data), partial(message, SASL_AUTHENTICATE, lambda *_: {"auth_bytes": data})


def metadata(topics: list[str] | None, rights: bool) -> Case:
    def build(kind: Any, version: int) -> dict[str, Any]:
        named = None if topics is None else [kind.MetadataRequestTopic(version=version, name=one) for one in topics]
        asked = {"include_topic_authorized_operations": rights} if version >= 8 else {}
        return {"topics": named, "allow_auto_topic_creation": False, **asked}

    return partial(write_metadata, topics, rights=rights), partial(message, METADATA, build)


def list_offsets(times: Mapping[TopicPartition, int], level: int) -> Case:
    def build(kind: Any, version: int) -> dict[str, Any]:
        topic = partial(kind.ListOffsetsTopic, version=version)
        one = partial(kind.ListOffsetsTopic.ListOffsetsPartition, version=version)
        topics = [
            topic(name=name, partitions=[one(partition_index=number, timestamp=time) for number, time in listed])
            for name, listed in grouped(times).items()
        ]
        return {"replica_id": -1, "isolation_level": level, "topics": topics}

    return partial(write_list_offsets, times, level), partial(message, LIST_OFFSETS, build)


def offset_for_leader_epoch(epochs: Mapping[TopicPartition, tuple[int, int]]) -> Case:
    def build(kind: Any, version: int) -> dict[str, Any]:
        topic = partial(kind.OffsetForLeaderTopic, version=version)
        one = partial(kind.OffsetForLeaderTopic.OffsetForLeaderPartition, version=version)
        topics = [
            topic(
                topic=name,
                partitions=[
                    one(partition=number, current_leader_epoch=current, leader_epoch=wanted)
                    for number, (current, wanted) in listed
                ],
            )
            for name, listed in grouped(epochs).items()
        ]
        return {"replica_id": -1, "topics": topics}

    return partial(write_offset_for_leader_epoch, epochs), partial(message, OFFSET_FOR_LEADER_EPOCH, build)


def fetch(
    topics: Mapping[tuple[str, uuid.UUID], list[FetchPartition]], wait_ms: int, size: int, level: int, rack: str
) -> Case:
    def build(kind: Any, version: int) -> dict[str, Any]:
        topic = partial(kind.FetchTopic, version=version)
        one = partial(kind.FetchTopic.FetchPartition, version=version)
        return {
            "replica_id": -1,
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": size,
            "isolation_level": level,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [
                topic(
                    partitions=[one(**part._asdict()) for part in listed],
                    **({"topic": name} if version <= 12 else {"topic_id": topic_id}),
                )
                for (name, topic_id), listed in topics.items()
            ],
            "forgotten_topics_data": [],
            "rack_id": rack,
        }

    ours = {(name, written_id(topic_id)): listed for (name, topic_id), listed in topics.items()}
    writes = partial(write_fetch, ours, max_wait_ms=wait_ms, max_bytes=size, isolation_level=level, rack_id=rack)
    return writes, partial(message, FETCH, build)


def produce(
    topics: Mapping[tuple[str, uuid.UUID], list[tuple[int, bytes]]], transactional_id: str | None, timeout_ms: int
) -> Case:
    def build(kind: Any, version: int) -> dict[str, Any]:
        topic = partial(kind.TopicProduceData, version=version)
        one = partial(kind.TopicProduceData.PartitionProduceData, version=version)
        named = [
            topic(
                partition_data=[one(index=number, records=data) for number, data in listed],
                **({"name": name} if version <= 12 else {"topic_id": topic_id}),
            )
            for (name, topic_id), listed in topics.items()
        ]
        return {"transactional_id": transactional_id, "acks": -1, "timeout_ms": timeout_ms, "topic_data": named}

    ours = {
        (name, written_id(topic_id)): [Records(number, memoryview(data)) for number, data in listed]
        for (name, topic_id), listed in topics.items()
    }
    return partial(write_produce, ours, transactional_id, timeout_ms), partial(message, PRODUCE, build)


def find_coordinator(names: list[str], kind: int) -> Case:
    def build(_: Any, version: int) -> dict[str, Any]:
        kinds = {"key_type": kind} if version >= 1 else {}
        return {"coordinator_keys": names, **kinds} if version >= 4 else {"key": names[0], **kinds}

    return partial(write_find_coordinator, names, kind=kind), partial(message, FIND_COORDINATOR, build)


def offset_fetch(group: str, partitions: Mapping[TopicPartition, None]) -> Case:
    def build(kind: Any, version: int) -> dict[str, Any]:
        outer = kind.OffsetFetchRequestGroup if version >= 8 else kind
        topic = outer.OffsetFetchRequestTopics if version >= 8 else outer.OffsetFetchRequestTopic
        topics = [
            topic(version=version, name=name, partition_indexes=[number for number, _ in listed])
            for name, listed in grouped(partitions).items()
        ]
        if version < 8:
            return {"group_id": group, "topics": topics}
        return {"groups": [outer(version=version, group_id=group, topics=topics)]}

    return partial(write_offset_fetch, group, list(partitions)), partial(message, OFFSET_FETCH, build)


def offset_commit(group: str, offsets: Mapping[TopicPartition, int]) -> Case:
    def build(kind: Any, version: int) -> dict[str, Any]:
        topic = partial(kind.OffsetCommitRequestTopic, version=version)
        one = partial(kind.OffsetCommitRequestTopic.OffsetCommitRequestPartition, version=version)
        topics = [
            topic(
                name=name,
                partitions=[
                    one(partition_index=number, committed_offset=offset, committed_metadata="")
                    for number, offset in listed
                ],
            )
            for name, listed in grouped(offsets).items()
        ]
        return {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}

    return partial(write_offset_commit, group, offsets), partial(message, OFFSET_COMMIT, build)


def describe_groups(group: str) -> Case:
    def build(*_: object) -> dict[str, Any]:
        return {"groups": [group], "include_authorized_operations": True}

    return partial(write_describe_groups, group), partial(message, DESCRIBE_GROUPS, build)


def init_producer_id(transactional_id: str | None, timeout_ms: int) -> Case:
    def build(*_: object) -> dict[str, Any]:
        return {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}

    writes = partial(write_init_producer_id, transactional_id, timeout_ms)
    return writes, partial(message, INIT_PRODUCER_ID, build)


def add_partitions_to_txn(name: str, producer_id: int, epoch: int, partitions: Mapping[TopicPartition, None]) -> Case:
    def build(kind: Any, version: int) -> dict[str, Any]:
        topics = [
            kind.AddPartitionsToTxnTopic(version=version, name=topic, partitions=[number for number, _ in listed])
            for topic, listed in grouped(partitions).items()
        ]
        prefix = "v3_and_below_"
        fields = {"transactional_id": name, "producer_id": producer_id, "producer_epoch": epoch, "topics": topics}
        return {prefix + field: value for field, value in fields.items()}

    writes = partial(write_add_partitions_to_txn, name, producer_id, epoch, list(partitions))
    return writes, partial(message, ADD_PARTITIONS_TO_TXN, build)


def end_txn(name: str, producer_id: int, epoch: int, commit: bool) -> Case:
    fields = {"transactional_id": name, "producer_id": producer_id, "producer_epoch": epoch, "committed": commit}
    return partial(write_end_txn, name, producer_id, epoch, commit), partial(message, END_TXN, lambda *_: fields)


def describe_transactions(names: list[str]) -> Case:
    fields = {"transactional_ids": names}
    return partial(write_describe_transactions, names), partial(message, DESCRIBE_TRANSACTIONS, lambda *_: fields)


def list_transactions(states: list[str], producers: list[int], duration_ms: int) -> Case:
    def build(_: Any, version: int) -> dict[str, Any]:
        longer = {"duration_filter": duration_ms} if version >= 1 else {}
        return {"state_filters": states, "producer_id_filters": producers, **longer}

    return partial(write_list_transactions, states, producers, duration_ms), partial(message, LIST_TRANSACTIONS, build)


FETCHED = st.dictionaries(
    st.tuples(TEXTS, st.uuids() | st.just(uuid.UUID(int=0))),
    st.lists(st.builds(FetchPartition, INT32, INT32, INT64, INT32, INT32), max_size=4),
    max_size=4,
)
CASES: dict[Api[Any], st.SearchStrategy[Case]] = {
    API_VERSIONS: st.builds(api_versions, TEXTS, TEXTS),
    SASL_HANDSHAKE: st.builds(sasl_handshake, TEXTS),
    SASL_AUTHENTICATE: st.builds(sasl_authenticate, st.binary(max_size=300)),
    METADATA: st.builds(metadata, st.none() | st.lists(TEXTS, max_size=4), st.booleans()),
    LIST_OFFSETS: st.builds(list_offsets, of_partitions(INT64), st.integers(0, 1)),
    DESCRIBE_LOG_DIRS: st.builds(describe_log_dirs, of_partitions(st.none())),
    OFFSET_FOR_LEADER_EPOCH: st.builds(offset_for_leader_epoch, of_partitions(st.tuples(INT32, INT32))),
    FETCH: st.builds(fetch, FETCHED, INT32, INT32, st.integers(0, 1), TEXTS),
    PRODUCE: st.builds(
        produce,
        st.dictionaries(
            st.tuples(TEXTS, st.uuids()),
            st.lists(st.tuples(INT32, st.binary(max_size=8) | st.just(bytes(200))), max_size=4),
            max_size=4,
        ),
        st.none() | TEXTS,
        INT32,
    ),
    FIND_COORDINATOR: st.builds(find_coordinator, st.lists(TEXTS, min_size=1, max_size=3), st.integers(0, 1)),
    OFFSET_FETCH: st.builds(offset_fetch, TEXTS, of_partitions(st.none())),
    OFFSET_COMMIT: st.builds(offset_commit, TEXTS, of_partitions(INT64)),
    DESCRIBE_GROUPS: st.builds(describe_groups, TEXTS),
    INIT_PRODUCER_ID: st.builds(init_producer_id, st.none() | TEXTS, INT32),
    ADD_PARTITIONS_TO_TXN: st.builds(add_partitions_to_txn, TEXTS, INT64, INT16, of_partitions(st.none())),
    END_TXN: st.builds(end_txn, TEXTS, INT64, INT16, st.booleans()),
    DESCRIBE_TRANSACTIONS: st.builds(describe_transactions, st.lists(TEXTS, max_size=4)),
    LIST_TRANSACTIONS: st.builds(
        list_transactions, st.lists(TEXTS, max_size=3), st.lists(INT64, max_size=3), st.integers(-1, 2**63 - 1)
    ),
    CREATE_TOPICS: st.builds(
        create_topic, TEXTS, INT32, INT16, st.dictionaries(TEXTS, TEXTS, max_size=3), INT32, st.booleans()
    ),
    DESCRIBE_CONFIGS: st.builds(describe_configs, st.integers(0, 100), TEXTS, st.lists(TEXTS, max_size=3)),
}
VERSIONS = [(api, version) for api in CASES for version in range(api.lowest, api.highest + 1)]


def test_every_kind_of_request_is_here() -> None:
    assert set(CASES) == {one for one in vars(apis).values() if isinstance(one, Api)}


@pytest.mark.parametrize("api, version", VERSIONS, ids=[f"{api.name}-{version}" for api, version in VERSIONS])
@given(st.data())
@settings(max_examples=20)
def test_written_as_by_kafka_python(api: Api[Any], version: int, data: st.DataObject) -> None:
    writes, theirs = data.draw(CASES[api])
    expected = theirs(version)
    found = writes(version)
    assert b"".join(found if isinstance(found, list) else [found]) == bytes(expected.encode(version=version))
    number, client = data.draw(st.integers(0, 2**31 - 1)), data.draw(TEXTS)
    expected.with_header(correlation_id=number, client_id=client)
    framed_by_them = bytes(expected.encode(version=version, header=True, framed=True))
    assert b"".join(framed(api, version, number, client, found)) == framed_by_them


@pytest.mark.parametrize("api", CASES, ids=lambda api: api.name)
def test_numbers_and_names_and_what_is_flexible(api: Api[Any]) -> None:
    theirs = request_class(api)
    assert (api.key, f"{api.name}Request") == (theirs.API_KEY, theirs.name)
    for version in range(api.lowest, api.highest + 1):
        assert api.is_flexible(version) == theirs.flexible_version_q(version)
