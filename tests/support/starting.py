"""Starting streaming queries on a machine that is busy."""

from __future__ import annotations

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.support.waiting import wait_for

ATTEMPTS = 10
TOO_SLOW = "Python worker failed to connect back"


def started(writer: DataStreamWriter) -> StreamingQuery:
    """A query whose sources are there, or that has failed; started again if Spark timed out on a busy machine.

    For each Python source Spark starts a process, which has 10 s to import PySpark and to connect. No setting changes
    that (`PythonWorkerFactory.createSimpleWorker`), and nothing is read or written down by then.
    """
    for _ in range(ATTEMPTS):
        query = writer.start()
        said = wait_for(lambda query=query: _said(query), what="a query with its sources")  # type: ignore[misc]
        if TOO_SLOW not in said:
            return query
        wait_for(lambda query=query: not query.isActive, what="the end of a query")  # type: ignore[misc]
    raise AssertionError(f"{ATTEMPTS} times in a row, no process for a Python source was there within 10 s")


def _said(query: StreamingQuery) -> str:
    """The query's status in Spark; empty while it makes its sources."""
    said = str(query.status["message"])
    return "" if said.startswith("Initializing") else said
