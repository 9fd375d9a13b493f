"""Errors of writing: rows that cannot be written, and batches that are not what was decided."""

from __future__ import annotations

from collections.abc import Sequence

from evensplit.errors.base import EvenSplitError


class WriteError(EvenSplitError):
    """Records could not be written. The message says to which cluster, topic and partition, and why."""

    id = "ES-800"
    cause = "A broker did not take records before `kafka.delivery.timeout.ms`, or refused them for good."
    cure = (
        "Look at Kafka's error in the message. With exactly-once delivery nothing of the batch is visible, and a "
        "restart writes it again. With at-least-once delivery, a part of it may be there already."
    )


class RecordTooLarge(WriteError):
    """A row makes a record that is longer than may be sent. Nothing of its batch was decided."""

    id = "ES-801"
    cause = "A record is longer than `kafka.max.request.size`, or than the topic's `max.message.bytes`."
    cure = (
        "Find the row by the key in the message. Leave it out, or raise `kafka.max.request.size` and the topic's "
        "`max.message.bytes`."
    )


class RowRefused(WriteError):
    """A row cannot be a record: it has no topic, a partition that does not exist, or the like."""

    id = "ES-802"
    cause = "A row cannot become a record: its topic is null or unknown, or its partition does not exist."
    cure = "The message has the column and the value. Correct the query, or filter such rows out."


class LedgerError(WriteError):
    """The ledger, where it is decided which batches count, cannot be used."""

    id = "ES-803"
    cause = (
        "The topic of the ledger cannot be created, read or written, or has something in it that is not ours. Or "
        "brokers do not let transactions be open for as long as `kafka.transaction.timeout.ms`."
    )
    cure = (
        "Do what the message says: create the topic, give this user the right, change its `cleanup.policy`, or lower "
        "`kafka.transaction.timeout.ms`. `evensplit doctor --sink` checks the ledger, the rights and the timeouts; "
        "[Writing back to Kafka](../howto/writing.md#what-it-needs) has them all."
    )


class RunSuperseded(WriteError):
    """Another run of the query has taken over, or its checkpoint is older than what was decided."""

    id = "ES-804"
    cause = (
        "The ledger has a decision of a later run of the same query, or about a later batch. Either the query was "
        "started twice on one checkpoint, or its checkpoint was replaced by an older one. Or the batch was decided "
        "with fewer rows than it has now, since the query was changed."
    )
    cure = (
        "Let one run of the query live. If the checkpoint was restored from a copy, what it would write again is in "
        "the topics already: start a new query after it, with a new checkpoint. If the query was changed, start it "
        "once as it was, which finishes the batch; or with `acceptIncomplete` set to the number of the batch, if that "
        "may stay as it was written."
    )


class TransactionNotEnded(WriteError):
    """A batch is decided, and one of its transactions could not be committed in time. The next run will."""

    id = "ES-805"
    cause = (
        "The batch is decided, but a broker did not commit one of its transactions in time. Or brokers do not remember "
        "it, and the logs do not tell whether it was committed."
    )
    cure = (
        "Restart the query before the transaction's timeout is over: it commits what was decided before anything else. "
        "If the message says that the logs do not tell, let this user Read the topic. If the records are gone from the "
        "logs, by retention, by compaction or with their topic, no restart will tell: start it once with "
        "`acceptIncomplete` set to the number of the batch."
    )


class TransactionTooOld(WriteError):
    """A transaction was about to expire, or had expired, before its batch was decided. The batch is written again."""

    id = "ES-806"
    cause = (
        "The tasks took so long that a transaction expired, or was about to, before the batch could be decided. "
        "Nothing of the batch is visible."
    )
    cure = (
        "Restart the query: it writes the batch again. Raise `kafka.transaction.timeout.ms`, and the brokers' "
        "`transaction.max.timeout.ms` if it is lower, or make batches smaller."
    )


class DecisionUncertain(WriteError):
    """It is not known whether a batch is decided. The next run sees, and finishes it or writes it again."""

    id = "ES-808"
    cause = (
        "The ledger refused the end of the decision about a batch: another run of the query has begun to decide, or "
        "the ledger's broker was away for 15 seconds. If an earlier answer was lost, the decision is there."
    )
    cure = (
        "Restart the query: it looks into the ledger first. If that happens again, see whether the query was started "
        "twice on one checkpoint, and let one run live."
    )


class BatchIncomplete(WriteError):
    """A transaction of a decided batch expired before it could be committed: its records are lost to readers.

    Raised each time that the query is restarted, until `acceptIncomplete` names the batch.
    """

    id = "ES-807"
    cause = (
        "A batch was decided, and then a transaction of it was aborted before it could be committed: nobody ended it "
        "within its timeout, or someone aborted it. The batch's other records are visible, and these never will be."
    )
    cure = (
        "The message has the batch and the partitions. `evensplit audit topic` checks what is there. Write these "
        "records again yourself, then restart with `acceptIncomplete` set to the number of the batch."
    )
    cluster: str
    query: str
    batch: int
    partitions: tuple[str, ...]
    """`topic/partition (5 records)` each."""

    def __init__(self, cluster: str, query: str, batch: int, partitions: Sequence[str], detail: str) -> None:
        self.cluster, self.query, self.batch, self.partitions = cluster, query, batch, tuple(partitions)
        self.detail = detail
        super().__init__(cluster, query, batch, self.partitions, detail)

    def __str__(self) -> str:
        return (
            f"cluster {self.cluster!r}, query {self.query}, batch {self.batch}: it was decided, and is not complete. "
            f"Records that readers will not see: {', '.join(self.partitions)}. {self.detail}"
        )
