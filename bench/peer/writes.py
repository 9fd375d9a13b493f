"""The workloads that write: Spark's own Kafka sink beside ours, with the defaults of each."""

from __future__ import annotations

from dataclasses import replace

from bench.peer.plan import CODECS, OURS, SIZES, SPARK, Goal, Host, Kind, Scale, Side, Topic, Workload

PARTITIONS_WRITTEN = 8
BATCHES = 3
"""Micro-batches of a turn; the first one does not count."""

BATCH_BYTES = "16384"


def writes(cores: int, scale: Scale) -> list[Workload]:
    """Rows made by Spark, in one batch and in micro-batches; rows from a topic; and how many bytes they become."""
    made: list[Workload] = []
    for size in SIZES:
        for codec in scale.codecs:
            made.append(_write(size, codec, cores, scale))
            made.append(_stream(size, codec, cores, scale))
        made.append(_through(size, cores, scale))
    if cores == 1:
        made += [_bytes(codec, scale) for codec in scale.codecs]
    return [replace(one, rounds=one.rounds or scale.rounds) for one in made]


def _write(size: int, codec: str, cores: int, scale: Scale) -> Workload:
    return Workload(
        key=f"write-{size}-{CODECS[codec]}-{cores}",
        title=f"{SIZES[size]}, {CODECS[codec]}, at least once",
        kind=Kind.WRITE,
        topic=_topic(size, codec),
        cores=cores,
        sides=_pair(codec),
        goals=(Goal(OURS, (SPARK,), 2.0),),
        written_rows=scale.rows_written[size],
    )


def _stream(size: int, codec: str, cores: int, scale: Scale) -> Workload:
    spark, ours = _pair(codec)
    exactly = replace(ours, sink_options={**ours.sink_options, "delivery": "exactly-once"})
    return Workload(
        key=f"write-stream-{size}-{CODECS[codec]}-{cores}",
        title=f"{SIZES[size]}, {CODECS[codec]}, micro-batches, exactly once",
        kind=Kind.WRITE,
        topic=_topic(size, codec),
        cores=cores,
        sides=(spark, exactly),
        goals=(Goal(OURS, (SPARK,), 1.5),),
        written_rows=scale.rows_written[size] // 2,
        batches=BATCHES,
    )


def _through(size: int, cores: int, scale: Scale) -> Workload:
    spark, ours = _pair("lz4")
    topic = Topic(f"read-{size}-lz4", size, "lz4", scale.rows[size])
    return Workload(
        key=f"write-through-{size}-{cores}",
        title=f"{SIZES[size]}, lz4, from topic to topic, at least once",
        kind=Kind.WRITE,
        topic=topic,
        cores=cores,
        sides=(
            replace(spark, source="kafka"),
            replace(ours, source="evensplit", options={"readers": str(cores)}),
        ),
        goals=(Goal(OURS, (SPARK,), 3.0),),
    )


def _bytes(codec: str, scale: Scale) -> Workload:
    """Spark's own waits until its batches are full: the goal is about what is in one."""
    spark, ours = _pair(codec)
    size = {"kafka.batch.size": BATCH_BYTES}
    theirs = {**spark.sink_options, **size, "kafka.linger.ms": "1000"}
    return Workload(
        key=f"write-bytes-{CODECS[codec]}",
        title=f"100 B, {CODECS[codec]}, `kafka.batch.size` {BATCH_BYTES}",
        kind=Kind.SIZE,
        topic=_topic(100, codec),
        cores=1,
        sides=(replace(spark, sink_options=theirs), replace(ours, sink_options={**ours.sink_options, **size})),
        goals=(Goal(OURS, (SPARK,), 1.02),),
        rounds=1,
        written_rows=scale.rows_written[100] // 4,
    )


def _topic(size: int, codec: str) -> Topic:
    """Without records; a topic like it is made for each turn."""
    return Topic(f"written-{size}-{CODECS[codec]}", size, codec, 0, PARTITIONS_WRITTEN)


def _pair(codec: str) -> tuple[Side, Side]:
    options = {"kafka.compression.type": codec}
    return (
        Side(SPARK, Host.SPARK, sink="kafka", sink_options=options),
        Side(OURS, Host.OURS, sink="evensplit", sink_options=options),
    )
