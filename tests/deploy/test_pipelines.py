"""`spark-pipelines` runs deploy/pipeline as docs/howto/deploy.md says, twice: each order is in the sink once."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from evensplit.testing import LocalKafka
from tests.support import recipes
from tests.support.records import consume, numbers
from tests.support.wheels import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

PROJECT = ROOT / "deploy" / "pipeline"


def test_the_page_shows_the_project() -> None:
    (shown,) = recipes.section("Declarative Pipelines", "python")
    assert (PROJECT / "transformations" / "orders.py").read_text().endswith(f"\n\n{shown}")


def test_two_runs_of_a_table_and_a_sink(east: LocalKafka, topic: str, tmp_path: Path) -> None:
    east.create_topic(topic, partitions=2)
    east.create_topic(f"{topic}-copies")
    project = tmp_path / "pipeline"
    shutil.copytree(PROJECT, project)
    names = {"file:///data/checkpoints/pipeline": (tmp_path / "storage").as_uri(), "eu-1:9092": east.bootstrap_servers}
    spec = project / "spark-pipeline.yml"
    spec.write_text(recipes.here(spec.read_text(), names))
    source = project / "transformations" / "orders.py"
    names = {'"subscribe", "orders"': f'"subscribe", "{topic}"', '"topic": "copies"': f'"topic": "{topic}-copies"'}
    source.write_text(recipes.here(source.read_text(), names))
    (command,) = recipes.section("Declarative Pipelines")
    command = command.replace(" run ", " run --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=1 ", 1)
    environment = recipes.clean(str(Path(sys.executable).parent), PYSPARK_PYTHON=sys.executable)
    for start in (0, 50):
        numbers(east.bootstrap_servers, topic, range(start, start + 50), partitions=2)
        said = recipes.run(command, project, environment).well()
        assert "Run is COMPLETED." in said
        found = [int(one.value or b"") for one in consume(east.bootstrap_servers, f"{topic}-copies", range(1))]
        assert sorted(found) == list(range(start + 50))
