"""What queries have written: sums that never go down and count nothing twice, metrics of them, and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.explain.written import ClusterWritten, WriteOutcome, WriteReport
from evensplit.observe import sink_metrics, sinks
from evensplit.observe.metric import OTHERS
from evensplit.observe.metrics import samples
from evensplit.observe.recorder import Recorder
from evensplit.observe.recorder_group import RecorderGroup
from evensplit.observe.sink_metrics import ENDS, of_sink
from evensplit.observe.sinks import Sinks, SinkView, advance
from tests.support.batches import eventful
from tests.support.write_reports import report, writes


def viewed(*reports: WriteReport) -> SinkView:
    view = SinkView("query-1", "orders")
    for one in reports:
        view = advance(view, one)
    return view


def values(view: SinkView) -> dict[tuple[str, ...], float]:
    return {(one.name.removeprefix("evensplit_sink_"), *one.labels[1:]): one.value for one in of_sink(view, "q")}


def test_batches_add_up() -> None:
    us = ClusterWritten(3, 90, committed=1, strays=1)
    view = viewed(report(0), report(1, clusters={"eu": ClusterWritten(6, 40, committed=1), "us": us}, skipped=2))
    assert view.clusters == {"eu": ClusterWritten(1_210, 80_040, committed=3), "us": us}
    assert (view.outcomes, view.skipped) == ({WriteOutcome.DECIDED: 2}, 2)
    assert view.of(0) == report(0)
    assert view.of(2) is None


def test_a_batch_that_is_finished_later_counts_once() -> None:
    """By the same process, which tells what it has finished as such, or after a restart."""
    half = report(3, WriteOutcome.NOT_ENDED, {"eu": ClusterWritten(4, 40, committed=1)})
    whole = report(3, WriteOutcome.FINISHED, {"eu": ClusterWritten(9, 90, finished=2)})
    view = viewed(half, whole, whole)
    assert view.clusters == {"eu": ClusterWritten(9, 90, committed=1, finished=1)}
    assert view.outcomes == {WriteOutcome.NOT_ENDED: 1, WriteOutcome.FINISHED: 2}


def test_what_is_lost_is_lost_once() -> None:
    lost = report(3, WriteOutcome.INCOMPLETE, {"eu": ClusterWritten(4, 40, committed=1, lost=1)})
    again = replace(lost, clusters={"eu": ClusterWritten(4, 40, finished=1, lost=1)})
    assert viewed(lost, again, again).clusters == {"eu": ClusterWritten(4, 40, committed=1, lost=1)}


def test_a_batch_that_is_written_again_counts_again() -> None:
    """At least once, the records are there twice."""
    written = report(3, WriteOutcome.WRITTEN, {"eu": ClusterWritten(4, 40)})
    assert viewed(written, written).clusters == {"eu": ClusterWritten(8, 80)}


COUNTS = st.integers(0, 9)
REPORTS = st.builds(
    lambda batch, outcome, clusters: report(batch, outcome, clusters),
    st.integers(0, 2),
    st.sampled_from(WriteOutcome),
    st.dictionaries(st.sampled_from(["eu", "us"]), st.builds(ClusterWritten, *[COUNTS] * 7)),
)


@given(st.lists(REPORTS, max_size=6))
def test_no_sum_ever_goes_down(reports: Sequence[WriteReport]) -> None:
    view = SinkView("query-1", None)
    for one in reports:
        before, view = view, advance(view, one)
        for name, sums in before.clusters.items():
            assert all(now >= then for then, now in zip(sums, view.clusters[name], strict=True))
        assert sum(view.outcomes.values()) == sum(before.outcomes.values()) + 1


def test_the_last_batch_is_one_with_rows() -> None:
    empty = report(2, WriteOutcome.EMPTY, {})
    assert viewed(empty).last == empty
    assert viewed(report(1), empty).last == report(1)
    assert viewed().last is None


def test_rates_are_of_the_last_batches() -> None:
    assert viewed(report(0)).rates() == {}
    assert viewed(report(0), report(1)).rates() == {"eu": 120.4}
    # Ten seconds in which there was nothing to write; and a batch that failed is none.
    empty = report(2, WriteOutcome.EMPTY, {})
    assert viewed(report(0), report(1), empty, report(3, WriteOutcome.FAILED, {})).rates() == {"eu": 60.2}
    # The clock was set back.
    assert viewed(report(1), report(0)).rates() == {}


def test_clusters_beyond_the_limit_are_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "CLUSTERS_MAX", 2)
    monkeypatch.setattr(sink_metrics, "CLUSTERS_MAX", 1)
    view = viewed(
        *(report(n, clusters={name: ClusterWritten(n + 1)}) for n, name in enumerate(["c", OTHERS, "b", "a"]))
    )
    assert {name: one.records for name, one in view.clusters.items()} == {"c": 1, OTHERS: 2, None: 7}
    found = values(view)
    assert (found["records_total", "c"], found["records_total", OTHERS]) == (1, 9)


def test_metrics_say_what_was_told() -> None:
    found = values(viewed(report(4, skipped=1), report(5, WriteOutcome.TOO_OLD, {"eu": ClusterWritten(aborted=2)})))
    assert found["batches_total", "decided"] == found["batches_total", "too old"] == 1
    assert found["batches_total", "failed"] == 0
    assert found["records_total", "eu"] == 1_204
    assert found["bytes_total", "eu"] == 80_000
    assert [found["transactions_total", "eu", one] for one in ENDS] == [2, 0, 2, 0, 0]
    assert (found["skipped_tasks_total",], found["batch_number",]) == (1, 5)
    assert (found["decision_seconds",], found["transaction_age_seconds",]) == (0.014, 4)
    assert found["transaction_timeout_seconds",] == 60
    assert ("decision_seconds",) not in values(viewed(replace(report(), took_ms=None)))


def test_a_query_is_known_by_what_it_tells() -> None:
    known = Sinks()
    heard: list[str] = []
    end = known.subscribe(lambda one: heard.append(f"{one.view.name} {one.runs}"))
    assert known.hear("query-1", "orders", (), 1, run_id="a") is None
    assert known.find("query-1") is None
    # Spark tells the name at the start alone.
    found = known.hear("query-1", None, [report()], 2, run_id="a", runs=False)
    assert found is not None
    assert (found.view.name, found.runs) == ("orders", False)
    known.hear("query-1", "orders", (), 3, run_id="b")
    # The end of an earlier run, which comes late.
    known.hear("query-1", None, (), 4, run_id="a", runs=False)
    known.hear("query-1", "orders", (), 5, run_id="b")
    assert [one.runs for one in known.all()] == [True]
    assert heard == ["orders False", "orders True"]
    end()
    known.hear("query-1", "orders", [report(1)], 6, run_id="b")
    assert len(heard) == 2


def test_old_queries_are_forgotten_ended_ones_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "SINKS_MAX", 2)
    monkeypatch.setattr(sinks, "NAMES_MAX", 1)
    known = Sinks()
    known.hear("a", "a", [report(query="a")])
    known.hear("b", "b", [report(query="b")], runs=False)
    known.hear("c", "c", [report(query="c")])
    assert [one.view.query_id for one in known.all()] == ["a", "c"]
    known.hear("d", "d", [report(query="d")])
    assert [one.view.query_id for one in known.all()] == ["c", "d"]


def test_a_query_over_another_source_has_metrics_as_long_as_it_runs() -> None:
    recorder = Recorder()
    writes(recorder, report(), name=None)
    names = {one.labels[0] for one in samples((), (), recorder.sinks.all())}
    assert names == {"query-1"}
    writes(recorder, report(1), runs=False)
    assert list(samples((), (), recorder.sinks.all())) == []


def test_a_query_that_reads_as_well_has_one_label() -> None:
    recorder = eventful()
    writes(recorder, report(), name=None)
    found = {one.labels[0] for one in samples(recorder.watched(), recorder.begun(), recorder.sinks.all())}
    assert found == {"orders"}


def test_several_recorders_are_one() -> None:
    first, second = Recorder(), Recorder()
    writes(first, report())
    writes(second, report(5))
    group = RecorderGroup(first, second)
    found = group.sink("query-1")
    assert found is not None
    assert found.last == report(5)
    assert group.sink("query-2") is None
