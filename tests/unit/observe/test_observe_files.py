"""The files for monitoring: alerts and a dashboard that only use what is exported, and each alert made to fire."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from evensplit.core.model import SplitId
from evensplit.core.state.codec import encode
from evensplit.explain.written import WriteOutcome, WriteReport
from evensplit.observe import files
from evensplit.observe.metrics import METRICS, samples
from evensplit.observe.recorder import QueryStatus, Recorder
from tests.support.batches import Script, orders
from tests.support.pages import DOCS
from tests.support.promtool import promtool
from tests.support.write_reports import report, writes

LABELS = {one.name: set(one.labels) for one in METRICS}
RULES: list[dict[str, Any]] = yaml.safe_load(files()["alerts.yml"])["groups"][0]["rules"]
DASHBOARD: dict[str, Any] = json.loads(files()["grafana.json"])
TARGETS = [
    pytest.param(target["expr"], target["legendFormat"], id=f"{panel['title']} {target['refId']}")
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
]


def selectors(expression: str) -> Iterator[promql_parser.VectorSelector]:
    """The metrics of an expression, with what is asked of their labels. Raises if it is none."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(promql_parser.parse(expression), visit)
    return iter(found)


def check(expression: str, shown: str) -> None:
    """That `expression` uses metrics and labels that there are, and what is `shown` labels that all of those have."""
    # What Grafana puts in before it asks.
    plain = expression.replace("$__rate_interval", "5m").replace("$__range", "3h")
    used = list(selectors(plain))
    assert used
    for one in used:
        assert one.name in LABELS, f"{one.name} is no metric"
        assert {matcher.name for matcher in one.matchers.matchers} <= LABELS[one.name]
    in_text = set(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", shown)) - {"value"}
    assert in_text <= set.intersection(*(LABELS[str(one.name)] for one in used))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_alerts_use_what_is_exported(rule: dict[str, Any]) -> None:
    check(rule["expr"], json.dumps(rule["annotations"]))
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert set(rule["annotations"]) == {"summary", "description"}


def test_one_silent_query_of_several_is_seen() -> None:
    (panel,) = [one for one in DASHBOARD["panels"] if one["title"] == "Last heard of"]
    (target,) = panel["targets"]
    assert target["expr"].startswith("time() - min(evensplit_heard_timestamp_seconds{")


def test_readers_and_those_needed_are_told_apart_by_source() -> None:
    (panel,) = [one for one in DASHBOARD["panels"] if one["title"] == "Readers, and how many are needed"]
    legends = [target["legendFormat"] for target in panel["targets"]]
    assert legends == ["{{query}} {{source}}: readers", "{{query}} {{source}}: needed"]


@pytest.mark.parametrize("expression, legend", TARGETS)
def test_panels_use_what_is_exported(expression: str, legend: str) -> None:
    check(expression, legend)
    # What a query writes is not of one of its sources.
    chosen = 'query=~"$query"' if "evensplit_sink_" in expression else 'query=~"$query", source=~"$source"'
    assert f"{{{chosen}}}" in expression


def test_the_dashboard_is_one() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) == 23
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert names == {"datasource", "query", "source"}
    for variable in DASHBOARD["templating"]["list"][1:]:
        inside = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"])
        assert inside
        (one,) = selectors(inside[1])
        assert inside[2] in LABELS[str(one.name)]


def test_what_is_not_exported_is_seen() -> None:
    check("rate(evensplit_offsets_total[5m])", "{{cluster}}")
    for expression, shown in (
        ("evensplit_offsets", ""),
        ('evensplit_offsets_total{topic="a"}', ""),
        ("evensplit_batches_total", "{{cluster}}"),
        ("evensplit_cluster_up > evensplit_batches_total", "{{ $labels.cluster }}"),
    ):
        with pytest.raises(AssertionError):
            check(expression, shown)


Minute = Callable[[int, Script], None]
QUERY = {"query": "orders", "source": "0"}
EAST, WEST = {**QUERY, "cluster": "east"}, {**QUERY, "cluster": "west"}


@dataclass
class Scene:
    """What happens in each minute, and which alerts fire then, by the minute: their names and labels.

    `hangs`: no batch is done from the minute on, and Spark says nothing, or else that there is nothing to do (`idle`).
    `duration_ms`: of the batch of a minute. `writes`: what is told then of a batch that was written.
    """

    happens: Minute
    fires: dict[int, list[tuple[str, dict[str, str]]]]
    hangs: int = 1 << 30
    idle: bool = False
    ends: int = 1 << 30
    duration_ms: Callable[[int], int] = field(default=lambda minute: 500)
    writes: Callable[[int], WriteReport | None] = field(default=lambda minute: None)

    def series(self, minutes: int) -> dict[str, list[str]]:
        """What a scraper sees, once a minute: series -> values."""
        script, recorder = orders({"east": 4, "west": 2}), Recorder()
        script.at_ms = -60_000
        found: dict[str, list[str]] = {}
        for minute in range(minutes):
            self.happens(minute, script)
            if minute < self.hangs:
                batch = replace(script.batch(seconds=60), duration_ms=self.duration_ms(minute))
                recorder.add(batch, encode(batch.end), heard_ms=batch.at_ms)
            elif self.idle:
                recorder.query("query-1", QueryStatus.IDLE, minute * 60_000)
            if minute >= self.ends:
                recorder.query("query-1", QueryStatus.ENDED)
            if (told := self.writes(minute)) is not None:
                writes(recorder, told)
            for one in samples(recorder.watched(), sinks=recorder.sinks.all()):
                names = next(metric.labels for metric in METRICS if metric.name == one.name)
                labels = ", ".join(f'{name}="{label}"' for name, label in zip(names, one.labels, strict=True))
                values = found.setdefault(f"{one.name}{{{labels}}}", [])
                values += ["_"] * (minute - len(values))
                values.append(repr(float(one.value)))
        return found


def reads_all(minute: int, script: Script) -> None:
    script.write(100)
    script.read()


def falls_behind(minute: int, script: Script) -> None:
    script.write(100, "east")
    script.read(60 if minute < 60 else None)


def hardly_reads(minute: int, script: Script) -> None:
    script.write(100, "east")
    script.read(10 if minute < 60 else None)


def away(minute: int, script: Script) -> None:
    script.unreachable = {"west": "refused"} if 10 <= minute < 20 else {}
    reads_all(minute, script)


def loses(at: int) -> Minute:
    def minute(number: int, script: Script) -> None:
        reads_all(number, script)
        if number == at:
            script.lose(SplitId("east", "orders", 0), 7)

    return minute


def flaps(minute: int, script: Script) -> None:
    reads_all(minute, script)
    if minute % 3:
        script.shuffle()


def rescales(minute: int, script: Script) -> None:
    reads_all(minute, script)
    script.rescale(2 + (minute > 20) + (minute > 40))


def fails_to_write(at: int) -> Callable[[int], WriteReport]:
    """A batch is not ended in a minute, and is finished in the next."""

    def told(minute: int) -> WriteReport:
        outcomes = {at: WriteOutcome.NOT_ENDED, at + 1: WriteOutcome.FINISHED}
        return report(minute - (minute > at), outcomes.get(minute, WriteOutcome.DECIDED))

    return told


def writes_late(minute: int) -> WriteReport:
    return report(minute, age_ms=40_000 if 20 <= minute < 40 else 20_000)


LAG = ("EvensplitLagGrowing", EAST)
WAITED = ("EvensplitLagOld", EAST)
UNREACHABLE = ("EvensplitClusterUnreachable", WEST)
LOSS = ("EvensplitLossReported", EAST)
FLAPPING = ("EvensplitMovesFlapping", QUERY)
SILENT = ("EvensplitSilent", QUERY)
LONGER = ("EvensplitBatchesGrowing", QUERY)
NOT_WRITTEN = ("EvensplitBatchNotWritten", {"query": "orders", "outcome": "not ended"})
OLD = ("EvensplitTransactionsOld", {"query": "orders"})

SCENES = {
    "all is well": Scene(reads_all, {minute: [] for minute in range(0, 90, 10)}),
    "it falls behind, and catches up": Scene(falls_behind, {10: [], 40: [LAG], 59: [LAG], 61: []}),
    "records wait for long": Scene(hardly_reads, {10: [], 34: [LAG], 45: [LAG, WAITED], 59: [LAG, WAITED], 61: []}),
    "a cluster does not answer, and is back": Scene(away, {9: [], 14: [], 16: [UNREACHABLE], 21: []}),
    "a loss": Scene(loses(20), {19: [], 20: [LOSS], 30: [LOSS], 36: []}),
    "a loss in the first batch": Scene(loses(0), {0: [LOSS], 10: [LOSS], 20: []}),
    "owners change all the time": Scene(flaps, {10: [], 50: [FLAPPING]}),
    "readers come now and then": Scene(rescales, {minute: [] for minute in range(0, 90, 5)}),
    "a batch hangs": Scene(reads_all, {35: [], 42: [SILENT], 80: [SILENT]}, hangs=10),
    "there is nothing to do": Scene(reads_all, {35: [], 80: []}, hangs=10, idle=True),
    "the query has ended": Scene(reads_all, {35: [], 80: []}, hangs=10, ends=20),
    "batches take longer and longer": Scene(
        reads_all,
        {40: [], 70: [LONGER]},
        duration_ms=lambda minute: 30_000 * (1 if minute < 40 else 2 ** ((minute - 40) // 8 + 2)),
    ),
    "a batch is written late": Scene(
        reads_all, {19: [], 20: [NOT_WRITTEN], 30: [NOT_WRITTEN], 36: []}, writes=fails_to_write(20)
    ),
    "the first batch is written late": Scene(
        reads_all, {0: [NOT_WRITTEN], 10: [NOT_WRITTEN], 20: []}, writes=fails_to_write(0)
    ),
    "transactions are open for long": Scene(reads_all, {19: [], 30: [OLD], 41: []}, writes=writes_late),
}
MINUTES = 90
ANNOTATED = {
    "EvensplitLagGrowing": "orders falls behind cluster east",
    "EvensplitLagOld": "records of cluster east wait for orders for more than half an hour",
    "EvensplitClusterUnreachable": "cluster west does not answer orders",
    "EvensplitLossReported": "records of cluster east were gone before orders had read them, or perhaps were",
    "EvensplitMovesFlapping": "partitions of orders change their readers in most batches",
    "EvensplitBatchNotWritten": "a batch of orders could not be written: not ended",
    "EvensplitTransactionsOld": "transactions of orders are open for 40s, half of their time or more",
}


def fired(minute: int, name: str, labels: dict[str, str], summary: str) -> dict[str, Any]:
    """An alert as the test of rules wants it: with all that it says."""
    rule = next(rule for rule in RULES if rule["alert"] == name)
    return {
        "exp_labels": {**labels, **rule["labels"]},
        "exp_annotations": {"summary": summary, "description": rule["annotations"]["description"]},
    }


def summary_of(name: str, minute: int) -> str:
    if name == "EvensplitSilent":
        # Heard of at the end of minute 9.
        passed = minute - 9
        return f"nothing was heard of orders for {f'{passed // 60}h ' if passed >= 60 else ''}{passed % 60}m 0s"
    if name == "EvensplitBatchesGrowing":
        return "the batches of orders take 16m 0s, and longer and longer"
    return ANNOTATED[name]


def rule_test(scene: Scene) -> dict[str, Any]:
    """One scene as promtool reads it: at each of its minutes, all alerts, with those that do not fire."""
    wanted = [
        {
            "eval_time": f"{minute}m",
            "alertname": rule["alert"],
            "exp_alerts": [
                fired(minute, name, labels, summary_of(name, minute)) for name, labels in fires if name == rule["alert"]
            ],
        }
        for minute, fires in scene.fires.items()
        for rule in RULES
    ]
    series = [{"series": name, "values": " ".join(values)} for name, values in scene.series(MINUTES).items()]
    return {"interval": "1m", "input_series": series, "alert_rule_test": wanted}


def documented_rule() -> dict[str, Any]:
    """The file of rules in the guide, for a query whose process is gone."""
    page = (DOCS / "howto" / "monitoring.md").read_text()
    (found,) = [block for block in re.findall(r"```yaml\n(.*?)```", page, re.S) if "absent(" in block]
    return dict(yaml.safe_load(found))


def test_the_rule_of_the_guide_uses_what_is_exported() -> None:
    (rule,) = documented_rule()["groups"][0]["rules"]
    check(rule["expr"], "")


@pytest.mark.slow
def test_the_rule_of_the_guide_fires_when_the_query_is_gone(tmp_path: Path) -> None:
    """Its query ends in minute 20."""
    rules, test = tmp_path / "rules.yml", tmp_path / "test.yml"
    rules.write_text(yaml.safe_dump(documented_rule()))
    (rule,) = documented_rule()["groups"][0]["rules"]
    fires = {
        "exp_labels": {"query": "orders", **rule["labels"]},
        "exp_annotations": rule["annotations"],
    }
    wanted = [
        {"eval_time": f"{minute}m", "alertname": rule["alert"], "exp_alerts": [fires] if minute >= 30 else []}
        for minute in (0, 15, 22, 30, 80)
    ]
    scene = rule_test(SCENES["the query has ended"])
    test.write_text(
        yaml.safe_dump(
            {
                "rule_files": [str(rules)],
                "evaluation_interval": "1m",
                "tests": [{**scene, "alert_rule_test": wanted}],
            }
        )
    )
    done = subprocess.run([promtool(), "test", "rules", test], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_in_some_scene() -> None:
    assert {rule["alert"] for rule in RULES} == {
        name for scene in SCENES.values() for fires in scene.fires.values() for name, _ in fires
    }


@pytest.mark.slow
def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    """Prometheus evaluates the rules over what is really exported, minute by minute."""
    program = promtool()
    rules = tmp_path / "alerts.yml"
    rules.write_text(files()["alerts.yml"])
    failed = {}
    for number, (name, scene) in enumerate(SCENES.items()):
        test = tmp_path / f"{number}.yml"
        document = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [rule_test(scene)]}
        test.write_text(yaml.safe_dump(document))
        done = subprocess.run(
            [program, "test", "rules", test], capture_output=True, text=True, timeout=120, check=False
        )
        if done.returncode:
            failed[name] = done.stdout + done.stderr
    assert not failed, "\n".join(f"{name}: {said}" for name, said in failed.items())
    done = subprocess.run([program, "check", "rules", rules], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{len(RULES)} rules found" in done.stdout
