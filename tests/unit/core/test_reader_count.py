"""`readers=auto`: more slots count at once, fewer after a minute, and a moment without some changes nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.batch.reader_count import FEWER_AFTER_MS, ReaderCount, follow

MOST = 100


def followed(first: int, *seen: tuple[int, int | None]) -> list[int]:
    """The numbers of readers for slots that were seen at times in s."""
    count, found = ReaderCount(first), []
    for at_s, slots in seen:
        count = follow(count, slots, at_s * 1000, MOST)
        found.append(count.readers)
    return found


def test_more_slots_count_at_once() -> None:
    assert followed(2, (0, 4), (1, 5), (2, 16)) == [4, 5, 16]


def test_fewer_slots_count_after_a_minute() -> None:
    assert followed(8, (0, 4), (30, 4), (59, 4), (60, 4), (61, 4)) == [8, 8, 8, 4, 4]


def test_an_executor_that_is_replaced_moves_nothing() -> None:
    assert followed(8, (0, 6), (59, 6), (60, 8), (61, 6), (120, 6), (121, 6)) == [8, 8, 8, 8, 8, 6]


def test_the_most_slots_of_the_minute_stay() -> None:
    assert followed(8, (0, 2), (30, 5), (45, 3), (60, 2), (100, 2), (120, 2)) == [8, 8, 8, 5, 5, 2]


def test_what_is_not_known_changes_nothing() -> None:
    assert followed(8, (0, None), (60, 0), (120, None)) == [8, 8, 8]
    assert followed(8, (0, 4), (30, None), (60, 4)) == [8, 8, 4]


def test_after_the_clock_was_set_back_the_minute_begins_anew() -> None:
    assert followed(8, (90_000, 4), (90_030, 4), (3_600, 4), (3_659, 4), (3_660, 4)) == [8, 8, 8, 8, 4]


def test_there_are_no_more_than_there_can_be() -> None:
    assert followed(2, (0, 1000)) == [MOST]


seen = st.lists(st.tuples(st.integers(0, 90_000), st.one_of(st.none(), st.integers(0, 20))), max_size=30)


@given(st.integers(1, 20), seen)
def test_it_is_between_what_was_seen_and_shrinks_once_a_minute(first: int, steps: list[tuple[int, int | None]]) -> None:
    count, now_ms, shrunk_ms = ReaderCount(first), 0, None
    latest = [first]
    for passed_ms, slots in steps:
        now_ms += passed_ms
        before, count = count, follow(count, slots, now_ms, MOST)
        latest.append(slots or latest[-1])
        assert 1 <= count.readers <= max(first, *latest)
        if slots:
            assert count.readers >= slots
        if count.readers < before.readers:
            assert shrunk_ms is None or now_ms - shrunk_ms >= FEWER_AFTER_MS
            shrunk_ms = now_ms


@given(st.integers(1, 20), st.integers(1, 20))
def test_it_settles_where_the_slots_stay(first: int, slots: int) -> None:
    count = follow(ReaderCount(first), slots, 0, MOST)
    assert follow(count, slots, FEWER_AFTER_MS, MOST) == ReaderCount(slots)
