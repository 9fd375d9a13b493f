"""The page of all queries: what it shows of each, in which order, and that names are text."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from evensplit.core.model import SplitId
from evensplit.core.state.codec import encode
from evensplit.core.state.observation import Report
from evensplit.explain.written import WriteOutcome
from evensplit.observe.dashboard.app import Pages
from evensplit.observe.dashboard.view.history import LAG_AWAITED
from evensplit.observe.dashboard.view.overview import ROWS_MAX, overview
from evensplit.observe.dashboard.view.query import PageQuery, Show
from evensplit.observe.health.rules import Rule
from evensplit.observe.health.running import SILENT_MS
from evensplit.observe.health.unreadable import Unreadable
from evensplit.observe.recorder import QueryStatus, Recorder
from evensplit.observe.recorder_group import RecorderGroup
from evensplit.observe.source_view import Source
from tests.support.batches import Script, orders
from tests.support.browsers import client
from tests.support.markup import Page
from tests.support.views import NASTY
from tests.support.write_reports import report, writes

NOW_MS = 2_000_000


def play(
    recorder: Recorder, name: str, *, read: int | None = None, lose: bool = False, away: bool = False, batches: int = 12
) -> None:
    """A query of which nothing is to be said, but for what is given."""
    script: Script = orders({"east": 4, "west": 2}, query=f"id-{name}", name=name)  # type: ignore[arg-type]
    script.at_ms = NOW_MS - 10_000 * (batches + 1)
    for number in range(batches + 1):
        script.write(100)
        script.read(read)
        if away and number == batches:
            script.unreachable["west"] = "refused"
        if lose and number == batches:
            script.lose(SplitId("east", "orders", 1), 7)
        batch = script.batch()
        recorder.add(batch, encode(batch.end), heard_ms=batch.at_ms)


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are looked at when the last batches are done."""
    monkeypatch.setattr("evensplit.observe.dashboard.app.now_ms", lambda: NOW_MS)


@pytest.fixture
def recorder() -> Recorder:
    found = Recorder()
    for name in ("well", "also-well"):
        play(found, name)
    play(found, "slow", read=40)
    play(found, "behind", read=10)
    play(found, "away", away=True)
    play(found, "lossy", lose=True)
    play(found, "failed")
    found.query("id-failed", QueryStatus.FAILED, NOW_MS, failure="DataLossError", said="records are gone")
    play(found, "ended")
    found.query("id-ended", QueryStatus.ENDED, NOW_MS)
    return found


def rows(*recorders: Recorder, find: str = "", page: int = 0, **more: object) -> dict[str, Any]:
    asked = PageQuery(show=Show.ALL, find=find, page=page)
    return overview(RecorderGroup(*recorders), asked, now_ms=NOW_MS, **{"notes": {}, **more})  # type: ignore[arg-type]


def names(found: dict[str, Any]) -> list[str]:
    return [one.name for one in found["rows"]]


def test_those_that_need_attention_come_first(recorder: Recorder) -> None:
    found = rows(recorder, unreadable=[Unreadable("broken", "line 3 is no JSON"), Unreadable("theirs", "no", True)])
    assert names(found) == ["away", "broken", "failed", "lossy", "behind", "slow", "also-well", "well", "ended"]
    assert [one.attention for one in found["rows"]] == [3, 3, 3, 3, 2, 1, 1, 1, 0]
    assert found["counts"] == "9 queries: 4 need attention, 1 more with advice, 1 ended"
    assert [one.name for one in found["others"]] == ["theirs"]


def test_all_is_well() -> None:
    one = Recorder()
    play(one, "well")
    assert rows(one)["counts"] == "1 query: all is well"
    assert rows(Recorder())["counts"] == ""


def test_the_figures_of_one(recorder: Recorder) -> None:
    (row,) = rows(recorder, find="SLOW")["rows"]
    assert (row.batch, row.at_ms, row.tone, row.said) == (12, NOW_MS, "good", "running")
    # 13 times a hundred in six partitions, of which 40 each were read.
    assert (row.lag.text, row.lag.title) == ("4.6k", "4,680 offsets to read")
    # Of the first look on, 520 of each have been read: those of the sixth batch and later are unread.
    assert row.waited.text == "70 s"
    assert row.waited.title == "The oldest unread record: at least 1 min 10 s, at most 1 min 20 s"
    assert (row.rate.text, row.took.text, row.even.text, row.even.tone) == ("24/s", "500 ms", "even", "good")
    assert row.params == PageQuery(source=("id-slow", 0))


def test_what_is_not_known_is_said_so() -> None:
    one, script = Recorder(), orders({"east": 2})
    batch = script.batch(reported=False)
    one.add(batch, encode(batch.end), stage=QueryStatus.UNKNOWN, heard_ms=batch.at_ms)
    found = rows(one)
    (row,) = found["rows"]
    assert (row.lag.text, row.waited, row.rate) == ("?", None, None)
    assert "--lag asks the clusters" in row.lag.title
    assert found["no_lag"] is True
    text = client(one).get("/?show=all").text
    assert "start the dashboard with <code>--lag</code>" in text


def test_a_lag_whose_clusters_were_asked_is_awaited() -> None:
    one, script, pages = Recorder(), orders({"east": 2}), Pages(overview=True)
    batch = script.batch(reported=False)
    one.add(batch, encode(batch.end), stage=QueryStatus.UNKNOWN, heard_ms=batch.at_ms)
    pages.watch(one)
    for awaited in (True, False):
        pages.note((), batch.source.query_id, awaited=awaited)
        for params in (PageQuery(show=Show.ALL), PageQuery().at(batch.source)):
            text = pages.make(params, "", "")[0].decode()
            assert (LAG_AWAITED in text) == awaited
            assert ("--lag" in text) == (not awaited)


def test_a_batch_that_is_not_done_is_said_in_place_of_how_long_it_took() -> None:
    one = Recorder()
    play(one, "kept")
    (known,) = one.watched()
    last = replace(known.view.last, number=13, at_ms=NOW_MS, duration_ms=None)
    one.add(last, encode(last.end), stage=QueryStatus.UNKNOWN, heard_ms=NOW_MS)
    assert rows(one)["rows"][0].took is None
    one.took("id-kept", 0, {}, done=False)
    assert rows(one)["rows"][0].took.text == "not done"
    one.took("id-kept", 0, {13: 400}, done=True)
    assert rows(one)["rows"][0].took.text == "400 ms"


def test_a_lag_that_was_asked_for_in_vain_is_not_to_be_asked_for() -> None:
    one, script = Recorder(), orders({"east": 2})
    batch = script.batch(reported=False)
    one.add(batch, encode(batch.end), stage=QueryStatus.UNKNOWN, heard_ms=batch.at_ms)
    away = Report({}, {"east": "refused"})
    one.look(batch.source.query_id, batch.run_id, 0, batch.end, away, (batch.at_ms or 0) + 1_000)
    found = rows(one)
    assert (found["rows"][0].lag.text, found["rows"][0].lag.title) == ("?", "unknown for 2 partitions")
    assert found["no_lag"] is False


def test_a_query_that_waits_and_one_that_only_writes() -> None:
    one = Recorder()
    one.begin(Source("q", 0, "new"), NOW_MS, run_id="run-1", awaited={"east": ("east:9092",)})
    writes(one, report(3, WriteOutcome.DECIDED, query="w"))
    assert [(row.name, row.attention) for row in rows(one)["rows"]] == [("new", 1), ("orders", 1)]
    one.begins("q", "run-1", QueryStatus.WAITING, NOW_MS)
    first = rows(one)["rows"][0]
    assert (first.said, first.attention) == ("waiting for east (east:9092)", 3)


def test_one_of_which_nothing_is_heard() -> None:
    one = Recorder()
    play(one, "hangs")
    group = RecorderGroup(one)
    found = overview(group, PageQuery(show=Show.ALL), now_ms=NOW_MS + SILENT_MS + 1_000, notes={})
    assert [advice.rule for advice in found["rows"][0].advice] == [Rule.SILENT]


def test_notes_are_beside_their_query(recorder: Recorder) -> None:
    found = rows(recorder, notes={"id-well": ("not up to date: gone",), None: ("of all",)})
    said = {one.name: one.problem for one in found["rows"]}
    assert said["well"] == "not up to date: gone"
    assert said["failed"] == "records are gone"
    assert said["also-well"] == ""


def test_pages_of_many() -> None:
    one, script = Recorder(), orders({"east": 1})
    batch = script.batch()
    recorders = []
    for number in range(ROWS_MAX + 5):
        recorders.append(Recorder())
        made = replace(batch, source=Source(f"q{number}", 0, f"query {number:03}"))
        recorders[-1].add(made, encode(made.end), heard_ms=made.at_ms)
    del one
    first, second = (rows(*recorders, page=page) for page in (0, 7))
    assert (len(names(first)), len(names(second)), second["page"], second["pages"]) == (ROWS_MAX, 5, 1, 2)
    assert sorted(names(first) + names(second)) == [f"query {number:03}" for number in range(ROWS_MAX + 5)]
    found = rows(*recorders, find="query 00")
    assert (found["matching"], found["known"]) == (10, ROWS_MAX + 5)
    served = client(*recorders)
    assert "page 1 of 2" in served.get("/?show=all").text
    assert "None of 105 queries matches" in served.get("/?show=all&find=nothing").text


def test_the_page_has_them_with_links_to_theirs(recorder: Recorder) -> None:
    served = client(recorder)
    page = Page(served.get("/?show=all").text)
    links = [found["href"] for tag, found in page.elements if tag == "a" and "source=" in (found.get("href") or "")]
    assert links[0] == "/?source=0%3Aid-away"
    assert len(links) == 8
    assert "Cluster west does not answer" in page.text
    for link in links:
        one = Page(served.get(link or "").text)
        assert "← All 8 queries" in one.text
    live = served.get("/?show=all", headers={"HX-Request": "true", "HX-Target": "live"}).text
    assert "<html" not in live
    assert 'data-address="/?show=all"' in live


def test_the_page_of_advice_is_where_advice_leads(recorder: Recorder) -> None:
    served = client(recorder)
    page = Page(served.get("/?show=all").text)
    leads = {found["href"] for tag, found in page.elements if tag == "a" and "advice#" in (found.get("href") or "")}
    assert leads
    there = Page(served.get("/?show=advice").text)
    ids = {found.get("id") for _, found in there.elements}
    for lead in leads:
        address, _, anchor = (lead or "").partition("#")
        assert address == "/?show=advice"
        assert anchor in ids
    assert {f"rule-{rule}" for rule in Rule} <= ids
    assert "docs/howto/scaling.md#how-many-are-needed" in there.text


def test_advice_is_on_the_page_of_its_query(recorder: Recorder) -> None:
    text = Page(client(recorder).get("/?source=0:id-lossy").text).text
    assert "of 1 partition in east" in text
    assert "of 1 partition in east" not in Page(client(recorder).get("/?source=0:id-failed").text).text


def test_it_asks_for_the_token_as_every_page_does(recorder: Recorder) -> None:
    for address in ("/?show=all", "/?show=advice"):
        assert client(recorder, loopback=False, token="correct-horse").get(address).status_code == 401
        sent = {"Authorization": "Bearer correct-horse"}
        assert client(recorder, loopback=False, token="correct-horse").get(address, headers=sent).status_code == 200
        assert client(recorder, base="http://elsewhere.example:4848").get(address).status_code == 403


def told(pages: Pages) -> TestClient:
    return TestClient(Starlette(routes=pages.routes), base_url="http://127.0.0.1:4848")


def test_where_there_are_many_they_are_the_first_page(recorder: Recorder) -> None:
    pages = Pages(overview=True)
    pages.watch(recorder)
    pages.note(["of all"])
    pages.note(["only of one"], "id-well", ["under way"])
    pages.unreadable([Unreadable("broken", "line 3 is no JSON")])
    served = told(pages)
    text = served.get("/").text
    assert "<title>All queries" in text
    assert "line 3 is no JSON" in text
    assert "of all" in text
    one = served.get("/?source=0:id-well").text
    assert "only of one" in text
    assert "under way" not in text
    assert "only of one" in one
    assert "under way" in one
    assert "of all" in one
    assert "← All 9 queries" in one
    assert "only of one" not in served.get("/?source=0:id-slow").text
    assert served.get("/?source=0:gone").status_code == 404


def test_new_things_are_news_and_the_same_are_none() -> None:
    pages = Pages(overview=True)
    served = told(pages)
    assert "No query yet" in served.get("/").text
    one = Recorder()
    play(one, "well")
    pages.watch(one)
    assert "well" in served.get("/").text
    pages.unreadable([Unreadable("broken", "why")])
    assert "broken" in served.get("/").text
    revisions = set()
    for _ in range(2):
        pages.note(["a note"], "q")
        pages.unreadable([Unreadable("broken", "why")])
        revisions.add(re.search(r"since=([\w-]+)", served.get("/").text)[1])  # type: ignore[index]
    assert len(revisions) == 1


def test_names_and_errors_are_text() -> None:
    one, script = Recorder(), Script(query=NASTY, name=NASTY)
    script.discover("east", "orders", 2)
    batch = script.batch()
    one.add(batch, encode(batch.end), heard_ms=batch.at_ms)
    pages = Pages(overview=True)
    pages.watch(one)
    pages.unreadable([Unreadable(NASTY, f"why: {NASTY}"), Unreadable(f"other {NASTY}", "no", True)])
    pages.note([NASTY], NASTY)
    text = told(pages).get("/").text
    assert "<script>alert" not in text
    page = Page(text)
    assert [tag for tag, _ in page.elements].count("script") == 4, "those of the page itself"
    assert NASTY.split("\n", 1)[0] in page.text
    (link,) = [found["href"] for tag, found in page.elements if tag == "a" and "source=" in (found.get("href") or "")]
    assert told(pages).get(link or "").status_code == 200


@pytest.mark.lengthy
def test_a_hundred_queries_are_quick() -> None:
    script = orders({f"c{one}": 10 for one in range(10)})
    batches = [script.batch() for _ in range(3)]
    recorders = [Recorder() for _ in range(100)]
    for number, recorder in enumerate(recorders):
        for batch in batches:
            made = replace(batch, source=Source(f"q{number}", 0, f"query {number}"))
            recorder.add(made, encode(made.end), heard_ms=made.at_ms)
    rows(*recorders)
    began_s = time.process_time()
    rows(*recorders)
    assert time.process_time() - began_s < 1.0
