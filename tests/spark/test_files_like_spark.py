"""What this package writes into an offset log, as Spark reads it and writes on: after each kill, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evensplit.checkpoint.copies.checkpoint_copy import copy_checkpoint
from evensplit.checkpoint.files import crc_of, remove, replace, write_new
from evensplit.checkpoint.look import look
from evensplit.checkpoint.places.place import Place
from tests.support.checkpoints import checkpoint
from tests.support.kills import Killed, Life, mortal, states_after_kills
from tests.support.remotes import all_in, fresh, put_all

pytestmark = pytest.mark.spark

LOG = "org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog"
TEXT = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}\n{"orders":{"0":%d}}'
OLD, NEW = (TEXT % 5).encode(), (TEXT % 9).encode()


def log_of(spark: SparkSession, home: Path) -> Any:
    """Spark's own offset log in a checkpoint."""
    jvm: Any = spark._jvm
    java = jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(LOG)
    arguments = [spark._jsparkSession, str(home / "offsets"), False]
    made = getattr(jvm, LOG)
    return made(*arguments[: max(len(one.getParameterTypes()) for one in java.getConstructors())])


def latest(log: Any) -> tuple[int, str]:
    """The newest batch, and its offset."""
    found = log.getLatest().get()
    return found._1(), found._2().toString()


def goes_on(log: Any) -> None:
    """Let Spark write the next batch, and read it."""
    number, shown = latest(log)
    assert log.add(number + 1, log.getLatest().get()._2())
    assert latest(log) == (number + 1, shown)


def written(home: Place) -> None:
    write_new(home / "offsets" / "1", NEW)


def replaced(home: Place) -> None:
    replace(home / "offsets" / "0", NEW)


def removed(home: Place) -> None:
    remove(home / "offsets" / "1")


@pytest.mark.parametrize("crc", [True, False])
@pytest.mark.parametrize(
    "act, before, states",
    [
        (written, {"offsets/0": OLD}, [(0, 5), (1, 9)]),
        (replaced, {"offsets/0": OLD}, [(0, 5), (0, 9)]),
        (removed, {"offsets/0": OLD, "offsets/1": NEW}, [(1, 9), (0, 5)]),
    ],
)
def test_spark_goes_on_from_the_old_state_or_the_new_one(
    spark: SparkSession,
    tmp_path: Path,
    act: Callable[[Place], None],
    before: dict[str, bytes],
    states: list[tuple[int, int]],
    crc: bool,
) -> None:
    sums = {name.replace("/", "/.") + ".crc": crc_of(data) for name, data in before.items()}
    expected = [(number, f'[{{"orders":{{"0":{offset}}}}}]') for number, offset in states]
    found = []
    for home in states_after_kills("local", tmp_path, {**before, **(sums if crc else {})}, act):
        assert isinstance(home, Path)
        log = log_of(spark, home)
        found.append(latest(log))
        goes_on(log)
        # As those read it that compare checksums.
        newest = home / "offsets" / str(found[-1][0])
        assert spark.read.text(str(newest)).count() == 3
    assert found == [one for one in expected for _ in range(found.count(one))]
    assert len(set(found)) == 2


def test_spark_does_not_start_from_an_incomplete_copy(spark: SparkSession, tmp_path: Path) -> None:
    """Of one for an object store, brought here as it is."""
    source = checkpoint(tmp_path / "from", ['{"orders":{"0":5}}'], ['{"orders":{"0":9}}'], committed=0)
    there = fresh("memory", tmp_path)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        copy_checkpoint(source, mortal(there, Life(7), patch), {}, look(source), lambda *_: None)
    files = all_in(there)
    assert len(files) == 7
    put_all(tmp_path / "copy", files)
    with pytest.raises(Exception, match="failed to read correct log version from incomplete copy of a checkpoint"):
        log_of(spark, tmp_path / "copy").getLatest()
