"""The options of Kafka's client, declared: `kafka.` and Kafka's name, with Kafka's default unless the meaning says why.

The sources are the same as for `client`, which reads them. Those of TLS and SASL are in `tls` and `sasl`, under Kafka's
names and with Kafka's meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from evensplit.kafka.options.option import CLUSTER, SOURCE, Choice, Form, Option, Text, WholeNumber, one_of

PREFIX = "kafka."
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_option = partial(Option, places=(SOURCE, CLUSTER))

BOOTSTRAP_SERVERS = _option(
    name="kafka.bootstrap.servers",
    type=Form("addresses", "host:port, or [address]:port for IPv6, with a port from 1 to 65535, separated by commas"),
    default_text="none: required for each cluster",
    meaning="Brokers to connect to first, separated by commas. All others are found through them.",
    example="broker-1:9092,broker-2:9092",
    aliases="brokers bootstrapServers bootstrap servers brokerList kafka.metadata.broker.list kafka.brokers "
    "kafka.broker.list kafka.servers properties.bootstrap.servers kafkaBootstrapServers zookeeper.connect "
    "kafka.zookeeper.connect",
)
CLIENT_ID = _option(
    name="kafka.client.id",
    type=Text(),
    default="evensplit",
    meaning="Name of the query in the logs and quotas of brokers.",
    example="orders-job",
    field="client_id",
    aliases="clientId",
)
CLIENT_RACK = _option(
    name="kafka.client.rack",
    type=Text(),
    default="",
    meaning="Rack or zone of the executors. They then fetch from the closest replica (KIP-392).",
    example="eu-west-1a",
    field="client_rack",
)
ISOLATION_LEVEL = _option(
    name="kafka.isolation.level",
    type=Choice({"read_uncommitted": False, "read_committed": True}),
    default=False,
    meaning="Whether records of unfinished and aborted transactions are read (`read_uncommitted`) or left out "
    "(`read_committed`). With `read_committed` a batch ends at the last stable offset, where the first open "
    "transaction begins, and `latest` is that offset. A batch query that starts after it reads nothing there; an "
    "ending offset after it is an error.",
    example="read_committed",
    field="read_committed",
    aliases="isolationLevel",
)
REQUEST_TIMEOUT = _option(
    name="kafka.request.timeout.ms",
    type=WholeNumber(1, unit="milliseconds"),
    default=30_000,
    meaning="How long one call to a cluster may take, with all its retries.",
    example="60000",
    field="request_timeout_ms",
    aliases="kafka.socket.timeout.ms kafka.session.timeout",
)
CONNECT_TIMEOUT = _option(
    name="kafka.socket.connection.setup.timeout.ms",
    type=WholeNumber(1, unit="milliseconds"),
    default=10_000,
    meaning="How long one attempt to connect to a broker may take.",
    example="5000",
    field="connect_timeout_ms",
)
RETRY_BACKOFF = _option(
    name="kafka.retry.backoff.ms",
    type=WholeNumber(0, unit="milliseconds"),
    default=100,
    meaning="Pause before the second attempt at something. It doubles with each further attempt.",
    example="250",
    field="retry_backoff_ms",
)
RETRY_BACKOFF_MAX = _option(
    name="kafka.retry.backoff.max.ms",
    type=WholeNumber(0, unit="milliseconds"),
    default=1_000,
    meaning="Longest pause between two attempts.",
    example="5000",
    field="retry_backoff_max_ms",
)
RECEIVE_BUFFER = _option(
    name="kafka.receive.buffer.bytes",
    type=WholeNumber(-1, unit="bytes"),
    default=-1,
    meaning="Receive buffer of each socket; -1 leaves it to the operating system.",
    example="65536",
    field="receive_buffer_bytes",
)
FETCH_MAX_BYTES = _option(
    name="kafka.fetch.max.bytes",
    type=WholeNumber(1, unit="bytes"),
    default=52_428_800,
    meaning="Maximum size of one fetch response. Never more than 4 MiB are asked for at a time, except for a record "
    "batch that is longer.",
    example="1048576",
    field="fetch_max_bytes",
)
MAX_PARTITION_FETCH_BYTES = _option(
    name="kafka.max.partition.fetch.bytes",
    type=WholeNumber(1, unit="bytes"),
    default=4_194_304,
    meaning="Maximum size of one partition's share of a fetch response, except for a record batch that is longer. "
    "Kafka's own default is 1 MiB; here a partition cannot hold up others, so it may fill a response.",
    example="1048576",
    field="max_partition_fetch_bytes",
    aliases="kafka.fetch.message.max.bytes",
)
FETCH_MAX_WAIT = _option(
    name="kafka.fetch.max.wait.ms",
    type=WholeNumber(0, unit="milliseconds"),
    default=500,
    meaning="How long a broker may wait for new records before it sends an empty fetch response.",
    example="100",
    field="fetch_max_wait_ms",
)
SECURITY_PROTOCOL = _option(
    name="kafka.security.protocol",
    type=one_of(*PROTOCOLS),
    default=PROTOCOLS[0],
    meaning="How brokers are reached: `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`. The other `kafka.ssl.*` and "
    "`kafka.sasl.*` options of Kafka's consumer go with it; see [Security](../howto/security.md).",
    example="SSL",
    aliases="securityProtocol protocol",
)

CLIENT_OPTIONS: tuple[Option, ...] = (
    BOOTSTRAP_SERVERS,
    SECURITY_PROTOCOL,
    CLIENT_ID,
    CLIENT_RACK,
    ISOLATION_LEVEL,
    REQUEST_TIMEOUT,
    CONNECT_TIMEOUT,
    RETRY_BACKOFF,
    RETRY_BACKOFF_MAX,
    FETCH_MAX_BYTES,
    MAX_PARTITION_FETCH_BYTES,
    FETCH_MAX_WAIT,
    RECEIVE_BUFFER,
)

BY_KAFKAS_NAME: Mapping[str, Option] = {one.name.removeprefix(PREFIX): one for one in CLIENT_OPTIONS}
"""Kafka's own name, without the prefix -> the option."""
