"""Every option of `format("evensplit")`, as the reference lists it.

What an option does is decided by the parser (`options`); tests hold the two together: each name here is one that the
parser knows, and the other way round, and each default that is written as a value is what the parser takes where
nothing is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    `kind`: what its value has to be, see `KINDS`. `default`: in backquotes if it is a value that could be given, else
    in words; empty: none. `meaning`: Markdown, with links from where the reference is. `since`: the first version that
    has it.
    """

    name: str
    kind: str
    default: str
    meaning: str
    since: str = "0.1.0"


KINDS = {
    "addresses": "`host:port` of one or more brokers, separated by commas; IPv6 addresses in brackets",
    "bytes": "a whole number of bytes",
    "choice": "one of the words that its meaning lists",
    "duration": "a number and a unit: `ms`, `s`, `m`, `h` or `d`, as in `90s` or `1.5 h`",
    "flag": "`true` or `false`",
    "JSON": "a JSON object",
    "ms": "a whole number of milliseconds",
    "names": "names, separated by commas",
    "path": "the path of a file on the driver",
    "position": "a word or a JSON object, as its meaning says; or `file:/path`, a file on the driver that holds it",
    "regex": "a regular expression in Python's syntax",
    "text": "text",
    "time": "milliseconds since 1970",
    "from 0": "a whole number, 0 or more",
    "from 1": "a whole number, 1 or more",
}
"""What the words for values mean."""

OPTIONS: Mapping[str, tuple[Option, ...]] = {
    "Where from": (
        Option("kafka.bootstrap.servers", "addresses", "", "`host:port`, separated by commas"),
        Option(
            "clusters",
            "JSON",
            "",
            "instead of `kafka.bootstrap.servers`: JSON, cluster id → the options of that cluster (`kafka.*`, a "
            "subscription, and all that say where reading starts and ends); what it leaves out comes from outside",
        ),
        Option(
            "metadata",
            "text",
            "",
            "instead of `kafka.bootstrap.servers`: where it is said, at any time, which clusters and topics there "
            "are: a YAML or JSON file, an `http(s)://` address, or a class of yours by its dotted name. Where a "
            "cluster there says nothing itself, `kafka.*` and the starting and ending options outside hold",
        ),
        Option("streams", "names", "all", "with `metadata`: the streams to read, by their ids, separated by commas"),
        Option(
            "streamsPattern", "regex", "all", "instead of `streams`: a regular expression found in the ids of streams"
        ),
        Option(
            "metadataTokenEnv", "text", "none", "with `metadata`: the environment variable that holds the bearer token"
        ),
        Option("metadataTokenFile", "path", "none", "instead: the file that holds the bearer token"),
        Option("metadataTimeout", "duration", "`10s`", "with `metadata`: how long one answer may take"),
        Option(
            "metadataFailureThreshold",
            "from 0",
            "`20`",
            "with `metadata`: how many answers in a row may fail while the last good one holds",
        ),
        Option(
            "metadata.allow",
            "names",
            "nothing",
            "with `metadata`: the environment variables (`env:NAME`) and the directories or files (absolute paths) of "
            "this machine that the metadata may name in `${env:…}`, `${file:…}` and paths, and the token endpoints "
            "(`https://…`) that they may send it to, such as `env:KAFKA_PASSWORD, /etc/kafka/secrets`: "
            "[Secrets in metadata](../howto/metadata.md#secrets-in-metadata)",
        ),
        Option(
            "metadata.<name>",
            "text",
            "",
            "with `metadata`: for your own class, which gets it as `<name>`, in lower case; values of four "
            "characters or more are shown in no log and no error",
        ),
        Option("subscribe", "names", "", "topics, separated by commas"),
        Option(
            "subscribePattern", "regex", "", "a regular expression in Python's syntax, found anywhere in a topic's name"
        ),
        Option("assign", "JSON", "", 'single partitions: `{"orders": [0, 1]}`'),
    ),
    "Where it starts and ends": (
        Option(
            "startingOffsets",
            "position",
            "stream: `latest`, batch: `earliest`",
            '`earliest`, `latest` or `{"orders": {"0": 23, "1": -2}, "clicks": "latest"}` (-2 earliest, -1 latest). '
            "Of a topic that is named by partitions, all have to be; and all topics, if all are named so. All that "
            "may be in a file on the driver, too: `file:/path`, as for `start`, `endingOffsets` and `stop`. All "
            "starting options are for a new query only",
        ),
        Option(
            "startingTimestamp",
            "time",
            "",
            "instead of `startingOffsets`: the first record at this time or later, in ms since 1970, for all "
            "partitions. It goes before the other two",
        ),
        Option(
            "startingOffsetsByTimestamp",
            "JSON",
            "",
            'instead of `startingOffsets`: the same for single partitions, `{"orders": {"0": 1700000000000}}` with '
            "all of them",
        ),
        Option(
            "startingOffsetsByTimestampStrategy",
            "choice",
            "`error`",
            "where no record is at that time or later: `error` or `latest`",
        ),
        Option(
            "start",
            "position",
            "",
            "instead of the four `starting` options above: `earliest`, `latest`, `timestamp:2025-01-31T12:00:00Z` "
            "(or ms; no such record: `latest`), `-10m` (so long ago), `-1000` (so many before the end), or by topic "
            'and partition: `{"orders": "-10m", "clicks": {"0": 23, "*": "latest"}}`; what is not named: earliest',
        ),
        Option(
            "startingGroup",
            "text",
            "none",
            "a consumer group: partitions that the options above do not name start at its committed offsets; those "
            "without one as `startingOffsets` or `start` says, else at earliest",
        ),
        Option(
            "endingOffsets",
            "position",
            "`latest`",
            "where a batch query ends: `latest`, or as `startingOffsets`, without -2",
        ),
        Option(
            "endingTimestamp",
            "time",
            "",
            "where a batch query ends: as `startingTimestamp`; no record at a time: latest",
        ),
        Option(
            "endingOffsetsByTimestamp",
            "JSON",
            "",
            "where a batch query ends: as `startingOffsetsByTimestamp`; no record at a time: latest",
        ),
        Option(
            "stop",
            "position",
            "stream: never",
            "instead of the three `ending` options, in batch and streaming queries: where reading ends, in the form "
            "of `start` (but not `earliest`; what is not named: latest). Given when a query is started again, it "
            "holds for partitions that had none. A stop that has been found is final: another one, or none, changes "
            "nothing, and the log says so",
        ),
    ),
    "How much, and by whom": (
        Option(
            "maxOffsetsPerTrigger",
            "from 1",
            "no limit",
            "about how many offsets a micro-batch has, shared by what each partition has",
        ),
        Option(
            "minOffsetsPerTrigger",
            "from 0",
            "no minimum",
            "a micro-batch waits until it has so many offsets, or for `maxTriggerDelay`; the first one of a run does "
            "not wait, and none with `trigger(availableNow=True)`",
        ),
        Option(
            "maxTriggerDelay",
            "duration",
            "`15m`",
            "with `minOffsetsPerTrigger`: how long a micro-batch waits at most, since the last one that could have "
            "gone ahead",
        ),
        Option(
            "readers",
            "from 1",
            "as stored in the checkpoint; at first, the tasks that the session can run at once if it was registered "
            "with `evensplit.register`, else the driver's processors",
            "how many readers there are: each is one task of a batch",
        ),
        Option(
            "pin",
            "JSON",
            "every reader everything",
            "which readers may read what, as JSON: a reader or a range of them → clusters, or topics as "
            '`cluster/topic`: `{"0-3": ["east"], "4": ["west/orders"]}`. What several say of a reader adds up',
        ),
        Option(
            "policy",
            "choice",
            "`balanced`",
            "how splits are given to readers: `balanced`, `sticky` or `fair`, which level the loads; or `hash`, "
            "`round-robin` or `global`, Flink's rules, which do not look at loads and are even by luck only; see "
            "[Who reads what](../assignment.md)",
        ),
        Option(
            "assignScope",
            "choice",
            "`global`",
            "`global`: all clusters are balanced together; `per-cluster`: each on its own, against all readers. Of "
            "equal choices, the one is taken that gives a cluster's extra splits to the readers that have least of "
            "the others",
        ),
        Option(
            "rebalance",
            "choice",
            "`always`",
            "when a split may change its reader: `always` (whenever that makes the readers more even), `on-rescale` "
            "(only when `readers` changes) or `never` (only when its reader is gone)",
        ),
        Option(
            "plan",
            "choice",
            "`whole`",
            "how the work of one batch is shared among the readers, whoever owns what: `whole` (a partition is read "
            "in order by one reader, and may be lent to another one for this batch where that leaves the busiest "
            "less), `level` (ranges of offsets are cut as well: no reader has more than its even share, or 10,000 "
            "offsets) or `owners` (nothing is lent); see [Who reads what](../assignment.md#one-batch)",
        ),
        Option(
            "minPartitions",
            "from 1",
            "one per reader",
            "so many tasks a batch has at least, ranges being cut where readers are fewer",
        ),
        Option("maxRecordsPerPartition", "from 1", "no limit", "so many offsets a task has at most, likewise"),
    ),
    "When the world changes": (
        Option(
            "discoveryInterval",
            "duration",
            "`30s`",
            "how often new clusters, topics and partitions are looked for, each time at another broker; so long "
            "something has to be missing before it is removed, and (3 s at least) a log has to end before its position "
            "before that is a loss. Zero or less: never, and nothing that goes is removed",
        ),
        Option(
            "clusterWait",
            "duration",
            "`1s`",
            "how long a slow cluster may hold up a batch of the others; after that (1 s at least) it is shown as away, "
            "and not read until it answers",
        ),
        Option(
            "unreachableTimeout",
            "duration",
            "`10m`",
            "how long a cluster may be away, or a partition of one that answers may give nothing (no leader, access "
            "withdrawn, brokers that disagree), before that is an error; 0: no longer than "
            "`kafka.request.timeout.ms`. Under `read_committed` also how long a transaction may stay open before the "
            "log says so",
        ),
        Option(
            "allowUnreachable",
            "flag",
            "`false`",
            "with `trigger(availableNow=True)` and in batch queries: `true` reads without a cluster that is away, "
            "and says so",
        ),
        Option(
            "removedRetention",
            "duration",
            "`7d`",
            "how long the positions of removed clusters, topics and partitions are kept, in case they return; 0: not "
            "at all",
        ),
        Option(
            "failOnDataLoss",
            "flag",
            "`true`",
            "`false`: records that are gone before they were read, or that an unclean leader election has replaced, "
            "are counted and reported, rather than an error",
        ),
        Option(
            "commitGroup",
            "text",
            "none",
            "streaming: a consumer group that the positions are committed to, for tools that show lag; they are "
            "never read from there",
        ),
    ),
    "What rows have": (
        Option("includeHeaders", "flag", "`false`", "a column `headers`"),
        Option(
            "includeCluster",
            "flag",
            "with `clusters` or `metadata` `true`, else `false`",
            "a column `cluster`, the id of the cluster that a row comes from",
        ),
        Option(
            "columns",
            "names",
            "Spark's seven",
            "instead of both: the columns that rows have, separated by commas, in any case and order: `value`, or "
            "`key, value, offset`. Of `key`, `value`, `topic`, `partition`, `offset`, `timestamp`, `timestampType`, "
            "`headers`, `cluster`, and always in this order. What is not named is neither decoded nor handed to "
            "Spark, so fewer are faster",
        ),
        Option(
            "onTimestampOverflow",
            "choice",
            "`fail`",
            "what becomes of a timestamp that Spark cannot hold, such as one in nanoseconds: `fail` is an error that "
            "names the record, `null` makes it null. Without the column `timestamp` it is not looked at",
        ),
        Option(
            "kafka.isolation.level",
            "choice",
            "`read_uncommitted`",
            "`read_uncommitted` or `read_committed`: records of aborted transactions are left out, and each batch "
            "ends where everything before is decided, as does `latest`. A batch query that starts behind that reads "
            "nothing there; an ending offset behind it is an error",
        ),
        Option(
            "maxBatchBytes",
            "from 1",
            "`268435456`",
            "how long a record batch may be, in bytes, both as the broker keeps it and once it is decompressed; a "
            "longer one is an error that names it. (One that is longer than all other limits is read alone.) A task "
            "needs memory for about three times its longest batch",
        ),
    ),
    "The client of Kafka": (
        Option("kafka.request.timeout.ms", "ms", "`30000`", "how long one call to a cluster may take"),
        Option(
            "kafkaConsumer.pollTimeoutMs",
            "ms",
            "as `kafka.request.timeout.ms`",
            "how long a task waits for the next records of a partition",
        ),
        Option("kafka.client.id", "text", "`evensplit`", "what the brokers' logs and quotas know the query by"),
        Option("kafka.client.rack", "text", "", "where the executors are, to fetch from the closest replica"),
        Option(
            "kafka.fetch.max.bytes",
            "bytes",
            "`52428800`",
            "how many bytes one response may hold; never more than 4 MiB at a time, but for a record batch that is "
            "longer",
        ),
        Option(
            "kafka.max.partition.fetch.bytes",
            "bytes",
            "`4194304`",
            "how many bytes of one partition a response may hold, likewise",
        ),
        Option("kafka.fetch.max.wait.ms", "ms", "`500`", "how long a broker may wait before it answers with nothing"),
        Option("kafka.receive.buffer.bytes", "bytes", "`-1`", "the sockets' receive buffer; -1: the system's choice"),
        Option(
            "kafka.retry.backoff.ms", "ms", "`100`", "the pause before something is tried again; it doubles each time"
        ),
        Option("kafka.retry.backoff.max.ms", "ms", "`1000`", "the longest of these pauses"),
        Option("kafka.socket.connection.setup.timeout.ms", "ms", "`10000`", "how long one attempt to connect may take"),
        Option(
            "kafka.security.protocol",
            "choice",
            "`PLAINTEXT`",
            "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`; with it the `kafka.ssl.*` and `kafka.sasl.*` of "
            "Kafka's consumer, see [Security](../howto/security.md)",
        ),
    ),
}
"""Heading -> the options under it."""

BY_NAME: Mapping[str, Option] = {one.name.lower(): one for options in OPTIONS.values() for one in options}
"""The same by their names in lower case."""
