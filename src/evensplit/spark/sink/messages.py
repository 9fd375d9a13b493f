"""What Spark tells a task, and what a task tells the driver. The latter is pickled, and read by Spark's processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from evensplit.core.delivery.terms import Transaction

if TYPE_CHECKING:
    from pyspark import TaskContext

QUERY_PROPERTY, BATCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"
"""In which of its properties Spark tells a task of which query and batch it is."""

_RUN = "spark.jobGroup.id"


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """One attempt of one task, by what Spark says."""

    partition: int
    """Its number in its batch."""

    attempt: int
    """Spark's number of the attempt, which no other one of the application has."""

    query: str = ""
    """Spark's id of the streaming query, which its checkpoint keeps; empty in a batch query."""

    batch: int = -1
    """The number of the micro-batch; -1 in a batch query."""

    run: str = ""
    """What changes with each start of the query."""


class Sent(NamedTuple):
    """What a task has written to one cluster without a transaction: the numbers of records, and of their bytes."""

    cluster: str
    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TaskMessage(WriterCommitMessage):
    """What one task has written."""

    rows: int
    """How many rows it was given."""

    query: str = ""
    """Spark's id of the query, which nobody else tells the driver's side; empty in a batch query."""

    transactions: tuple[Transaction, ...] = ()
    """Its open transactions, one for each cluster that it has written to."""

    begun_ms: int = 0
    """When the first of them was begun, in milliseconds since 1970, by the clock of the task's host."""

    skipped: bool = False
    """It has found its batch decided, and has written nothing."""

    sent: tuple[Sent, ...] = ()
    """What it has written without a transaction."""


def task_place() -> TaskPlace:
    """The place of the task that runs in this process. Raises RuntimeError outside of a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("Spark calls `write` in a task, and this is none")
    return place_in(context)


def place_in(context: TaskContext) -> TaskPlace:
    """The place that Spark's context of a task says."""
    batch = context.getLocalProperty(BATCH_PROPERTY)
    return TaskPlace(
        context.partitionId(),
        context.taskAttemptId(),
        context.getLocalProperty(QUERY_PROPERTY) or "",
        -1 if batch is None else int(batch),
        context.getLocalProperty(_RUN) or "",
    )
