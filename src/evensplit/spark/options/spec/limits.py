"""Options declared: how far a batch goes."""

from __future__ import annotations

from evensplit.core.batch.alignment import HOLD, WHEN_AWAY
from evensplit.kafka.options.option import LONG_MAX, Duration, Option, WholeNumber, one_of

MAX_OFFSETS = Option(
    name="maxOffsetsPerTrigger",
    type=WholeNumber(1, LONG_MAX),
    default_text="no limit",
    meaning="Maximum number of offsets in a micro-batch, approximately. It is divided among the partitions in "
    "proportion to what each of them has.",
    example="100000",
    field="limits.offsets_max",
    only="stream",
    refused_elsewhere=False,
    aliases="maxBytesPerTrigger maxFilesPerTrigger maxRecordsPerTrigger maxMessagesPerTrigger maxRatePerPartition "
    "rateLimit rowsPerSecond spark.streaming.kafka.maxRatePerPartition spark.streaming.backpressure.enabled",
)
MIN_OFFSETS = Option(
    name="minOffsetsPerTrigger",
    type=WholeNumber(0, LONG_MAX),
    meaning="Minimum number of offsets in a micro-batch. It waits for them, `maxTriggerDelay` at most. The first "
    "batch of a run does not wait, and none does with `trigger(availableNow=True)`.",
    example="1000",
    field="limits.offsets_min",
    only="stream",
    refused_elsewhere=False,
)
TRIGGER_DELAY = Option(
    name="maxTriggerDelay",
    type=Duration(zero="no delay", spark=True),
    default=15 * 60_000,
    meaning="How long a micro-batch waits for `minOffsetsPerTrigger`, counted from the last time that a batch could "
    "start.",
    example="5m",
    field="limits.trigger_delay_ms",
    only="stream",
    refused_elsewhere=False,
    useless_without=MIN_OFFSETS.name,
)

ALIGNMENT = Option(
    name="alignment",
    type=Duration(),
    default_text="not aligned",
    meaning="How far a partition may be ahead of the slowest one at the end of a batch, by the brokers' timestamps of "
    "records. With `withWatermark` over times close to these, and a delay of at least this, no record is dropped as "
    "late that was in order within its partition, however much there is to catch up with. See [Replay without late "
    "records](../howto/replay.md). With `trigger(once=True)`, which reads all there is, it changes nothing.",
    example="10m",
    field="limits.alignment_ms",
    only="stream",
    refused_elsewhere=False,
    aliases="scan.watermark.alignment.max-drift watermarkAlignment maxDrift",
)
IDLE_TIMEOUT = Option(
    name="idleTimeout",
    type=Duration(zero="idle as soon as it has been read to its end"),
    default=60_000,
    meaning="How long a partition keeps the others back when nothing more is written to it. After that it counts as "
    "idle, until it has records again. With `trigger(availableNow=True)`, and at its stop, it is idle at once.",
    example="5m",
    field="limits.idle_timeout_ms",
    only="stream",
    refused_elsewhere=False,
    useless_without=ALIGNMENT.name,
    aliases="scan.watermark.idle-timeout table.exec.source.idle-timeout withIdleness",
)
AWAY = Option(
    name="alignmentAway",
    type=one_of(*WHEN_AWAY),
    default=HOLD,
    meaning="What a cluster, or a partition without a leader, does to the others while it does not answer: `hold` "
    "(they wait when they are `alignment` ahead of it) or `idle` (they go on, and what it then has to catch up with "
    "may be late).",
    example="idle",
    field="limits.away",
    only="stream",
    refused_elsewhere=False,
    useless_without=ALIGNMENT.name,
)

LIMITS: tuple[Option, ...] = (
    MAX_OFFSETS,
    MIN_OFFSETS,
    TRIGGER_DELAY,
    ALIGNMENT,
    IDLE_TIMEOUT,
    AWAY,
)
