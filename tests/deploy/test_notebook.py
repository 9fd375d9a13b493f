"""The cells of deploy/notebook/orders.ipynb, one after the other: they run, and what they end with can be displayed."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from tests.support.recipes import here
from tests.support.records import numbers
from tests.support.wheels import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.usefixtures("no_query_left")]

NOTEBOOK = ROOT / "deploy" / "notebook" / "orders.ipynb"


def run(cell: str, names: dict[str, object]) -> object:
    """Run a cell as a kernel does: the value of its last expression is what it displays."""
    tree = ast.parse(cell)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "cell", "exec"), names)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_the_cells_run_and_display(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    east.create_topic(topic, partitions=3)
    numbers(east.bootstrap_servers, topic, range(30), partitions=3)
    notebook = json.loads(NOTEBOOK.read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell.get("outputs") for cell in notebook["cells"])
    text = here("\0".join(cells), {"eu-1:9092": east.bootstrap_servers, '"orders"': f'"{topic}"'})
    names: dict[str, object] = {}
    shown = [run(cell, names) for cell in text.split("\0")]
    assert names["spark"] is spark
    first, counted, batch = (one for one in shown if hasattr(one, "_repr_html_"))
    assert {row.value for row in first.itertuples()} <= {str(number) for number in range(30)}  # type: ignore[attr-defined]
    assert [tuple(row) for row in counted.itertuples(index=False)] == [(0, 10), (1, 10), (2, 10)]  # type: ignore[attr-defined]
    assert "<table" in batch._repr_html_()
