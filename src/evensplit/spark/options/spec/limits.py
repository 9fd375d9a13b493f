"""Options declared: how far a batch goes."""

from __future__ import annotations

from evensplit.core.batch.alignment import HOLD, WHEN_AWAY
from evensplit.core.batch.limits import Caps, Priority
from evensplit.kafka.options.option import LONG_MAX, Duration, Option, WholeNumber, one_of
from evensplit.spark.options.amounts import Amounts, Ranking

MAX_OFFSETS = Option(
    name="maxOffsetsPerTrigger",
    type=Amounts(),
    default=Caps(),
    default_text="no limit",
    meaning="Maximum number of offsets in a micro-batch, approximately. It is divided among the partitions in "
    "proportion to what each of them has, and each of them reads at least one offset. As JSON it limits clusters and "
    'topics, each beside the others: `{"eu": {"orders": 5000, "*": 20000}, "us": 50000, "*": 60000}` is 5,000 for one '
    'topic, 20,000 for all of `eu`, 50,000 for all of `us`, and 60,000 for the batch. So `"*"` is the whole of what it '
    "stands in, all partitions together. Without `clusters`, the cluster is called `default`. See [Limits]"
    "(../howto/limits.md).",
    example='{"default": {"t": 5000}, "*": 100000}',
    field="limits.offsets",
    only="stream",
    refused_elsewhere=False,
    aliases="maxFilesPerTrigger maxRecordsPerTrigger maxMessagesPerTrigger maxRatePerPartition rateLimit rowsPerSecond "
    "spark.streaming.kafka.maxRatePerPartition spark.streaming.backpressure.enabled",
)
MAX_BYTES = Option(
    name="maxBytesPerTrigger",
    type=Amounts(in_bytes=True),
    default=Caps(),
    default_text="no limit",
    meaning="Maximum number of bytes in a micro-batch, approximately, in the forms of `maxOffsetsPerTrigger`, with "
    "or without a unit (`k`, `m`, `g`, `t`; 1 k is 1,024). Bytes are those of keys, values and headers as rows, "
    "uncompressed: of the columns that the query uses, without what `where` leaves out. How many bytes a record has is "
    "known from the batches before; the first one goes by how long the logs are on the brokers' disks, if the user may "
    "Describe the cluster, and otherwise by 16 KB a record. See [Limits](../howto/limits.md).",
    example="512m",
    field="limits.bytes",
    only="stream",
    refused_elsewhere=False,
    aliases="maxBytesPerBatch",
)
PRIORITY = Option(
    name="priority",
    type=Ranking(),
    default=Priority(),
    default_text="all alike",
    meaning="What comes first where limits keep a micro-batch from reading everything. A list of clusters and topics "
    '(`cluster/topic`) is a strict order: `["eu/orders", "us"]` reads `eu/orders` first, what is left of the limits '
    "goes to `us`, then to all others; but each partition reads at least one offset in each batch, whatever comes "
    'before it. An object gives shares of the limits: `{"eu": 3, "us": 2, "*": 1}`, where `"*"` is the share of all '
    "others together, 1 if it is left out. What one does not need of its share, the others get. Without a limit on "
    "offsets or bytes, it is ignored. With `alignment`, it divides only what may be read beyond the batch's time.",
    example='["default/t"]',
    field="limits.priority",
    only="stream",
    refused_elsewhere=False,
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
    MAX_BYTES,
    PRIORITY,
    MIN_OFFSETS,
    TRIGGER_DELAY,
    ALIGNMENT,
    IDLE_TIMEOUT,
    AWAY,
)
