"""How many readers are needed: worked examples, what is not known, and what always holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.state.state import READERS_MAX
from evensplit.explain.batch_rates import ClusterPart, Measured
from evensplit.explain.readers_needed import LAG_WITHIN_S, ReadersNeeded, readers_needed


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


def test_less_than_half_a_second_is_too_short_for_a_speed() -> None:
    first, second = Measured(0, 5, 5, 200, 0), Measured(499, 5, 5, 290, 0)
    assert readers_needed([first, second], lag=0, splits=9, cuts=False) is None
    late = second._replace(at_ms=500)
    assert readers_needed([first, late], lag=0, splits=9, cuts=False) is None
    assert needed([first, late._replace(duration_ms=300)]).speed > 0
    assert readers_needed([first, second], lag=0, splits=9, cuts=False, until_ms=20_000) is None


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


def of_two(number: int, *, away: bool = False, west: ClusterPart | None = None, took_ms: int = 5_000) -> Measured:
    """A batch each 10 s: 2,000 offsets a second arrive in each of two clusters, and are read."""
    parts = {"east": ClusterPart(20_000, 0, 20), "west": west or ClusterPart(20_000, 0, 20)}
    if away:
        parts["west"] = ClusterPart(0, None, 0)
    offsets = sum(one.read for one in parts.values())
    return Measured(10_000 * number, offsets, offsets // 4, took_ms, 0, 4, clusters=parts)


def test_a_cluster_that_is_away_brings_what_it_brought() -> None:
    """West is away in the batches 4 to 7, and is read with all that came in the meantime in batch 8."""
    batches = [of_two(number) for number in range(4)]
    assert needed(batches).arriving == 4_000
    there = needed(batches).readers
    for number in range(4, 8):
        batches.append(of_two(number, away=True))
        found = needed(batches)
        assert (found.arriving, found.readers, found.ends_known) == (4_000, there, True)
    batches.append(of_two(8, west=ClusterPart(30_000, 70_000, 20)))
    assert needed(batches, lag=70_000).arriving == 4_000
    batches.append(of_two(9, west=ClusterPart(90_000, 0, 20)))
    for number in range(10, 25):
        batches.append(of_two(number))
        assert needed(batches).arriving == 4_000


def test_a_batch_that_waited_for_a_cluster_says_nothing_of_readers() -> None:
    """It read half as much in the same time, as if a batch took that time whatever it reads."""
    batches = [of_two(number) for number in range(4)]
    assert needed([*batches, *(of_two(number, away=True) for number in (4, 5))]).speed == needed(batches).speed
    # There may be no others.
    assert needed([of_two(number, away=True) for number in range(3)]).speed == 1_000


def test_a_lag_of_other_partitions_is_no_measure() -> None:
    """West's topic is discovered with 100,000 records in it: they are to be read, but did not arrive just now."""
    old = [of_two(number, west=ClusterPart(0, 0, 0)) for number in range(4)]
    new = [of_two(4, west=ClusterPart(0, 100_000, 20))]
    assert needed([*old, *new], lag=100_000).arriving == 2_000
    new.append(of_two(5, west=ClusterPart(20_000, 100_000, 20)))
    assert needed([*old, *new], lag=100_000).arriving == 4_000


def test_what_is_read_of_a_cluster_whose_ends_are_no_longer_known_counts() -> None:
    batches = [of_two(number) for number in range(4)]
    batches += [of_two(number, west=ClusterPart(40_000, None, 0)) for number in range(4, 15)]
    found = needed(batches)
    assert (found.arriving, found.ends_known) == (6_000, False)
    assert found.sentence().startswith("4 readers are needed: 6,000 offsets/s were read, and one reader does ")


def held(
    by: tuple[str, ...], *, offsets: int = 100_000, took_ms: int = 5_000, arrives: int = 1_000_000
) -> list[Measured]:
    """A batch each 10 s that is kept short, by four readers."""
    left = arrives - offsets
    return [
        Measured(10_000 * number, offsets, offsets // 4, took_ms, left * (number + 1), 4, by) for number in range(8)
    ]


def test_of_what_a_limit_holds_back_only_what_it_lets_through_counts() -> None:
    """100,000 offsets arrive each second, and 10,000 are let through; each reader does 5,000."""
    limited = held(("maxOffsetsPerTrigger",))
    found = needed(limited, lag=7_200_000)
    assert (found.readers, found.held_by, found.let_through) == (3, ("maxOffsetsPerTrigger",), 10_000)
    assert found.sentence() == (
        "3 readers are needed: 100,000 offsets/s arrive, and one reader does 5,000/s; maxOffsetsPerTrigger holds "
        "the rest back, however many readers there are, and lets 10,000/s through, so a lag of 7,200,000 offsets does "
        "not count"
    )
    assert needed([one._replace(held=()) for one in limited], lag=7_200_000).readers == 40
    assert needed([*limited, limited[-1]._replace(at_ms=80_000, held=(), lag=8_100_000)], lag=7_200_000).readers == 40


def test_under_a_limit_that_keeps_readers_busy_the_lag_counts() -> None:
    busy = held(("maxOffsetsPerTrigger",), took_ms=9_900)
    found = needed(busy, lag=7_200_000)
    assert (found.readers, found.held_by) == (80, ())


def test_where_batches_follow_each_other_at_once_and_hardly_read_more_readers_gain_nothing() -> None:
    """A batch takes 9 s whatever it reads, and a second for 25,000 offsets of a reader."""
    hardly = held(("maxOffsetsPerTrigger",), took_ms=10_000)
    hardly[2] = hardly[2]._replace(offsets=200_000, busiest=50_000, duration_ms=11_000)
    hardly[3] = hardly[3]._replace(offsets=200_000, busiest=50_000, duration_ms=11_000)
    found = needed(hardly, lag=7_200_000)
    # Two would read for 2 s of 11 s.
    assert found.readers <= 3
    assert (found.held_by, found.let_through) == (("maxOffsetsPerTrigger",), None)
    assert "holds the rest back, however many readers there are, so a lag" in found.sentence()


def test_where_all_wait_for_one_split_only_what_arrives_counts() -> None:
    """40 offsets are read in each batch, and 40,000,000 wait; 4,000 arrive each second."""
    waiting = held(("alignment",), offsets=40, took_ms=1_000, arrives=40_040)
    found = needed(waiting, lag=40_000_000)
    assert (found.arriving, found.let_through, found.held_by) == (4_004, None, ("alignment",))
    assert found.readers == 4, "how fast a reader is cannot be seen, but that they have time to spare"
    assert found.sentence().endswith(
        "; alignment holds the rest back, however many readers there are, so a lag of 40,000,000 offsets does not count"
    )
    assert needed([one._replace(held=()) for one in waiting], lag=40_000_000).readers == 100
    # An idle query waits as well.
    once = [waiting[0]._replace(lag=0), waiting[1]._replace(lag=0, held=("alignment",))]
    idle = readers_needed(once, lag=40_000_000, splits=100, cuts=False, until_ms=100_000)
    assert idle is not None
    assert idle.held_by == ("alignment",)


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
    st.one_of(st.none(), st.integers(0, 100)),
    st.sampled_from([(), ("alignment",), ("alignment", "maxOffsetsPerTrigger")]),
    st.one_of(
        st.none(),
        st.dictionaries(
            st.sampled_from("ab"), st.builds(ClusterPart, offsets, st.one_of(st.none(), offsets), st.integers(0, 2))
        ),
    ),
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


def limited(sizes: list[int], *, trigger_s: float = 0, cold_s: float = 8, fixed_s: float = 2) -> list[Measured]:
    """Batches that a limit holds, of two readers that do 10,000/s; the first one has to wait for processes."""
    found, at_s = [], 0.0
    for number, size in enumerate(sizes):
        took_s = fixed_s + size / 20_000 + (0 if number else cold_s)
        held = ("maxBytesPerTrigger",)
        found.append(Measured(round(at_s * 1000), size, size // 2, round(took_s * 1000), 10**6, 2, held))
        at_s += max(took_s, trigger_s)
    return found


@pytest.mark.parametrize("first", [200, 1_000, 3_000, 5_000, 20_000])
@pytest.mark.parametrize("trigger_s", [0, 3, 10])
def test_batches_that_a_limit_makes_alike_do_not_show_what_readers_do(first: int, trigger_s: float) -> None:
    """Nearly all of a batch is no reading, so more than two readers would be of no use, and a higher limit would be."""
    batches = limited([first, *[1_000] * 20], trigger_s=trigger_s)
    for count in range(2, 20):
        found = needed(batches[:count], lag=10**6)
        assert not (found.sure and found.readers > 2), count
        assert found.sure or found.sentence().endswith("; fewer may do, as batches that limits hold do not show how "
                                                       "much of them is reading")  # fmt: skip


def test_batches_of_other_sizes_show_it() -> None:
    """As where the number of readers has changed: nearly all of a batch is reading."""
    sizes = [50_000, 100_000, 20_000, 70_000, 100_000, 40_000, 90_000, 100_000, 60_000]
    batches = limited(sizes, fixed_s=0.1, cold_s=0)
    assert [needed(batches[:count], lag=10**6).sure for count in (3, 6, 7, 9)] == [False, False, True, True]
    assert needed(batches, lag=10**6).readers > 2
    assert needed([one._replace(held=()) for one in batches[:3]], lag=10**6).sure
