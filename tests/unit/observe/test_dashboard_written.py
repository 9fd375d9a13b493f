"""What a query has written, on the page of the dashboard."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evensplit.explain.written import ClusterWritten, WriteOutcome
from evensplit.observe.dashboard.view import writing
from evensplit.observe.dashboard.view.writing import written
from evensplit.observe.recorder import Recorder
from evensplit.observe.sinks import SinkView, advance
from evensplit.observe.source_view import Source
from tests.support.browsers import client, shown
from tests.support.views import NASTY, recorder_of, small
from tests.support.write_reports import report, writes


def test_a_query_that_writes_has_a_card() -> None:
    recorder = recorder_of(small, 12)
    assert "Written" not in shown(recorder).text
    writes(recorder, *(report(batch) for batch in range(3)))
    card = shown(recorder).by_id("written")
    assert "wrote 1,204 records in 2 transactions to eu; decided in 14 ms" in card
    assert "The oldest transaction was 4.0 s old when it was ended, of 1 min 0 s at most." in card
    # Rate, and of the last batch records, bytes and transactions; then all records.
    for value in ("120.4/s", "1,204", "80,000", "2", "3,612"):
        assert value in card


def test_trouble_is_said() -> None:
    recorder = recorder_of(small, 12)
    lost = {NASTY: ClusterWritten(4, 40, committed=1, strays=2, lost=1)}
    writes(recorder, report(0), report(1, WriteOutcome.INCOMPLETE, lost, age_ms=40_000))
    page = client(recorder).get("/").text
    card = page[page.index('id="written"') :]
    assert "decided, and 1 transaction lost" in card
    assert "Transactions are open for long:" in card
    assert "1 transaction lost</span>" in card
    assert "1 attempt to end a batch failed." in card
    assert "2 transactions that attempts of tasks had left open were aborted." in card
    assert "<script>alert" not in card


def test_a_query_over_another_source_has_a_page() -> None:
    recorder = recorder_of(small, 12)
    writes(recorder, report(query="query-9"), name="only writes")
    page = shown(recorder, "/?source=0:query-9")
    assert "only writes" in page.text
    assert "writes, and reads other sources" in page.text
    assert "wrote 1,204 records" in page.by_id("written")
    writes(recorder, report(1, query="query-9"), name="only writes", runs=False)
    assert "ended" in shown(recorder, "/?source=0:query-9").by_id("status")
    alone = Recorder()
    writes(alone, report())
    assert "wrote 1,204 records" in shown(alone).by_id("written")


def test_a_query_whose_first_batch_could_not_be_written() -> None:
    recorder = Recorder()
    recorder.begin(Source("query-1", 0, "orders"), 1, run_id="run-1")
    writes(recorder, report(0, WriteOutcome.TOO_OLD, {}))
    assert "a transaction was too old" in shown(recorder).by_id("written")


@pytest.mark.parametrize(
    "outcome, tone",
    [(WriteOutcome.DECIDED, "good"), (WriteOutcome.EMPTY, "off"), (WriteOutcome.NOT_ENDED, "bad")],
)
def test_tones(outcome: WriteOutcome, tone: str) -> None:
    card = written(advance(SinkView("q", None), report(0, outcome)), runs=True)
    assert card is not None
    assert (card.tone, card.is_old, card.rows[0].rate) == (tone, False, None)


def test_many_clusters_are_few_rows_and_the_busiest_come_first() -> None:
    view = SinkView("q", None)
    for batch in range(2):
        clusters = {f"c{number}": ClusterWritten(number, number) for number in range(1, 21)}
        view = advance(view, replace(report(batch, clusters=clusters), age_ms=None))
    card = written(view, runs=True)
    assert card is not None
    assert [one.cluster for one in card.rows] == [f"c{number}" for number in range(20, 8, -1)]
    assert (len(card.rows), card.left) == (writing.CLUSTERS_MAX, 8)
    ended = written(view, runs=False)
    assert ended is not None
    assert [one.rate for one in ended.rows] == [None] * 12
    assert written(None, runs=True) is None
