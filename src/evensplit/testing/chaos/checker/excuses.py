"""The errors with which a query of evensplit may end, the faults that may cause each, and where the docs say so."""

from __future__ import annotations

from evensplit.testing.chaos.checker.verdict import Excuse

_UNREACHABLE = (
    *("broker*", "*brokers*", "cluster*", "controller*", "rolling*", "partition*", "unclean*", "network*", "proxy*"),
)

EVENSPLIT: tuple[Excuse, ...] = (
    Excuse(
        r"DataLossError|ES-304",
        ("topic*", "retention*", "delete-records*", "unclean*"),
        "docs/reference/errors.md, ES-304",
    ),
    Excuse(r"ClusterUnreachable|ES-201", _UNREACHABLE, "docs/reference/errors.md, ES-201"),
    Excuse(r"BrokerError|ES-202", (*_UNREACHABLE, "access*", "topic*"), "docs/reference/errors.md, ES-202"),
    Excuse(
        r"AuthenticationError|ES-205",
        ("access*", "*password*", "*certificate*"),
        "docs/reference/errors.md, ES-205",
    ),
    Excuse(
        r"MetadataError|MetadataRefused|ES-104|ES-107",
        ("metadata*", "cluster*"),
        "docs/reference/errors.md, ES-104",
    ),
    Excuse(r"No space left on device|ENOSPC", ("disk*", "*disk-full*", "*full*"), "Spark: a checkpoint is not written"),
    Excuse(
        r"Task \d+ in stage .* failed \d+ times|ExecutorLostFailure|Python worker exited",
        ("executor*", "worker*", "python*", "*kill*", "task*"),
        "Spark: spark.task.maxFailures",
    ),
)
