"""The wheel that is released, in an environment of its own: nothing of the checkout is needed, nothing registered."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools.release.__main__ import TARGETS

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parent.parent.parent

SCRIPT = """
from kafka import KafkaProducer
from pyspark.sql import SparkSession
import evensplit
from evensplit.testing import LocalKafka

assert "site-packages" in evensplit.__file__, evensplit.__file__
with LocalKafka() as broker:
    broker.create_topic("orders", partitions=2)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for number in range(100):
        producer.send("orders", b"%d" % number, partition=number % 2)
    producer.close()
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    rows = (
        spark.read.format("evensplit")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", "orders")
        .load()
        .collect()
    )
    spark.stop()
    assert sorted(int(bytes(row.value)) for row in rows) == list(range(100)), rows
"""


def run(*command: object, cwd: Path, active: Path | None = None) -> None:
    """Run a command to its end, in an activated environment if one is given; shows what it printed if it fails."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYSPARK", "SPARK", "PYTHON", "VIRTUAL_ENV"))
    }
    if active is not None:
        environment["PATH"] = os.pathsep.join([str(active / "bin"), environment["PATH"]])
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**environment, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command[:4]}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def test_a_wheel_is_all_it_takes(tmp_path: Path) -> None:
    released = sys.platform == "linux" and platform.machine() in TARGETS
    what = ("--machine", platform.machine()) if released else ("--native",)
    run(sys.executable, "-m", "tools.release", "--out", tmp_path / "dist", *what, cwd=ROOT)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert not released or "manylinux2014" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for name in ("evensplit/__init__.py", "evensplit/_kernel.abi3.so", "pyspark_evensplit/__init__.py"):
        assert name in names
    files = ("alerts.yml", "grafana.json", "keda.yml", "spark-dynamic-allocation.conf")
    assert {f"evensplit/observe/files/{name}" for name in files} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "bench", "native"))]
    python = tmp_path / "env" / "bin" / "python"
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "env", cwd=tmp_path)
    locks = ROOT / "requirements"
    run(
        *(sys.executable, "-m", "uv", "pip", "install", "--python", python),
        *("--constraints", locks / "dev.txt", "--build-constraints", locks / "sdist.txt", f"{wheel}[spark]"),
        cwd=tmp_path,
    )
    (tmp_path / "empty").mkdir()
    run(python, "-c", SCRIPT, cwd=tmp_path / "empty", active=tmp_path / "env")
