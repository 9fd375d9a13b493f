"""balance=rate: how rates are measured, rounded and kept, and when owners change for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evensplit.core.assign.by_rate import by_rate
from evensplit.core.machine import rebalance
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClusterPollFailed,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    SettingsChanged,
    TimePassed,
)
from evensplit.core.model import Held, Split, SplitId
from evensplit.core.policies import POLICIES
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.rates import moves_left, rounded, weights, with_moves
from evensplit.core.state.settings import RATE, Settings
from evensplit.explain.evenness import evenness
from tests.support.enumeration import EAST, WEST, Enumeration, listed

MINUTE_MS = 60_000
BEGIN_MS = 1_700_000_000_000


class Query(Enumeration):
    """A query with batches a minute apart."""

    def __init__(self, readers: int, splits: int, **settings: object) -> None:
        super().__init__(readers, Settings(balance=RATE, **settings))  # type: ignore[arg-type]
        self.minute = 0
        self.tell(TimePassed(BEGIN_MS))
        self.discover(EAST, t=splits)
        self.register()

    def batch(self, *sizes: int, minutes: int = 1) -> None:
        self.minute += minutes
        read = {SplitId("east", "t", at): size for at, size in enumerate(sizes)}
        ends = {key: (self.state.splits[key].position or 0) + size for key, size in read.items()}
        self.tell(TimePassed(BEGIN_MS + self.minute * MINUTE_MS), BatchOpened(), BatchPlanned(ends))

    def rates(self) -> list[int]:
        return [split.rate for split in self.state.splits.values()]


def test_the_first_batch_begins_the_measure_and_the_next_ones_are_measured() -> None:
    one = Query(2, 3)
    one.batch(5000, 0, 7)
    assert one.rates() == [0, 0, 0]
    one.batch(960, 0, 20)
    assert one.rates() == [960, 1, 20]


def test_a_restart_goes_on_from_what_is_written() -> None:
    one = Query(2, 2)
    one.batch(100, 100)
    one.batch(960, 20)
    one.restart(one.commit())
    one.register()
    one.tell(TimePassed(BEGIN_MS + 2 * MINUTE_MS))
    one.discover(EAST, t=2)
    one.batch(9600, 200, minutes=10)
    assert one.rates() == [960, 20]
    assert decode(encode(one.state)) == one.state


def test_what_held_a_batch_is_kept_in_order_and_once() -> None:
    one = Query(1, 1)
    held = (Held("b"), Held("a", "x"), Held("a"), Held("b"))
    one.tell(BatchOpened(), BatchPlanned({SplitId("east", "t", 0): 5}, held=held))
    assert one.state.held == (Held("a"), Held("a", "x"), Held("b"))
    assert decode(encode(one.state)) == one.state


def test_an_idle_world_stays_byte_for_byte_the_same() -> None:
    one = Query(2, 2)
    one.batch(100, 100)
    one.batch(960, 20)
    before = {**encode(one.state), "revision": 0, "check": ""}
    one.batch(minutes=60)
    assert {**encode(one.state), "revision": 0, "check": ""} == before


def test_a_cluster_that_is_away_keeps_its_rates_and_is_measured_over_the_whole_time_when_it_is_back() -> None:
    one = Query(1, 2)
    one.batch(100, 100)
    one.batch(960, 20)
    one.tell(ClusterPollFailed("east", "away"))
    one.batch(960, 0)
    assert one.rates() == [960, 20]
    one.batch(960, 40)
    assert one.rates() == [960, 20]


def test_small_changes_change_no_rate_and_slow_ones_arrive() -> None:
    assert rounded(1_010_000, 1000) == 1000
    assert rounded(1_030_000, 1000) == 1024
    assert rounded(1, 0) == 1
    assert rounded((2**63 - 1) * 1000, 0) == 2**62
    rate = 1000
    for milli in range(1_000_000, 2_000_000, 1000):
        rate = rounded(milli, rate)
        assert abs(rate - milli / 1000) <= 0.03 * rate


def test_owners_are_dealt_by_rates_once_and_then_few_move_an_hour() -> None:
    one = Query(2, 8)
    one.batch(*[10] * 8)
    one.batch(800, 800, 800, 800, 100, 100, 100, 100)
    assert one.state.rate_moves == ()
    moves = []
    for _ in range(120):
        before = one.owners()
        one.batch(100, 100, 100, 100, 800, 400, 800, 100)
        moves.append(sum(before[key] != owner for key, owner in one.owners().items()))
    assert sum(moves) > 0
    assert max(sum(moves[at : at + 60]) for at in range(60)) <= 1


def test_moves_of_the_last_hour_survive_a_restart() -> None:
    one = Query(2, 4, moves_per_hour=2)
    one.batch(*[10] * 4)
    one.batch(*[100] * 4)
    for _ in range(20):
        one.batch(1000, 1, 1000, 1)
    made = one.state.rate_moves
    assert made
    one.restart(one.commit())
    assert one.state.rate_moves == made


def test_before_the_time_is_told_no_move_of_the_hour_is_made() -> None:
    one = Query(2, 8, moves_per_hour=4)
    one.batch(*[10] * 8)
    one.batch(*[100] * 8)
    first = one.owners()
    heavy = [900 if owner == 0 else 100 for owner in first.values()]
    splits = {
        key: split._replace(rate=rate) for (key, split), rate in zip(one.state.splits.items(), heavy, strict=True)
    }
    one.restart(replace(one.commit(), splits=splits))
    one.register()
    one.discover(EAST, t=8)
    assert one.owners() == first
    one.tell(TimePassed(BEGIN_MS + 10 * MINUTE_MS), SettingsChanged(replace(one.state.settings, gain_percent=3)))
    assert one.owners() != first
    assert [minute for minute, _ in one.state.rate_moves or ()] == [BEGIN_MS // MINUTE_MS + 10]


def test_more_readers_get_their_share_at_once() -> None:
    one = Query(2, 12)
    one.batch(*[10] * 12)
    one.batch(*[600] * 12)
    one.tell(ParallelismChanged(4))
    one.register()
    assert one.loads() == [3, 3, 3, 3]


def test_readers_have_as_much_as_they_take() -> None:
    one = Query(2, 12, capacities=((0, 3),))
    one.batch(*[10] * 12)
    one.batch(*[600] * 12)
    assert one.loads() == [9, 3]


def test_moves_before_there_are_rates_are_not_the_first_time_by_rates() -> None:
    one = Query(2, 60, capacities=((0, 2),))
    one.batch(*[10] * 60)
    one.tell(ParallelismChanged(4))
    one.register()
    dealt = one.state.rate_moves
    assert dealt is None
    sizes = [900 if owner == 1 else 100 for owner in one.owners().values()]
    for _ in range(4):
        one.batch(*sizes)
    assert one.state.rate_moves == ()
    assert work_gap(one) < 0.03


def test_one_split_with_a_rate_is_not_the_first_time_by_rates() -> None:
    one = Query(2, 1, capacities=((0, 2),))
    one.discover(EAST, WEST, t=1)
    one.tell(PartitionsListed("west", listed("t", 7, "id-t")))
    one.tell(OffsetsResolved({SplitId("west", "t", at): 0 for at in range(1, 7)}))
    one.tell(ClusterPollFailed("west", "away"))
    one.batch(10)
    one.batch(10)
    one.tell(ParallelismChanged(3))
    one.register()
    assert one.rates() == [10, 0, 0, 0, 0, 0, 0, 0]
    assert one.state.rate_moves is None


def test_what_was_not_worth_a_move_is_looked_at_again_only_with_other_rates_or_more_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, moves = Query(2, 4, moves_per_hour=3), []

    def noted(*args: object, **terms: object) -> object:
        moves.append(terms["moves_max"])
        return by_rate(*args, **terms)  # type: ignore[arg-type]

    one.batch(*[100] * 4)
    one.batch(*[100] * 4)
    # Only an exchange of two splits helps, and one move is left in this hour.
    left = {owner: iter(rates) for owner, rates in ((0, (120, 100)), (1, (100, 80)))}
    splits = {key: split._replace(rate=next(left[split.owner or 0])) for key, split in one.state.splits.items()}
    minute = BEGIN_MS // MINUTE_MS + one.minute
    session = replace(one.state.session, measures={}, moves_tried=0)
    one.state = replace(one.state, splits=splits, rate_moves=((minute, 2),), session=session)
    sizes = one.rates()
    monkeypatch.setattr(rebalance, "by_rate", noted)
    for _ in range(60):
        one.batch(*sizes)
    assert moves == [1]
    one.batch(*sizes)
    assert moves == [1, 3]
    assert work_gap(one) == 0
    for _ in range(120):
        one.batch(*sizes)
    assert moves == [1, 3]


def test_with_counts_again_nothing_of_rates_is_left() -> None:
    one = Query(2, 2)
    one.batch(100, 100)
    one.batch(960, 20)
    one.tell(SettingsChanged(Settings()))
    assert one.rates() == [0, 0]
    assert encode(one.state)["evensplit"] == 4


@pytest.mark.parametrize("policy", POLICIES)
def test_only_some_policies_go_with_rates(policy: str) -> None:
    assert bool(Settings(policy=policy, balance=RATE).problems()) == (policy not in ("balanced", "sticky"))


def test_moves_count_for_an_hour_also_when_the_clock_was_set_back() -> None:
    moves = with_moves((), 2, BEGIN_MS)
    assert moves_left(moves, 3, BEGIN_MS + 60 * MINUTE_MS) == 1
    assert moves_left(moves, 3, BEGIN_MS + 61 * MINUTE_MS) == 3
    assert moves_left(moves, 3, BEGIN_MS - 30 * MINUTE_MS) == 1
    assert moves_left(moves, 3, BEGIN_MS - 61 * MINUTE_MS) == 3
    assert with_moves(moves, 1, BEGIN_MS + 90 * MINUTE_MS) == ((BEGIN_MS // MINUTE_MS + 90, 1),)


def test_evenness_says_how_far_the_work_is_from_the_best() -> None:
    one = Query(2, 4)
    one.batch(*[10] * 4)
    one.batch(100, 100, 100, 100)
    (found,) = evenness(one.state, one.state)
    assert found.statement() == (
        "by work, the busiest reader has 200 offsets a minute, where 200 is the least possible (0.0% above it); "
        "by counts, as even as possible; no partition moved that could have stayed"
    )


def test_of_many_splits_some_of_every_weight_are_looked_at() -> None:
    one = Query(2, 200, gain_percent=0)
    sizes = [10 + 7 * place % 97 + 500 * (place % 2) for place in range(200)]
    for _ in range(4):
        one.batch(*sizes)
    (found,) = evenness(one.state, one.state)
    assert found.work is not None
    assert found.work.gap < 0.02


def test_many_small_splits_move_where_together_they_are_worth_it() -> None:
    one = Query(2, 200)
    sizes = [10 + 7 * place % 97 + 500 * (place % 2) for place in range(200)]
    for _ in range(4):
        one.batch(*sizes)
    assert work_gap(one) < 0.025


def test_many_small_splits_move_in_the_course_of_hours_when_their_rates_shift() -> None:
    one = Query(2, 200)
    for _ in range(4):
        one.batch(*[100] * 200)
    owners = list(one.owners().values())
    # One reader's splits bring a tenth more: 9.5 % above the mean of both, and each split is a hundredth of it.
    sizes = [110 if owner == owners[0] else 90 for owner in owners]
    for _ in range(15):
        one.batch(*sizes)
    assert work_gap(one) > 0.05
    for _ in range(400):
        one.batch(*sizes)
    assert work_gap(one) < 0.03


def work_gap(query: Query) -> float:
    (found,) = evenness(query.state, query.state)
    assert found.work is not None
    return found.work.gap


def test_what_has_no_rate_yet_counts_as_the_mean_of_its_topic_else_of_all() -> None:
    known = Split(SplitId("east", "t", 0), "id", 5, None, 0, rate=100)
    other = Split(SplitId("east", "u", 0), "id", 5, None, 0, rate=300)
    new = Split(SplitId("east", "t", 1), "id", 0, None, 0)
    strange = Split(SplitId("west", "v", 0), "id", 0, None, 0)
    assert list(weights([known, other, new, strange]).values()) == [100, 300, 100, 200]
    assert list(weights([new, strange]).values()) == [1, 1]


def test_without_the_time_nothing_is_measured() -> None:
    one = Enumeration(1, Settings(balance=RATE))
    one.discover(EAST, t=1)
    one.register()
    one.tell(BatchOpened(), BatchPlanned({SplitId("east", "t", 0): 5}))
    assert [split.rate for split in one.state.splits.values()] == [0]


def test_sizes_of_a_split_that_is_gone_are_let_go() -> None:
    one = Query(1, 1)
    gone, there = SplitId("east", "gone", 0), SplitId("east", "t", 0)
    one.tell(BatchOpened(), BatchPlanned({there: 5}, measured={gone: (3, 30), there: (5, 500)}))
    assert [split.record_bytes for split in one.state.splits.values()] == [100]


def test_sticky_moves_nothing_for_it_and_without_splits_there_is_nothing_to_deal() -> None:
    one = Query(2, 4, policy="sticky")
    before = [split.owner for split in one.state.splits.values()]
    for _ in range(3):
        one.batch(9000, 9000, 1, 1)
    one.discover(EAST, t=5)
    one.batch(1, 1, 1, 1, 1)
    assert [split.owner for split in one.state.splits.values()][:4] == before
    none = Query(2, 0, capacities=((0, 2),))
    none.batch()
    assert not none.state.splits


@pytest.mark.parametrize(
    "settings, said",
    [
        (Settings(gain_percent=-1), "gain and moves are -1 and "),
        (Settings(gain_percent=101), "gain and moves are 101 and None; expected 0 to 100 per cent, and 0 or more"),
        (Settings(moves_per_hour=-1), "0 or more"),
        (Settings(capacities=((0, 0),)), "expected readers from 0, and 1 to 1000 for each"),
        (Settings(capacities=((0, 10**30),)), "expected readers from 0, and 1 to 1000 for each"),
    ],
)
def test_wrong_settings_are_told(settings: Settings, said: str) -> None:
    (problem,) = settings.problems()
    assert said in problem


def test_evenness_says_that_the_settings_allow_uneven_counts() -> None:
    one = Query(2, 4)
    for _ in range(3):
        one.batch(3_000, 1_000, 1_000, 1_000)
    (found,) = evenness(one.state, one.state)
    assert not found.promised
    assert found.statement().endswith("(balance=rate allows this)")
