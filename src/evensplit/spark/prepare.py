"""Gets Spark's Python processes ready while the user's program goes on: the first query waits for each of them.

Nothing depends on it. Where something cannot be prepared, as under Spark Connect, the first query starts it as ever.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from evensplit.errors import line_of
from evensplit.spark.source import EvenSplitDataSource

log = logging.getLogger(__name__)

WORKER_PATH = str(Path(__file__).parent / "worker_path")
"""What is put on the path of Python processes; see the module in it."""

_VARIABLE = "PYTHONPATH"
_SOURCE = "org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource"
_OPTIONS = "org.apache.spark.sql.util.CaseInsensitiveStringMap"


@contextmanager
def own_path(context: Any) -> Iterator[None]:
    """In the block, processes for what is sent to Spark have `WORKER_PATH` on their path.

    Spark starts other processes for other variables, so those of user-defined functions are not affected, unless
    another thread sends one meanwhile.

    On other machines the path may not exist, and what is in it is run. So nothing is done for a cluster if everybody
    may write to a directory on the way to it.

    Args:
        context: the session's SparkContext; None, as under Spark Connect: nothing is done.
    """
    if context is None or not (_is_local(str(context.master)) or _is_own(Path(WORKER_PATH))):
        yield
        return
    environment: MutableMapping[str, str] = context.environment
    with _lock:
        before = environment.get(_VARIABLE)
        environment[_VARIABLE] = WORKER_PATH if before is None else f"{WORKER_PATH}{os.pathsep}{before}"
        try:
            yield
        finally:
            if before is None:
                del environment[_VARIABLE]
            else:
                environment[_VARIABLE] = before


_lock = threading.Lock()


def _is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _is_own(path: Path) -> bool:
    """Whether no directory on the way to `path` can be written to by everybody."""
    return not any(one.stat().st_mode & stat.S_IWOTH for one in (path, *path.parents))


def prepare(spark: SparkSession) -> None:
    """Start the two processes that plan a query in the background, and have them load what they need.

    Those of tasks are not: that would take a Spark job, and the first query would wait for it.
    """
    context = getattr(spark, "_sc", None)
    if context is None:
        return
    try:
        wrapped = _wrapped(context)
    except Exception as error:
        _say(error)
        return
    _in_background(lambda: _start_planners(context, wrapped))
    _in_background(lambda: _load_planner(spark))


class Prepared(EvenSplitDataSource):
    """The source without options: loads what Spark's processes for it will need."""

    def schema(self) -> StructType:
        """Load what parses options, in the process that asks for the schema."""
        import_module("evensplit.spark.options.parse")
        from evensplit.spark.row_type import row_type

        return row_type(("value",))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Load what plans batches, in the process that plans."""
        import_module("evensplit.spark.batch_query")
        from evensplit.spark.stream_reader import EvenSplitStreamReader

        return EvenSplitStreamReader(None, 1)  # type: ignore[arg-type]


def _wrapped(context: Any) -> Any:
    """The source that prepares, as Spark takes it."""
    from pyspark.sql.udf import _wrap_function

    with own_path(context):
        return _wrap_function(context, Prepared)


def _start_planners(context: Any, wrapped: Any) -> None:
    """Have Spark ask for a schema and a plan, as for the first query. It keeps the two processes for that."""
    jvm: Any = getattr(context, "_jvm")  # noqa: B009
    source = getattr(jvm, _SOURCE)(wrapped)
    options = getattr(jvm, _OPTIONS)(jvm.java.util.HashMap())
    created = source.createDataSourceInPython(Prepared.name(), options, jvm.scala.Option.apply(None))
    source.createReadInfoInPython(created, created.schema(), True)


def _load_planner(spark: SparkSession) -> None:
    """Have the JVM load what plans a query, while it waits for Python: plan one, and run nothing."""
    frame: Any = getattr(spark.range(1), "_jdf")  # noqa: B009
    frame.queryExecution().executedPlan()


def _in_background(do: Callable[[], None]) -> None:
    def run() -> None:
        try:
            do()
        except Exception as error:
            _say(error)

    threading.Thread(target=run, name="evensplit-prepare", daemon=True).start()


def _say(error: Exception) -> None:
    log.info("Python processes are started by the first query, not before it: %s", line_of(error))
