"""The environment of every test, however pytest was started; a Spark session and two brokers for all that need them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    # Loaded by the fixtures alone: a unit test needs no Spark.
    from pyspark.sql import SparkSession

    from evensplit.testing import LocalKafka
    from tests.support.world import World

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

# What is started in the background may have been told to ignore Ctrl-C, and so would all that is started here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A machine that is busy with brokers is no reason for a property to fail. `make test` is to be short, so
# `make coverage` tries more examples; where few say little, a test asks for more by itself.
settings.register_profile("dev", deadline=None, max_examples=50)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.register_profile("thorough", settings.get_profile("ci"), max_examples=100)
settings.register_profile("fast", settings.get_profile("dev"), max_examples=5)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# A Spark that lives for minutes gains little from the second compiler, and shares two processors with it.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The servers of metrics and dashboards that a test has the process share end with it."""
    from evensplit.observe import prometheus
    from evensplit.observe.dashboard import server as dashboard
    from evensplit.observe.web import server

    shared: dict[tuple[str, int], server.Server] = {}
    monkeypatch.setattr(server, "_shared", shared)
    monkeypatch.setattr(dashboard, "_served", {})
    monkeypatch.setattr(prometheus, "_served", {})
    yield
    for one in shared.values():
        one.close()


_names = count()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Under CI, leave no list of failed tests behind a run that broke off: `.ci/run` would take it for complete.

    One that was interrupted keeps its list, which says what had failed by then: `.ci/run` knows whether it did that.
    """
    broke_off = exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    if broke_off and os.environ.get("CI") and not hasattr(session.config, "workerinput"):
        session.config.cache.set("cache/lastfailed", {})


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two task slots that finds the source by itself: nothing is registered."""
    from pyspark.sql import SparkSession

    warehouse = tmp_path_factory.mktemp("warehouse")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("evensplit-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        # Results are taken from a socket, for which a busy machine takes longer than the 15 s that are the default.
        .config("spark.python.authenticate.socketTimeout", "120s")
        # An idle query tells so at once, and not after ten seconds.
        .config("spark.sql.streaming.noDataProgressEventInterval", "100")
        .config("spark.sql.warehouse.dir", str(warehouse))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def no_query_left(spark: SparkSession) -> Iterator[None]:
    """End what a failed test left running."""
    yield
    for query in spark.streams.active:
        query.stop()


@pytest.fixture(scope="session")
def east() -> Iterator[LocalKafka]:
    """A broker that all tests here share."""
    from evensplit.testing import LocalKafka

    with LocalKafka() as broker:
        yield broker


@pytest.fixture(scope="session")
def west() -> Iterator[LocalKafka]:
    """A second one, of another cluster."""
    from evensplit.testing import LocalKafka

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


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path, topic: str) -> Iterator[World]:
    """Clusters, metadata and a checkpoint of this test alone; the brokers are shared, and all there at the end."""
    from tests.support.world import World

    made = World(request.getfixturevalue, tmp_path, topic)
    yield made
    made.close()
