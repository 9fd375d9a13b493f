"""Advice on checkpoints whose newest batch is not done, or whose next one is overdue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evensplit.observe.health.advice import advice_of
from evensplit.observe.health.rules import Advice, Rule
from evensplit.observe.recorder import QueryStatus
from evensplit.observe.source_view import with_durations
from tests.support.advised import batches, played, rules, text, watched


def kept(
    *, took: Sequence[int | None], ago_s: int, last: int = 100, done: bool = False, lag: int = 0
) -> tuple[Advice, ...]:
    """What is said of a checkpoint whose batches took so long, in ms, a minute apart, when the last one, of so many
    offsets, was planned so long ago."""
    ends = batches(lambda batch, split: last if batch == len(took) else 100, count=len(took) + 1)
    view = played(ends, took=lambda batch: [*took, None][batch], every_ms=60_000, lag=lambda now: lag)
    view = with_durations(view, {}, done=done)
    return advice_of(watched(view, QueryStatus.UNKNOWN), (view.last.at_ms or 0) + 1000 * ago_s)


def test_a_batch_that_is_not_done_for_much_longer_than_those_before_it() -> None:
    for ago_s in (0, 5, 30):
        assert kept(took=[400] * 6, ago_s=ago_s) == ()
    found = kept(took=[400, 900, 400], ago_s=7 * 60)
    assert rules(found) == ["not-done"]
    assert found[0].urgent
    assert "Batch 3 is not done after 7 min (those before it: 0.9 s at most): see whether the query" in found[0].text
    assert rules(kept(took=[400] * 6, ago_s=31, lag=5)) == ["not-done"]
    assert rules(kept(took=[400] * 6, ago_s=9 * 60, done=True, lag=5)) == []
    assert rules(kept(took=[400] * 6, ago_s=11 * 60, done=True, lag=5)) == ["stopped"]
    # One thing is said of a query that does not run.
    assert rules(kept(took=[400] * 6, ago_s=3_600, lag=5)) == ["not-done"]


def test_batches_that_simply_are_long_and_such_as_are_not_to_be_compared() -> None:
    assert kept(took=[400, 120_000, 400], ago_s=600) == ()
    assert "before it: 0.4 s mostly, 2 min at most)" in text(kept(took=[400, 120_000, 400], ago_s=601), Rule.NOT_DONE)
    # How long they took is not known where files are copies, and at most from one plan to the next.
    assert kept(took=[None] * 4, ago_s=300) == ()
    assert "(those before it: 60 s at most)" in text(kept(took=[None] * 4, ago_s=301), Rule.NOT_DONE)
    # The first one, and one that is much larger than those before, may take long.
    for found in (kept(took=[], ago_s=600), kept(took=[400] * 6, ago_s=600, last=201)):
        assert found == ()
    assert rules(kept(took=[400] * 6, ago_s=31, last=200)) == ["not-done"]
    assert rules(kept(took=[400] * 6, ago_s=601, last=201)) == ["not-done"]
    assert "Batch 0 is not done after 10 min: see whether" in text(kept(took=[], ago_s=601), Rule.NOT_DONE)


def test_a_clock_that_was_set_back_does_not_say_how_long_batches_took() -> None:
    def found(at_ms: Sequence[int], ago_s: int) -> tuple[Advice, ...]:
        ends = batches(lambda batch, split: 100, count=len(at_ms))
        view = played(ends, took=lambda batch: None, every_ms=60_000, lag=lambda now: 0)
        work = tuple(replace(one, at_ms=at) for one, at in zip(view.work, at_ms, strict=True))
        view = replace(view, work=work, last=replace(view.last, at_ms=at_ms[-1]))
        return advice_of(watched(with_durations(view, {}, done=False), QueryStatus.UNKNOWN), at_ms[-1] + 1000 * ago_s)

    assert found((10_000_000, 3_000_000, 2_000_000), 600) == ()
    back = text(found((10_000_000, 3_000_000, 2_000_000), 601), Rule.NOT_DONE)
    assert "is not done after 10 min: see" in back
    assert "60 s at most" in text(found((10_000_000, 3_000_000, 3_060_000), 301), Rule.NOT_DONE)


def test_of_a_batch_that_is_not_done_nothing_is_computed() -> None:
    """Its rate is what was planned, not what was read."""
    ends = batches(lambda batch, split: 900_000 if batch == 9 else 100)
    view = played(ends, took=lambda batch: 5_000 if batch < 9 else None, every_ms=10_000, lag=lambda now: 0)
    undone = with_durations(view, {}, done=False)
    at_ms = (view.last.at_ms or 0) + 1_000
    assert rules(advice_of(watched(view, QueryStatus.UNKNOWN), at_ms)) == ["readers"]
    assert advice_of(watched(undone, QueryStatus.UNKNOWN), at_ms) == ()
    assert undone.rates() == {"east": 40.0}
    assert view.rates() != undone.rates()


def test_whoever_does_not_run_needs_no_readers() -> None:
    ends = batches(lambda batch, split: 1_000)
    view = played(ends, took=lambda _: 10_000, every_ms=10_000, lag=lambda now: 5_000 * now)
    at_ms = view.last.at_ms or 0
    for ago_s, said in ((10, ["readers"]), (50, ["readers"]), (51, []), (611, ["stopped"])):
        assert rules(advice_of(watched(view, QueryStatus.UNKNOWN), at_ms + 1_000 * ago_s)) == said
    assert rules(advice_of(watched(view), at_ms + 51_000)) == ["readers"], "of a query that is heard, it is known"
    undone = with_durations(view, {}, done=False)
    for ago_s, said in ((20, ["readers"]), (21, []), (50, [])):
        assert rules(advice_of(watched(undone, QueryStatus.UNKNOWN), at_ms + 1_000 * ago_s)) == said
    assert rules(advice_of(watched(undone, QueryStatus.UNKNOWN), at_ms + 51_000)) == ["not-done"]
