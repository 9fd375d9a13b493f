"""`df.writeStream.format("evensplit")`: what Spark calls, in tasks and on the driver.

Spark makes one anew for each batch, which it pickles for the tasks, and another one for each commit and abort. So
nothing of it lives longer than a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from evensplit.spark.task.installed import check_installed, release

if TYPE_CHECKING:
    import pyarrow as pa

    from evensplit.spark.sink.messages import TaskMessage
    from evensplit.spark.sink.options import WriteOptions
    from evensplit.spark.task.telling import Destination


class EvenSplitStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of one streaming query."""

    def __init__(self, options: WriteOptions, counts_to: Destination | None = None) -> None:
        """`counts_to`: where the driver's side tells what was written."""
        self._options = options
        self._counts_to = counts_to
        self._sent_by = release()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write the rows of one task, on an executor. Raises InstallationError if it has another evensplit."""
        check_installed(self._sent_by)
        from evensplit.spark.sink.messages import task_place
        from evensplit.spark.sink.task import write_rows, write_rows_of_stream

        place = task_place()
        if self._options.exactly_once:
            return write_rows_of_stream(self._options, place, iterator)
        return write_rows(self._options, place, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Decide a batch, and make its records visible, on the driver; or tell what is visible already."""
        from evensplit.spark.sink.deciding import commit, tell_sent

        if self._options.exactly_once:
            commit(self._options, _told(messages), batchId, self._counts_to)
        else:
            tell_sent(_told(messages), batchId, self._counts_to)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Give a batch up, on the driver."""
        if self._options.exactly_once:
            from evensplit.spark.sink.deciding import abort

            abort(self._options, _told(messages), batchId, self._counts_to)


def _told(messages: list[WriterCommitMessage | None]) -> list[TaskMessage]:
    """What tasks have told. Spark has None for those that did not end."""
    from evensplit.spark.sink.messages import TaskMessage

    return [one for one in messages if isinstance(one, TaskMessage)]
