"""The words that people ask `evensplit explain` about and that are no name: each leads to commands, or to a page."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple


class Subject(NamedTuple):
    title: str
    meaning: str
    page: str
    """From docs/reference, as the links of errors and options."""


REPAIR_PAGE = "../howto/repair.md"
COOKBOOK = "../howto/cookbook.md"

COMMAND_WORDS = {
    **dict.fromkeys(
        ("edit", "edited", "edits", "repair", "surgery"), ("rewind", "skip", "drop", "rename-cluster", "fork", "undo")
    ),
    **dict.fromkeys(("rewound", "rewinding", "replay", "reset", "rollback", "go back"), ("rewind",)),
    **dict.fromkeys(("skipped", "poison", "poison record", "poison pill", "bad record"), ("skip",)),
    **dict.fromkeys(("dropped", "forget", "forgotten"), ("drop",)),
    **dict.fromkeys(("forked", "copy"), ("fork",)),
    **dict.fromkeys(("rename", "renamed"), ("rename-cluster",)),
    **dict.fromkeys(("undone", "revert"), ("undo",)),
}
"""What people call it, and what the history of a checkpoint says -> the commands that do it."""

REPAIRING = frozenset(chain.from_iterable(COMMAND_WORDS.values()))

_LAG = Subject(
    "lag",
    "How many offsets a query has not read yet. `evensplit offsets CHECKPOINT --lag` has it for each partition, "
    "`evensplit top CHECKPOINT --lag` as it changes, and `evensplit top FOLDER --lag` for many queries. The metric "
    "evensplit_cluster_lag_seconds says how long records wait.",
    f"{COOKBOOK}#lag-from-the-checkpoint",
)
_ALERTS = Subject(
    "alerts",
    "Rules for Prometheus and a dashboard for Grafana come with the package: `evensplit.observe.files()`. They need "
    "the metrics that `evensplit.register(spark, metrics_port=PORT)` serves.",
    "../howto/monitoring.md#alerts-and-a-grafana-dashboard",
)
_TWICE = Subject(
    "duplicates, lost records",
    "`evensplit audit` compares what a sink or a topic has with what the query has read, and names each record that is "
    "missing or there twice.",
    "../howto/audit.md",
)
_LOSS = Subject(
    "data loss",
    "Records were deleted in Kafka before the query had read them. With failOnDataLoss=true, which is the default, the "
    "query ends with ES-304.",
    f"{COOKBOOK}#records-that-are-gone-data-loss",
)
_CORRUPT = Subject(
    "corrupt records",
    "A record batch whose checksum is wrong ends the query with ES-301. It can be left out without losing the state.",
    f"{COOKBOOK}#a-corrupt-batch-skip-it-without-losing-the-state",
)
_DEAD_LETTERS = Subject(
    "dead letters",
    "With onDecodeError=column, values that cannot be decoded are in a column of their own, and can be written to a "
    "topic.",
    f"{COOKBOOK}#dead-letters-to-a-topic",
)
_WRITING = Subject(
    "exactly once",
    'Each record is read once by the state in the checkpoint. With `writeStream.format("evensplit")` each is also '
    "written once; other sinks have to tell batches apart by their number.",
    "../howto/writing.md",
)
_READERS = Subject(
    "readers",
    "A reader is one of the tasks that read a batch. The option readers says how many there are; auto lets them follow "
    "the lag.",
    "../howto/scaling.md",
)
_SECURITY = Subject(
    "security",
    "TLS and SASL are set with Kafka's own names, each after `kafka.`, such as kafka.security.protocol.",
    "../howto/security.md",
)

_TOOLS = Subject(
    "Kafka's own tools",
    "With commitGroup, a query commits its offsets to a consumer group after each batch, so that "
    "kafka-consumer-groups.sh and the like show its lag.",
    f"{COOKBOOK}#lag-in-kafkas-own-tools",
)
_UPGRADE = Subject(
    "upgrading",
    "`evensplit doctor --checkpoint CHECKPOINT` says which format the checkpoint is in, and which versions can go on "
    "from it.",
    "../howto/upgrading.md",
)

SUBJECTS = {
    **dict.fromkeys(("lag", "behind", "delay", "late", "lag in seconds"), _LAG),
    **dict.fromkeys(
        ("alert", "alerts", "alerting", "prometheus", "grafana", "metrics", "monitoring", "query dies"), _ALERTS
    ),
    **dict.fromkeys(("duplicate", "duplicates", "twice", "missing", "lost", "missing records", "lost records"), _TWICE),
    **dict.fromkeys(("loss", "losses", "data loss", "retention"), _LOSS),
    **dict.fromkeys(("corrupt", "corrupt batch", "corrupt record", "corrupt records", "crc"), _CORRUPT),
    **dict.fromkeys(("dead letter", "dead letters", "dead-letter", "dlq"), _DEAD_LETTERS),
    **dict.fromkeys(("exactly once", "exactly-once", "transactions", "sink"), _WRITING),
    **dict.fromkeys(("reader", "scaling", "autoscaling", "rebalancing"), _READERS),
    **dict.fromkeys(
        ("kafka tools", "consumer lag", "burrow", "kafka-consumer-groups", "kafka-consumer-groups.sh"), _TOOLS
    ),
    **dict.fromkeys(("upgrade", "upgrading", "downgrade"), _UPGRADE),
    **dict.fromkeys(("security", "tls", "ssl", "sasl", "kerberos", "login"), _SECURITY),
}
"""A word in lower case -> what it leads to."""
