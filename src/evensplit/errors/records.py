"""Errors of records: damaged, too long, unreadable, or gone."""

from __future__ import annotations

from evensplit.errors.base import EvenSplitError


class CorruptRecordsError(EvenSplitError):
    """Record bytes are damaged or cannot be decoded. No row of the record batch was delivered."""

    id = "ES-301"
    cause = (
        "A record batch fails its checksum or cannot be decoded. None of its rows was delivered, with one exception: "
        "of a batch over 8 MiB with a correct checksum, rows before the undecodable record may have been delivered."
    )
    cure = (
        "Look at the offset in the message with Kafka's `kafka-dump-log`. If the log is damaged, restore it from a "
        "replica, or start a new query after that offset."
    )
    cluster: str
    topic: str
    partition: int
    offset: int
    """The first offset of the record batch, or the one that was asked for if the batch does not tell its own."""

    detail: str
    """What is wrong, and what to do."""

    _place = "at or after offset"

    def __init__(self, cluster: str, topic: str, partition: int, offset: int, detail: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.detail = detail
        super().__init__(cluster, topic, partition, offset, detail)

    def __str__(self) -> str:
        return (
            f"cluster {self.cluster!r}, topic {self.topic!r}, partition {self.partition}, "
            f"{self._place} {self.offset}: {self.detail}"
        )


class BatchTooLarge(CorruptRecordsError):
    """A record batch is longer than `maxBatchBytes`, compressed or decompressed."""

    id = "ES-302"
    cause = "A record batch is longer than `maxBatchBytes`, compressed or decompressed."
    cure = "Raise `maxBatchBytes` to the size in the message. A task needs memory for about three times that size."


class OldMessageFormat(CorruptRecordsError):
    """Records have message format v0 or v1, from before Kafka 0.11. Only v2 is read."""

    id = "ES-303"
    cause = "Records were written before Kafka 0.11, in message format v0 or v1."
    cure = "Copy the topic to a new one with a current producer, or start after those records."


class TimestampOutOfRange(CorruptRecordsError):
    """A record's timestamp does not fit into 64 bits of microseconds. `offset` is that of the record."""

    id = "ES-305"
    cause = (
        "A record's timestamp does not fit into Spark's timestamps, which are microseconds in 64 bits. Kafka's are "
        "milliseconds, and brokers accept any number: most likely a producer writes nanoseconds."
    )
    cure = (
        "Correct the producer. To read the records that exist, set `onTimestampOverflow=null`, which makes such "
        "timestamps null, or leave `timestamp` out of `columns`."
    )
    _place = "offset"


class UndecodableRecord(CorruptRecordsError):
    """A record's key or value does not fit its format or schema. `offset` is that of the record."""

    id = "ES-306"
    cause = "A record's key or value is not in the format that the options name, or does not fit the schema."
    cure = (
        "Correct `value.format` or `value.schema` if they are wrong. To go on without such records, set "
        "`onDecodeError=column`, which makes the value null and has the reason and the bytes in columns of their own, "
        "or `onDecodeError=null`."
    )
    _place = "offset"


class ConditionFailed(CorruptRecordsError):
    """The condition `where` cannot be evaluated on a record. `offset` is that of the record."""

    id = "ES-307"
    cause = "The condition `where` is an error for a record: a division by zero, a cast of a value that does not fit."
    cure = (
        "As in Spark's ANSI mode, this ends the query. Use `TRY_CAST`, which makes null of what does not fit, or put a "
        "condition before it that leaves such records out: `value.n <> 0 AND 10 / value.n > 1`."
    )
    _place = "offset"


class DataLossError(EvenSplitError):
    """Records that were to be read no longer exist."""

    id = "ES-304"
    cause = (
        "Records that were to be read are gone: deleted by retention, replaced after an unclean leader election, or "
        "lost with a topic that was deleted or recreated."
    )
    cure = (
        "Restart with `failOnDataLoss=false` to go on without them: each loss is then counted and reported, including "
        "records that were handed out but perhaps never read. To prevent it, give the topic a longer retention, or "
        "the query more resources to catch up. Against unclean elections, set "
        "`unclean.leader.election.enable=false` for the topic."
    )
    cluster: str
    topic: str
    partition: int
    detail: str
    """What was lost, how that was noticed, and what to do."""

    def __init__(self, cluster: str, topic: str, partition: int, detail: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.partition = partition
        self.detail = detail
        super().__init__(cluster, topic, partition, detail)

    def __str__(self) -> str:
        return f"cluster {self.cluster!r}, topic {self.topic!r}, partition {self.partition}: {self.detail}"
