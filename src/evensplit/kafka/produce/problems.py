"""What is said when records could not be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evensplit._kernel import ColumnBuilder, KernelError
from evensplit.core.delivery.terms import Transaction
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.text import counted, short
from evensplit.errors import ClusterError, RecordTooLarge, WriteError
from evensplit.kafka.fetch.columns import row_schema, to_record_batch
from evensplit.kafka.produce.under_way import Batch, Partition
from evensplit.kafka.wire.error_codes import (
    ADVICE,
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    INVALID_TOPIC_EXCEPTION,
    INVALID_TXN_STATE,
    MESSAGE_TOO_LARGE,
    NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    PRODUCER_FENCED,
    RECORD_LIST_TOO_LARGE,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTION_ABORTABLE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_PRODUCER_ID,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_COMPRESSION_TYPE,
    error_name,
)
from evensplit.kafka.wire.produce import PartitionProduced

TOLD_RECORDS_MAX = 3
"""So many of a batch's records it is told of what is wrong with them."""

TOO_LARGE = frozenset((MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE))
"""A batch is longer than its topic allows."""

KEY_BYTES_MAX = 40
"""So much of a key is shown."""

_ENDED = (
    "the transaction was ended by another process, or it was open for longer than kafka.transaction.timeout.ms; what "
    "it has written is not visible"
)
_LOST = "the brokers have lost what they had acknowledged, as after an unclean election; see their logs"
_REPLICAS = "fewer replicas are in sync than the topic's min.insync.replicas"
_ADVICE: Mapping[int, str] = {
    TOPIC_AUTHORIZATION_FAILED: "this user may not do that; allow it the operations Describe and Write on the topic "
    "(an ACL)",
    CLUSTER_AUTHORIZATION_FAILED: "this user may not do that; allow it the operation IdempotentWrite on the cluster "
    "(an ACL)",
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "this user may not do that; allow it the operations Describe and Write on "
    "its transactional ids (an ACL)",
    INVALID_TOPIC_EXCEPTION: "nobody may write to this topic, as to Kafka's own ones",
    INVALID_TIMESTAMP: "the topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms are bounds for "
    "timestamps; correct the column, or leave it out",
    INVALID_RECORD: "the topic refuses such records; a compacted one takes none without a key",
    OUT_OF_ORDER_SEQUENCE_NUMBER: _LOST,
    UNKNOWN_PRODUCER_ID: _LOST,
    INVALID_PRODUCER_EPOCH: _ENDED,
    PRODUCER_FENCED: _ENDED,
    INVALID_TXN_STATE: _ENDED,
    INVALID_PRODUCER_ID_MAPPING: _ENDED,
    TRANSACTION_ABORTABLE: _ENDED,
    UNSUPPORTED_COMPRESSION_TYPE: "choose another kafka.compression.type",
    UNKNOWN_TOPIC_ID: "the topic was deleted, and perhaps created anew, while it was written to",
    NOT_ENOUGH_REPLICAS: _REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND: _REPLICAS,
}


def explained(code: int) -> str:
    """Kafka's name for an error of writing, its number, and what to do about it."""
    advice = _ADVICE.get(code) or ADVICE.get(code)
    return f"{error_name(code)} ({code})" + (f": {advice}" if advice else "")


def where(cluster: str, key: TopicPartition) -> str:
    """How a partition is named in an error."""
    return f"cluster {cluster!r}, topic {key[0]!r}, partition {key[1]}"


def written_in(transactions: Sequence[Transaction]) -> str:
    """What was written in transactions, in a sentence: records by cluster, topic and partition."""
    return "; ".join(f"cluster {name!r}: {', '.join(places)}" for name, places in places_written(transactions).items())


def places_written(transactions: Sequence[Transaction]) -> dict[str, list[str]]:
    """What was written in transactions, by cluster: `topic/partition (5 records)` each, in their order."""
    found: dict[str, dict[TopicPartition, int]] = {}
    for one in transactions:
        records = found.setdefault(one.cluster, {})
        for part in one.written:
            key = part.topic, part.partition
            records[key] = records.get(key, 0) + part.records
    return {
        cluster: [f"{topic}/{number} ({counted(count, 'record')})" for (topic, number), count in sorted(own.items())]
        for cluster, own in sorted(found.items())
    }


def no_topic(cluster: str, topic: str, code: int) -> WriteError:
    """A topic cannot be written to: it is not there, or this user may not describe it."""
    advice = explained(code)
    if code == UNKNOWN_TOPIC_OR_PARTITION:
        advice = f"{error_name(code)} ({code}): it does not exist; create it, or correct its name. None is created here"
    return WriteError(f"cluster {cluster!r}, topic {topic!r}: {advice}")


def refused(cluster: str, batch: Batch, one: PartitionProduced) -> WriteError:
    """A broker has refused a batch for good."""
    place, code = where(cluster, batch.partition.key), one.error_code
    errors = [
        f"record {error.batch_index} of them: {short(error.batch_index_error_message or 'no reason given')}"
        for error in one.record_errors[:TOLD_RECORDS_MAX]
    ]
    said = "; ".join([short(one.error_message), *errors] if one.error_message else errors)
    return WriteError(
        f"{place}: the broker refused {counted(batch.records, 'record')}: {explained(code)}"
        + (f". It says: {said}" if said else "")
    )


def too_large(cluster: str, batch: Batch, code: int, advice: str) -> WriteError:
    """A batch is longer than its topic allows. `advice`: what to do if it has several records."""
    place = where(cluster, batch.partition.key)
    size = f"{batch.data.nbytes:,} bytes"
    if batch.records > 1:
        return WriteError(
            f"{place}: a record batch of {counted(batch.records, 'record')} and {size} is longer than the topic's "
            f"max.message.bytes: {error_name(code)} ({code}). {advice}"
        )
    return RecordTooLarge(
        f"{place}: a record with {_key_of(batch)} makes {size}, which is more than the topic's max.message.bytes: "
        f"{error_name(code)} ({code}). Leave it out, or raise max.message.bytes"
    )


def _key_of(batch: Batch) -> str:
    """The key of a batch's first record, in a sentence."""
    builder = ColumnBuilder(columns=["key"], rows_max=1, bytes_max=1, uncompressed_bytes_max=1 << 30)
    try:
        builder.append(
            batch.data, 0, batch.data.nbytes, cluster="", topic="", partition=0, offset_start=0, offset_end=1
        )
    except KernelError:
        return "a key that cannot be read"
    return shown_key(to_record_batch(builder.finish(), row_schema(("key",))).column("key")[0].as_py())


def shown_key(key: bytes | str | None) -> str:
    """A record's key in a sentence, shortened; in hexadecimal where it is no text."""
    if key is None:
        return "no key"
    if isinstance(key, str):
        key = key.encode()
    more = f"… ({len(key):,} bytes)" if len(key) > KEY_BYTES_MAX else ""
    try:
        text = key[:KEY_BYTES_MAX].decode("utf-8", errors="ignore" if more else "strict")
    except UnicodeDecodeError:
        text = ""
    return f"the key {text!r}{more}" if text.isprintable() and text else f"the key 0x{key[:KEY_BYTES_MAX].hex()}{more}"


def overdue(cluster: str, partition: Partition, timeout_ms: int) -> WriteError:
    """A partition's first batch was not acknowledged in time."""
    batch, trouble = partition.first, partition.trouble
    why = "no broker answered" if trouble is None else trouble.detail
    return WriteError(
        f"{where(cluster, partition.key)}: {counted(batch.records, 'record')} not acknowledged within {timeout_ms} ms "
        f"(kafka.delivery.timeout.ms): {why}"
    )


def denied(cluster: str, partition: Partition, trouble: ClusterError) -> WriteError:
    """A partition that was there is not known to any broker any more."""
    return WriteError(f"{where(cluster, partition.key)}: {trouble.detail}")
