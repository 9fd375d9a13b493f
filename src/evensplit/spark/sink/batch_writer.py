"""`df.write.format("evensplit")`: what Spark calls, in tasks and on the driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from evensplit.spark.task.installed import check_installed, release

if TYPE_CHECKING:
    import pyarrow as pa

    from evensplit.core.delivery.terms import Transaction
    from evensplit.spark.sink.messages import TaskMessage
    from evensplit.spark.sink.options import WriteOptions


class EvenSplitBatchWriter(DataSourceArrowWriter):
    """Writes the rows of one DataFrame. `job`: what no other one has, for the ids of transactions."""

    def __init__(self, options: WriteOptions, job: str) -> None:
        self._options = options
        self._job = job
        self._sent_by = release()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write the rows of one task, on an executor. Raises InstallationError if it has another evensplit."""
        check_installed(self._sent_by)
        from evensplit.spark.sink.messages import task_place
        from evensplit.spark.sink.task import write_rows, write_rows_in_transaction

        place = task_place()
        if self._options.exactly_once:
            return write_rows_in_transaction(self._options, place, iterator, self._job)
        return write_rows(self._options, place, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all records visible, on the driver."""
        if transactions := _offered(messages):
            from evensplit.spark.sink.ending import commit_all

            commit_all(self._options, self._job, transactions)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make sure that no record becomes visible, on the driver."""
        if self._options.exactly_once:
            from evensplit.spark.sink.ending import abort_all

            abort_all(self._options, self._job, _offered(messages))


def _offered(messages: list[WriterCommitMessage | None]) -> list[Transaction]:
    """The open transactions. Spark has None for tasks that did not end."""
    from evensplit.spark.sink.messages import TaskMessage

    return [one for message in messages if isinstance(message, TaskMessage) for one in message.transactions]
