"""How long unread records have waited: bounds that are proven by the ends that were seen, and nothing else."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.model import Split, SplitId
from evensplit.observe.history.ends_seen import LOOKS_MAX, Age, EndsSeen, least_needed
from evensplit.observe.history.lag_history import POINTS_MAX, LagHistory, oldest
from evensplit.observe.source_view import WAITED_MS, look
from tests.support.batches import orders, viewed

A, B = SplitId("east", "orders", 0), SplitId("west", "orders", 0)


def at(**positions: int) -> dict[SplitId, Split]:
    """Splits at these positions: `a` and `b`."""
    keys = {"a": A, "b": B}
    return {keys[name]: Split(keys[name], "id", position) for name, position in positions.items()}


def test_it_waits_since_the_log_was_first_seen_beyond_the_position() -> None:
    seen = EndsSeen()
    for time, end in ((1_000, 10), (2_000, 10), (3_000, 25), (4_000, 40)):
        seen = seen.seen(at(a=10), {A: end}, time)
    ages, _ = seen.ages(at(a=10))
    assert ages == {"east": Age(1_000, 2_000)}
    assert seen.ages(at(a=25))[0] == {"east": Age(0, 1_000)}
    assert seen.ages(at(a=39))[0] == {"east": Age(0, 1_000)}
    assert seen.ages(at(a=40))[0] == {"east": Age(0, 0)}


def test_what_was_there_at_the_first_look_may_have_waited_for_ever() -> None:
    seen = EndsSeen().seen(at(a=10), {A: 11}, 1_000).seen(at(a=10), {A: 11}, 61_000)
    assert seen.ages(at(a=10))[0] == {"east": Age(60_000, None)}


def test_each_cluster_by_its_oldest_record_and_those_without_an_end_not_at_all() -> None:
    splits = {**at(a=0, b=0), SplitId("east", "orders", 1): Split(SplitId("east", "orders", 1), "id", 5)}
    other = SplitId("east", "orders", 1)
    seen = EndsSeen().seen(splits, {A: 0, other: 5}, 0).seen(splits, {A: 0, other: 9}, 5_000)
    seen = seen.seen(splits, {A: 3, other: 9}, 20_000)
    assert seen.ages(splits)[0] == {"east": Age(15_000, 20_000)}
    assert oldest((Age(5, 9), Age(7, 8))) == Age(7, 9)
    assert oldest((Age(5, None), Age(7, 8))) == Age(7, None)
    assert oldest(()) is None


def test_a_cluster_that_is_away_is_known_by_what_was_seen_before() -> None:
    seen = EndsSeen().seen(at(a=0), {A: 0}, 0).seen(at(a=0), {A: 5}, 1_000)
    seen = seen.seen(at(a=0), {}, 9_000)
    assert seen.ages(at(a=0))[0] == {"east": Age(8_000, 9_000)}
    # All of it is read, and whether there is more is not known.
    assert seen.ages(at(a=5))[0] == {}
    back = seen.ages(at(a=5))[1].seen(at(a=5), {A: 6}, 10_000)
    assert back.ages(at(a=5))[0] == {"east": Age(0, 9_000)}


def test_a_log_that_is_another_one_begins_anew() -> None:
    seen = EndsSeen().seen(at(a=0), {A: 50}, 0).seen(at(a=0), {A: 7}, 5_000).seen(at(a=0), {A: 8}, 6_000)
    assert seen.ages(at(a=0))[0] == {"east": Age(1_000, None)}


def test_a_clock_that_is_set_back_makes_nothing_old() -> None:
    seen = EndsSeen().seen(at(a=0), {A: 50}, 9_000).seen(at(a=0), {A: 50}, 5_000)
    assert seen.ages(at(a=0))[0] == {"east": Age(0, None)}


def test_two_looks_at_one_time_are_one() -> None:
    seen = EndsSeen().seen(at(a=0, b=0), {A: 5}, 1_000).seen(at(a=0, b=0), {B: 0}, 1_000)
    assert seen.times == (1_000,)
    assert seen.ages(at(a=0, b=0))[0] == {"east": Age(0, None), "west": Age(0, 0)}


def test_new_partitions_and_those_that_are_gone() -> None:
    seen = EndsSeen().seen(at(a=0), {A: 5}, 0).seen(at(a=0, b=0), {A: 5, B: 1}, 4_000)
    assert seen.ages(at(a=0, b=0))[0] == {"east": Age(4_000, None), "west": Age(0, None)}
    seen = seen.seen(at(b=0), {B: 1}, 5_000)
    assert seen.ages(at(b=0))[0] == {"west": Age(1_000, None)}


def test_what_was_read_to_the_end_needs_no_past() -> None:
    seen = EndsSeen()
    for time in range(10):
        seen = seen.seen(at(a=time), {A: time}, time)
    assert seen.ages(at(a=9))[1].times == (9,)
    assert seen.ages(at(a=4))[1].times == tuple(range(4, 10))


def test_old_looks_are_thinned_out_and_the_first_stays() -> None:
    seen = EndsSeen()
    for time in range(0, 3_600_000, 1_000):
        seen = seen.seen(at(a=0), {A: time}, time)
    assert len(seen.times) == LOOKS_MAX
    assert (seen.times[0], seen.times[-1]) == (0, 3_599_000)
    # However old, it is known to within a fifth.
    for ago in (10, 100, 1_000, 3_000):
        age = seen.ages(at(a=3_599_000 - 1_000 * ago))[0]["east"]
        assert age.most_ms is not None
        assert 0.8 * 1_000 * ago <= age.least_ms < 1_000 * ago <= age.most_ms <= 1.25 * 1_000 * ago + 2_000


def test_the_last_time_and_the_first_are_never_the_least_needed() -> None:
    assert least_needed([0, 1, 2, 100], relative=False) == 1
    assert least_needed([0, 50, 99, 100], relative=False) == 2
    assert least_needed([0, 50, 99, 100], relative=True) == 1


@given(
    st.lists(st.tuples(st.integers(1, 60_000), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=120),
)
def test_the_bounds_hold_for_any_writer_and_reader(steps: list[tuple[int, int, int]]) -> None:
    """Against a log that knows when each record came. `steps`: time that passes, records that come, that are read."""
    came: list[int] = []
    seen, now_ms, position = EndsSeen(), 0, 0
    for passed_ms, written, read in steps:
        came += [now_ms + passed_ms * (one + 1) // (written + 1) for one in range(written)]
        now_ms += passed_ms
        position = min(len(came), position + read)
        ages, seen = seen.seen(at(a=position), {A: len(came)}, now_ms).ages(at(a=position))
        age = ages["east"]
        true_ms = now_ms - came[position] if position < len(came) else 0
        assert age.least_ms <= true_ms
        assert age.most_ms is None or true_ms <= age.most_ms
        assert len(seen.times) <= LOOKS_MAX


def test_a_view_has_the_lag_over_time() -> None:
    script = orders({"east": 2})
    batches = [script.batch()]
    for _ in range(3):
        script.write(100)
        script.read(40)
        batches.append(script.batch())
    view = viewed(*batches)
    assert [(point.lag, point.age) for point in view.lags.points] == [
        (0, Age(0, 0)),
        (120, Age(0, 10_000)),
        (240, Age(10_000, 20_000)),
        (360, Age(10_000, 20_000)),
    ]
    assert view.lags.age == Age(10_000, 20_000)
    at_ms = view.last.at_ms or 0
    assert look(view, view.last.report, at_ms + WAITED_MS - 1) is view
    later = look(view, view.last.report, at_ms + 60_000)
    assert later.lags.age == Age(70_000, 80_000)
    assert later == view, "a look at what is as it was changes nothing else"


def test_without_times_or_ends_there_is_none() -> None:
    script = orders({"east": 1})
    script.write(5)
    view = viewed(script.batch(reported=False))
    assert (view.lags.points, view.lags.age) == ((), None)
    state = script.batch().end
    assert LagHistory().seen(state, {}, 5, None) == LagHistory().seen(state, {A: 5}, None, 5) == LagHistory()


def test_points_are_bounded_and_evenly_spread() -> None:
    state = orders({"east": 1}).batch().end
    lags = LagHistory()
    for time in range(1, 5 * POINTS_MAX):
        lags = lags.seen(state, {A: time}, 1_000 * time, time)
    times = [point.at_ms for point in lags.points]
    assert (len(times), times[0], times[-1]) == (POINTS_MAX, 1_000, 1_000 * (5 * POINTS_MAX - 1))
    assert max(b - a for a, b in pairwise(times)) <= 8 * min(b - a for a, b in pairwise(times))
