"""Advice: each rule where it holds, none where it does not, and nothing for a query that is well."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.model import Held, SplitId
from evensplit.core.state.settings import LEVEL, OWNERS, RATE, Settings
from evensplit.explain.held import ALIGNMENT
from evensplit.explain.written import WriteOutcome
from evensplit.observe.health.advice import LOST_MS, advice_of, lag_grows
from evensplit.observe.health.figures import figures_of
from evensplit.observe.health.rules import PAGES, URGENT_RULES, WHEN, Advice, Rule
from evensplit.observe.health.running import SILENT_MS, STOPPED_MS
from evensplit.observe.history.ends_seen import Age
from evensplit.observe.history.lag_history import LagHistory
from evensplit.observe.recorder import QueryStatus, Recorder
from evensplit.observe.source_view import View, look
from tests.support.advised import batches, played, rules, watched
from tests.support.batches import Script, orders, viewed
from tests.support.views import behind
from tests.support.write_reports import report, writes

DOCS = Path(__file__).resolve().parents[3] / "docs"


def well() -> Script:
    return orders({"east": 4, "west": 2})


def read_all(count: int = 12) -> View:
    script = well()
    batches = [script.batch()]
    for number in range(count):
        script.write(100 + number % 3)
        script.read()
        batches.append(script.batch())
    return viewed(*batches)


@pytest.mark.parametrize("stage", [QueryStatus.RUNNING, QueryStatus.IDLE, QueryStatus.ENDED, QueryStatus.UNKNOWN])
def test_a_query_that_is_well_gets_none(stage: QueryStatus) -> None:
    view = read_all()
    at_ms = view.last.at_ms or 0
    assert advice_of(watched(view, stage), at_ms + 1_000) == ()
    # That an idle query, or one that has read all, had no batch for long is no fault.
    idle = stage in (QueryStatus.IDLE, QueryStatus.UNKNOWN, QueryStatus.ENDED)
    heard_ms = at_ms + 10 * SILENT_MS if idle else at_ms
    assert advice_of(watched(view, stage, heard_ms), heard_ms + 1_000) == ()


def test_clusters_that_are_away() -> None:
    script = well()
    script.unreachable["west"] = "refused"
    view = viewed(script.batch())
    found = advice_of(watched(view))
    assert rules(found) == ["away"]
    assert "Cluster west does not answer: look at the brokers" in found[0].text
    assert "after unreachableTimeout the query fails" in found[0].text
    assert advice_of(watched(view, QueryStatus.ENDED)) == ()
    elsewhere = advice_of(watched(view, QueryStatus.UNKNOWN))
    assert "does not answer this machine" in elsewhere[0].text
    assert "fails" not in elsewhere[0].text


def test_losses() -> None:
    script = well()
    script.lose(SplitId("east", "orders", 1), 7)
    view = viewed(script.batch())
    for stage in (QueryStatus.RUNNING, QueryStatus.ENDED):
        found = advice_of(watched(view, stage))
        assert rules(found) == ["lost"]
        assert "of 1 partition in east" in found[0].text
        at_ms = view.last.at_ms or 0
        assert rules(advice_of(watched(view, stage, at_ms + LOST_MS), at_ms + LOST_MS)) == ["lost"]
        assert advice_of(watched(view, stage, at_ms + LOST_MS), at_ms + LOST_MS + 1) == (), "it is long ago"


@pytest.mark.parametrize("outcome", WriteOutcome)
def test_batches_that_could_not_be_written(outcome: WriteOutcome) -> None:
    recorder = Recorder()
    writes(recorder, report(4, outcome))
    found = advice_of(watched(read_all()), sink=recorder.sinks.all()[0].view)
    trouble = outcome in ("too old", "not ended", "incomplete", "failed")
    assert rules(found) == (["not-written"] if trouble else [])


def test_a_running_query_of_which_nothing_is_heard() -> None:
    view = read_all()
    one = watched(view)
    at_ms = view.last.at_ms or 0
    assert advice_of(one, at_ms + SILENT_MS) == ()
    found = advice_of(one, at_ms + SILENT_MS + 60_000)
    assert rules(found) == ["silent"]
    assert "Nothing was heard of it for 31 min" in found[0].text
    assert advice_of(one) == (), "without a clock nothing is said of time"


def test_a_checkpoint_without_new_batches_that_has_records_to_read() -> None:
    script = well()
    first = script.batch(reported=False)
    script.write(5, "east")
    view = viewed(first, script.batch())
    at_ms = view.last.at_ms or 0
    assert advice_of(watched(view, QueryStatus.UNKNOWN), at_ms + STOPPED_MS) == ()
    found = advice_of(watched(view, QueryStatus.UNKNOWN), at_ms + 5 * 3_600_000)
    assert rules(found) == ["stopped"]
    assert "No batch was planned for 5 h, and 20 offsets are unread" in found[0].text
    # One that has a batch once an hour has not stopped after five hours.
    last = replace(view.last, at_ms=(view.work[0].at_ms or 0) + 3_600_000)
    slow = replace(view, last=last, work=(view.work[0], replace(view.work[1], at_ms=last.at_ms)))
    assert advice_of(watched(slow, QueryStatus.UNKNOWN), (last.at_ms or 0) + 5 * 3_600_000) == ()


def test_more_readers_where_they_do_not_keep_up() -> None:
    ends = batches(lambda batch, split: 1_000)
    found = advice_of(watched(played(ends, took=lambda _: 10_000, every_ms=10_000, lag=lambda now: 5_000 * now)))
    assert rules(found) == ["readers"]
    assert re.match(r"Give it 4 readers \(it has 2\): [\d,]+ offsets/s arrive, and one reader does", found[0].text)


def test_more_partitions_where_readers_would_have_none() -> None:
    ends = batches(lambda batch, split: 1_000, splits=2)
    view = played(ends, took=lambda _: 10_000, every_ms=10_000, lag=lambda now: 50_000 * now)
    assert rules(advice_of(watched(view))) == ["partitions"]


LIMIT = (Held("maxOffsetsPerTrigger", ""),)


def test_a_limit_that_holds_back_while_the_lag_grows() -> None:
    ends = batches(lambda batch, split: 100, held=LIMIT)
    found = advice_of(watched(played(ends, took=lambda _: 1_000, every_ms=10_000, lag=lambda now: 500 * now)))
    assert rules(found) == ["limit"]
    assert "maxOffsetsPerTrigger keeps batches short" in found[0].text
    assert "raise it" in found[0].text


def test_a_limit_far_below_what_one_reader_goes_through() -> None:
    """Its lag is so small that the readers that there are would do for it."""
    ends = batches(lambda batch, split: 100, held=LIMIT)
    view = played(ends, took=lambda _: 100, every_ms=1_000, lag=lambda now: 100 * now)
    found = advice_of(watched(view))
    assert rules(found) == ["limit"]
    assert "maxOffsetsPerTrigger keeps batches short at 400 offsets/s, and the lag grows: raise it." in found[0].text
    ends = batches(lambda batch, split: 100, held=(Held(ALIGNMENT, "west"),))
    assert rules(advice_of(watched(played(ends, took=lambda _: 100, every_ms=1_000, lag=lambda now: now)))) == [
        "alignment"
    ]


def test_a_limit_and_a_large_lag_that_is_looked_at_once() -> None:
    ends = batches(lambda batch, split: 100, held=LIMIT)
    said: dict[int, Sequence[Advice]] = {}
    for lag in (5_900, 6_000):
        view = played(ends, took=lambda _: 1_000, every_ms=10_000, lag=lambda _, left=lag: left)  # type: ignore[misc]
        assert advice_of(watched(view)) == ()
        once = replace(view.lags, points=view.lags.points[-1:])
        said[lag] = advice_of(watched(replace(view, lags=once)))
    assert [rules(found) for found in said.values()] == [[], ["limit"]]
    assert "keeps batches short at 40 offsets/s, and what is unread takes 10 min at that" in said[6_000][0].text


def test_a_limit_that_holds_back_a_lag_that_shrinks_is_wanted() -> None:
    ends = batches(lambda batch, split: 100, held=LIMIT)
    for lag in (lambda now: 5_000 - 500 * now, lambda now: 5_000):
        assert advice_of(watched(played(ends, took=lambda _: 1_000, every_ms=10_000, lag=lag))) == ()


def test_alignment_that_waits_while_the_lag_grows() -> None:
    ends = batches(lambda batch, split: 100, held=(Held(ALIGNMENT, "west"),))
    found = advice_of(watched(played(ends, took=lambda _: 1_000, every_ms=10_000, lag=lambda now: 500 * now)))
    assert rules(found) == ["alignment"]
    assert "alignment waits for west" in found[0].text


def skewed(settings: Settings) -> View:
    """One of six partitions has nearly all."""
    ends = batches(lambda batch, split: 90_000 if split == 0 else 100, splits=6, readers=3, settings=settings)
    return played(ends, took=lambda _: 1_000, every_ms=10_000, lag=lambda now: 0)


def test_one_partition_with_most_of_the_records() -> None:
    found = advice_of(watched(skewed(Settings())))
    assert rules(found) == ["level"]
    assert "One partition has 90,000 of 90,500 offsets, 3.0 times a reader's share: set plan=level" in found[0].text
    assert advice_of(watched(skewed(Settings(plan=LEVEL)))) == ()


def test_one_such_batch_says_nothing() -> None:
    ends = batches(lambda batch, split: 90_000 if (split, batch) == (0, 9) else 100, splits=6, readers=3)
    assert advice_of(watched(played(ends, took=lambda _: 1_000, every_ms=10_000, lag=lambda now: 0))) == ()


def test_few_offsets_are_not_worth_cutting() -> None:
    ends = batches(lambda batch, split: 900 if split == 0 else 1, splits=6, readers=3)
    assert advice_of(watched(played(ends, took=lambda _: 1_000, every_ms=10_000, lag=lambda now: 0))) == ()


def owned(settings: Settings) -> View:
    """One of three readers owns the two partitions with most of the records."""
    ends = batches(lambda batch, split: 40_000 if split % 3 == 0 else 100, splits=6, readers=3, settings=settings)
    return played(ends, took=lambda _: 1_000, every_ms=10_000, lag=lambda now: 0)


def test_owners_that_are_uneven_by_work() -> None:
    found = advice_of(watched(owned(Settings(plan=OWNERS))))
    assert rules(found) == ["by-rate"]
    assert "The busiest reader has 80,000 of 80,400 offsets, 3.0 times its share: set balance=rate" in found[0].text
    assert advice_of(watched(owned(Settings(plan=OWNERS, balance=RATE)))) == ()
    assert advice_of(watched(owned(Settings()))) == (), "by default, one of them is lent to another reader"


def test_batches_that_take_long_whatever_they_read() -> None:
    ends = batches(lambda batch, split: 100 * (1 + batch % 3), count=20)
    slow = played(ends, took=lambda now: 8_000 + 200 * (now % 3), every_ms=8_300, lag=lambda now: 0)
    found = advice_of(watched(slow))
    assert rules(found) == ["fixed"]
    assert re.match(r"A batch takes 8\.2 s, and 7\.\d s of it whatever it reads", found[0].text)
    quick = played(ends, took=lambda now: 800 + 20 * (now % 3), every_ms=830, lag=lambda now: 0)
    assert advice_of(watched(quick)) == ()
    reading = played(ends, took=lambda now: 8_000 * (1 + now % 3), every_ms=25_000, lag=lambda now: 0)
    assert advice_of(watched(reading)) == ()


def test_partitions_that_move_in_most_batches() -> None:
    script = well()
    made = [script.batch()]
    for number in range(12):
        script.write(10)
        script.read()
        if number % 3:
            script.shuffle()
        made.append(script.batch())
    view = viewed(*made)
    found = advice_of(watched(view))
    assert rules(found) == ["moves"]
    assert "in 8 of the last 13 batches" in found[0].text
    assert advice_of(watched(viewed(*made[:6]))) == (), "a few batches say nothing"


def test_the_lag_grows_only_over_several_batches() -> None:
    ends = batches(lambda batch, split: 100, count=12)

    def grows(lag: Callable[[int], int], count: int = 12) -> bool:
        return lag_grows(played(ends[: count + 1], took=lambda _: 1_000, every_ms=10_000, lag=lag))

    assert grows(lambda now: now)
    assert grows(lambda now: 1_000 + 100 * now), "a little lately, and by far over all"
    assert not grows(lambda now: 1_000 + 10 * now)
    assert not grows(lambda now: now, count=3)
    assert not grows(lambda now: 7)
    assert not grows(lambda now: 100 - now)
    assert not grows(lambda now: 0)
    assert not grows(lambda now: 5 if now == 5 else 0), "a single high"


def test_short_batches_hide_no_growth() -> None:
    """A hundred batches are ten seconds: they show little of a lag that grew for minutes."""
    ends = batches(lambda batch, split: 1, count=100)

    def grows(lag: Callable[[int], int], *, since_s: int = 240) -> bool:
        """`lag`: so many seconds before the end -> offsets."""
        view = played(ends, took=lambda _: 50, every_ms=100, lag=lambda now: 0)
        view, end_ms = replace(view, lags=LagHistory()), view.last.at_ms or 0
        # The query is followed for as long as that, and its first batch then is no longer kept.
        begun = replace(view.happenings[0], at_ms=end_ms - 1_000 * since_s)
        view = replace(view, happenings=(begun,))
        for second in range(since_s, -1, -max(1, since_s // 720)):
            report = behind(view.last.end, lambda key, left=second: lag(left))  # type: ignore[misc]
            view = look(view, report, end_ms - 1_000 * second)
        return lag_grows(view)

    assert grows(lambda left: 3_700 - 13 * left)
    assert not grows(lambda left: 3_700)
    assert not grows(lambda left: 3_700 - 13 * left if left > 100 else 2_400), "it has stopped to grow"
    assert not grows(lambda left: 100 + 13 * left)
    # However long it has grown by as much, and though fewer looks are kept of that.
    assert grows(lambda left: 10 * (7_200 - left), since_s=7_200)
    assert not grows(lambda left: 10 * (7_200 - max(left, 1_800)), since_s=7_200)
    # Of what was before this run, nothing counts.
    assert not grows(lambda left: 3_700 - 13 * left, since_s=1)


def test_all_of_it_in_json() -> None:
    (one,) = advice_of(watched(skewed(Settings())))
    assert json.loads(json.dumps(one.to_json())) == {
        "rule": "level",
        "urgent": False,
        "text": one.text,
        "page": "howto/skew.md#cut-it",
    }


def test_every_rule_has_its_section_in_the_documentation() -> None:
    assert set(PAGES) == set(WHEN) == set(Rule)
    told = (DOCS / "dashboard.md").read_text()
    assert [rule for rule in Rule if f"| `{rule}` |" not in told] == []
    assert set(Rule) > URGENT_RULES
    for page in PAGES.values():
        name, _, section = page.partition("#")
        heads = re.findall(r"^#+ (.*)$", (DOCS / name).read_text(), re.M)
        assert section in [re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads], page


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 60_000)), min_size=1, max_size=15),
    st.sampled_from([QueryStatus.RUNNING, QueryStatus.IDLE, QueryStatus.ENDED, QueryStatus.FAILED]),
)
def test_whoever_reads_all_at_once_is_told_nothing_of_lag(steps: list[tuple[int, int]], stage: QueryStatus) -> None:
    script = well()
    made = [script.batch()]
    for written, seconds in steps:
        script.write(written)
        script.read()
        made.append(script.batch(seconds=seconds))
    found = advice_of(watched(viewed(*made), stage), made[-1].at_ms)
    assert {one.rule for one in found} <= {Rule.FIXED, Rule.READERS}
    assert found == advice_of(watched(viewed(*made), stage), made[-1].at_ms)


def test_figures() -> None:
    script = well()
    made = [script.batch()]
    for _ in range(3):
        script.write(100)
        script.read(50)
        made.append(script.batch())
    view = viewed(*made)
    found = figures_of(watched(view))
    assert (found.batch, found.at_ms, found.duration_ms, found.splits) == (3, view.last.at_ms, 500, 6)
    assert (found.lag, found.lag_unknown, found.age) == (900, 0, Age(10_000, 20_000))
    assert found.rate == 30.0
    assert (found.even, found.promised) == (True, True)
    assert "as even as possible" in found.proof
    assert figures_of(watched(view, QueryStatus.IDLE)).rate == 0
    assert figures_of(watched(view, QueryStatus.ENDED)).rate is None
    assert (found.behind, found.waited) == ("900", "10 s")
    unknown = figures_of(watched(viewed(script.batch(reported=False))))
    assert (unknown.lag, unknown.lag_unknown, unknown.age) == (None, 6, None)
    assert (unknown.behind, unknown.waited) == ("?", "?")


@pytest.mark.parametrize(
    "age, unknown, said",
    [(Age(37_000, None), 0, ">37 s"), (Age(0, None), 0, ">0 s"), (Age(0, 0), 0, "0 s"), (Age(0, 0), 2, "0 s +?")],
)
def test_how_long_records_have_waited_in_words(age: Age, unknown: int, said: str) -> None:
    found = replace(figures_of(watched(read_all())), age=age, lag_unknown=unknown)
    assert found.waited == said
    assert found.behind == ("0 +?" if unknown else "0")
