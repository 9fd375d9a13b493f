"""Names that are no options, or have no effect, and what to use instead.

They come from other sources of Spark, from its Kafka sink and its older Kafka source, from Flink and from Kafka's other
clients. Names of one option of this source are declared with it (`Option.aliases`); here are the others. The reference
lists them all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from evensplit.core.state.settings import RATE
from evensplit.kafka.options.client import IGNORED, REFUSED, USED
from evensplit.registry.settings import PREFIX
from evensplit.spark.options.spec.all import ALIASES, DECLARED, IGNORED_NAMES
from evensplit.spark.options.spec.formats import ON_DECODE_ERROR
from evensplit.spark.options.spec.limits import MAX_BYTES, MAX_OFFSETS, PRIORITY
from evensplit.spark.options.spec.query import BALANCE, ON_TIMESTAMP_OVERFLOW

_TASKS = "use readers for the tasks of a batch, or minPartitions to have more tasks than readers"
_DECODE = (
    "value.format and key.format say what values and keys are written in, value.schema and key.schema by which schema"
)
_QUERY = "it belongs to the query: give it to writeStream"
_GROUP = "use startingGroup to start where a group stands, and commitGroup for a stream to commit its positions to one"
_LOGIN = "use kafka.sasl.jaas.config, which holds the login"
_TRUST = "use kafka.ssl.truststore.location, with kafka.ssl.truststore.type=PEM for a PEM file"
_KEYS = (
    "use kafka.ssl.keystore.location, with kafka.ssl.keystore.type=PEM for a PEM file that holds key and certificate"
)
_WRITES = "it is for writing: give it to write or writeStream, or leave it out"

_ROWS: tuple[tuple[str, str], ...] = (
    ("path", "topics are named with subscribe: call load() without a path"),
    ("untilOffsets scan.bounded.mode kafka.endingOffsets", "use endingOffsets in a batch query, stop in a stream"),
    (
        "group.id groupId group consumerGroup consumer.group.id kafka.groupId kafka.consumer.group.id "
        "properties.group.id kafka.commitGroup",
        _GROUP,
    ),
    ("ignoreDataLoss skipDataLoss dataLoss", "use failOnDataLoss=false"),
    ("numPartitions parallelism concurrency numReaders numTasks tasks consumers threads scan.parallelism", _TASKS),
    ("timeout pollTimeout poll.timeout.ms", "use kafka.request.timeout.ms, or kafkaConsumer.pollTimeoutMs for tasks"),
    ("checkpointLocation outputMode queryName trigger triggerInterval processingTime availableNow once", _QUERY),
    (
        "key.deserializer value.deserializer keyDeserializer valueDeserializer keyFormat valueFormat "
        "format avroSchema jsonSchema schema mode multiLine kafka.specific.avro.reader kafka.value.converter "
        "kafka.key.converter",
        _DECODE,
    ),
    (
        "schemaRegistryUrl kafka.schema.registry.url schemaRegistryAddress registry.url kafka.basic.auth.user.info "
        "kafka.basic.auth.credentials.source basic.auth.user.info",
        "use schema.registry.url, and schema.registry.basic.auth.user.info for its login",
    ),
    (
        "username password user kafka.username kafka.password kafka.sasl.username kafka.sasl.password sasl.username "
        "sasl.password kafka.sasl.user",
        _LOGIN,
    ),
    ("kafka.sasl.mechanisms sasl.mechanisms saslMechanism", "use kafka.sasl.mechanism"),
    ("kafka.ssl.ca.location ssl.ca.location kafka.ssl.ca.pem kafka.ssl.cafile caFile", _TRUST),
    (
        "kafka.ssl.certificate.location kafka.ssl.key.location kafka.ssl.certificate.pem kafka.ssl.key.pem "
        "kafka.ssl.keystore.pem",
        _KEYS,
    ),
    (
        "kafka.acks kafka.batch.size kafka.buffer.memory kafka.compression.type kafka.delivery.timeout.ms "
        "kafka.enable.idempotence kafka.key.serializer kafka.linger.ms kafka.max.block.ms "
        "kafka.max.in.flight.requests.per.connection kafka.max.request.size kafka.partitioner.class "
        "kafka.transaction.timeout.ms kafka.transactional.id kafka.value.serializer includeTimestamp delivery ledger "
        "ledgerCluster transactionalIdPrefix acceptIncomplete cluster kafka.compression.gzip.level "
        "kafka.compression.lz4.level kafka.compression.zstd.level kafka.partitioner.ignore.keys",
        _WRITES,
    ),
)

SOUGHT: Mapping[str, str] = {
    **{alias: f"use {name}" for alias, name in ALIASES.items()},
    **{name: advice for names, advice in _ROWS for name in names.split()},
}
"""Name that is no option, as people write it -> what to do, a clause that begins with a verb or says why."""

MEANINGLESS: Mapping[str, str] = {
    **IGNORED_NAMES,
    "kafka.auto.commit.interval.ms": "commitGroup commits the positions of each finished batch of a stream",
    "kafka.default.api.timeout.ms": "kafka.request.timeout.ms says how long a call may take",
    "kafka.group.id": "startingGroup starts where a group stands, commitGroup commits the positions of a stream to one",
    "kafka.max.poll.records": "maxOffsetsPerTrigger limits a batch of a stream, maxRecordsPerPartition a task",
    "kafka.metadata.max.age.ms": "discoveryInterval says how often new partitions are looked for",
    "kafka.partition.assignment.strategy": "policy says how partitions are given to readers",
    "kafka.reconnect.backoff.max.ms": "kafka.retry.backoff.max.ms is the longest pause between two tries",
    "kafka.reconnect.backoff.ms": "kafka.retry.backoff.ms is the pause between two tries",
}
"""Option that is understood and ignored -> what does what it may have been given for."""

USELESS: Mapping[str, str] = {
    **{one.name: f"without {one.useless_without}" for one in DECLARED if one.useless_without},
    **{one.name: f"only with {BALANCE.name}={RATE}" for one in DECLARED if one.useless_without == BALANCE.name},
    PRIORITY.name: f"without {MAX_OFFSETS.name} and {MAX_BYTES.name}",
    ON_TIMESTAMP_OVERFLOW.name: "the column timestamp is not read",
    ON_DECODE_ERROR.name: "nothing is decoded",
}
"""Option that has no effect by itself -> what it lacks where it is ignored."""

_KAFKA = "kafka."

CLIENT_OPTIONS = frozenset(f"{_KAFKA}{setting}" for setting in USED)
"""The options that are settings of Kafka's client."""

_BY_LOWER: Mapping[str, str] = {name.lower(): name for name in SOUGHT}
_MEANINGLESS_BY_LOWER: Mapping[str, str] = {name.lower(): name for name in MEANINGLESS}


def sought(name: str, *, prefixed: bool = False) -> tuple[str, str] | None:
    """How `name`, in any case, is usually written, and what to do; None: nothing is known of it.

    `prefixed`: it begins as options here do, so it is no setting of Kafka's that lacks its prefix.
    """
    usual = _BY_LOWER.get(name.lower())
    if usual is not None:
        return usual, SOUGHT[usual]
    bare = name.lower()
    if prefixed:
        return None
    if bare in USED:
        return bare, f"write {_KAFKA}{bare}: the settings of Kafka's client begin with {_KAFKA}"
    if bare in IGNORED:
        return bare, "leave it out: this setting of Kafka's consumer has no meaning here"
    return None


def meaning_of(name: str) -> tuple[str, str] | None:
    """How `name`, in any case and in no list of options, is usually written, and what it means here, in Markdown.

    The links are from where the reference is. None: nothing is known of it.
    """
    found = sought(name)
    if found is not None:
        return found[0], f"it is not an option; {found[1]}"
    usual = _MEANINGLESS_BY_LOWER.get(name.lower())
    if usual is not None:
        return usual, f"it is taken and ignored; {MEANINGLESS[usual]}"
    usual = name.lower()
    setting = usual.removeprefix(_KAFKA)
    if setting == usual:
        return None
    if setting in USED:
        return usual, "it works as in Kafka's consumer; see [Security](../howto/security.md)"
    if setting in IGNORED:
        return usual, "it is taken and ignored: this setting of Kafka's consumer has no meaning here"
    why = REFUSED.get(setting)
    return None if why is None else (usual, f"an error: {usual} {why}")


def ignored_text(names: Sequence[str], bare: Collection[str] = ()) -> str:
    """The ignored options `names` in a sentence, each with what to use instead, or with why, if there is something.

    `bare`: those that are told without that.
    """
    told = {name: "" if name in bare else MEANINGLESS.get(name) or _why(name) for name in names}
    return ", ".join(f"{name} ({said})" if said else name for name, said in told.items())


def _why(name: str) -> str:
    """Why an option that is given can have no effect; empty: that is not known."""
    if name.startswith(PREFIX):
        return "no schema of a registry is used"
    return USELESS.get(name, "")
