"""Processes that are ready before the first query, in a Spark of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark]

PROGRAM = """
import time
from pathlib import Path
from pyspark.sql import SparkSession
import evensplit
from evensplit.spark.prepare import own_path

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
evensplit.register(spark)

def modules():
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            command = (directory / "cmdline").read_text().split(chr(0))
        except OSError:
            continue
        if "pyspark.daemon" in command:
            found.setdefault(command[-2], set()).add(int(directory.name))
    return found

wanted = {"pyspark.sql.worker.create_data_source", "pyspark.sql.worker.plan_data_source_read"}
deadline = time.monotonic() + 60
# A daemon and the worker that it has forked.
while not all(len(modules().get(one, ())) > 1 for one in wanted) and time.monotonic() < deadline:
    time.sleep(0.1)
before = modules()

def where(batches):
    import pyarrow
    import pyspark
    yield pyarrow.RecordBatch.from_pydict({"at": [pyspark.__file__]})

with own_path(spark.sparkContext):
    frame = spark.range(1).mapInArrow(where, "at string")
(row,) = frame.collect()
print("loaded from", row["at"])
(other,) = spark.range(1).mapInArrow(where, "at string").collect()
print("others from", other["at"])
print("daemons", *sorted(one.rpartition(".")[2] for one in before if one in wanted))
spark.stop()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_the_processes_of_a_first_query_are_there_before_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("loaded", "others", "dae")))
    assert said["daemons"] == "create_data_source plan_data_source_read"
    assert said["loaded"].endswith("pyspark/__init__.py")
    assert ".zip" not in said["loaded"]
    assert ".zip" in said["others"], "processes for functions of the user are as ever"
