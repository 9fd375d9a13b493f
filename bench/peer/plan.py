"""Which sides are measured against each other, how often, and which goals they have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from bench.peer.data import EVENTS

SPARK = "Spark's own"
SPARK_MIN = "Spark's own, minPartitions 8"
SPARK_CACHE = "Spark's own, cache of 1,000"
OURS = "evensplit"
OURS_PLAIN = "evensplit, without TLS"
OURS_UNDAMAGED = "evensplit, none malformed"
CEILING = "ceiling"
FLOOR = "floor"
WITNESS = "witness"

CONSUMER_CACHE = 1_000
WITNESS_SHARE = 4
"""The witness reads one row in so many: it is the slowest, and its rate is constant."""

CEILING_ROWS = 10_000
SMALL_PARTITIONS = 200
HOT_PARTITIONS = 8
PARTITIONS = 4
CODECS = {"none": "plain", "lz4": "lz4", "zstd": "zstd"}
SIZES = {100: "100 B", 1024: "1 KB"}


class Host(StrEnum):
    """A kind of process with its own Spark session."""

    SPARK = "spark"
    SPARK_CACHE = "spark-cache"
    OURS = "evensplit"
    PYTHON = "python"
    WITNESS = "witness"

    @property
    def has_connector(self) -> bool:
        """Whether Spark's own connector is loaded."""
        return self in (Host.SPARK, Host.SPARK_CACHE)

    @property
    def cache(self) -> int:
        """How many consumers the connector keeps; 0: its default."""
        return CONSUMER_CACHE if self is Host.SPARK_CACHE else 0


class Kind(StrEnum):
    """The kind of figures: rows per second read or written, MB in a topic, milliseconds of batches, MiB of a worker."""

    RATE = "rate"
    WRITE = "write"
    SIZE = "size"
    STREAM = "stream"
    MEMORY = "memory"


RATES = frozenset((Kind.RATE, Kind.WRITE))
"""The more the better; of the others, the less."""


@dataclass(frozen=True, slots=True)
class Topic:
    """Records of one size and codec. `skewed`: 80 % of them in partition 0. No rows: they trickle in.

    `content`: one of `data.CONTENTS`, whose values have about `value_bytes`.
    """

    name: str
    value_bytes: int
    codec: str
    rows: int
    partitions: int = PARTITIONS
    skewed: bool = False
    content: str = EVENTS


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: its name in the tables, where it runs, what it reads how, and does with it.

    `steps`: each of them a condition in SQL, or expressions that columns are made of.
    """

    name: str
    host: Host
    source: str = ""
    options: dict[str, str] = field(default_factory=dict)
    steps: tuple[str | tuple[str, ...], ...] = ()
    secured: bool = False
    sink: str = ""
    """What it writes with, if it does."""
    sink_options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Goal:
    """The ratio of `ours` to the best of `against`: at least `limit` for rates, at most `limit` for other kinds.

    Without `against`, `limit` is for the figure itself, and holds for the worst of its runs.
    """

    ours: str
    against: tuple[str, ...]
    limit: float


@dataclass(frozen=True, slots=True)
class Workload:
    """One line of the tables. `unavailable`: why it is left out; `notes`: remarks on its figures."""

    key: str
    title: str
    kind: Kind
    topic: Topic
    cores: int
    sides: tuple[Side, ...]
    goals: tuple[Goal, ...] = ()
    skip: int = 0
    batches: int = 0
    rounds: int = 0
    unavailable: str = ""
    notes: tuple[str, ...] = ()
    same: bool = False
    """Whether all sides have to give the same rows."""
    written_rows: int = 0
    """How many rows are made and written to a topic like `topic`; 0: those that `topic` has."""
    also: tuple[Topic, ...] = ()
    """Topics that sides read instead, by their options."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is read, and how many rounds count (after one that does not).

    `rows`: by size; `batches`: of each round, by partitions; `cold_rounds`: for workloads that need a new process;
    `memory`: size, codec and cores of the memory workloads.
    """

    name: str
    codecs: tuple[str, ...]
    rounds: int
    rows: dict[int, int]
    rows_small: int
    rows_hot: int
    rows_typed: int
    rows_written: dict[int, int]
    batches: dict[int, int]
    stream_rounds: int
    cold_rounds: int
    memory: tuple[tuple[int, str, int], ...]


FULL = Scale(
    name="full",
    codecs=("none", "lz4", "zstd"),
    rounds=5,
    rows={100: 3_000_000, 1024: 1_000_000},
    rows_small=1_000_000,
    rows_hot=3_000_000,
    rows_typed=2_000_000,
    rows_written={100: 2_000_000, 1024: 400_000},
    batches={PARTITIONS: 20, SMALL_PARTITIONS: 3},
    stream_rounds=5,
    cold_rounds=5,
    memory=((100, "none", 1), (1024, "zstd", 1), (1024, "zstd", 2)),
)
QUICK = Scale(
    name="quick",
    codecs=("none", "zstd"),
    rounds=2,
    rows={100: 400_000, 1024: 100_000},
    rows_small=200_000,
    rows_hot=400_000,
    rows_typed=200_000,
    rows_written={100: 400_000, 1024: 100_000},
    batches={PARTITIONS: 6, SMALL_PARTITIONS: 1},
    stream_rounds=1,
    cold_rounds=1,
    memory=((1024, "zstd", 1),),
)


@dataclass(frozen=True, slots=True)
class Abilities:
    """Abilities of this version of the source and of the local broker: empty, or why it is missing."""

    level: str = ""
    columns: str = ""
    tls: str = ""


def workloads(scale: Scale, can: Abilities) -> list[Workload]:
    """All workloads, in order of measurement: those with the same number of cores together."""
    topics = {
        (size, codec): Topic(f"read-{size}-{CODECS[codec]}", size, codec, scale.rows[size])
        for size in SIZES
        for codec in scale.codecs
    }
    small = Topic("small", 100, "none", scale.rows_small, SMALL_PARTITIONS)
    hot = Topic("hot", 100, "none", scale.rows_hot, HOT_PARTITIONS, skewed=True)
    made: list[Workload] = []
    for cores in (1, 2):
        made += [_read(topic, cores, scale) for topic in topics.values()]
        made.append(_small(small, cores, scale))
        made.append(_hot(hot, cores, scale, can))
        if cores == 1:
            made.append(_columns(topics[100, "none"], scale, can))
            made += [_tls(topics[size, "none"], scale, can) for size in SIZES]
            made += [_trickle(partitions, scale) for partitions in (PARTITIONS, SMALL_PARTITIONS)]
        made += [_memory(topics[size, codec], cores, scale) for size, codec, at in scale.memory if at == cores]
    return made


def chosen(all_of_them: Sequence[Workload], only: str) -> list[Workload]:
    """The workloads whose key contains one of the words in `only` (separated by commas), or all without words.

    Raises ValueError for a word that is in no key.
    """
    words = [word.strip() for word in only.split(",") if word.strip()]
    wrong = [word for word in words if not any(word in one.key for one in all_of_them)]
    if wrong:
        keys = ", ".join(one.key for one in all_of_them)
        raise ValueError(f"--only names {', '.join(wrong)}, which is in no workload's name; they are: {keys}")
    return [one for one in all_of_them if not words or any(word in one.key for word in words)]


def _read(topic: Topic, cores: int, scale: Scale) -> Workload:
    codec = CODECS[topic.codec]
    peer = {(1, 100): 4.0, (1, 1024): 3.5}.get((cores, topic.value_bytes), 2.0)
    if (cores, topic.value_bytes, topic.codec) == (1, 1024, "zstd"):
        peer = 4.2
    return Workload(
        key=f"{topic.name}-{cores}",
        title=f"{SIZES[topic.value_bytes]}, {codec}",
        kind=Kind.RATE,
        topic=topic,
        cores=cores,
        sides=(*_pair(cores), _ceiling(topic, cores), *([Side(WITNESS, Host.WITNESS)] if cores == 1 else [])),
        goals=(Goal(OURS, (SPARK,), peer), Goal(OURS, (CEILING,), 0.85 if cores == 1 else 0.8)),
        rounds=scale.rounds,
    )


def _small(topic: Topic, cores: int, scale: Scale) -> Workload:
    return Workload(
        key=f"small-{cores}",
        title=f"{topic.partitions} small partitions",
        kind=Kind.RATE,
        topic=topic,
        cores=cores,
        sides=(*_pair(cores), _ceiling(topic, cores)),
        goals=(Goal(OURS, (SPARK,), 6.0 if cores == 1 else 6.5),),
        rounds=scale.rounds,
    )


def _hot(topic: Topic, cores: int, scale: Scale, can: Abilities) -> Workload:
    spark, ours = _pair(cores)
    more = Side(SPARK_MIN, Host.SPARK, "kafka", {"minPartitions": str(topic.partitions)})
    level = {} if can.level else {"plan": "level"}
    return Workload(
        key=f"hot-{cores}",
        title="80 % in one of 8 partitions",
        kind=Kind.RATE,
        topic=topic,
        cores=cores,
        sides=(spark, more, Side(OURS, Host.OURS, "evensplit", {**ours.options, **level}), _ceiling(topic, cores)),
        goals=(Goal(OURS, (SPARK, SPARK_MIN), 5.0),) if cores == 1 else (),
        rounds=scale.rounds,
        notes=(f"with the default plan, since {can.level}",) if can.level else (),
    )


def _columns(topic: Topic, scale: Scale, can: Abilities) -> Workload:
    _, ours = _pair(1)
    return Workload(
        key="columns",
        title="100 B, plain, the value alone",
        kind=Kind.RATE,
        topic=topic,
        cores=1,
        sides=(Side(OURS, Host.OURS, "evensplit", {**ours.options, "columns": "value"}), _ceiling(topic, 1)),
        goals=(Goal(OURS, (CEILING,), 1.0),),
        rounds=scale.rounds,
        unavailable=can.columns,
    )


def _tls(topic: Topic, scale: Scale, can: Abilities) -> Workload:
    spark, ours = (replace(side, secured=True) for side in _pair(1))
    return Workload(
        key=f"tls-{topic.value_bytes}",
        title=f"{SIZES[topic.value_bytes]}, plain, over TLS",
        kind=Kind.RATE,
        topic=topic,
        cores=1,
        sides=(spark, ours, replace(ours, name=OURS_PLAIN, secured=False)),
        goals=(Goal(OURS, (OURS_PLAIN,), 0.8 if topic.value_bytes > 100 else 0.7),),
        rounds=scale.rounds,
        unavailable=can.tls,
    )


def _trickle(partitions: int, scale: Scale) -> Workload:
    limits = {
        PARTITIONS: (Goal(OURS, (SPARK,), 1.0),),
        SMALL_PARTITIONS: (Goal(OURS, (SPARK,), 0.05), Goal(OURS, (SPARK_CACHE,), 0.07)),
    }
    spark, ours = _pair(1)
    latest = {"startingOffsets": "latest"}
    return Workload(
        key=f"trickle-{partitions}",
        title=f"500 records/s in {partitions} partitions",
        kind=Kind.STREAM,
        topic=Topic(f"trickle-{partitions}", 100, "none", 0, partitions),
        cores=1,
        sides=(
            Side(SPARK, spark.host, spark.source, latest),
            Side(SPARK_CACHE, Host.SPARK_CACHE, "kafka", latest),
            Side(OURS, ours.host, ours.source, {**ours.options, **latest}),
            Side(FLOOR, Host.PYTHON, "floor", {"tasks": "1"}),
        ),
        goals=limits[partitions],
        skip=3 if partitions == PARTITIONS else 1,
        batches=scale.batches[partitions],
        rounds=scale.stream_rounds,
    )


def _memory(topic: Topic, cores: int, scale: Scale) -> Workload:
    return Workload(
        key=f"memory-{topic.value_bytes}-{cores}",
        title=f"{SIZES[topic.value_bytes]}, {CODECS[topic.codec]}",
        kind=Kind.MEMORY,
        topic=topic,
        cores=cores,
        sides=_pair(cores),
        goals=(Goal(OURS, (), 64.0),),
        rounds=scale.cold_rounds,
    )


def _pair(cores: int) -> tuple[Side, Side]:
    """The two main sides. As many readers as cores, as with `evensplit.register`."""
    return Side(SPARK, Host.SPARK, "kafka"), Side(OURS, Host.OURS, "evensplit", {"readers": str(cores)})


def _ceiling(topic: Topic, cores: int) -> Side:
    options = {"size": str(topic.value_bytes), "rows": str(topic.rows), "tasks": str(cores)}
    return Side(CEILING, Host.PYTHON, "ceiling", options)
