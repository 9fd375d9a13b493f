"""How many readers are needed: worked examples, what is not known, and what always holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.state.state import READERS_MAX
from evensplit.explain.readers_needed import LAG_WITHIN_S, Measured, ReadersNeeded, readers_needed


def steady(
    rate: float, speed: float, *, readers: int = 4, fixed_s: float = 0.0, sizes_s: tuple[float, ...] = (10, 10, 10)
) -> list[Measured]:
    """Batches that each read what has arrived in so many seconds, shared out evenly, by readers of this speed."""
    found, at_s = [], 0.0
    for size_s in sizes_s:
        at_s += size_s
        offsets = round(rate * size_s)
        took_s = fixed_s + offsets / readers / speed
        found.append(Measured(round(at_s * 1000), offsets, -(-offsets // readers), round(took_s * 1000), 0))
    return found


def needed(batches: list[Measured], lag: int | None = 0, splits: int = 100, cuts: bool = False) -> ReadersNeeded:
    found = readers_needed(batches, lag=lag, splits=splits, cuts=cuts)
    assert found is not None
    return found


def test_as_many_as_what_arrives_takes_with_a_fifth_to_spare() -> None:
    found = needed(steady(120_000, 30_000))
    assert (found.readers, found.arriving, found.speed) == (5, 120_000, 30_000)
    assert found.sentence() == "5 readers are needed: 120,000 offsets/s arrive, and one reader does 30,000/s"
    assert needed(steady(121_000, 30_000)).readers == 6


def test_a_lag_is_to_be_gone_in_time() -> None:
    batches = steady(120_000, 30_000)
    found = needed(batches, lag=round(LAG_WITHIN_S * 48_000))
    assert found.readers == 7
    assert found.sentence().endswith("; a lag of 5,760,000 offsets is to be read within 2 min")


def test_no_more_than_partitions_unless_ranges_are_cut() -> None:
    found = needed(steady(120_000, 30_000), splits=3)
    assert (found.readers, found.capped) == (3, True)
    assert found.sentence().endswith("; more than one for each partition would need plan=level")
    assert needed(steady(120_000, 30_000), splits=3, cuts=True).readers == 5


def test_one_where_nothing_arrives() -> None:
    batches = [Measured(0, 100, 100, 1000, 0), Measured(10_000, 0, 0, 500, 0), Measured(20_000, 0, 0, 500, 0)]
    assert needed(batches) == ReadersNeeded(1, 0.0, 100.0, 0)
    assert needed(batches).sentence().startswith("1 reader is needed: 0.0 offsets/s arrive")


def test_a_rate_that_rises_is_seen_at_once_and_one_that_falls_later() -> None:
    rises = [*steady(1_000, 10_000, sizes_s=(10,) * 9), Measured(100_000, 100_000, 25_000, 2_500, 0)]
    assert needed(rises).arriving == 10_000
    falls = [Measured(at_s * 1000, 10_000 * 10, 25_000, 2_500, 0) for at_s in (10, 20, 30)]
    falls += [Measured(40_000, 10_000, 2_500, 250, 0)]
    assert needed(falls).arriving == 7_000
    assert needed([falls[-1], *(replace_at(falls[-1], at_s) for at_s in (50, 60))]).arriving == 1_000


def replace_at(one: Measured, at_s: int) -> Measured:
    return one._replace(at_ms=at_s * 1000)


def test_what_is_written_and_not_read_arrives_too() -> None:
    """Each batch is held at 1,000 offsets, and 5,000 come."""
    held = [Measured(at_s * 1000, 1_000, 500, 1_000, 4_000 * at_s) for at_s in range(1, 5)]
    assert needed(held, lag=16_000).arriving == 5_000
    unknown = [one._replace(lag=None) for one in held]
    assert needed(unknown, lag=None).arriving == 1_000


def test_an_idle_query_needs_fewer_as_time_passes() -> None:
    batches = steady(120_000, 30_000)
    assert batches[-1].at_ms == 30_000
    found = readers_needed(batches, lag=0, splits=100, cuts=False, until_ms=230_000)
    assert found is not None
    assert found.arriving == pytest.approx(2_400_000 / 220)
    assert found.readers == 1


def test_what_a_batch_takes_whatever_it_reads_is_no_reading() -> None:
    """Each batch follows the one before at once, so that 4 readers would always seem to be just enough."""
    batches = steady(10_000, 30_000, fixed_s=2.0, sizes_s=(2.2, 2.2, 8, 2.5, 2.2))
    found = needed(batches)
    assert found.speed == pytest.approx(30_000, rel=0.15)
    assert found.readers == 1
    same = needed(steady(10_000, 30_000, fixed_s=2.0, sizes_s=(2.2, 2.2, 2.2)))
    assert same.speed < 3_000, "it cannot be told apart"


@pytest.mark.parametrize(
    "batches",
    [
        [],
        [Measured(0, 10, 10, 100)],
        [Measured(None, 10, 10, 100), Measured(None, 10, 10, 100)],
        [Measured(0, 10, 10), Measured(1000, 10, 10)],
        [Measured(0, 0, 0, 100), Measured(1000, 0, 0, 100)],
        [Measured(1000, 10, 10, 100), Measured(1000, 10, 10, 100)],
    ],
)
def test_nothing_is_said_before_it_is_known(batches: list[Measured]) -> None:
    assert readers_needed(batches, lag=7, splits=3, cuts=False) is None


offsets = st.integers(0, 10**9)
measured = st.builds(
    Measured,
    st.one_of(st.none(), st.integers(0, 10**9)),
    offsets,
    offsets,
    st.one_of(st.none(), st.integers(0, 10**7)),
    st.one_of(st.none(), offsets),
)


@given(st.lists(measured, max_size=15), st.one_of(st.none(), offsets), st.integers(0, 200_000), st.booleans())
def test_it_is_a_number_of_readers(batches: list[Measured], lag: int | None, splits: int, cuts: bool) -> None:
    found = readers_needed(batches, lag=lag, splits=splits, cuts=cuts)
    if found is None:
        return
    assert 1 <= found.readers <= (READERS_MAX if cuts else max(1, splits))
    assert found.arriving >= 0 < found.speed
    more = readers_needed(batches, lag=(lag or 0) + 1_000, splits=splits, cuts=cuts)
    assert more is not None
    assert more.readers >= found.readers
    assert replace(found, lag=0).sentence()
