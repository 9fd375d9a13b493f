"""Every nemesis can be chosen, a run has those that it can make, and a restart changes every option that may change."""

from __future__ import annotations

import zipfile
from pathlib import Path
from random import Random

import pyspark
import pytest

from evensplit.errors import ChaosError
from evensplit.spark.options.parse import parse_options
from evensplit.spark.options.spec.all import DECLARED
from evensplit.spark.options.spec.registry import REGISTRY_OPTIONS
from evensplit.spark.options.spec.sink import LEDGER
from evensplit.testing.chaos.job.sinks import WRITTEN_LEDGER
from evensplit.testing.chaos.nemesis.base import NEEDS
from evensplit.testing.chaos.nemesis.registry import NEMESES, usable
from evensplit.testing.chaos.nemesis.spark import OPTIONS, SESSION, chosen
from evensplit.testing.chaos.plan import Plan
from evensplit.testing.chaos.run import _what_happens

RESOURCES = {"brokers", "network", "access", "topics", "metadata", "spark", "sink"}
ALL = frozenset(NEEDS)
GIVEN = {
    "metadata": "http://127.0.0.1:1/clusters",
    "metadata.allow": "/ca.pem",
    "kafka.isolation.level": "read_committed",
    "startingOffsets": "earliest",
}
"""Options that a run gives."""

WHAT_IS_READ = {
    *("kafka.bootstrap.servers", "subscribe", "subscribePattern", "assign", "clusters", "metadata", "streams"),
    *("streamsPattern", "metadataTokenEnv", "metadataTokenFile", "metadata.allow", "metadata.<name>"),
    *("kafka.security.protocol", "kafka.client.id", "kafka.isolation.level"),
}
BEGINNINGS_AND_ENDS = {
    *("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "start"),
    *("startingGroup", "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", "stop"),
}
"""All starts are ignored when a query continues, as `startingOffsets` is; a stream has no ends."""

IN_COLUMNS = {"includeHeaders", "includeCluster"}
DECODED = {
    *(f"{side}.{what}" for side in ("key", "value") for what in ("format", "schema", "framing", "message", "subject")),
    *(one.name for one in REGISTRY_OPTIONS),
    *("onDecodeError", "acceptSchema", "where"),
}
FIXED = WHAT_IS_READ | BEGINNINGS_AND_ENDS | IN_COLUMNS | DECODED | {one.name for one in DECLARED if one.ignored}


def test_every_nemesis_is_described() -> None:
    for name, one in NEMESES.items():
        assert one.kind.name == name
        assert one.kind.resource in RESOURCES
        assert one.needs in NEEDS
        low, high = one.kind.lasts_s
        assert 0 <= low <= high
        assert one.meaning[0].isupper()


def test_names_choose_and_all_problems_with_them_are_said() -> None:
    assert list(usable(["cut", "broker-kill"], frozenset())) == ["broker-kill", "cut"]
    assert list(usable([], ALL)) == list(NEMESES)
    with pytest.raises(ChaosError) as caught:
        usable(["cut", "cutt", "executor-kill", "source-kill"], frozenset({"evensplit"}))
    assert str(caught.value) == (
        "'cutt' is no nemesis; executor-kill needs a standalone cluster of Spark, which this run does not have. "
        "`evensplit chaos --list` has them all"
    )


@pytest.mark.parametrize(
    "plan, missing",
    [
        (Plan(directory=Path("run"), queries=("kafka", "counted")), set()),
        (Plan(directory=Path("run")), {"writing-kill"}),
        (Plan(directory=Path("run"), spark="local"), {"executor-kill", "worker-kill", "writing-kill"}),
        (Plan(directory=Path("run"), queries=("parquet",)), {"sink-hang", "writing-kill"}),
        (Plan(directory=Path("run"), job=("job",)), {"sink-hang", "writing-kill"}),
        (
            Plan(directory=Path("run"), source="kafka"),
            {"writing-kill", *(name for name, one in NEMESES.items() if one.needs == "evensplit")},
        ),
    ],
    ids=["all", "no topic", "local", "parquet alone", "a job of one's own", "Spark's own source"],
)
def test_a_run_has_the_faults_that_can_be_made_in_it(plan: Plan, missing: set[str]) -> None:
    nemeses, schedule = _what_happens(plan)
    assert set(NEMESES) - set(nemeses) - {"checkpoint-full"} == missing
    assert {one.nemesis for one in schedule} <= set(nemeses)


def test_a_run_that_is_too_short_for_a_fault_is_refused() -> None:
    with pytest.raises(ChaosError, match=r"0\.5 minutes leave no time for a fault"):
        _what_happens(Plan(directory=Path("run"), minutes=0.5))
    _what_happens(Plan(directory=Path("run"), minutes=0.5, schedule=()))


def test_queries_that_our_job_does_not_have_are_refused_before_anything_starts() -> None:
    with pytest.raises(ChaosError, match=r"our job has no query counts, files; it has foreach-batch, parquet"):
        _what_happens(Plan(directory=Path("run"), queries=("parquet", "counts", "files")))
    _what_happens(Plan(directory=Path("run"), queries=("files",), job=("job",)))


def test_a_restart_changes_every_option_that_may_change() -> None:
    assert {*OPTIONS} == {one.name for one in DECLARED} - FIXED


@pytest.mark.parametrize("name", OPTIONS)
def test_every_value_of_an_option_is_one(name: str) -> None:
    for value in OPTIONS[name]:
        parse_options({**GIVEN, name: value})


@pytest.mark.parametrize("seed", range(40))
def test_the_options_of_a_restart_go_together(seed: int) -> None:
    dice = Random(seed)
    parse_options({**GIVEN, **chosen(dice)})


def test_spark_has_the_settings() -> None:
    """Spark takes any name without a word."""
    jars = Path(pyspark.__file__).parent / "jars"
    known = b"".join(
        zipfile.ZipFile(next(jars.glob(jar))).read(file)
        for jar, file in (
            ("spark-catalyst_*.jar", "org/apache/spark/sql/internal/SQLConf$.class"),
            ("spark-core_*.jar", "org/apache/spark/internal/config/package$.class"),
        )
    )
    assert [name for name in SESSION if name.encode() not in known] == []


def test_the_ledger_that_is_watched_is_the_one_that_the_sink_decides_in() -> None:
    assert LEDGER.default == WRITTEN_LEDGER
