"""One Spark session for all tests here, and brokers that live as long."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka

_names = count()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two task slots that finds the source by itself: nothing is registered."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    warehouse = tmp_path_factory.mktemp("warehouse")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("evensplit-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        # An idle query tells so at once, and not after ten seconds.
        .config("spark.sql.streaming.noDataProgressEventInterval", "100")
        .config("spark.sql.warehouse.dir", str(warehouse))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def east() -> Iterator[LocalKafka]:
    """A broker that all tests here share."""
    with LocalKafka() as broker:
        yield broker


@pytest.fixture(scope="session")
def west() -> Iterator[LocalKafka]:
    """A second one, of another cluster."""
    with LocalKafka() as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"topic-{next(_names)}"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A directory for a checkpoint, not there yet."""
    return tmp_path / "checkpoint"
