"""The recipe for KEDA: fields that KEDA has, a query over what is exported, and how many workers come of it."""

from __future__ import annotations

import math
import re
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from evensplit.core.state.codec import encode
from evensplit.observe import files
from evensplit.observe.metrics import METRICS
from evensplit.observe.prometheus import serve
from evensplit.observe.recorder import QueryStatus, Recorder
from tests.support.batches import Script, orders
from tests.support.pages import DOCS
from tests.support.promtool import promtool
from tests.support.scrapes import Exported, parsed, value

pytestmark = pytest.mark.usefixtures("closed")

OBJECT: dict[str, Any] = yaml.safe_load(files()["keda.yml"])
SPEC: dict[str, Any] = OBJECT["spec"]
(TRIGGER,) = SPEC["triggers"]

FIELDS: Mapping[str, frozenset[str]] = {
    "": frozenset({"apiVersion", "kind", "metadata", "spec"}),
    "spec": frozenset(
        {
            *("scaleTargetRef", "pollingInterval", "cooldownPeriod", "initialCooldownPeriod", "idleReplicaCount"),
            *("minReplicaCount", "maxReplicaCount", "fallback", "advanced", "triggers"),
        }
    ),
    "spec.scaleTargetRef": frozenset({"apiVersion", "kind", "name", "envSourceContainerName"}),
    "spec.advanced": frozenset({"restoreToOriginalReplicaCount", "horizontalPodAutoscalerConfig", "scalingModifiers"}),
    "spec.advanced.horizontalPodAutoscalerConfig": frozenset({"name", "behavior"}),
    "spec.advanced.horizontalPodAutoscalerConfig.behavior": frozenset({"scaleUp", "scaleDown"}),
    "spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleDown": frozenset(
        {"stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance"}
    ),
    "trigger": frozenset({"type", "metadata", "name", "useCachedMetrics", "authenticationRef", "metricType"}),
    "trigger.metadata": frozenset(
        {
            *("serverAddress", "query", "threshold", "activationThreshold", "namespace", "customHeaders"),
            *("ignoreNullValues", "queryParameters", "unsafeSsl", "authModes"),
        }
    ),
}
"""The fields that KEDA 2.16 documents: its ScaledObject specification, and its scaler `prometheus`; those of `behavior`
are Kubernetes' own."""


def places(document: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield at, document
    for name, inner in document.items():
        place = f"{at}.{name}" if at else name
        # Names of objects are free.
        if isinstance(inner, dict) and place != "metadata":
            yield from places(inner, place)


def test_it_has_the_fields_that_keda_has() -> None:
    assert (OBJECT["apiVersion"], OBJECT["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    found = [*places(OBJECT), *places(TRIGGER, "trigger")]
    assert len(found) == 9
    for place, document in found:
        assert set(document) <= FIELDS[place], place
    assert {"type", "metadata"} <= set(TRIGGER)
    assert {"serverAddress", "query", "threshold"} <= set(TRIGGER["metadata"])
    assert TRIGGER["type"] == "prometheus"
    assert all(isinstance(one, str) for one in TRIGGER["metadata"].values()), "KEDA takes texts alone"
    assert 1 <= SPEC["minReplicaCount"] < SPEC["maxReplicaCount"]


def asked(found: Exported) -> float:
    """What KEDA gets for its query from what is exported; nothing is 0, as by default (`ignoreNullValues`)."""
    query = promql_parser.parse(TRIGGER["metadata"]["query"])
    assert isinstance(query, promql_parser.AggregateExpr)
    assert str(query.op) == "sum"
    assert isinstance(query.expr, promql_parser.VectorSelector)
    selector = query.expr
    metric = next(one for one in METRICS if one.name == selector.name)
    matchers = {one.name: one.value for one in selector.matchers.matchers}
    assert set(matchers) <= set(metric.labels)
    return sum(
        found_value for (name, labels), found_value in found.items()
        if name == selector.name and matchers.items() <= dict(labels).items()
    )  # fmt: skip


def expression() -> str:
    """The one of the page, for a number of one's own."""
    page = (DOCS / "howto" / "scaling.md").read_text()
    blocks: list[str] = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    return next(block for block in blocks if "evensplit_arriving" in block)


def test_the_expression_of_the_page_is_one_over_what_is_exported() -> None:
    found: list[str | None] = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node.name)

    promql_parser.walk(promql_parser.parse(expression()), visit)
    assert len(found) == 3
    assert set(found) <= {one.name for one in METRICS}


@pytest.mark.slow
def test_the_expression_of_the_page_has_a_value_in_prometheus(tmp_path: Path) -> None:
    """Of two queries, each with the labels that Prometheus gives to what it scrapes."""
    labels = 'query="{}",source="0",instance="driver:9000",job="spark"'

    def series(name: str, query: str, number: int, cluster: str = "") -> dict[str, str]:
        return {"series": f"evensplit_{name}{{{labels.format(query)}{cluster}}}", "values": f"{number}+0x20"}

    of_queries = [
        [
            series("arriving_offsets_per_second", query, 1_000 * factor),
            series("reader_offsets_per_second", query, 500),
            series("cluster_lag_offsets", query, 6_000, ',cluster="eu"'),
            series("cluster_lag_offsets", query, 3_000, ',cluster="us"'),
        ]
        for query, factor in (("orders", 1), ("payments", 2))
    ]
    wanted = [
        {"labels": f'{{query="{query}",source="0"}}', "value": math.ceil((arriving + 9_000 / 600) / (0.7 * 500))}
        for query, arriving in (("orders", 1_000), ("payments", 2_000))
    ]
    assert [one["value"] for one in wanted] == [3, 6]
    test = {
        "interval": "15s",
        "input_series": [one for found in of_queries for one in found],
        "promql_expr_test": [{"expr": expression(), "eval_time": "2m", "exp_samples": wanted}],
    }
    rules, file = tmp_path / "rules.yml", tmp_path / "test.yml"
    rules.write_text("groups: []")
    file.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "15s", "tests": [test]}))
    done = subprocess.run([promtool(), "test", "rules", file], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def replicas(current: int, metric: float) -> int:
    """Kubernetes' formula for a target of the type AverageValue: nothing changes within a tenth of the target."""
    target = float(TRIGGER["metadata"]["threshold"])
    wanted = current if abs(metric / (target * current) - 1) <= 0.1 else math.ceil(metric / target)
    return int(min(max(wanted, SPEC["minReplicaCount"]), SPEC["maxReplicaCount"]))


def scraped(port: int) -> Exported:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        return parsed(answer.read().decode())


def read(script: Script, recorder: Recorder, offsets: int, duration_ms: int) -> None:
    """One batch, 10 s after the one before, of so many offsets of each partition."""
    script.write(offsets)
    script.read()
    batch = replace(script.batch(), duration_ms=duration_ms)
    recorder.add(batch, encode(batch.end), heard_ms=batch.at_ms)


def test_executors_are_as_many_as_have_cores_for_the_readers() -> None:
    """As the page says: with two cores, half as many executors as readers are needed."""
    lines = files()["spark-dynamic-allocation.conf"].splitlines()
    conf = dict(line.split() for line in lines if line and not line.startswith("#"))
    cores, executors = int(conf["spark.executor.cores"]), int(conf["spark.dynamicAllocation.maxExecutors"])
    page = (DOCS / "howto" / "scaling.md").read_text()
    assert f'option("readers", {cores * executors})' in page
    assert "divided by `spark.executor.cores`" in page


def test_what_it_asks_for_is_as_many_workers_as_the_readers_need() -> None:
    script, recorder = orders({"east": 30, "west": 10}), Recorder()
    port = serve(recorder, 0, "127.0.0.1")
    assert port
    assert asked(scraped(port)) == 0
    assert replicas(3, 0) == SPEC["minReplicaCount"]
    # Two readers have 20 partitions each: 40 * 100 offsets in 10 s, of which 2,000 take each of them 1 s.
    for _ in range(3):
        read(script, recorder, 100, 1_000)
    found = scraped(port)
    assert value(found, "arriving_offsets_per_second") == 400
    assert value(found, "reader_offsets_per_second") == 2_000
    assert asked(found) == value(found, "readers_needed") == 1
    assert replicas(1, 1) == 1
    # Ten times as many: the readers take as long as the batch is apart from the next, and a step is seen at once.
    for _ in range(4):
        read(script, recorder, 4_000, 40_000)
    found = scraped(port)
    assert value(found, "arriving_offsets_per_second") == 16_000
    needed = asked(found)
    assert needed == value(found, "readers_needed") == 10
    assert replicas(1, needed) == 5
    # With its workers there, it stays, and more partitions would be needed for more readers.
    assert replicas(5, needed) == 5
    read(script, recorder, 100_000, 1_000_000)
    found = scraped(port)
    assert asked(found) == 40, "one reader for each partition"
    assert replicas(5, 40) == SPEC["maxReplicaCount"]
    recorder.query("query-1", QueryStatus.ENDED)
    assert asked(scraped(port)) == 0
