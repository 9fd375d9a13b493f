"""What happened, from one batch after another: sums, rates, happenings, and what is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evensplit.core.model import Held, Lifecycle, SplitId
from evensplit.core.state.observation import Report
from evensplit.observe import totals as module
from evensplit.observe.source_view import (
    HAPPENINGS_MAX,
    RATE_BATCHES_MAX,
    WORK_MAX,
    Source,
    SplitView,
    View,
    advance,
    look,
)
from evensplit.observe.timeline import BATCH_HAPPENINGS_MAX, Kind
from evensplit.observe.totals import Totals
from tests.support.batches import Script, orders, viewed


def texts(view: View, batch: int | None = None) -> list[str]:
    return [one.text for one in view.happenings if batch in (None, one.batch)]


def test_the_first_batch() -> None:
    script = orders({"east": 3, "west": 1})
    script.write(100, "east")
    script.read(60)
    view = viewed(script.batch(rows=180))
    assert view.source == Source("query-1", 0, "orders")
    assert view.totals == Totals(
        1, 180, 0, {0: 120, 1: 60}, {"east": 180}, {}, {"east": 3, "west": 1}, {}, {}, {}, ("east", "west")
    )
    assert dict(view.read[0]) == {"east": 180}
    (work,) = view.work
    assert (work.batch, work.at_ms, work.duration_ms, work.rows) == (0, 1_010_000, 500, 180)
    assert (dict(work.offsets), work.offsets_sum, work.share, work.bound, work.lag) == (
        {0: 120, 1: 60},
        180,
        90,
        90,
        120,
    )
    assert texts(view) == [
        "the first batch",
        "3 partitions of east/orders were discovered",
        "west/orders/0 was discovered",
    ]
    assert (view.interval_ms, view.rates()) == (None, {})


def test_a_listener_that_comes_later_begins_with_what_it_hears() -> None:
    script = orders({"east": 1})
    script.batch()
    assert texts(viewed(script.batch())) == ["the first batch that is known"]


def test_splits_with_what_is_known_of_each() -> None:
    script = orders({"east": 1, "west": 1, "old": 1})
    first = script.batch()
    script.write(50)
    script.unreachable["west"] = "refused"
    script.read(40)
    script.retain("old")
    view = viewed(first, script.batch(seconds=8))
    assert list(view.splits()) == [
        SplitView(SplitId("east", "orders", 0), Lifecycle.ASSIGNED, 0, 40, 50, 10, 40, 5.0),
        SplitView(SplitId("old", "orders", 0), Lifecycle.RETAINED, None, 0, 50, None, 0, 0.0),
        SplitView(SplitId("west", "orders", 0), Lifecycle.ASSIGNED, 1, 0, None, None, 0, 0.0),
    ]
    assert view.interval_ms == 8_000
    (one, *_) = viewed(first).splits()
    assert one.rate is None


def test_rates_are_of_the_last_batches_of_one_run() -> None:
    script = orders({"east": 2, "gone": 1})
    batches = [script.batch()]
    for _ in range(RATE_BATCHES_MAX + 5):
        script.write(5)
        script.read()
        batches.append(script.batch(seconds=2))
    script.retain("gone")
    script.write(1_000)
    script.read()
    view = viewed(*batches, script.batch(seconds=2))
    # Ten batches of two seconds; the last one has 2,000 of two splits, the nine before it 10 each.
    assert view.rates() == {"east": pytest.approx((2_000 + 9 * 10) / 20)}
    script.restart()
    view = advance(view, script.batch(seconds=9_999))
    assert (view.rates(), view.interval_ms) == ({}, None)
    script.write(6)
    script.read()
    view = advance(view, script.batch(seconds=3))
    assert view.rates() == {"east": pytest.approx(4.0)}


def test_a_time_in_which_nothing_came_counts_if_it_is_known() -> None:
    script = orders({"east": 1})
    first = script.batch()
    script.write(100)
    script.read()
    view = viewed(first, script.batch(seconds=10))
    assert view.last.at_ms is not None
    assert view.rates() == view.rates(view.last.at_ms - 1) == {"east": 10.0}
    assert view.rates(view.last.at_ms + 40_000) == {"east": 2.0}


def test_no_rate_without_times_and_none_where_time_stands_still() -> None:
    script = orders({"east": 1})
    first, second = script.batch(), script.batch(seconds=0)
    assert viewed(first, second).rates() == {}
    assert viewed(first, replace(second, at_ms=(first.at_ms or 0) + 499)).rates() == {}
    assert viewed(first, replace(second, at_ms=(first.at_ms or 0) + 500)).rates() != {}
    assert viewed(first, second).interval_ms is None
    assert viewed(*(replace(one, at_ms=None) for one in (first, second))).rates() == {}


def test_a_batch_that_comes_again_or_too_late_changes_nothing() -> None:
    script = orders({"east": 1})
    batches = [script.batch(), script.batch(), script.batch()]
    view = viewed(*batches)
    for batch in batches:
        assert advance(view, batch) is view


def test_a_checkpoint_that_was_put_back_is_read_on_by_another_run() -> None:
    script = orders({"east": 1})
    batches = [script.batch(), script.batch(), script.batch()]
    view = advance(viewed(*batches), replace(batches[1], run_id="run-2"))
    assert (view.last.number, view.totals.batches) == (1, 4)
    assert texts(view)[-1] == "the query was started again"


def test_a_cluster_that_does_not_answer_and_is_back() -> None:
    script = orders({"east": 1, "west": 1})
    batches = [script.batch()]
    script.unreachable["west"] = "connection refused"
    batches += [script.batch(), script.batch()]
    view = viewed(*batches)
    assert texts(view, 1) == ["cluster west does not answer: connection refused"]
    assert texts(view, 2) == []
    west = view.explanation.clusters[1]
    assert (west.unreachable, west.lag_sum, west.lag_unknown) == ("connection refused", None, 1)
    script.unreachable.clear()
    view = advance(view, script.batch())
    assert texts(view, 3) == ["cluster west answers again"]
    assert view.happenings[-1].clusters == ("west",)


def test_a_cluster_that_is_removed_while_it_does_not_answer_is_not_back() -> None:
    script = orders({"east": 1, "west": 1})
    script.unreachable["west"] = "refused"
    view = viewed(script.batch())
    script.unreachable.clear()
    script.retain("west")
    view = advance(view, script.batch())
    assert texts(view, 1) == ["west/orders/0 is no longer read; its position is kept"]
    script.restore("west")
    view = advance(view, script.batch())
    assert texts(view, 2) == ["west/orders/0 returned, and continues where it stopped"]


def test_a_cluster_that_is_left_out_is_not_back_either() -> None:
    script = orders({"east": 1, "west": 1})
    script.unreachable["west"] = "refused"
    view = viewed(script.batch())
    script.unreachable.clear()
    one = script.batch()
    view = advance(view, replace(one, report=replace(one.report, left_out=("west",))))
    assert texts(view, 1) == []
    view = advance(view, script.batch())
    assert texts(view, 2) == ["cluster west answers again"]


def test_a_query_with_nothing_to_do_that_looks() -> None:
    script = orders({"east": 1, "west": 1})
    before = advance(None, script.batch())
    script.unreachable["west"] = "refused"
    script.write(5)
    seen = script.batch().report
    view = look(before, seen, 7)
    assert [(one.batch, one.at_ms, one.text) for one in view.happenings[len(before.happenings) :]] == [
        (0, 7, "cluster west does not answer: refused")
    ]
    assert [(one.id, one.unreachable, one.lag_sum) for one in view.explanation.clusters] == [
        ("east", "", 5),
        ("west", "refused", None),
    ]
    assert [(one.id.cluster, one.end, one.lag) for one in view.splits()] == [("east", 5, 5), ("west", None, None)]
    same = replace(view, last=before.last, explanation=before.explanation, happenings=before.happenings)
    assert replace(same, away=before.away) == before
    assert look(view, seen, 8) is view
    assert look(view, Report(), 8) is view
    back = look(view, before.last.report, 9)
    assert back.happenings[-1].text == "cluster west answers again"
    assert back.explanation == before.explanation


def test_of_what_was_seen_in_between_the_next_batch_tells_nothing_again() -> None:
    script = orders({"east": 1, "west": 1})
    view = advance(None, script.batch())
    script.unreachable["west"] = "refused"
    one = script.batch()
    assert texts(advance(look(view, one.report), one), 1) == []


def test_what_was_known_before_a_batch_without_a_report_is_not_told_again() -> None:
    script = orders({"east": 1, "west": 1})
    script.unreachable["west"] = "refused"
    view = viewed(script.batch(), script.batch(reported=False), script.batch())
    assert [texts(view, 1), texts(view, 2)] == [[], []]
    script.unreachable.clear()
    view = viewed(*(view.last, script.batch(reported=False), script.batch()))
    assert texts(view)[-1] == "cluster west answers again"


def test_clusters_and_readers_that_come_and_go_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever came first has sums for good, all others have one together."""
    monkeypatch.setattr(module, "CLUSTERS_MAX", 2)
    monkeypatch.setattr(module, "READERS_MAX", 3)
    script = orders({"m": 1, "n": 1}, readers=2)
    view = viewed(script.batch())
    script.forget("m")
    script.discover("a", "orders", 3)
    script.rescale(5)
    script.write(10)
    script.read()
    view = advance(view, script.batch())
    totals = view.totals
    assert totals.clusters == ("m", "n")
    assert totals.discoveries == {"m": 1, "n": 1, None: 3}
    assert totals.offsets == {"n": 10, None: 30}
    assert totals.work == {0: 10, 1: 10, 2: 10, None: 10}
    script.discover("m", "orders", 1)
    assert advance(view, script.batch()).totals.discoveries == {"m": 2, "n": 1, None: 3}


def test_without_a_report_nothing_is_said_of_lag_and_of_who_answers() -> None:
    script = orders({"east": 1, "west": 1})
    script.write(9)
    script.unreachable["west"] = "refused"
    first = script.batch()
    assert viewed(first).work[-1].lag == 9
    view = viewed(first, script.batch(reported=False))
    assert view.work[-1].lag is None
    assert [one.lag_sum for one in view.explanation.clusters] == [None, None]
    assert all(one.lag is None for one in view.splits())
    assert texts(view, 1) == []


def test_what_moves_comes_goes_and_is_lost_is_told_with_its_reasons() -> None:
    script = orders({"east": 4, "west": 1})
    view = viewed(script.batch())
    script.rescale(3)
    script.lose(SplitId("east", "orders", 1), 7)
    script.lose(SplitId("east", "orders", 2), None)
    view = advance(view, script.batch())
    assert texts(view, 1) == [
        "east/orders/1 lost records: its log begins at offset 7, after position 0: the records between "
        "were never read. "
        "At most 7 offsets from 0 on were lost",
        "east/orders/2 lost records: its log begins at offset 0, after position 0: the records between "
        "were never read. "
        "How many offsets from 0 on were lost is not known",
        "east/orders/2 moved from reader 0 to reader 2: the number of readers went from 2 to 3",
        "east/orders/3 moved from reader 1 to reader 0: the number of readers went from 2 to 3",
        "west/orders/0 moved from reader 0 to reader 1: the number of readers went from 2 to 3",
    ]
    assert [one.splits for one in view.happenings[-2:]] == [1, 1]
    totals = view.totals
    assert (totals.moves, totals.moving) == ({"east": 2, "west": 1}, 1)
    assert (totals.losses, totals.lost_offsets, totals.losses_unknown) == ({"east": 2}, {"east": 7}, {"east": 1})
    script.retain("west")
    view = advance(view, script.batch())
    assert texts(view, 2) == ["west/orders/0 is no longer read; its position is kept"]
    script.restore("west")
    view = advance(view, script.batch())
    assert texts(view, 3) == ["west/orders/0 returned, and continues where it stopped"]
    script.forget("east")
    view = advance(view, script.batch())
    assert "4 partitions of east/orders were away for too long and are forgotten" in texts(view, 4)
    assert view.totals.discoveries == {"east": 4, "west": 1}


@pytest.mark.lengthy
def test_thousands_at_once_are_told_in_few_lines() -> None:
    script = Script(readers=1)
    for number in range(1_000):
        script.discover("east", f"topic-{number:03}", 3)
    view = viewed(script.batch())
    assert len(view.happenings) == 1 + BATCH_HAPPENINGS_MAX
    assert texts(view)[1] == "3 partitions of east/topic-000 were discovered"
    assert texts(view)[-1] == "2,943 more partitions were discovered"
    assert view.happenings[-1].splits == 2_943
    assert view.happenings[-1].clusters == ("east",)
    script.rescale(500)
    view = advance(view, script.batch())
    moved = [one for one in view.happenings if one.kind is Kind.MOVED]
    assert len(moved) == BATCH_HAPPENINGS_MAX
    assert sum(one.splits for one in moved) == sum(view.totals.moves.values()) > 2_900


def test_many_clusters_that_do_not_answer_are_told_in_few_lines() -> None:
    script = orders({f"c{number:03}": 1 for number in range(100)})
    view = viewed(script.batch())
    script.unreachable = {f"c{number:03}": "refused" for number in range(100)}
    view = advance(view, script.batch())
    assert len(texts(view, 1)) == BATCH_HAPPENINGS_MAX
    assert texts(view, 1)[-1] == "81 more clusters do not answer"
    script.unreachable = {}
    assert texts(advance(view, script.batch()), 2)[-1] == "81 more clusters answer again"


def test_lists_are_bounded() -> None:
    script = orders({"east": 4})
    batches = []
    for _ in range(WORK_MAX + 30):
        script.shuffle()
        batches.append(script.batch())
    view = viewed(*batches)
    assert len(view.work) == len(view.read) == WORK_MAX
    assert view.work[-1].batch == WORK_MAX + 29
    assert len(view.happenings) <= HAPPENINGS_MAX
    assert view.totals.batches == WORK_MAX + 30
    flapping = script.batch()
    for number in range(HAPPENINGS_MAX):
        view = advance(view, replace(flapping, number=flapping.number + number, run_id=str(number)))
    assert len(view.happenings) == HAPPENINGS_MAX


def test_how_many_readers_are_needed() -> None:
    """Forty offsets arrive each second and 30 are read, which takes each of two readers half a second."""
    script = orders({"east": 2})
    batches = []
    for _ in range(3):
        script.write(200)
        script.read(150)
        batches.append(script.batch())
    assert viewed(batches[0]).readers_needed() is None
    found = viewed(*batches).readers_needed()
    assert found is not None
    assert (found.readers, found.arriving, found.speed, found.lag) == (1, 40, 300, 300)
    more = viewed(*batches).readers_needed(lag=60_000)
    assert more is not None
    assert (more.readers, more.capped) == (2, True), "one for each partition"
    unknown = viewed(*(replace(one, duration_ms=None) for one in batches))
    assert unknown.readers_needed() is None
    assert unknown.readers_needed(durations={0: 500, 1: 500, 2: 500}) == found
    script.restart()
    script.write(200)
    script.read()
    assert viewed(*batches, script.batch()).readers_needed() is None, "the time between two runs says nothing"


def test_as_many_readers_are_needed_while_a_cluster_is_away() -> None:
    """Four hundred offsets arrive each second all the time, and west's wait for four batches."""
    script, view = orders({"east": 20, "west": 20}, readers=4), None
    for number in range(20):
        script.unreachable = {"west": "no answer"} if 4 <= number < 8 else {}
        script.write(100)
        script.read()
        view = advance(view, script.batch())
        found = view.readers_needed()
        if number:
            assert found is not None
            assert (found.arriving, found.ends_known) == (400, True), number
    assert view is not None
    script.retain("west")
    script.write(100, "east")
    script.read()
    found = advance(view, script.batch()).readers_needed()
    assert found is not None
    assert found.arriving == 200, "a cluster that is not read any more brings nothing"


def test_what_waits_for_a_limit_is_known_of_an_idle_query() -> None:
    script, view = orders({"east": 4}), None
    for _ in range(3):
        script.write(1_000)
        script.read(10)
        batch = script.batch()
        held = replace(batch.end, held=(Held("maxOffsetsPerTrigger", "east"), Held("alignment", "east")))
        view = advance(view, replace(batch, end=held))
    assert view is not None
    assert view.work[-1].held == ("alignment", "maxOffsetsPerTrigger")
    for until_ms in (None, script.at_ms + 60_000):
        found = view.readers_needed(until_ms)
        assert found is not None
        assert (found.readers, found.held_by) == (1, ("alignment", "maxOffsetsPerTrigger"))
    behind = view.readers_needed(script.at_ms + 60_000, lag=0)
    assert behind is not None
    assert behind.arriving < 400
