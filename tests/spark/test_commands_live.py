"""What the commands tell of a checkpoint that Spark has written, against the records that there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from evensplit.cli.group import evensplit
from evensplit.testing import LocalKafka
from tests.support.queries import run_available, stream
from tests.support.records import Draft, produce

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(evensplit, [*arguments, "--format", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_query_of_two_runs(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path, tmp_path: Path
) -> None:
    """Read, read on with more readers, and then two records that nobody has read yet."""
    east.create_topic(topic, partitions=4)
    for readers in (2, 4):
        produce(east.bootstrap_servers, topic, [Draft(b"x", partition=number % 4) for number in range(40)])
        frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest", readers=readers)
        run_available(frame, checkpoint, tmp_path / "sink")
    produce(east.bootstrap_servers, topic, [Draft(b"x", partition=3)] * 2)
    place = str(checkpoint)

    found = run("inspect", place, "--splits")
    (source,) = found["sources"]
    assert found["query"]
    assert found["committed"]
    assert [one["position"] for one in source["splits"]] == [20, 20, 20, 20]
    assert [one["splits"] for one in source["last"]["readers"]] == [1, 1, 1, 1]
    assert sum(one["splits"] for one in source["happenings"] if one["kind"] == "moved") == 2

    plan = run("plan", place, "--readers", "3", "--lag")
    assert list(plan["lag"].values()) == [0, 0, 0, 2]
    assert (plan["plans"][0]["moved"], plan["plans"][0]["even"]) == (1, True)

    top = run("top", place, "--once", "--lag")
    assert top["sources"][0]["clusters"][0]["lag"] == 2
    assert top["sources"][0]["slowest"][0]["split"] == f"default/{topic}/3"

    report = tmp_path / "report.html"
    assert run("report", place, "-o", str(report), "--lag")["unreachable"] == {}
    assert f"4 partitions of default/{topic} were discovered" in report.read_text()
