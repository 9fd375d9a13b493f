"""Options declared: how far a batch goes."""

from __future__ import annotations

from evensplit.kafka.options.option import LONG_MAX, Duration, Option, WholeNumber

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

LIMITS: tuple[Option, ...] = (
    MAX_OFFSETS,
    MIN_OFFSETS,
    TRIGGER_DELAY,
)
