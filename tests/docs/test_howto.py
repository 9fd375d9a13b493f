"""The pages that say how to: every block of a page is run, in order, and prints what the page says.

`spark` is there, as in PySpark's shell. The brokers of the pages, eu-1:9092 and us-1:9092, are the two of the tests,
and the absolute paths are below a directory of the test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka, LocalRegistry
from tests.support.pages import DOCS, PLAIN, pages_with_examples, run_page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("no_query_left"),
]

PAGES = [page for page in pages_with_examples() if page not in (*PLAIN, "tutorial", "index")]
Place = dict[str, str]


@pytest.fixture(scope="module")
def registry() -> Iterator[LocalRegistry]:
    """A schema registry that has a schema of orders."""
    fields = [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("no_proxy", "*")
        with LocalRegistry() as running:
            running.register("orders-value", json.dumps({"type": "record", "name": "Order", "fields": fields}))
            yield running


@pytest.fixture(scope="module")
def place(
    east: LocalKafka, west: LocalKafka, registry: LocalRegistry, tmp_path_factory: pytest.TempPathFactory
) -> Place:
    """What stands for the names on the pages. Both have the orders that the first page writes; the others are empty."""
    root = tmp_path_factory.mktemp("pages")
    for name in ("etc/streams", "data/checkpoints"):
        (root / name).mkdir(parents=True)
    for broker in (east, west):
        broker.create_topic("orders", partitions=3)
        broker.create_topic("clicks", partitions=4)
        broker.create_topic("copies")
    found = {
        "http://registry:8081": registry.url,
        "eu-1:9092": east.bootstrap_servers,
        "us-1:9092": west.bootstrap_servers,
        "/etc/streams": str(root / "etc/streams"),
        "/data/checkpoints": str(root / "data/checkpoints"),
    }
    run_page(DOCS / "index.md", {"__name__": "index"}, found)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_the_page_does_what_it_says(
    page: str, spark: SparkSession, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(DOCS / f"{page}.md", {"spark": spark, "__name__": page}, place)
