"""What stands on the dashboard's page."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from evensplit.core.model import Cause, Held, Loss, SplitId
from evensplit.core.state.codec import encode
from evensplit.core.state.observation import Report
from evensplit.explain.record_counts import Counted, RecordCounts
from evensplit.observe.recorder import QueryStatus, Recorder
from evensplit.observe.recorder_group import RecorderGroup
from evensplit.observe.source_view import Source
from tests.support.browsers import shown
from tests.support.markup import Page
from tests.support.views import dealt, feed, keys_of, recorder_of, small, state, states


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return recorder_of(small, 12)


def test_without_a_batch_the_page_says_what_to_do() -> None:
    page = shown(Recorder())
    assert 'No query yet Start a query over format("evensplit")' in page.text
    assert not page.cells()


def test_a_cell_for_each_split_with_its_lag_and_its_reader(recorder: Recorder) -> None:
    view = recorder.watched()[0].view
    cells = shown(recorder).cells()
    labels = [found["aria-label"] or "" for found in cells]
    assert len(cells) == len(view.last.end.splits)
    for key, split in view.last.end.splits.items():
        (label,) = [one for one in labels if one.startswith(f"{key}, ")]
        end = view.last.report.latest.get(key)
        lag = "unknown" if end is None else f"{end - (split.position or 0):,} offset"
        assert f", reader {split.owner}, lag {lag}" in label
    assert len({found["id"] for found in cells}) == len(cells)


def test_what_a_reader_has_read_is_its_work(recorder: Recorder) -> None:
    text = shown(recorder).text
    for one in recorder.watched()[0].view.explanation.readers:
        assert f"reader {one.reader} {one.splits} partitions, read {one.offsets:,} offsets" in text


def test_what_stands_at_the_top(recorder: Recorder) -> None:
    text = shown(recorder).text
    assert "orders ▲ running, west is away batch 11 planned" in text
    assert "took 800 ms 10 rows" in text
    assert "unknown for 10 partitions" in text
    assert "the metadata is 5 min old" in text


def test_what_held_the_last_batch_and_what_it_reached_stand_below_the_numbers() -> None:
    recorder = recorder_of(small, 2)
    assert "held by" not in shown(recorder).text
    assert "records' timestamps" not in shown(recorder).text
    (known,) = recorder.watched()
    last = known.view.last
    end = replace(last.end, held=(Held("alignment", "west/<b>/0"),), reached_ms=1_700_000_000_000)
    recorder.add(replace(last, run_id="aligned", end=end), encode(end))
    text = shown(recorder).text
    said = "○ The last batch was held by alignment, which waits for west/<b>/0"
    reached = "reached 2023-11-14 22:13:20 UTC"
    places = [text.index(one) for one in ("Losses", said, reached, "Work per reader", "What is proven")]
    assert places == sorted(places)
    assert text.count("held by") == 1


def test_clusters_say_how_they_are(recorder: Recorder) -> None:
    text = shown(recorder).text
    assert "west ▲ no answer: no broker of west:9092 answered within 10 s" in text
    assert "east ● answers" in text


def test_clusters_say_what_was_left_out_of_them_only_where_that_is_counted() -> None:
    recorder = recorder_of(small, 2)
    assert "Undecodable" not in shown(recorder).text
    (known,) = recorder.watched()
    last = known.view.last
    name = known.view.explanation.clusters[0].id
    counts = RecordCounts({name: Counted(12_345, 67)}, complete=False)
    recorder.add(replace(last, number=last.number + 1, start=last.end, counts=counts), encode(last.end))
    text = shown(recorder).text
    assert all(one in text for one in ("Left out", "12,345", "Undecodable", "67", "In 1 batch, not every task"))


def test_the_certificate_in_words(recorder: Recorder) -> None:
    text = shown(recorder).text
    (proof,) = recorder.watched()[0].view.explanation.evenness
    assert f"All partitions: {proof.statement()}." in text


def test_moved_splits_are_marked(recorder: Recorder) -> None:
    moved = [found for found in shown(recorder).cells() if "moved" in (found["class"] or "").split()]
    assert [(found["aria-label"] or "").split(",")[0] for found in moved] == ["east/orders/3"]
    assert "moved in the last batch" in (moved[0]["aria-label"] or "")


def test_the_timeline_by_kind(recorder: Recorder) -> None:
    def kinds(page: Page) -> set[str]:
        return {(found["class"] or "") for tag, found in page.elements if tag == "li" and found.get("class")}

    assert {"started", "discovered", "moved", "unreachable"} <= kinds(shown(recorder))
    assert kinds(shown(recorder, "/?kind=moved")) & {"started", "discovered", "unreachable"} == set()
    assert {"moved", "unreachable"} <= kinds(shown(recorder, "/?kind=moved&kind=unreachable"))
    assert "Nothing of this kind" in shown(recorder, "/?kind=lost").text


def test_a_bar_for_each_reader_and_a_level_line_for_each_batch(recorder: Recorder) -> None:
    page, view = shown(recorder), recorder.watched()[0].view
    bars = [found for tag, found in page.elements if tag == "rect" and found.get("class") == "own"]
    lines = [found for tag, found in page.elements if tag == "line" and found.get("class") == "level"]
    assert len(bars) == sum(len(work.offsets) for work in view.work)
    assert len(lines) == len(view.work)
    top = max(offsets for work in view.work for offsets in work.offsets.values())
    assert float(lines[-1]["y1"] or "nan") == pytest.approx(100 - 100 * view.work[-1].share / top, abs=0.01)


def test_the_story_of_a_split(recorder: Recorder) -> None:
    (cell,) = [one for one in shown(recorder).cells() if (one["aria-label"] or "").startswith("east/orders/3, ")]
    page = shown(recorder, cell["href"] or "", **{"HX-Request": "true", "HX-Target": "story"})
    told = recorder.story(recorder.watched()[0].view.source, SplitId("east", "orders", 3))
    assert told is not None
    for chapter in told.chapters:
        for sentence in chapter.sentences():
            assert sentence in page.text
    assert not page.cells()
    # A whole page does not wait for it, and asks for it then.
    whole = shown(recorder, cell["href"] or "")
    assert whole.cells()
    (awaited,) = [found for _, found in whole.elements if found.get("id") == "story-awaited"]
    again = shown(recorder, awaited["hx-get"] or "", **{"HX-Request": "true", "HX-Target": "story"})
    assert again.text == page.text


def test_the_story_of_nobody(recorder: Recorder) -> None:
    alone = {"HX-Request": "true", "HX-Target": "story"}
    assert (
        "None of the batches that are kept has it." in shown(recorder, "/?split=east&split=gone&split=1", **alone).text
    )
    assert "No batch yet." in shown(Recorder(), "/?split=east&split=gone&split=1").text


def test_only_what_changes_is_made_anew(recorder: Recorder) -> None:
    part = shown(recorder, "/?split=east&split=orders&split=3", **{"HX-Request": "true", "HX-Target": "live"})
    assert part.cells()
    assert not [tag for tag, _ in part.elements if tag in ("html", "script", "aside")]


def test_retained_and_unread_splits_have_a_row_of_their_own() -> None:
    recorder = Recorder()
    keys = keys_of({("east", "orders"): 4})
    end = state({**dealt(keys, 2), keys[3]: None}, dict.fromkeys(keys, 7), 2)
    splits = {**end.splits, keys[3]: end.splits[keys[3]]._replace(removed_at_ms=5)}
    feed(recorder, [end, type(end)(2, end.clusters, splits, end.settings, 1, True, (0, 1))], first=5)
    page = shown(recorder)
    assert "no reader 1 partition east/orders" in page.text
    (kept,) = [one for one in page.cells() if one["data-v"] == "kept"]
    assert (kept["aria-label"] or "").startswith("east/orders/3, no reader, retained")
    assert len(shown(recorder, "/?reader=none").cells()) == 1


def test_several_sources_can_be_chosen(recorder: Recorder) -> None:
    found = Recorder()
    small(found, 2)
    ends = states({("north", "other"): 3}, 1, 2, lambda key, batch: 5)
    feed(found, ends, source=Source("query-9", 0, "other"), stage=QueryStatus.ENDED)
    feed(found, ends, source=Source("query-9", 1, "other"), stage=QueryStatus.ENDED)
    page = shown(found)
    options = [found["value"] for tag, found in page.elements if tag == "option"]
    assert sorted(filter(None, options)) == ["0:query-1", "0:query-9", "1:query-9"]
    for value, count in (("0:query-1", 28), ("0:query-9", 3), ("1:query-9", 3)):
        assert len(shown(found, f"/?source={value}").cells()) == count
    assert not [tag for tag, _ in shown(recorder).elements if tag == "option"]
    assert "○ ended" in shown(found, "/?source=1:query-9").text


def test_a_page_stays_with_its_source() -> None:
    found = Recorder()
    small(found, 1)
    page = shown(found)
    (tick,) = [one for _, one in page.elements if one.get("id") == "tick"]
    (here,) = [one for _, one in page.elements if one.get("id") == "here"]
    assert tick["hx-get"] == here["data-address"] == "/?source=0%3Aquery-1"
    feed(found, states({("north", "other"): 3}, 1, 2, lambda key, batch: 5), first=99, source=Source("query-9"))
    assert "north" in shown(found).text
    live = shown(found, tick["hx-get"] or "", **{"HX-Request": "true", "HX-Target": "live"})
    assert len(live.cells()) == 28


def test_the_first_source_is_one_that_runs_and_was_heard_of_last() -> None:
    early, late = Recorder(), Recorder()
    ends = states({("north", "other"): 3}, 1, 2, lambda key, batch: 5)
    feed(early, ends, source=Source("query-1", 0, "runs"), first=5)
    feed(early, ends, source=Source("query-2", 0, "runs too"), first=2)
    feed(late, ends, source=Source("query-3", 0, "is over"), first=99, stage=QueryStatus.ENDED)
    assert [str(one.view.source) for one in RecorderGroup(early, late).watched()] == ["is over", "runs too", "runs"]


def tile(page: Page, name: str) -> str:
    """What one of the numbers at the top says."""
    found = re.search(rf"{name} (\S+ ?.*?) (?:Rate|Partitions|Clusters Cluster|Busiest reader|Moves|Losses)", page.text)
    assert found is not None
    return found[1]


def test_what_has_ended_has_no_rate_and_what_is_idle_had_one() -> None:
    found = Recorder()
    small(found, 4)
    assert "over the last batches" in tile(shown(found), "Rate")
    found.query("query-1", QueryStatus.IDLE, 1_790_000_099_000)
    assert tile(shown(found), "Rate") == "0 offsets/s 3.6k/s until 2026-09-21 14:13:23 UTC"
    for stage in (QueryStatus.ENDED, QueryStatus.FAILED):
        found.query("query-1", stage, 1_790_000_099_000)
        page = shown(found)
        assert tile(page, "Rate") == "- the query has ended"
        assert "/s" not in page.text.split("Clusters Cluster")[1].split("Work per reader")[0]
        assert "last heard" in page.text


def test_without_a_split_whose_end_is_missing_there_is_no_lag() -> None:
    keys = keys_of({("east", "orders"): 2})
    end = state(dict.fromkeys(keys), dict.fromkeys(keys, 7), 2)
    gone = replace(end, splits={key: one._replace(removed_at_ms=5) for key, one in end.splits.items()})
    found = Recorder()
    feed(found, [end, gone], [Report(notices=("seen",))], first=5)
    page = shown(found)
    assert tile(page, "Lag") == "0 offsets when the query last looked"
    assert "east ● answers 2 0 " in page.text


def test_losses_whose_size_nobody_knows() -> None:
    keys = keys_of({("east", "orders"): 2})
    begin, end = (state(dealt(keys, 1), dict.fromkeys(keys, at), 1) for at in (5, 7))
    unknown = Loss(keys[0], Cause.RECREATED, 5)
    known = Loss(keys[1], Cause.AGED_OUT, 5, 6, 1)
    found = Recorder()
    feed(found, [begin, replace(end, losses=(unknown,))], first=5)
    assert tile(shown(found), "Losses") == "1 the number of offsets is unknown"
    both = Recorder()
    feed(both, [begin, replace(end, losses=(unknown, known))], first=5)
    assert tile(shown(both), "Losses") == "2 at most 1 offsets, and 1 of unknown size"


def test_what_is_said_of_a_plan_holds_for_it_alone() -> None:
    keys = keys_of({("east", "orders"): 2})
    begin = state(dealt(keys, 2), dict.fromkeys(keys, 5), 3)
    end = state(dealt(keys, 2), {keys[0]: 50_005, keys[1]: 6}, 3)
    found = Recorder()
    feed(found, [begin, end], first=5)
    text = shown(found).text
    assert "Busiest reader: 50,000 of 50,001 offsets, the best possible without cutting partitions." in text
    said = "The busiest reader has 50,000 of 50,001 offsets, 300% of an equal share, since each partition is read as a"
    assert f"{said} whole; the option plan=level would cut them, and leave it 16,667." in text
    assert tile(shown(found), "Busiest reader") == (
        "300% of an equal share 50,000 of 50,001 offsets; plan=level would cut them"
    )
    assert "could not have fewer" not in text
