"""Both sources in the same storm: the figures that are kept of a verdict, and the table of them on the page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.peer import storm
from bench.peer.report import between
from bench.peer.storm import BEGIN, END, Outcome, outcome, read, table
from evensplit.testing.chaos.checker.verdict import Finding, Verdict

FIGURES = {
    "records acknowledged": 1_000,
    "batches": {"parquet": 20, "counted": 15},
    "faults by nemesis": {"cut": 2, "topic-recreated": 1},
    "queries' ends": [
        {"query": "parquet", "error": "TimeoutException\nmore", "cause": "connections are cut"},
        {"query": "parquet", "error": "AssertionError: `x`\nmore", "cause": ""},
        {"query": "counted", "error": "AssertionError: `x`\nelse", "cause": ""},
    ],
    "longest stall after a fault (s)": {"parquet": 12.25, "foreach-batch": 3.0},
    "delivery latency (s)": {"parquet": {"p50": 1.5, "p99": 8.0}, "foreach-batch": {"p50": 1.0, "p99": 9.0}},
}


def lost(query: str, topic: str, count: int) -> Finding:
    return Finding("lost", f"{count} records", f"{query}: east {topic}-0 (incarnation 2)", 100.0, (), count)


def verdict(*findings: Finding) -> Verdict:
    return Verdict(findings, FIGURES, (), ())


def made(source: str = "kafka", *findings: Finding) -> Outcome:
    return outcome(verdict(*findings), source, 7, 4.0, "local", "abc1234", 0.5)


def test_records_are_counted_once_though_each_query_misses_them() -> None:
    one = made(
        "kafka",
        *(lost("parquet", "sessions", 5), lost("parquet", "orders", 2)),
        *(lost("foreach-batch", "sessions", 4), lost("foreach-batch", "orders", 1)),
        Finding("stalled", "30 records of 2 partitions", "parquet", 50.0, (), 30),
        Finding("miscounted", "the last row", "counted: east orders-0 (incarnation 1)", 300.0),
        Finding("ended by itself", "AssertionError", "parquet", 60.0),
    )
    assert one.broken == {"ended by itself": 1, "lost": 7, "miscounted": 1, "stalled": 30}
    assert one.lost_of_deleted == 5
    assert (one.standstill_s, one.latency_s) == (12.25, {"p50": [1.5, 1.0], "p99": [8.0, 9.0]})
    assert (one.explained_ends, one.errors) == (1, {"AssertionError: `x`": 2})
    assert not one.held


def test_the_table_has_both_sources_side_by_side_over_all_runs() -> None:
    peer, ours = made("kafka", lost("parquet", "sessions", 1_500)), replace(made("evensplit"), errors={})
    again = [replace(one, seed=8) for one in (peer, ours)]
    shown = table([peer, ours, *again])
    for line in (
        "| runs in which every promise held | 0 of 2 | 2 of 2 |",
        "| faults | 6 | 6 |",
        "| batches | 70 | 70 |",
        "| records lost | 3,000 | 0 |",
        "| of them in topics that were deleted and created again | 3,000 | 0 |",
        "| longest standstill after a fault, s | 12.2 | 12.2 |",
        "| latency p99, s | 8.0 to 9.0 | 8.0 to 9.0 |",
        "| ends of queries without one | 4 | 0 |",
        "- An end without a reason in the documentation, 4 times: `Spark's own: AssertionError: x`",
    ):
        assert line in shown
    assert shown.count("minutes of faults") == 2
    assert "`cluster-out`" in shown


def test_the_page_shows_the_results_as_they_are() -> None:
    page = storm.PAGE.read_text()
    assert between(page, table(read()), BEGIN, END) == page


def test_a_run_that_cannot_be_made_leaves_the_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["storm"])
    before = storm.RESULTS.read_text()
    assert storm.main() == 2
    assert "make chaos-peer" in capsys.readouterr().err
    assert storm.RESULTS.read_text() == before
