"""How records are written to one cluster: the options of Kafka's producer, declared and parsed.

Every name of Kafka's own producer is known here. It is used, or has no effect in this client and is reported, or would
make delivery less safe, and is refused. Those that say how to reach a cluster are the same as for reading: `client`
parses them.

Source: `ProducerConfig` of Kafka 4.3.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from evensplit.core.delivery.terms import LEFT_STEPS_MS, TIMEOUT_MIN_MS
from evensplit.core.text import short, shown
from evensplit.kafka.options import client_options
from evensplit.kafka.options.client_options import PREFIX
from evensplit.kafka.options.option import CLUSTER, FLAG, SOURCE, Choice, Option, WholeNumber, one_of
from evensplit.kafka.options.security import SECURITY_IGNORED, SECURITY_NAMES, SECURITY_REFUSED

_option = partial(Option, places=(SOURCE, CLUSTER))
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

BATCH_SIZE = _option(
    name="kafka.batch.size",
    type=WholeNumber(0, unit="bytes"),
    default=256 << 10,
    meaning="About how long a record batch may become, as it is sent; not longer than the topic's `max.message.bytes`, "
    "where this user may see it. Kafka's own default is 16 KiB; here it costs no memory in advance, and longer batches "
    "compress better.",
    example="16384",
    field="batch_bytes_max",
)
COMPRESSION = _option(
    name="kafka.compression.type",
    type=one_of(*_CODECS),
    default="none",
    meaning="How record batches are compressed: `none`, `gzip`, `snappy`, `lz4` or `zstd`.",
    example="zstd",
    field="compression",
)
LEVELS: Mapping[str, Option] = {
    codec: _option(
        name=f"kafka.compression.{codec}.level",
        type=kind,
        default_text=f"`{default}`, as in Kafka",
        meaning=f"How hard `{codec}` tries. Without effect with another `kafka.compression.type`.",
        example=example,
    )
    for codec, kind, default, example in (
        ("gzip", WholeNumber(-1, 9), -1, "9"),
        ("lz4", WholeNumber(1, 17), 9, "5"),
        ("zstd", WholeNumber(-131_072, 22), 3, "10"),
    )
}
"""Codec -> the option with its level."""
REQUEST_SIZE = _option(
    name="kafka.max.request.size",
    type=WholeNumber(1, unit="bytes"),
    default=1 << 20,
    meaning="How long a request may be, and a record before it is compressed. A longer record is an error.",
    example="5242880",
    field="request_bytes_max",
)
BUFFER_MEMORY = _option(
    name="kafka.buffer.memory",
    type=WholeNumber(1, unit="bytes"),
    default=32 << 20,
    meaning="About how much a task keeps of what is not acknowledged yet. Then it waits.",
    example="67108864",
    field="buffer_bytes_max",
)
IN_FLIGHT = _option(
    name="kafka.max.in.flight.requests.per.connection",
    type=WholeNumber(1, 5),
    default=5,
    meaning="How many requests of a task may be under way to one broker. More than five would break the order.",
    example="1",
    field="in_flight_max",
)
DELIVERY_TIMEOUT = _option(
    name="kafka.delivery.timeout.ms",
    type=WholeNumber(1, unit="milliseconds"),
    default=120_000,
    meaning="How long it may take until a record batch is acknowledged, with all retries.",
    example="300000",
    field="delivery_timeout_ms",
)
TRANSACTION_TIMEOUT = _option(
    name="kafka.transaction.timeout.ms",
    type=WholeNumber(1, unit="milliseconds"),
    default=900_000,
    meaning="How long a transaction may be open before brokers abort it: from a task's first record until its batch "
    "is decided, which it is not in the last 5 s: with `exactly-once`, more than `5000`. Kafka's own default is one "
    "minute. Brokers allow `transaction.max.timeout.ms` at most.",
    example="600000",
    field="transaction_timeout_ms",
)
IGNORE_KEYS = _option(
    name="kafka.partitioner.ignore.keys",
    type=FLAG,
    default=False,
    meaning="Whether partitions are chosen as if there were no keys.",
    example="true",
    field="ignore_keys",
)

PRODUCER_OPTIONS: tuple[Option, ...] = (
    COMPRESSION,
    *LEVELS.values(),
    BATCH_SIZE,
    REQUEST_SIZE,
    BUFFER_MEMORY,
    IN_FLIGHT,
    DELIVERY_TIMEOUT,
    TRANSACTION_TIMEOUT,
    IGNORE_KEYS,
)

REACHING: tuple[Option, ...] = (
    client_options.BOOTSTRAP_SERVERS,
    client_options.SECURITY_PROTOCOL,
    client_options.CLIENT_ID,
    client_options.REQUEST_TIMEOUT,
    client_options.CONNECT_TIMEOUT,
    client_options.RETRY_BACKOFF,
    client_options.RETRY_BACKOFF_MAX,
    client_options.RECEIVE_BUFFER,
)
"""The options of Kafka's client that say how to reach a cluster, for reading and writing."""


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How a producer writes. All in-sync replicas acknowledge every record. Compares by value; can be pickled."""

    compression: str = COMPRESSION.default
    """`none`, `gzip`, `snappy`, `lz4` or `zstd`."""

    compression_level: int | None = None
    """How hard `gzip`, `lz4` or `zstd` try; None: as Kafka's producer does by default."""

    batch_bytes_max: int = BATCH_SIZE.default
    """About how long a record batch may become, as it is sent. A longer record has one of its own."""

    request_bytes_max: int = REQUEST_SIZE.default
    """How long a request may be, and a record before it is compressed."""

    buffer_bytes_max: int = BUFFER_MEMORY.default
    """About how much one task keeps of what is not yet acknowledged."""

    in_flight_max: int = IN_FLIGHT.default
    """How many requests may be under way to one broker; 1 to 5, which is what brokers remember of a producer."""

    delivery_timeout_ms: int = DELIVERY_TIMEOUT.default
    """How long it may take from the first attempt to send a record batch until it is acknowledged."""

    transaction_timeout_ms: int = TRANSACTION_TIMEOUT.default
    """How long a transaction may be open before brokers abort it."""

    ignore_keys: bool = IGNORE_KEYS.default
    """Whether partitions are chosen as if there were no keys."""


_BYTES = (
    "is given, but it is not supported, as keys and values are written as the bytes that they are; leave it out, and "
    "convert the columns in the query, with DataFrame operations"
)

PRODUCER_REFUSED: Mapping[str, str] = {
    "config.providers": (
        "is given, but such providers are Java; leave it out: ${env:NAME}, ${file:PATH} and ${file:PATH:KEY} are "
        "understood without it"
    ),
    "interceptor.classes": (
        "is given, but it is not supported: an interceptor could change what is written, and is Java; leave it out, "
        "and transform the rows in the query"
    ),
    "key.serializer": _BYTES,
    "partitioner.class": (
        "is given, but it is not supported, as such a class is Java; leave it out, and give the DataFrame a column "
        "partition"
    ),
    "transaction.two.phase.commit.enable": (
        "is given, but it is not supported: transactions that never expire need a coordinator that is always there; "
        "leave it out, and raise kafka.transaction.timeout.ms"
    ),
    "transactional.id": (
        "is given, but it is not supported: each task has an id of its own; leave it out, and use "
        "transactionalIdPrefix for how ids begin"
    ),
    "value.serializer": _BYTES,
    **SECURITY_REFUSED,
}
"""Settings that are an error whatever their value -> why, as a clause after the name."""

_FIXED: Mapping[str, tuple[Choice, str]] = {
    "acks": (Choice({"all": True, "-1": True}), "all or -1, as every record is acknowledged by all in-sync replicas"),
    "enable.idempotence": (Choice({"true": True}), "true, as no retry may write a record twice"),
}
"""Settings that can have only one value: its type, and that value as the end of "expected …"."""

PRODUCER_IGNORED: Mapping[str, str] = {
    "linger.ms": "a record batch is sent when it is full, or when its task ends",
    "max.block.ms": "kafka.delivery.timeout.ms says how long a task waits",
    "metadata.max.age.ms": "a batch of a query looks for new partitions when it begins",
    "metadata.max.idle.ms": "a batch of a query looks for new partitions when it begins",
    "reconnect.backoff.max.ms": "kafka.retry.backoff.max.ms is the longest pause between two tries",
    "reconnect.backoff.ms": "kafka.retry.backoff.ms is the pause between two tries",
    "retries": "kafka.delivery.timeout.ms says how long it is tried",
    **dict.fromkeys(
        (
            "auto.include.jmx.reporter",
            "client.dns.lookup",
            "connections.max.idle.ms",
            "enable.metrics.push",
            "metadata.recovery.rebootstrap.trigger.ms",
            "metadata.recovery.strategy",
            "metric.reporters",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
            "partitioner.adaptive.partitioning.enable",
            "partitioner.availability.timeout.ms",
            "security.providers",
            "send.buffer.bytes",
            "socket.connection.setup.timeout.max.ms",
            *sorted(SECURITY_IGNORED),
        ),
        "",
    ),
}
"""Settings of Kafka's producer that have no effect in this client -> what does what they may have been given for."""

_BY_NAME: Mapping[str, Option] = {one.name.removeprefix(PREFIX): one for one in PRODUCER_OPTIONS}
_REACHING = frozenset((*(one.name.removeprefix(PREFIX) for one in REACHING), *SECURITY_NAMES))
_READING = frozenset(client_options.BY_KAFKAS_NAME).difference(_REACHING)
_KNOWN = sorted({*_BY_NAME, *_REACHING, *PRODUCER_REFUSED, *PRODUCER_IGNORED, *_FIXED})


def parse_producing(
    given: Mapping[str, str], *, transactions: bool
) -> tuple[ProducerSettings | None, dict[str, str], list[str], list[str]]:
    """Parse options by Kafka's names, in lower case and without `kafka.`. `transactions`: whether it writes in some.

    Returns:
        The settings, or None if there are problems; the options that say how to reach the cluster, for `client`; all
        problems, one sentence each without a full stop; and the names that are Kafka's but have no effect here.
    """
    problems: list[str] = []
    ignored: list[str] = []
    found: dict[str, Any] = {}
    reaching: dict[str, str] = {}
    for name, value in given.items():
        if name in _REACHING:
            reaching[name] = value
        elif name in _BY_NAME:
            _read(_BY_NAME[name], value, found, problems)
        elif name in _FIXED:
            kind, expected = _FIXED[name]
            if value.lower() not in kind.words:
                problems.append(f"{PREFIX}{name} is {shown(value)}; expected {expected}")
        elif name in PRODUCER_REFUSED:
            problems.append(f"{PREFIX}{name} {PRODUCER_REFUSED[name]}")
        elif name in PRODUCER_IGNORED:
            ignored.append(name)
        else:
            problems.append(_unknown(name))
    timeout_ms = found.get("transaction_timeout_ms", TRANSACTION_TIMEOUT.default)
    if transactions and timeout_ms < TIMEOUT_MIN_MS:
        problems.append(
            f"{TRANSACTION_TIMEOUT.name} is {shown(str(timeout_ms))}; expected {TIMEOUT_MIN_MS} milliseconds or more, "
            f"as no batch is decided in the last {LEFT_STEPS_MS[-1] / 1000:g} s of its transactions"
        )
    levels = {codec: found.pop(option.name, None) for codec, option in LEVELS.items()}
    found["compression_level"] = levels.get(found.get("compression", COMPRESSION.default))
    return None if problems else ProducerSettings(**found), reaching, problems, ignored


def _read(option: Option, value: str, found: dict[str, Any], problems: list[str]) -> None:
    """Put the value of `option` into `found`, by its attribute, or by its name where it has none."""
    try:
        found[option.field or option.name] = option.type.parse(value)
    except ValueError as error:
        reason = f": {error}" if str(error) else ""
        problems.append(f"{option.name} is {shown(value)}; expected {option.type.expected}{reason}")


def _unknown(name: str) -> str:
    if name in _READING:
        return f"{PREFIX}{name} is for reading, and this writes; give it to read or readStream, or leave it out"
    near = next(iter(difflib.get_close_matches(name[:100], _KNOWN, n=1, cutoff=0.7)), "")
    hint = f"did you mean {PREFIX}{near}?" if near else "expected a setting of Kafka's producer"
    return f"{PREFIX}{short(name)} is not an option; {hint}"
