"""How long a batch may take before its query is taken to hang, by those before it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evensplit.observe.health.running import NOT_DONE_MS, SLOW_TIMES, STOPPED_MS, patience_ms

HOUR_S = 3_600


def waits_s(*former: tuple[int, int | None], size: int | None) -> float:
    """After batches that took so many seconds for so many records, for one with `size`."""
    return patience_ms([(1_000 * took, of) for took, of in former], size) / 1_000


def test_a_backlog_at_first_does_not_put_off_the_alarm_for_a_day() -> None:
    """It took three hours; then a thousand records come in each batch."""
    backlog, small = (3 * HOUR_S, 10_000_000), (2, 1_000)
    assert waits_s(backlog, size=1_000) == 600, "it is not known how long a small one takes"
    assert waits_s(backlog, small, size=1_000) == 30
    assert waits_s(backlog, *[small] * 9, size=1_500) == 30
    # Another backlog may take as long, and rather more.
    assert 3 * HOUR_S < waits_s(backlog, *[small] * 9, size=10_000_000) < 4 * HOUR_S


def test_a_slow_first_batch_that_was_not_large_puts_it_off_for_hardly_longer_than_it_took() -> None:
    slow, quick = (3 * HOUR_S, 1_000), (2, 1_000)
    assert waits_s((HOUR_S // 2, 1_000), *[quick] * 9, size=1_000) == HOUR_S // 2 + 600
    # Where it took hours, its query was rather down.
    assert waits_s(slow, *[quick] * 9, size=1_000) == HOUR_S + 600
    assert waits_s(slow, slow, *[quick] * 8, size=1_000) == 3 * HOUR_S + 600
    # Of the records of sources that are not evensplit's nothing is known.
    assert waits_s((3 * HOUR_S, None), *[(2, None)] * 9, size=None) == HOUR_S + 600


def test_batches_that_differ_by_load() -> None:
    """A second for each hundred records."""
    by_load = [(1, 100), (10, 1_000), (100, 10_000)] * 3
    assert [waits_s(*by_load, size=size) for size in (100, 1_000, 10_000)] == [30, 50, 500]
    # Ten times as many take ten times as long; a thousand times as many may take less, as most was no reading.
    assert waits_s(*by_load, size=100_000) == 1_000
    assert waits_s(*by_load, size=10_000_000) == HOUR_S


def test_what_a_batch_takes_whatever_it_reads() -> None:
    large = [(50, 1_000_000)] * 10
    assert waits_s(*large, size=10) == 250, "as if it were as large"
    assert waits_s((40, 10), *large, size=10) == 200
    assert waits_s((40, 0), *large, size=0) == 200


def test_a_slow_one_in_ten_is_no_alarm() -> None:
    """A sink compacts its files in each tenth batch."""
    assert waits_s(*[(2, 1_000)] * 9, (120, 1_000), size=1_000) == 600


def test_one_batch_before_it() -> None:
    assert waits_s((4, 1_000), size=1_000) == 30
    assert waits_s((40, 1_000), size=1_000) == 200
    assert waits_s((HOUR_S, 1_000), size=1_000) == 2 * HOUR_S + 600
    assert waits_s(size=1_000) == waits_s(size=None) == 600


def test_a_trigger_of_an_hour() -> None:
    """How long batches took counts; only where that is not known, how far they are apart."""
    assert waits_s(*[(20, 1_000)] * 10, size=1_000) == 100
    assert waits_s(*[(HOUR_S, 1_000)] * 10, size=1_000) == 2 * HOUR_S + 600


former = st.lists(st.tuples(st.integers(0, 10**8), st.none() | st.integers(0, 10**9)), max_size=10)


@given(former, st.none() | st.integers(0, 10**9))
def test_it_is_bounded_by_how_long_batches_took(before: list[tuple[int, int | None]], size: int | None) -> None:
    took = [ms for ms, _ in before]
    waits = patience_ms(before, size)
    assert waits >= NOT_DONE_MS
    assert waits <= max(HOUR_S * 1_000, SLOW_TIMES * max(took, default=0) + STOPPED_MS)
    # A batch that is alike in size to all gets at least as long as they took.
    if took and size is not None and all(of == size for _, of in before):
        assert waits >= min(HOUR_S * 1_000, max(took))
