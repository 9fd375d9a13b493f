"""Options declared: writing to Kafka. Those of Kafka's producer are declared in `evensplit.kafka.options.producer`."""

from __future__ import annotations

from collections.abc import Mapping

from evensplit.kafka.options.client_options import BOOTSTRAP_SERVERS
from evensplit.kafka.options.option import FLAG, LONG_MAX, Choice, Form, Name, Option, SecretForm, Text, WholeNumber
from evensplit.kafka.options.producer import PRODUCER_OPTIONS, REACHING

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"

_TOPIC = Form("text", "a topic name of 1 to 249 letters, digits, '.', '_' or '-'")

TOPIC = Option(
    name="topic",
    type=_TOPIC,
    default_text="the column `topic`",
    meaning="Topic that all rows are written to. A column `topic` is then ignored.",
    example="orders",
)
WRITE_CLUSTERS = Option(
    name="clusters",
    type=SecretForm("JSON", '{"east": {"kafka.bootstrap.servers": "host:9092"}, "west": {...}}'),
    default_text="one cluster, `default`, at `kafka.bootstrap.servers`",
    meaning="Write to several clusters: cluster id → its `kafka.*` options. Options that a cluster does not set are "
    "taken from the query. Without the option `cluster`, the rows need a column `cluster`.",
    example='{"east": {"kafka.bootstrap.servers": "e:9092"}, "west": {"kafka.bootstrap.servers": "w:9092"}}',
    excludes=(BOOTSTRAP_SERVERS.name,),
)
WRITE_CLUSTER = Option(
    name="cluster",
    type=Name(),
    default_text="the column `cluster`",
    meaning="Cluster that all rows are written to, one of `clusters`. A column `cluster` is then ignored.",
    example="east",
    needs=WRITE_CLUSTERS.name,
)
WRITE_HEADERS = Option(
    name="includeHeaders",
    type=FLAG,
    default=True,
    meaning="Whether the column `headers` is written, if there is one.",
    example="false",
)
WRITE_TIMESTAMP = Option(
    name="includeTimestamp",
    type=FLAG,
    default=False,
    meaning="Whether records have the time of the column `timestamp`; else they have the time of writing.",
    example="true",
)
DELIVERY = Option(
    name="delivery",
    type=Choice({EXACTLY_ONCE: EXACTLY_ONCE, AT_LEAST_ONCE: AT_LEAST_ONCE}),
    default_text="streaming query: `exactly-once`; batch query: `at-least-once`",
    meaning="How often a row is written. `exactly-once`: the records of a batch become visible together, once, to "
    "readers with `read_committed`. `at-least-once`: they are visible at once, and some are there twice after a "
    "failure.",
    example="at-least-once",
)
LEDGER = Option(
    name="ledger",
    type=_TOPIC,
    default="evensplit-ledger",
    meaning="Topic where it is decided which batches count. It is created if it is missing. Several queries can "
    "share one.",
    example="orders-ledger",
    only="stream",
    refused_elsewhere=False,
)
LEDGER_CLUSTER = Option(
    name="ledgerCluster",
    type=Name(),
    default_text="the only cluster; required for exactly-once delivery to several",
    meaning="Cluster that has the ledger, one of `clusters`.",
    example="west",
    needs=WRITE_CLUSTERS.name,
    only="stream",
    refused_elsewhere=False,
)
ID_PREFIX = Option(
    name="transactionalIdPrefix",
    type=Text(),
    default="evensplit",
    meaning="What the ids of all transactions begin with, for access rules of brokers.",
    example="orders-job",
)
ACCEPT_INCOMPLETE = Option(
    name="acceptIncomplete",
    type=WholeNumber(0, LONG_MAX),
    default_text="none",
    meaning="Number of a batch that was decided and is to be left as it is, though it is incomplete or has more rows "
    "now. See [ES-807](errors.md#es-807-batchincomplete) and [ES-804](errors.md#es-804-runsuperseded).",
    example="17",
    only="stream",
    refused_elsewhere=False,
)

ROWS_WRITTEN: tuple[Option, ...] = (
    BOOTSTRAP_SERVERS,
    WRITE_CLUSTERS,
    WRITE_CLUSTER,
    TOPIC,
    WRITE_HEADERS,
    WRITE_TIMESTAMP,
)
DELIVERIES: tuple[Option, ...] = (DELIVERY, LEDGER, LEDGER_CLUSTER, ID_PREFIX, ACCEPT_INCOMPLETE)

SINK_OPTIONS: Mapping[str, tuple[Option, ...]] = {
    "What is written, and where": ROWS_WRITTEN,
    "How often a record is written": DELIVERIES,
    "The producer of Kafka": (*(one for one in REACHING if one not in ROWS_WRITTEN), *PRODUCER_OPTIONS),
}
"""Heading -> the options under it, of what writes."""

SINK_DECLARED: tuple[Option, ...] = tuple(one for options in SINK_OPTIONS.values() for one in options)
SINK_BY_NAME: Mapping[str, Option] = {one.name.lower(): one for one in SINK_DECLARED}
"""The options of what writes, by their names in lower case."""

OF_QUERY = ("checkpointLocation", "queryName")
"""What Spark itself reads, and hands over beside the options."""
PATH = "path"
"""What `save(path)` and `start(path)` give. Topics have no path, and Spark's own sink ignores it, too."""
