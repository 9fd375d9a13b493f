"""Options declared: readers, what happens when clusters change, and the columns."""

from __future__ import annotations

from evensplit.core.batch.reader_count import AUTO
from evensplit.core.policies import BALANCED, POLICIES
from evensplit.core.state.settings import (
    ALL_CLUSTERS,
    ALWAYS,
    BALANCES,
    COUNT,
    DISCOVERY_INTERVAL_MS_DEFAULT,
    GAIN_PERCENT_DEFAULT,
    PLANS,
    REBALANCES,
    RETENTION_MS_DEFAULT,
    SCOPES,
    WHOLE,
)
from evensplit.core.state.state import READERS_MAX
from evensplit.kafka.options.client import BATCH_BYTES_MAX
from evensplit.kafka.options.client_options import ISOLATION_LEVEL
from evensplit.kafka.options.option import (
    FLAG,
    INT_MAX,
    LONG_MAX,
    Choice,
    Duration,
    Form,
    Name,
    NumberOrWord,
    Option,
    WholeNumber,
    one_of,
)

BATCH_BYTES_LIMIT = 1_000_000_000
"""With its envelope, a record batch has to fit into the longest response that is received (1 GiB)."""

READERS = Option(
    name="readers",
    type=NumberOrWord(1, READERS_MAX, "auto", AUTO),
    default_text="the number in the checkpoint; for a new query, the tasks that the session can run at once if it was "
    "registered with `evensplit.register`, else the driver's processors",
    meaning="Number of readers. Each of them is one task of a batch. `auto`: as many as the session can run tasks at "
    "once, asked anew for each batch, so that readers come and go with executors. More count at once, fewer when there "
    "have been fewer for a minute; where there is no answer, the number stays. It needs `evensplit.register(spark)` in "
    'the program, not under Spark Connect and without `counts_port="off"`: otherwise it is an error. With Spark\'s '
    "dynamic allocation give a number: executors are added for tasks that wait. See "
    "[Scaling](../howto/scaling.md).",
    example="8",
    field="readers",
)
PIN = Option(
    name="pin",
    type=Form(
        "JSON",
        '{"0-3": ["east"], "4": ["west/orders"]} (a reader or a range of them: clusters, or topics as cluster/topic)',
    ),
    default_text="every reader may read everything",
    meaning="Which readers may read what: a reader or a range of readers → clusters, or topics as `cluster/topic`. A "
    "reader in several entries may read what any of them names.",
    example='{"0": ["default"], "1-2": ["default/orders"]}',
)
POLICY = Option(
    name="policy",
    type=one_of(*POLICIES),
    default=BALANCED,
    meaning="How partitions are given to readers. `balanced`, `sticky` and `fair` make loads even; `hash`, "
    "`round-robin` and `global` are Flink's rules, which do not look at loads. See [Who reads what](../assignment.md).",
    example="sticky",
    field="settings.policy",
)
SCOPE = Option(
    name="assignScope",
    type=one_of(*SCOPES),
    default=ALL_CLUSTERS,
    meaning="What is balanced: all clusters together (`global`), or each cluster on its own over all readers "
    "(`per-cluster`).",
    example="per-cluster",
    field="settings.scope",
)
REBALANCE = Option(
    name="rebalance",
    type=one_of(*REBALANCES),
    default=ALWAYS,
    meaning="When a partition may move to another reader: `always` (whenever that makes loads more even), "
    "`on-rescale` (only when `readers` changes) or `never` (only when its reader is gone).",
    example="on-rescale",
    field="settings.rebalance",
)
BALANCE = Option(
    name="balance",
    type=one_of(*BALANCES),
    default=COUNT,
    meaning="What a reader's load is: the number of its partitions (`count`), or what they brought lately (`rate`). "
    "With `rate`, few partitions move, when it is worth it. Only with `policy` `balanced` or `sticky`. See "
    "[Owners by work](../assignment.md#owners-by-work).",
    example="rate",
    field="settings.balance",
    only="stream",
    refused_elsewhere=False,
)
CAPACITY = Option(
    name="capacity",
    type=Form("JSON", '{"0-3": 2, "4": 3} (a reader or a range of them: a whole number from 1 to 1000)'),
    default_text="1 for every reader",
    meaning="How much each reader takes beside the others: a reader or a range of readers → a number from 1 to 1000. "
    "Readers that are not named have 1. It is about owners: what `plan` lends within a batch does not depend on it.",
    example='{"0-1": 2}',
    only="stream",
    refused_elsewhere=False,
    useless_without=BALANCE.name,
)
REBALANCE_GAIN = Option(
    name="rebalanceGain",
    type=WholeNumber(0, 100, "per cent"),
    default=GAIN_PERCENT_DEFAULT,
    meaning="When partitions are worth moving: if that lowers the load of a reader by more than so much of the mean "
    "load, together.",
    example="5",
    field="settings.gain_percent",
    only="stream",
    refused_elsewhere=False,
    useless_without=BALANCE.name,
)
REBALANCE_MOVES = Option(
    name="rebalanceMovesPerHour",
    type=WholeNumber(0),
    default_text="a hundredth of the partitions, rounded up",
    meaning="How many partitions may move within an hour since their rates have changed, also across restarts. "
    "Partitions without a reader, and a change of `readers`, do not count.",
    example="10",
    field="settings.moves_per_hour",
    only="stream",
    refused_elsewhere=False,
    useless_without=BALANCE.name,
)
PLAN = Option(
    name="plan",
    type=one_of(*PLANS),
    default=WHOLE,
    meaning="How the work of one batch is divided among readers; owners do not change by it. `whole`: a partition is "
    "read by one reader, and may be lent to another for this batch. `level`: its range of offsets may also be cut, "
    "until no reader has more than an equal share, or 10,000 offsets. `owners`: each reader reads the partitions that "
    "it owns. See [Who reads what](../assignment.md#one-batch).",
    example="level",
    field="settings.plan",
)
READER_OFFSETS_MIN = Option(
    name="readerOffsetsMin",
    type=WholeNumber(1, LONG_MAX),
    default=250,
    meaning="Minimum number of offsets for a reader in a batch, since a task costs more than reading a few records. A "
    "reader with fewer has them read by another, as long as that has fewer than twice as many; owners do not change by "
    "it. With 1, every reader reads what is its own. Choose that if your query takes long for a record, such as 10 ms. "
    "Without effect with `plan=owners`.",
    example="1",
    field="settings.reader_offsets_min",
)
MIN_PARTITIONS = Option(
    name="minPartitions",
    type=WholeNumber(1),
    default_text="one for each reader",
    meaning="Minimum number of tasks in a batch. Ranges of offsets are cut if there are fewer readers; a batch "
    "never has more tasks than offsets.",
    example="32",
    field="settings.tasks_min",
)
MAX_RECORDS = Option(
    name="maxRecordsPerPartition",
    type=WholeNumber(1, LONG_MAX),
    default_text="no limit",
    meaning="Maximum number of offsets in a task. Longer ranges are cut into several tasks.",
    example="500000",
    field="settings.task_offsets_max",
)

DISCOVERY_INTERVAL = Option(
    name="discoveryInterval",
    type=Duration(zero="no discovery", negative=True),
    default=DISCOVERY_INTERVAL_MS_DEFAULT,
    meaning="How often to check for new clusters, topics and partitions. Anything that is missing for this long "
    "counts as removed; a log that ends before its position for this long (at least 3 s) counts as a loss. With 0 or "
    "less, nothing new is discovered and nothing counts as removed.",
    example="5m",
    field="discovery_interval_ms",
    aliases="scan.topic-partition-discovery.interval partition.discovery.interval.ms",
)
CLUSTER_WAIT = Option(
    name="clusterWait",
    type=Duration(zero="no wait"),
    default=1_000,
    meaning="How long a batch waits for a slow cluster. After that (at least 1 s) the cluster counts as away, and is "
    "not read until it answers.",
    example="5s",
    field="cluster_wait_ms",
)
UNREACHABLE_TIMEOUT = Option(
    name="unreachableTimeout",
    type=Duration(zero="an error at once"),
    default=600_000,
    meaning="How long a cluster may be away, or a partition unreadable (no leader, access withdrawn, brokers that "
    "disagree), before the query fails; 0: as long as `kafka.request.timeout.ms`. Under `read_committed`, a "
    "transaction that is open this long is named in the log.",
    example="1h",
    field="unreachable_timeout_ms",
)
ALLOW_UNREACHABLE = Option(
    name="allowUnreachable",
    type=FLAG,
    default=False,
    meaning="Whether batch queries, and streams with `trigger(availableNow=True)`, read without a cluster that is "
    "away. The log then names it.",
    example="true",
    field="allow_unreachable",
)
RETENTION = Option(
    name="removedRetention",
    type=Duration(zero="no retention"),
    default=RETENTION_MS_DEFAULT,
    meaning="How long the positions of removed clusters, topics and partitions are kept, in case they return; 0: not "
    "at all.",
    example="12h",
    field="settings.retention_ms",
)
FAIL_ON_DATA_LOSS = Option(
    name="failOnDataLoss",
    type=FLAG,
    default=True,
    meaning="Whether the query fails if records are gone before they were read, or were replaced after an unclean "
    "leader election. With `false` they are counted and reported, and reading goes on.",
    example="false",
    field="reading.fail_on_data_loss",
)
COMMIT_GROUP = Option(
    name="commitGroup",
    type=Name(),
    default="",
    meaning="Commit the positions of finished batches to this consumer group, for tools that show lag. They are never "
    "read from there.",
    example="orders-job",
    field="commit_group",
    only="stream",
    aliases="enable.auto.commit auto.commit.interval.ms commitOffsets kafka.enable.auto.offset.store",
)

COLUMNS_OPTION = Option(
    name="columns",
    type=Form("names", "names of columns, separated by commas"),
    default_text="Spark's seven, and those of `includeHeaders` and `includeCluster`",
    meaning="Columns of the rows, separated by commas, in any case and order: `key`, `value`, `topic`, `partition`, "
    "`offset`, `timestamp`, `timestampType`, `headers`, `cluster`. Rows have them in this order. Others are not "
    "decoded, so fewer columns are faster. Of keys and values that are decoded, also fields, such as `value.id` "
    "([Typed columns](../howto/typed-columns.md#only-some-fields)); with `onDecodeError=column` also `value_error`, "
    "`value_raw`, `key_error` and `key_raw`.",
    example="key, value, offset",
)
INCLUDE_HEADERS = Option(
    name="includeHeaders",
    type=FLAG,
    default_text="`false`",
    meaning="Whether rows have a column `headers`.",
    example="true",
    aliases="headers includeHeader kafka.includeHeaders",
)
INCLUDE_CLUSTER = Option(
    name="includeCluster",
    type=FLAG,
    default_text="`true` with `clusters` or `metadata`, else `false`",
    meaning="Whether rows have a column `cluster`, with the id of the cluster that they come from.",
    example="true",
)
ON_TIMESTAMP_OVERFLOW = Option(
    name="onTimestampOverflow",
    type=Choice({"fail": False, "null": True}),
    default=False,
    meaning="What to do with a timestamp that Spark cannot hold, such as one in nanoseconds: `fail` with an error "
    "that names the record, or make it `null`. Without the column `timestamp` it changes nothing.",
    example="null",
    field="reading.null_timestamps",
)
MAX_BATCH_BYTES = Option(
    name="maxBatchBytes",
    type=WholeNumber(1, BATCH_BYTES_LIMIT, "bytes"),
    default=BATCH_BYTES_MAX,
    meaning="Maximum size of a record batch, both as the broker keeps it and decompressed. A larger one is an error "
    "that names it. A task needs memory for about three times its largest batch.",
    example="1000000",
    field="reading.batch_bytes_max",
)

POLL_TIMEOUT = Option(
    name="kafkaConsumer.pollTimeoutMs",
    type=WholeNumber(1, LONG_MAX, "milliseconds"),
    default_text="as `kafka.request.timeout.ms`",
    meaning="How long a task waits for the next records of a partition.",
    example="60000",
    field="reading.poll_timeout_ms",
)
IGNORED: tuple[Option, ...] = (
    Option(
        name="fetchOffset.numRetries",
        type=WholeNumber(0, INT_MAX),
        meaning="How often Spark's own source asks for offsets.",
        example="5",
        ignored="kafka.request.timeout.ms says how long a look-up is tried",
    ),
    Option(
        name="fetchOffset.retryIntervalMs",
        type=WholeNumber(0, LONG_MAX, "milliseconds"),
        meaning="How long Spark's own source waits before it asks for offsets again.",
        example="100",
        ignored="kafka.retry.backoff.ms is the pause between two tries",
    ),
    Option(
        name="groupIdPrefix",
        type=Form("text", "text"),
        meaning="Prefix of the consumer groups of Spark's own source. There are no such groups here.",
        example="jobs",
        ignored="brokers know a query by kafka.client.id",
    ),
)
"""Options of Spark's own source that change nothing here."""

READERS_AND_TASKS: tuple[Option, ...] = (
    READERS,
    PIN,
    POLICY,
    SCOPE,
    REBALANCE,
    BALANCE,
    CAPACITY,
    REBALANCE_GAIN,
    REBALANCE_MOVES,
    PLAN,
    READER_OFFSETS_MIN,
    MIN_PARTITIONS,
    MAX_RECORDS,
)
CHANGES: tuple[Option, ...] = (
    DISCOVERY_INTERVAL,
    CLUSTER_WAIT,
    UNREACHABLE_TIMEOUT,
    ALLOW_UNREACHABLE,
    RETENTION,
    FAIL_ON_DATA_LOSS,
    COMMIT_GROUP,
)
ROWS: tuple[Option, ...] = (
    COLUMNS_OPTION,
    INCLUDE_HEADERS,
    INCLUDE_CLUSTER,
    ON_TIMESTAMP_OVERFLOW,
    ISOLATION_LEVEL,
    MAX_BATCH_BYTES,
)
