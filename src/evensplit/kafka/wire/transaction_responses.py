"""Responses about transactions and what they need of topics, read by bounded code (`primitives.Reader`).

Sources: the message definitions of Kafka's protocol, in the versions that `api` gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from evensplit.kafka.wire.primitives import Reader, Undecodable

TOPIC, BROKER = 2, 4
"""The kinds of what has a configuration."""

_TOPIC_BYTES_MIN = 3
_STATE_BYTES_MIN = 30
_LISTED_BYTES_MIN = 10
_CREATED_BYTES_MIN = 5
_DESCRIBED_BYTES_MIN = 7
_SETTING_BYTES_MIN = 6
_SYNONYM_BYTES_MIN = 3
_PRODUCER = Struct(">qh")
_RESULT = Struct(">ih")


@dataclass(slots=True)
class InitProducerId:
    """The id and the epoch of a producer; both -1 with an error."""

    error_code: int
    producer_id: int
    producer_epoch: int


def read_init_producer_id(reader: Reader, version: int) -> InitProducerId:
    """Versions 0 to 5."""
    reader.int32()  # for how long it is throttled
    code = reader.int16()
    return InitProducerId(code, *reader.numbers(_PRODUCER))


@dataclass(slots=True)
class AddedPartition:
    """Whether a partition belongs to the transaction now."""

    partition_index: int
    partition_error_code: int


@dataclass(slots=True)
class AddedTopic:
    """The partitions of a topic."""

    name: str
    results_by_partition: list[AddedPartition]


@dataclass(slots=True)
class AddPartitionsToTxn:
    """Whether each of the partitions belongs to the transaction now."""

    results_by_topic_v3_and_below: list[AddedTopic]


def read_add_partitions_to_txn(reader: Reader, version: int) -> AddPartitionsToTxn:
    """Versions 0 to 3."""
    reader.int32()  # for how long it is throttled
    topics = []
    for _ in reader.entries(_TOPIC_BYTES_MIN):
        topics.append(AddedTopic(reader.text(), [AddedPartition(*row) for row in reader.rows(_RESULT)]))
        reader.skip_tags()
    return AddPartitionsToTxn(topics)


@dataclass(slots=True)
class EndTxn:
    """Whether a transaction has ended, and from version 5 on the producer's id and epoch from now on, else -1."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1


def read_end_txn(reader: Reader, version: int) -> EndTxn:
    """Versions 0 to 5."""
    reader.int32()  # for how long it is throttled
    code = reader.int16()
    return EndTxn(code, *reader.numbers(_PRODUCER)) if version >= 5 else EndTxn(code)


@dataclass(slots=True)
class TransactionState:
    """A transactional id and its present or last transaction. `transaction_start_time_ms`: by the broker's clock."""

    error_code: int
    transactional_id: str
    transaction_state: str
    transaction_timeout_ms: int
    transaction_start_time_ms: int
    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class DescribeTransactions:
    """The transactional ids that were asked for."""

    transaction_states: list[TransactionState]


def read_describe_transactions(reader: Reader, version: int) -> DescribeTransactions:
    """Version 0."""
    reader.int32()  # for how long it is throttled
    states = []
    for _ in reader.entries(_STATE_BYTES_MIN):
        code, name, state = reader.int16(), reader.text(), reader.text()
        timeout_ms, start_ms = reader.int32(), reader.int64()
        states.append(TransactionState(code, name, state, timeout_ms, start_ms, *reader.numbers(_PRODUCER)))
        for _ in reader.entries(_TOPIC_BYTES_MIN):
            reader.text()
            reader.skip_int32s()
            reader.skip_tags()
        reader.skip_tags()
    return DescribeTransactions(states)


@dataclass(slots=True)
class ListedTransaction:
    """A transactional id with a transaction that is in one of the states that were asked for."""

    transactional_id: str
    producer_id: int
    transaction_state: str


@dataclass(slots=True)
class ListTransactions:
    """The transactions whose coordinator one broker is."""

    error_code: int
    transaction_states: list[ListedTransaction]


def read_list_transactions(reader: Reader, version: int) -> ListTransactions:
    """Versions 0 and 1."""
    reader.int32()  # for how long it is throttled
    code = reader.int16()
    for _ in reader.entries(1):
        reader.text()  # a state that the broker does not know
    listed = []
    for _ in reader.entries(_LISTED_BYTES_MIN):
        listed.append(ListedTransaction(reader.text(), reader.int64(), reader.text()))
        reader.skip_tags()
    return ListTransactions(code, listed)


@dataclass(slots=True)
class Setting:
    """A setting; its value is empty where it has none or is a secret."""

    name: str
    value: str


@dataclass(slots=True)
class CreatedTopic:
    """Whether a topic was created, and if not, why, in the broker's words.

    `replication_factor`, `configs`: what it has, by default or by the request; -1 and none if the broker does not say.
    """

    name: str
    error_code: int
    error_message: str
    replication_factor: int
    configs: list[Setting]


@dataclass(slots=True)
class CreateTopics:
    """The topics that were to be created, at least one."""

    topics: list[CreatedTopic]


def read_create_topics(reader: Reader, version: int) -> CreateTopics:
    """Versions 2 to 7."""
    reader.int32()  # for how long it is throttled
    topics = []
    for _ in reader.entries(_CREATED_BYTES_MIN):
        name = reader.text()
        if version >= 7:
            reader.uuid_text()
        topics.append(CreatedTopic(name, reader.int16(), reader.text_or_none() or "", -1, []))
        if version >= 5:
            reader.int32()  # partitions
            topics[-1].replication_factor = reader.int16()
            for _ in reader.entries(_SETTING_BYTES_MIN):
                topics[-1].configs.append(Setting(reader.text(), reader.text_or_none() or ""))
                reader.boolean()  # whether it can only be read
                reader.int8()  # where it comes from
                reader.boolean()  # whether it is a secret
                reader.skip_tags()
        reader.skip_tags()
    if not topics:
        raise Undecodable("it has no entry, expected one for what was asked")
    return CreateTopics(topics)


@dataclass(slots=True)
class DescribedConfig:
    """What was asked for of the configuration of a topic or a broker, or why it is not said."""

    error_code: int
    error_message: str
    configs: list[Setting]


@dataclass(slots=True)
class DescribeConfigs:
    """The configurations that were asked for, at least one."""

    results: list[DescribedConfig]


def read_describe_configs(reader: Reader, version: int) -> DescribeConfigs:
    """Versions 1 to 4."""
    reader.int32()  # for how long it is throttled
    results = []
    for _ in reader.entries(_DESCRIBED_BYTES_MIN):
        code, message = reader.int16(), reader.text_or_none() or ""
        reader.int8()  # the kind
        reader.text()  # the name
        results.append(
            DescribedConfig(code, message, [_read_setting(reader, version) for _ in reader.entries(_SETTING_BYTES_MIN)])
        )
        reader.skip_tags()
    if not results:
        raise Undecodable("it has no entry, expected one for what was asked")
    return DescribeConfigs(results)


def _read_setting(reader: Reader, version: int) -> Setting:
    name, value = reader.text(), reader.text_or_none() or ""
    reader.boolean()  # whether it can only be read
    reader.int8()  # where it comes from
    reader.boolean()  # whether it is a secret
    for _ in reader.entries(_SYNONYM_BYTES_MIN):
        reader.text()
        reader.text_or_none()
        reader.int8()  # where that comes from
        reader.skip_tags()
    if version >= 3:
        reader.int8()  # its type
        reader.text_or_none()  # what it is for
    reader.skip_tags()
    return Setting(name, value)
