"""What is known of a job before its code is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

STREAM, BATCH = "stream", "batch"
KINDS = (STREAM, BATCH)
RAW, JSON, AVRO, PROTOBUF = "raw", "json", "avro", "protobuf"
VALUES = (RAW, JSON, AVRO, PROTOBUF)
CONSOLE, PARQUET, DELTA, KAFKA, FOREACH = "console", "parquet", "delta", "kafka", "foreach"
SINKS = (CONSOLE, PARQUET, DELTA, KAFKA, FOREACH)
ALWAYS, AVAILABLE_NOW = "always", "available-now"
TRIGGERS = (ALWAYS, AVAILABLE_NOW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The flags of the command, or what was answered to its questions. None, or nothing: not said."""

    kind: str | None = None
    servers: str | None = None
    clusters: Sequence[str] = ()
    """`NAME=SERVERS` each."""

    metadata: str | None = None
    local: bool = False
    topics: str | None = None
    pattern: str | None = None
    start: str | None = None
    stop: str | None = None
    values: str | None = None
    schema: str | None = None
    message: str | None = None
    registry: str | None = None
    sink: str | None = None
    to: str | None = None
    to_servers: str | None = None
    checkpoint: str | None = None
    trigger: str | None = None
    options: Sequence[str] = ()
    """`NAME=VALUE` each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job whose options the source, and the sink if it is this package's, have accepted."""

    name: str
    """What Spark shows of it; at most NAME_MAX letters, digits and the like."""

    stream: bool
    local: bool
    """It starts a broker of its own."""

    source: Mapping[str, str]
    """Option -> value, without `clusters`, `login`, and with `local` without servers."""

    clusters: Mapping[str, str] = field(default_factory=dict)
    """Cluster -> its servers; empty: no option `clusters`."""

    login: Mapping[str, str] = field(default_factory=dict)
    """TLS and SASL options, for reading and, if that is Kafka, for writing."""

    values: str = RAW
    fields: frozenset[str] = frozenset()
    """The fields of a value, in lower case, as far as they are known here."""

    typed_keys: bool = False
    """A key is a struct."""

    sample: str = ""
    """With `local`: what is sent as JSON, an expression in Python over `number`; empty: text."""

    sink: str = CONSOLE
    target: str = ""
    """A path, relative to the file of the job or not, or a topic; empty: none."""

    target_servers: str = ""
    """Where the topic is; empty with `local`."""

    checkpoint: str = ""
    """A path as `target`; empty: none."""

    available_now: bool = False


NAME_MAX = 30
