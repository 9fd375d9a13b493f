"""Spark's own source in a run: what it needs, what it is told, its faults, and how its ends count."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evensplit.errors import ChaosError
from evensplit.testing.chaos.checker.check import check
from evensplit.testing.chaos.clusters import CLIENT_ID, ChaosCluster
from evensplit.testing.chaos.history import events as ev
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.chaos.job import spark_source
from evensplit.testing.chaos.job.process import JobProcess
from evensplit.testing.chaos.job.task import Task
from evensplit.testing.chaos.nemesis.registry import NEMESES, usable
from evensplit.testing.chaos.plan import Plan
from evensplit.testing.chaos.run import run
from evensplit.testing.chaos.workload.topics import LAYOUT, UNCLEAN_TOPIC
from evensplit.testing.process.spark_kafka_jars import SPARK
from tests.support.chaos_histories import faultless


@dataclass
class Brokers:
    bootstrap_servers: str
    certificates: Any = None


def clusters() -> dict[str, ChaosCluster]:
    secured = cast("Any", Brokers("127.0.0.1:2", SimpleNamespace(ca=Path("/ca.pem"))))
    return {
        "east": ChaosCluster("east", cast("Any", Brokers("127.0.0.1:1"))),
        "west": ChaosCluster("west", secured, "reader", {"reader": "secret"}),
    }


def found(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    def answer(_: str) -> str:
        if version is None:
            raise PackageNotFoundError
        return version

    monkeypatch.setattr(spark_source, "version", answer)
    monkeypatch.setattr(spark_source, "connector_jars", lambda: [Path("/jars/a.jar"), Path("/jars/b.jar")])


def test_its_jars_are_a_setting_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, SPARK)
    assert spark_source.settings() == {"spark.jars": "/jars/a.jar,/jars/b.jar"}


@pytest.mark.parametrize(
    "version, said", [("4.3.0", "PySpark 4.3.0 of this environment"), (None, "there is none here")]
)
def test_another_spark_is_an_error_that_says_what_to_do(
    version: str | None, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found(monkeypatch, version)
    with pytest.raises(ChaosError, match=said) as raised:
        run(Plan(directory=tmp_path / "run", source="kafka"))
    for part in (f"PySpark {SPARK}", "`make chaos-peer`", f"pyspark=={SPARK}"):
        assert part in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_each_cluster_is_read_with_options_of_its_own() -> None:
    told = spark_source.options(clusters())
    own = json.loads(told.pop("clusters"))
    assert told == {}
    assert own["east"]["kafka.bootstrap.servers"] == "127.0.0.1:1"
    assert own["west"]["kafka.security.protocol"] == "SASL_SSL"
    assert own["west"]["kafka.ssl.truststore.type"] == "PEM"
    assert own["west"]["kafka.ssl.truststore.location"] == "/ca.pem"
    assert 'username="reader" password="secret"' in own["west"]["kafka.sasl.jaas.config"]
    for one in own.values():
        # Quotas are of this client.
        assert one["kafka.client.id"] == CLIENT_ID
        assert all(re.fullmatch(one["subscribePattern"], name) for name, *_ in (*LAYOUT, UNCLEAN_TOPIC))


def test_it_takes_part_in_no_fault_of_metadata_and_of_python_processes() -> None:
    there = usable((), frozenset({"kafka", "standalone", "mount", "held-sink"}))
    assert {*NEMESES}.difference(there) == {
        *("source-kill", "python-worker-kill", "password-rotated"),
        *("cluster-out", "clusters-out", "cluster-renamed", "cluster-twice"),
        *("metadata-down", "metadata-slow", "metadata-lying"),
        "writing-kill",
    }


def test_what_it_cannot_take_part_in_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ChaosError, match="source-kill needs evensplit"):
        run(Plan(directory=tmp_path, source="kafka", nemeses=("source-kill", "cut")))
    with pytest.raises(ChaosError, match="not both"):
        run(Plan(directory=tmp_path, source="kafka", job=("python", "mine.py")))


def test_its_job_reads_from_the_start_of_a_query_on(tmp_path: Path) -> None:
    task = Task(
        master="local",
        source="kafka",
        options={},
        queries=("parquet",),
        directory=tmp_path,
        history=tmp_path / "history",
        began_s=0.0,
    )
    with Recorder(tmp_path / "history", "run") as recorder, JobProcess(("sleep", "600"), task, recorder) as job:
        assert not job.reads()
        with Recorder(task.history, f"driver-{job.pid}") as driver:
            driver.record(ev.QueryEnded(query="parquet", error="not yet"))
            assert not job.reads()
            driver.record(ev.QueryStarted(query="parquet"))
        assert job.reads()


GIVEN_UP = "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: Call(...)"


@pytest.mark.parametrize(
    "source, error, held",
    [
        ("kafka", GIVEN_UP, True),
        ("evensplit", GIVEN_UP, False),
        ("kafka", "java.lang.AssertionError: assertion failed", False),
        ("kafka", "DataLossError", False),
    ],
)
def test_a_query_may_end_for_the_reasons_of_its_own_source(source: str, error: str, held: bool, tmp_path: Path) -> None:
    made = faultless()
    made.events = [replace(one, source=source) if isinstance(one, ev.RunBegan) else one for one in made.events]
    fault = next(one for one in made.events if isinstance(one, ev.FaultBegan))
    made.events += [
        ev.FaultBegan(at_s=fault.at_s, fault=99, nemesis="broker-kill", what="SIGKILL of broker 1"),
        ev.FaultEnded(at_s=fault.at_s + 1, fault=99),
        ev.QueryEnded(at_s=fault.at_s + 5, query="parquet", error=error),
    ]
    assert check(made.write(tmp_path)).held is held
