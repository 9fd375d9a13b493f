"""What stands on the page of a query without a batch, and of one whose clusters are away."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from evensplit.core.model import SplitId
from evensplit.core.state.observation import Report
from evensplit.observe.dashboard.feed import Feed
from evensplit.observe.recorder import QueryStatus, Recorder
from evensplit.observe.source_view import Batch, Source
from tests.support.browsers import client, shown
from tests.support.markup import Page
from tests.support.views import NASTY, behind, feed, small, states

NEW = Source("query-9", 0, "clicks")
AT_MS = 1_790_000_000_000
EAST = {"east": ("east-1:9092", "east-2:9092")}
SAID = "cluster 'east': no broker could be asked\nES-201: `evensplit explain ES-201` tells its cause and its cure"


def status(recorder: Recorder, address: str = "/") -> str:
    """The line at the top, as it is on both the whole page and the part that changes."""
    page = shown(recorder, address)
    part = shown(recorder, address, **{"HX-Request": "true", "HX-Target": "live"})
    (line,) = {found.by_id("status") for found in (page, part)}
    return line


def begun(awaited: dict[str, tuple[str, ...]] | None = None) -> Recorder:
    found = Recorder()
    found.begin(NEW, AT_MS, run_id="run-1", awaited=EAST if awaited is None else awaited)
    return found


def test_a_query_that_was_started_is_there_at_once() -> None:
    recorder = begun()
    page = shown(recorder)
    assert status(recorder) == "○ starting since 2026-09-21 14:13:20 UTC"
    assert "clicks" in page.text
    assert "the query asks east (east-1:9092, east-2:9092) for partitions and offsets" in page.text
    assert status(recorder, "/?source=0%3Aquery-9") == status(recorder)


def test_a_query_that_waits_says_for_whom_and_since_when() -> None:
    recorder = begun()
    recorder.begins("query-9", "run-1", QueryStatus.WAITING, AT_MS + 1_000)
    assert status(recorder) == "▲ waiting for east (east-1:9092, east-2:9092) since 2026-09-21 14:13:21 UTC"
    assert "There has been no answer since 2026-09-21 14:13:21 UTC" in shown(recorder).text
    recorder.begins("query-9", "run-1", QueryStatus.STARTING, AT_MS + 3_000)
    assert status(recorder) == "○ starting since 2026-09-21 14:13:23 UTC"


def test_a_query_that_reads_its_first_batch_asks_nobody() -> None:
    recorder = begun()
    recorder.begins("query-9", "run-1", QueryStatus.WAITING, AT_MS + 1_000)
    recorder.begins("query-9", "run-1", QueryStatus.RUNNING, AT_MS + 2_000)
    assert status(recorder) == "● reading its first batch since 2026-09-21 14:13:22 UTC"
    page = shown(recorder).text
    assert "Its tasks read from east (east-1:9092, east-2:9092)" in page
    assert "for partitions and offsets" not in page
    recorder.begins("query-9", "run-1", QueryStatus.STARTING, AT_MS + 3_000)
    assert status(recorder) == "○ starting since 2026-09-21 14:13:23 UTC"


def test_where_nobody_knows_the_clusters_they_are_its_clusters() -> None:
    recorder = begun({})
    recorder.begins("query-9", "run-1", QueryStatus.WAITING, AT_MS)
    assert "waiting for its clusters" in status(recorder)


def test_of_many_clusters_and_servers_some_are_named() -> None:
    recorder = begun({f"c{one}": tuple(f"h{other}:1" for other in range(5)) for one in range(6)})
    recorder.begins("query-9", "run-1", QueryStatus.WAITING, AT_MS)
    assert "waiting for c0 (h0:1, h1:1, h2:1, …), c1 (h0:1, h1:1, h2:1, …), c2 (" in status(recorder)
    assert "and 3 more since" in status(recorder)


def test_a_query_that_failed_before_its_first_batch_stays_with_its_error() -> None:
    recorder = begun()
    recorder.query(
        "query-9", QueryStatus.FAILED, AT_MS + 5_000, run_id="run-1", failure="ClusterUnreachable", said=SAID
    )
    assert status(recorder) == "▲ failed ClusterUnreachable since 2026-09-21 14:13:25 UTC"
    assert SAID.replace("\n", " ") in shown(recorder).text
    assert "The query failed before its first batch." in shown(recorder).text
    assert "What it says is in the log" not in shown(recorder).text
    recorder.begin(NEW, AT_MS + 9_000, run_id="run-2", awaited=EAST)
    assert "starting" in status(recorder)
    assert "ES-201" not in shown(recorder).text


def test_an_error_of_elsewhere_is_in_the_log() -> None:
    recorder = begun()
    recorder.query("query-9", QueryStatus.FAILED, AT_MS, run_id="run-1", failure="DIVIDE_BY_ZERO")
    assert "failed DIVIDE_BY_ZERO" in status(recorder)
    assert "The error is in the driver's log" in shown(recorder).text


def test_a_query_that_was_stopped_before_its_first_batch() -> None:
    recorder = begun()
    recorder.query("query-9", QueryStatus.ENDED, AT_MS, run_id="run-1")
    assert "○ ended" in status(recorder)
    assert "The query was stopped before its first batch." in shown(recorder).text


def test_a_query_that_has_failed_after_batches_shows_its_error_too() -> None:
    recorder = Recorder()
    small(recorder, 3)
    recorder.query("query-1", QueryStatus.FAILED, AT_MS, run_id="run-1", failure="ClusterUnreachable", said=SAID)
    page = shown(recorder)
    assert page.by_id("error") == SAID.replace("\n", " ")
    assert page.cells()


def test_names_and_errors_stay_text() -> None:
    recorder = begun({NASTY: (NASTY,)})
    recorder.query("query-9", QueryStatus.FAILED, AT_MS, failure=NASTY, said=NASTY)
    page = shown(recorder)
    assert not [tag for tag, found in page.elements if tag == "script" and not found.get("src")]
    assert "<script>alert(1)</script>" in page.text


def test_what_runs_comes_before_what_has_failed_and_both_can_be_chosen() -> None:
    recorder = begun()
    recorder.query("query-9", QueryStatus.FAILED, AT_MS + 99_000, run_id="run-1")
    small(recorder, 2)
    page = shown(recorder)
    assert [found["value"] for tag, found in page.elements if tag == "option"] == ["0:query-1", "0:query-9"]
    assert "running" in status(recorder)
    assert "failed" in status(recorder, "/?source=0%3Aquery-9")
    recorder.begin(Source("query-8", 0, None), AT_MS + 999_000)
    assert "starting" in status(recorder)


def test_a_page_of_a_query_without_a_batch_goes_on_with_whatever_source_of_it_is_ours() -> None:
    recorder = begun()
    ends = states({("east", "orders"): 2}, 2, 1, lambda *_: 5)
    feed(recorder, ends, source=Source("query-9", 1, "clicks"))
    assert "running" in status(recorder, "/?source=0%3Aquery-9")
    assert client(recorder).get("/?source=1%3Aquery-8").status_code == 404


def test_there_is_no_story_before_a_batch() -> None:
    alone = {"HX-Request": "true", "HX-Target": "story"}
    address = "/?source=0%3Aquery-9&split=east&split=orders&split=1"
    assert "No batch yet" in shown(begun(), address, **alone).text


def away(stage: QueryStatus = QueryStatus.IDLE, *names: str) -> Recorder:
    """East and west, of which `names` do not answer."""
    ends = states({("east", "orders"): 2, ("west", "orders"): 2}, 2, 4, lambda *_: 50)
    report = replace(
        behind(ends[-1], lambda _: 3),
        unreachable=dict.fromkeys(names, "refused"),
        unreachable_since_ms=dict.fromkeys(names, AT_MS + 2_000),
    )
    found = Recorder()
    feed(found, ends, [Report()] * 3 + [report])
    found.query("query-1", stage, AT_MS + 60_000)
    return found


def rates(page: Page) -> list[str]:
    """What stands at the top, and in the column of the clusters."""
    text = page.text.split(" Rate ")
    return [
        text[1].split(" offsets/s")[0],
        *(one for one in text[-1].split(" Work per reader")[0].split() if "/s" in one),
    ]


def test_a_query_all_of_whose_clusters_are_away_waits_and_reads_nothing() -> None:
    for stage in (QueryStatus.IDLE, QueryStatus.RUNNING):
        recorder = away(stage, "east", "west")
        assert status(recorder).startswith(
            "▲ waiting for east (east:9092) and west (west:9092) since 2026-09-21 14:13:22 UTC batch 3"
        )
        assert rates(shown(recorder)) == ["0", "0/s", "0/s"]


def test_a_query_that_goes_on_without_a_cluster_says_so() -> None:
    recorder = away(QueryStatus.RUNNING, "east")
    assert status(recorder).startswith("▲ running, east is away batch 3")
    assert rates(shown(recorder)) == ["100", "0/s", "100/s"]
    assert status(away(QueryStatus.IDLE, "west")).startswith("▲ running, west is away")
    assert "nothing new" in status(away(QueryStatus.IDLE))


def test_a_query_that_is_started_again_is_starting_and_waits_for_all_that_it_reads() -> None:
    recorder = away(QueryStatus.ENDED, "east")
    recorder.begin(Source("query-1", 0, "orders"), AT_MS + 90_000, run_id="run-2")
    assert status(recorder).startswith("○ starting since 2026-09-21 14:14:50 UTC batch 3")
    recorder.begins("query-1", "run-2", QueryStatus.WAITING, AT_MS + 91_000)
    assert status(recorder).startswith("▲ waiting for east (east:9092) and west (west:9092) since")
    assert rates(shown(recorder))[0] == "0"


def test_a_checkpoint_whose_cluster_is_away_is_shown_with_its_splits() -> None:
    (_, end) = states({("east", "orders"): 3}, 2, 1, lambda *_: 5)
    found = Recorder()
    report = Report(unreachable={"east": "refused"}, unreachable_since_ms={"east": AT_MS})
    found.resume(Batch(NEW, 7, end, end, report, run_id="run-1"), AT_MS)
    page = shown(found)
    assert status(found).startswith("▲ waiting for east (east:9092) since 2026-09-21 14:13:20 UTC batch 7")
    assert "planned" not in status(found)
    assert len(page.cells()) == len(end.splits)
    assert "the query continues from its checkpoint" in page.text
    assert found.story(NEW, SplitId("east", "orders", 0)) is None


def test_a_query_that_begins_waits_or_fails_is_news() -> None:
    news, recorder = Feed(), Recorder()
    recorder.subscribe(news.heard, lambda _: news.news())
    revisions = [news.revision]
    recorder.begin(NEW, 1, run_id="run-1")
    revisions.append(news.revision)
    for stage in (QueryStatus.STARTING, QueryStatus.WAITING, QueryStatus.WAITING, QueryStatus.STARTING):
        recorder.begins("query-9", "run-1", stage, 2)
        revisions.append(news.revision)
    for stage in (QueryStatus.IDLE, QueryStatus.IDLE, QueryStatus.FAILED):
        recorder.query("query-9", stage, 3, run_id="run-1")
        revisions.append(news.revision)
    recorder.begins("query-9", "run-1", QueryStatus.WAITING, 4)
    revisions.append(news.revision)
    changed = [one != other for one, other in pairwise(revisions)]
    assert changed == [True, False, True, False, True, True, False, True, False]
