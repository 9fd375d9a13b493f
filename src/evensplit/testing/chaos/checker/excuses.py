"""The errors with which a query may end, the faults that may cause each, and where the source's docs say so."""

from __future__ import annotations

from evensplit.testing.chaos.checker.verdict import Excuse

_BROKERS = ("broker-*", "rolling-bounce", "controller-kill", "cluster-down", "reassignment", "unclean-election")
_NETWORK = ("cut", "half-open", "one-way", "delay", "jitter", "reset", "throttle", "stale-metadata", "quota")
_ACCESS = ("access-withdrawn", "password-rotated", "certificate-rotated")
_TOPICS = ("topic-deleted", "topic-deleted-unread", "topic-recreated", "retention", "delete-records")
_PROCESSES = ("source-kill", "python-worker-kill", "executor-kill", "worker-kill")

_OF_SPARK: tuple[Excuse, ...] = (
    Excuse(
        r"No space left on device",
        ("checkpoint-full",),
        "the checkpoint's file system keeps what is written to it, docs/reliability.md",
    ),
    Excuse(
        r"failed \d+ times|ExecutorLostFailure|Python worker exited|Python streaming source runner|"
        r"Connection reset|Broken pipe|EOFException|SparkContext was shut down|Cannot run program|"
        # Spark's words for the end of the source's process, and of a job within a batch that Python writes.
        r"\(no cause message\)|raised by the Python Proxy",
        (*_PROCESSES, *_BROKERS, *_NETWORK),
        "processes of Spark that are killed end the query if Spark does not repeat their work, docs/reliability.md",
    ),
)

EVENSPLIT: tuple[Excuse, ...] = (
    Excuse(
        r"\bDataLossError\b|ES-304",
        (*_TOPICS, "unclean-election", "broker-*", "cluster-*"),
        "failOnDataLoss, docs/reference/options.md",
    ),
    Excuse(
        r"\bClusterUnreachable\b|ES-201",
        (*_BROKERS, *_NETWORK),
        "a batch that was reading at the moment of the outage, docs/howto/regions.md",
    ),
    Excuse(
        r"\bBrokerError\b|ES-202",
        (*_BROKERS, *_NETWORK, *_ACCESS, *_TOPICS),
        "a batch that was reading at the moment of the outage, docs/howto/regions.md",
    ),
    Excuse(r"\bAuthenticationError\b|ES-205", _ACCESS, "rotating credentials, docs/howto/security.md"),
    Excuse(
        r"which is listed as well, so records could be read twice",
        ("cluster-twice",),
        "a cluster under two names, docs/howto/regions.md",
    ),
    *_OF_SPARK,
)

KAFKA: tuple[Excuse, ...] = (
    Excuse(
        r"org\.apache\.kafka\.common\.|TimeoutException",
        (*_BROKERS, *_NETWORK, *_ACCESS, *_TOPICS),
        "fetchOffset.numRetries and kafkaConsumer.pollTimeoutMs, Spark's guide to Kafka",
    ),
    *_OF_SPARK,
)
"""Of Spark's own source, with failOnDataLoss=false. Its guide gives no other reason."""

EXCUSES = {"evensplit": EVENSPLIT, "kafka": KAFKA}
"""By what a job reads with."""
