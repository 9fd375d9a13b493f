"""Requests about transactions and what they need of topics, written as `requests` writes the others.

Sources: the message definitions of Kafka's protocol, in the versions that `api` gives; KIP-98 (transactions), KIP-664
(what is known of them), KIP-890 (transaction version 2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from struct import Struct

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.kafka.wire.api import (
    ADD_PARTITIONS_TO_TXN,
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
)
from evensplit.kafka.wire.requests import begin, write_partitions

ANY_DURATION = -1
"""Instead of for how long a transaction has to be open to be listed."""

_BROKERS_DEFAULT = -1
_NO_PRODUCER = (-1, -1)
_INT8, _INT32, _INT64 = Struct(">b"), Struct(">i"), Struct(">q")
_PRODUCER = Struct(">qh")
_NEW_TOPIC = Struct(">ih")


def write_init_producer_id(transactional_id: str | None, timeout_ms: int, version: int) -> bytearray:
    """Versions 0 to 5. `transactional_id`: None for a producer without transactions."""
    writer = begin(INIT_PRODUCER_ID, version)
    writer.text(transactional_id)
    writer.numbers(_INT32, timeout_ms)
    if version >= 3:
        writer.numbers(_PRODUCER, *_NO_PRODUCER)
    writer.end()
    return writer.data


def write_add_partitions_to_txn(
    transactional_id: str, producer_id: int, epoch: int, partitions: Collection[TopicPartition], version: int
) -> bytearray:
    """Versions 0 to 3."""
    writer = begin(ADD_PARTITIONS_TO_TXN, version)
    writer.text(transactional_id)
    writer.numbers(_PRODUCER, producer_id, epoch)
    write_partitions(writer, partitions)
    writer.end()
    return writer.data


def write_end_txn(transactional_id: str, producer_id: int, epoch: int, commit: bool, version: int) -> bytearray:
    """Versions 0 to 5."""
    writer = begin(END_TXN, version)
    writer.text(transactional_id)
    writer.numbers(_PRODUCER, producer_id, epoch)
    writer.boolean(commit)
    writer.end()
    return writer.data


def write_describe_transactions(transactional_ids: Sequence[str], version: int) -> bytearray:
    """Version 0."""
    writer = begin(DESCRIBE_TRANSACTIONS, version)
    writer.texts(transactional_ids)
    writer.end()
    return writer.data


def write_list_transactions(
    states: Sequence[str], producer_ids: Sequence[int], open_longer_than_ms: int, version: int
) -> bytearray:
    """Versions 0 and 1. Empty `states` or `producer_ids`: any. `open_longer_than_ms`: from version 1 on."""
    writer = begin(LIST_TRANSACTIONS, version)
    writer.texts(states)
    writer.count(len(producer_ids))
    for one in producer_ids:
        writer.numbers(_INT64, one)
    if version >= 1:
        writer.numbers(_INT64, open_longer_than_ms)
    writer.end()
    return writer.data


def write_create_topic(
    topic: str,
    partitions: int,
    replicas: int,
    config: Mapping[str, str],
    timeout_ms: int,
    version: int,
    *,
    by_default: bool = True,
    only_checked: bool = False,
) -> bytearray:
    """Versions 2 to 7.

    `by_default`: from version 4 on, it has as many replicas as the brokers have by default, whatever `replicas` says.
    `only_checked`: to see if it could be done.
    """
    writer = begin(CREATE_TOPICS, version)
    writer.count(1)
    writer.text(topic)
    writer.numbers(_NEW_TOPIC, partitions, _BROKERS_DEFAULT if by_default and version >= 4 else replicas)
    writer.count(0)  # which brokers have which partition
    writer.count(len(config))
    for name, value in config.items():
        writer.text(name)
        writer.text(value)
        writer.end()
    writer.end()
    writer.numbers(_INT32, timeout_ms)
    writer.boolean(only_checked)
    writer.end()
    return writer.data


def write_describe_configs(kind: int, name: str, keys: Sequence[str], version: int) -> bytearray:
    """Versions 1 to 4. `kind`: TOPIC or BROKER of `transaction_responses`; a broker is named by its number."""
    writer = begin(DESCRIBE_CONFIGS, version)
    writer.count(1)
    writer.numbers(_INT8, kind)
    writer.text(name)
    writer.texts(keys)
    writer.end()
    writer.boolean(False)  # whether to say where a value comes from
    if version >= 3:
        writer.boolean(False)  # whether to explain it
    writer.end()
    return writer.data
