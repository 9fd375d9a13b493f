"""The errors with which a query may end, the faults that may cause each, and where the source's docs say so."""

from __future__ import annotations

from evensplit.testing.chaos.checker.verdict import Excuse

_BROKERS = ("broker-*", "rolling-bounce", "cluster-down", "reassignment", "unclean-election")
_NETWORK = ("cut", "half-open", "one-way", "delay", "jitter", "reset", "throttle", "stale-metadata", "quota")
_ACCESS = ("access-withdrawn", "password-rotated", "certificate-rotated")
_TOPICS = ("topic-deleted", "topic-deleted-unread", "topic-recreated", "retention", "delete-records")
OF_ONE_TOPIC = (*_TOPICS, "access-withdrawn", "reassignment")
"""Nemeses that harm the topic that the fault names, and no other."""

# In the line that Python ends with; the lines of code above it name errors, too, which did not come.
_RAISED = r"evensplit\.errors\.{}\b"
_PROCESSES = ("source-kill", "python-worker-kill", "executor-kill", "worker-kill")

_LOSS = "Whether the query fails if records are gone before they were read, docs/reference/options.md"
_OUTAGE = "A batch that was reading from the cluster at the moment of the outage fails, docs/howto/regions.md"

_OF_SPARK: tuple[Excuse, ...] = (
    Excuse(
        # Spark has words of its own for its log of offsets.
        r"No space left on device|STREAMING_CHECKPOINT_LOG_WRITE_FAILURE",
        ("checkpoint-full",),
        "The file system of the checkpoint keeps what was written to it, docs/reliability.md",
    ),
    Excuse(
        r"failed \d+ times|ExecutorLostFailure|Python worker exited|Python streaming source runner|"
        r"Connection reset|Broken pipe|EOFException|SparkContext was shut down|Cannot run program|"
        # Spark's words for the end of the source's process, and of a job within a batch that Python writes.
        r"\(no cause message\)|raised by the Python Proxy",
        _PROCESSES,
        "when processes of Spark are killed and Spark does not repeat their work, docs/reliability.md",
        # What is killed says nothing. An error that the source has raised has another cause.
        unless=r"evensplit\.errors\.\w+: |/evensplit/(?:checkpoint|core|kafka|metadata|observe|spark)/",
    ),
)

EVENSPLIT: tuple[Excuse, ...] = (
    Excuse(
        _RAISED.format("DataLossError"),
        _TOPICS,
        _LOSS,
        lasting=True,
    ),
    # Brokers that die lose records of such topics alone.
    Excuse(_RAISED.format("DataLossError"), _BROKERS, _LOSS, kinds=("unclean",), lasting=True),
    Excuse(
        _RAISED.format("ClusterUnreachable"),
        (*_BROKERS, *_NETWORK),
        _OUTAGE,
    ),
    Excuse(
        _RAISED.format("BrokerError"),
        (*_BROKERS, *_NETWORK, *_ACCESS, *_TOPICS),
        _OUTAGE,
    ),
    Excuse(
        _RAISED.format("WriteError"),
        (*_BROKERS, *_NETWORK),
        "A broker did not take records before `kafka.delivery.timeout.ms`, docs/reference/errors.md",
    ),
    Excuse(
        _RAISED.format("TransactionNotEnded"),
        (*_BROKERS, *_NETWORK),
        "a broker did not commit one of its transactions in time, docs/reference/errors.md",
    ),
    Excuse(_RAISED.format("AuthenticationError"), _ACCESS, "Errors come at once, docs/howto/security.md"),
    Excuse(
        # The run's clusters have logins and TLS of their own, which are in the metadata alone.
        _RAISED.format("AuthenticationError"),
        ("metadata-down", "metadata-slow", "metadata-lying"),
        "A service that does not answer when a query starts, docs/howto/metadata.md",
    ),
    Excuse(
        r"which is listed as well, so records could be read twice",
        ("cluster-twice",),
        "Do not list a cluster under both ids: that is an error, docs/howto/regions.md",
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
