"""Metrics: what is exported is what the table says and what happened."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from evensplit.core.model import Held
from evensplit.core.state.codec import encode
from evensplit.core.state.settings import RATE, Settings
from evensplit.explain.record_counts import Counted, RecordCounts
from evensplit.observe import metrics as module
from evensplit.observe.metric import OTHERS, Metric, Names
from evensplit.observe.metrics import METRICS, STATES, samples
from evensplit.observe.prometheus import EvenSplitCollector
from evensplit.observe.recorder import QueryStatus, Recorder
from evensplit.observe.source_view import Source
from tests.support.batches import Script, eventful, orders, taken
from tests.support.scrapes import Exported, parsed, value
from tests.support.write_reports import report, writes

BY_NAME = {one.name: one for one in METRICS}


def exported(recorder: Recorder, *, partitions: bool = False) -> str:
    """What a scraper is given."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(EvenSplitCollector(lambda: [recorder], partitions=lambda: partitions))
    return generate_latest(registry).decode()


def test_it_is_open_metrics_too(recorder: Recorder) -> None:
    """Which Prometheus asks for first."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(EvenSplitCollector(lambda: [recorder], partitions=lambda: True))
    text = openmetrics.generate_latest(registry).decode()  # type: ignore[no-untyped-call]
    families = list(openmetrics_families(text))  # type: ignore[no-untyped-call]
    found = [sample for family in families for sample in family.samples]
    assert {(one.name, frozenset(one.labels.items())): one.value for one in found} == parsed(
        exported(recorder, partitions=True)
    )


@pytest.fixture
def recorder() -> Recorder:
    return eventful()


def test_what_is_exported_is_what_happened(recorder: Recorder) -> None:
    found = parsed(exported(recorder))
    east = {"cluster": "east"}
    assert value(found, "source_info", query_id="query-1", policy="balanced", plan="whole") == 1
    assert value(found, "batches_total") == 2
    assert value(found, "moving_batches_total") == 1
    assert value(found, "records_total") == 240
    assert value(found, "batch_number") == 1
    assert value(found, "batch_timestamp_seconds") == 1_020
    assert value(found, "heard_timestamp_seconds") == 1_020.4
    assert value(found, "batch_duration_seconds") == 0.5
    assert value(found, "batch_offsets") == 240
    assert value(found, "batch_reader_max_offsets") == 120
    assert value(found, "batch_reader_bound_offsets") == 80
    assert value(found, "readers") == 3
    assert value(found, "spread_splits") == 1
    assert value(found, "even") == 1
    assert value(found, "unreachable_clusters") == 1
    assert value(found, "summed_up", label="cluster") == 0
    assert value(found, "cluster_up", **east) == 1
    assert value(found, "cluster_up", cluster="west") == 0
    assert value(found, "cluster_lag_offsets", **east) == 160
    assert value(found, "cluster_lag_max_offsets", **east) == 40
    assert value(found, "cluster_lag_seconds", **east) == 0, "the last look is the first that saw it"
    assert value(found, "cluster_lag_offsets", cluster="west") is None
    assert value(found, "cluster_lag_unknown_splits", cluster="west") == 1
    assert value(found, "cluster_splits", **east, state="assigned") == 4
    assert value(found, "cluster_splits", **east, state="retained") == 0
    assert value(found, "offsets_total", **east) == 240
    assert value(found, "offsets_total", cluster="west") == 0
    assert value(found, "moves_total", **east) == 2
    assert value(found, "discoveries_total", **east) == 4
    assert value(found, "losses_total", **east) == 1
    assert value(found, "losses_total", cluster="west") == 0
    assert value(found, "lost_offsets_total", **east) == 7
    assert value(found, "unknown_losses_total", **east) == 0
    assert [value(found, "reader_splits", reader=str(reader)) for reader in range(3)] == [2, 2, 1]
    assert value(found, "reader_offsets_total", reader="0") == 120


def test_of_partitions_only_if_they_are_asked_for(recorder: Recorder) -> None:
    assert "evensplit_partition" not in exported(recorder)
    found = parsed(exported(recorder, partitions=True))
    one = {"cluster": "east", "topic": "orders", "partition": "3"}
    assert value(found, "partition_position", **one) == 60
    assert value(found, "partition_lag_offsets", **one) == 40
    assert value(found, "partition_reader", **one) == 0
    assert value(found, "partition_lag_offsets", cluster="west", topic="orders", partition="0") is None


def counted(recorder: Recorder, *, held: tuple[Held, ...] = (), reached_ms: int | None = None) -> None:
    """Have the recorder take in the same batch as of another run whose tasks counted some records, but not all, and
    which limits held back, or which reached a time."""
    (known,) = recorder.watched()
    last = known.view.last
    batch = replace(last, run_id="counted", counts=RecordCounts({"east": Counted(3, 1)}, complete=False))
    batch = replace(batch, end=replace(last.end, held=held, reached_ms=reached_ms))
    recorder.add(batch, encode(batch.end), heard_ms=1_020_400)


def test_limits_that_held_a_batch_back(recorder: Recorder) -> None:
    assert value(parsed(exported(recorder)), "held", limit="maxBytesPerTrigger", scope="east") is None
    counted(recorder, held=(Held("maxBytesPerTrigger", "east"), Held("maxOffsetsPerTrigger")))
    found = parsed(exported(recorder))
    assert value(found, "held", limit="maxBytesPerTrigger", scope="east") == 1
    assert value(found, "held", limit="maxOffsetsPerTrigger", scope="") == 1


def test_the_partition_that_alignment_waits_for_has_a_series_only_where_partitions_have(recorder: Recorder) -> None:
    """Else each partition of a topic would get one, for good, as soon as another batch waits for it."""
    waits = [Held("alignment", f"east/orders/{number}") for number in range(2)]
    counted(recorder, held=(*waits, Held("maxBytesPerTrigger", "east/orders")))
    found = parsed(exported(recorder))
    assert value(found, "held", limit="alignment", scope="east/orders") == 1
    assert value(found, "held", limit="alignment", scope="east/orders/0") is None
    assert value(found, "held", limit="maxBytesPerTrigger", scope="east/orders") == 1
    found = parsed(exported(recorder, partitions=True))
    assert value(found, "held", limit="alignment", scope="east/orders") is None
    assert [value(found, "held", limit="alignment", scope=one.scope) for one in waits] == [1, 1]


def test_the_time_that_has_been_reached(recorder: Recorder) -> None:
    assert value(parsed(exported(recorder)), "reached_timestamp_seconds") is None
    counted(recorder, reached_ms=1_700_000_000_500)
    assert value(parsed(exported(recorder)), "reached_timestamp_seconds") == 1_700_000_000.5


def test_records_that_are_counted(recorder: Recorder) -> None:
    east = {"cluster": "east"}
    names = ("records_filtered_total", "records_undecodable_total")
    before = parsed(exported(recorder))
    assert [value(before, name, **east) for name in names] == [None, None]
    assert value(before, "uncounted_batches_total") is None
    for times in (1, 2):
        counted(recorder)
        found = parsed(exported(recorder))
        assert [value(found, name, **east) for name in names] == [3, 1]
        assert [value(found, name, cluster="west") for name in names] == [0, 0]
        assert value(found, "uncounted_batches_total") == 1, times


def test_the_table_is_what_is_exported(recorder: Recorder) -> None:
    """Each metric of the table has a value, and each value is of one in it, with its kind, its help and its labels."""
    counted(recorder, held=(Held("maxBytesPerTrigger", "east"),), reached_ms=1_000)
    (known,) = recorder.watched()
    last = known.view.last
    splits = {key: split._replace(rate=100) for key, split in last.end.splits.items()}
    end = replace(last.end, settings=Settings(balance=RATE), splits=splits)
    later = replace(last, number=last.number + 1, at_ms=(last.at_ms or 0) + 10_000, end=end)
    recorder.add(later, encode(end), heard_ms=later.at_ms)
    writes(recorder, report())
    families = list(text_string_to_metric_families(exported(recorder, partitions=True)))
    seen: dict[str, Metric] = {}
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        metric = BY_NAME[name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        assert family.samples
        for sample in family.samples:
            assert set(sample.labels) == set(metric.labels)
        seen[name] = metric
    assert list(seen.values()) == list(METRICS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_are_as_prometheus_wants_them(metric: Metric) -> None:
    assert re.fullmatch(r"evensplit_[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert not re.search(r"_(ms|milliseconds|minutes|count|sum|bucket)$", metric.name)
    # What a query writes is not of one of its sources.
    assert metric.labels[:2] == ("query", "source") or metric.name.startswith("evensplit_sink_")
    assert metric.labels[0] == "query"
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", label) for label in metric.labels)
    assert metric.help.endswith(".")


@pytest.mark.parametrize("stage", [QueryStatus.ENDED, QueryStatus.FAILED])
def test_a_query_that_has_ended_has_no_series(recorder: Recorder, stage: QueryStatus) -> None:
    recorder.query("query-1", QueryStatus.IDLE, 5_000)
    assert value(parsed(exported(recorder)), "heard_timestamp_seconds") == 5
    recorder.query("query-1", stage)
    assert parsed(exported(recorder, partitions=True)) == {}
    recorder.query("query-1", QueryStatus.STARTING, 9_000)
    assert value(parsed(exported(recorder)), "batches_total") == 2


def test_what_a_source_does() -> None:
    recorder = Recorder()

    def state(query: str = "orders") -> list[str]:
        found = parsed(exported(recorder))
        values = {one: value(found, "source_state", query=query, state=one) for one in STATES}
        assert sorted(values.values(), key=str) in ([0, 0, 1], [None] * 3)
        return [one for one, is_it in values.items() if is_it]

    recorder.begin(Source("query-1", 0, "orders"), 1, run_id="run-1")
    recorder.begin(Source("query-2", 0, "orders"), 1, run_id="run-1")
    assert (state(), state("query-2")) == (["starting"], ["starting"])
    recorder.begins("query-1", "run-1", QueryStatus.WAITING, 2)
    assert state() == ["waiting"]
    recorder.query("query-2", QueryStatus.FAILED, 3, run_id="run-1")
    assert state("query-2") == []
    script = orders({"east": 1})
    one = script.batch()
    taken(recorder, [one])
    assert state() == ["running"]
    recorder.query("query-1", QueryStatus.IDLE, 4, run_id="run-1")
    assert state() == ["running"]
    recorder.look("query-1", "run-1", 0, one.end, replace(one.report, unreachable={"east": "refused"}), 5)
    assert state() == ["waiting"]
    recorder.query("query-1", QueryStatus.STARTING, 6, run_id="run-2")
    assert state() == ["starting"]
    recorder.begins("query-1", "run-2", QueryStatus.WAITING, 7)
    assert state() == ["waiting"]


def test_queries_without_a_name_and_with_the_same_one() -> None:
    recorder = Recorder()
    for query, name in (("a", "orders"), ("b", "orders"), ("c", None), ("d", "clicks")):
        taken(recorder, [Script(query=query, name=name).batch(), Script(query=query, name=name, number=1).batch()])
    found = [sample for sample in samples(recorder.watched()) if sample.name == "evensplit_batches_total"]
    assert [sample.labels for sample in found] == [
        (query, str(n)) for query in ("orders", "b", "c", "clicks") for n in (0, 1)
    ]


def test_a_query_is_called_the_same_as_long_as_it_runs() -> None:
    """Whatever other query of its name begins, does a batch or ends."""
    recorder, names = Recorder(), Names()

    def called() -> dict[str, str]:
        found = samples(recorder.watched(), names=names)
        return {one.labels[2]: one.labels[0] for one in found if one.name == "evensplit_source_info"}

    scripts = {query: Script(query=query, name="orders") for query in ("a", "b", "c")}
    taken(recorder, [scripts["a"].batch()])
    assert called() == {"a": "orders"}
    taken(recorder, [scripts["b"].batch()])
    assert called() == {"a": "orders", "b": "b"}
    taken(recorder, [scripts["a"].batch()])
    assert called() == {"a": "orders", "b": "b"}
    recorder.query("a", QueryStatus.ENDED)
    assert called() == {"b": "b"}
    taken(recorder, [scripts["c"].batch()])
    assert called() == {"b": "b", "c": "orders"}
    recorder.query("a", QueryStatus.STARTING)
    assert called() == {"a": "a", "b": "b", "c": "orders"}
    recorder.query("c", QueryStatus.FAILED)
    assert called() == {"a": "a", "b": "b"}
    assert set(names._labels) == {"a", "b"}, "of those that have ended nothing is kept"


def test_a_source_that_two_have_heard_of_is_told_once() -> None:
    recorders = [Recorder(), Recorder()]
    for recorder in recorders:
        taken(recorder, [Script().batch()])
    keys = [(one.name, one.labels) for one in samples([one for each in recorders for one in each.watched()])]
    assert len(set(keys)) == len(keys)


def test_many_clusters_and_readers_are_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("CLUSTERS_MAX", 2), ("READERS_MAX", 3), ("PARTITIONS_MAX", 4)):
        monkeypatch.setattr(module, name, most)
    recorder = Recorder()
    # Somebody may call a cluster anything.
    script = orders({"a": 2, OTHERS: 2, "x": 2, "y": 2, "z": 2}, readers=5)
    script.write(10)
    script.unreachable["z"] = "refused"
    script.read(4)
    taken(recorder, [script.batch()])
    found = parsed(exported(recorder, partitions=True))
    assert [value(found, "summed_up", label=label) for label in ("cluster", "reader", "partition")] == [3, 2, 6]
    assert value(found, "cluster_up", cluster=OTHERS) == 1
    rest = f"{OTHERS}_"
    assert value(found, "cluster_up", cluster=rest) == 0
    assert value(found, "cluster_lag_offsets", cluster=rest) == 24
    assert value(found, "cluster_lag_max_offsets", cluster=rest) == 6
    assert value(found, "cluster_splits", cluster=rest, state="assigned") == 6
    assert value(found, "offsets_total", cluster=rest) == 16
    assert value(found, "reader_splits", reader=OTHERS) == 4
    clusters = [dict(labels)["cluster"] for name, labels in found if name == "evensplit_offsets_total"]
    assert len(clusters) == 3
    assert len([name for name, _ in found if name == "evensplit_partition_position"]) == 4
    whole = [value(found, "reader_offsets_total", reader=reader) or 0 for reader in ("0", "1", "2", OTHERS)]
    assert sum(whole) == value(found, "batch_offsets")


def test_whoever_came_first_keeps_its_series_and_the_others_never_go_down(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("CLUSTERS_MAX", 2), ("READERS_MAX", 2)):
        monkeypatch.setattr(module, name, most)
    recorder, script = Recorder(), orders({"m": 1, "n": 1, "z": 1}, readers=3)

    def stepped() -> Exported:
        script.write(10)
        script.read()
        taken(recorder, [script.batch()])
        return parsed(exported(recorder))

    first = stepped()
    assert [value(first, "offsets_total", cluster=one) for one in ("m", "n", OTHERS)] == [10, 10, 10]
    # By their names these would come before.
    script.discover("a", "orders", 1)
    second = stepped()
    assert [value(second, "offsets_total", cluster=one) for one in ("m", "n", OTHERS)] == [20, 20, 30]
    assert value(second, "summed_up", label="cluster") == 2
    for gone in ("a", "m", "z"):
        script.forget(gone)
    script.rescale(1)
    third = stepped()
    assert [value(third, "offsets_total", cluster=one) for one in ("m", "n", OTHERS)] == [None, 30, 30]
    assert value(third, "cluster_splits", cluster=OTHERS, state="assigned") == 0
    assert value(third, "summed_up", label="cluster") == 0
    assert value(third, "reader_splits", reader=OTHERS) == 0
    rest = [value(one, "reader_offsets_total", reader=OTHERS) or 0 for one in (first, second, third)]
    assert rest == sorted(rest)
    assert rest[0] > 0


def test_what_is_not_read_any_more_is_neither_up_nor_down() -> None:
    recorder, script = Recorder(), orders({"east": 1, "west": 1})
    first = script.batch()
    script.retain("west")
    taken(recorder, [first, script.batch()])
    found = parsed(exported(recorder))
    west = {"cluster": "west"}
    names = ("cluster_up", "cluster_lag_offsets", "cluster_lag_unknown_splits")
    assert [value(found, name, **west) for name in names] == [None] * 3
    assert value(found, "cluster_splits", **west, state="retained") == 1
    script.forget("west")
    taken(recorder, [script.batch()])
    assert value(parsed(exported(recorder)), "discoveries_total", **west) is None


def test_before_anything_is_known() -> None:
    recorder = Recorder()
    one = Script(name=None).batch(reported=False)
    recorder.add(replace(one, at_ms=None, duration_ms=None, rows=None), encode(one.end))
    found = parsed(exported(recorder))
    assert [value(found, name, query="query-1") for name in ("batch_timestamp_seconds", "even")] == [None, None]
    assert value(found, "batches_total", query="query-1") == 1


@settings(max_examples=30)
@given(st.text(), st.text(min_size=1))
def test_names_can_be_anything(cluster: str, query: str) -> None:
    recorder = Recorder()
    script = Script(query="q", name=query)
    script.discover(cluster, "orders", 1)
    taken(recorder, [script.batch()])
    text = exported(recorder, partitions=True)
    found = parsed(text)
    assert len([name for name, _ in found if name == "evensplit_cluster_up"]) == 1


def test_halves_of_characters_and_markup_are_written() -> None:
    recorder = Recorder()
    for name in ("\ud800", "\udfff", '<b>"\\\n</b>'):
        script = Script(query=name, name=name)
        script.discover(name, "orders", 1)
        one = script.batch()
        recorder.add(one, "{}")
    assert len([name for name, _ in parsed(exported(recorder)) if name == "evensplit_batches_total"]) == 3
