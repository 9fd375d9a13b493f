"""The number of readers that is needed, followed by a query: it settles near the true one, and never runs away.

A batch takes some time whatever it reads, and as long again as its busiest reader reads. The next one comes at the next
trigger, or at once if there is none. The readers become as many as are said to be needed, some batches later.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

import pytest

from evensplit.explain.batch_rates import Measured
from evensplit.explain.readers_needed import BUSY_MAX, readers_needed

SPLITS = 200


@dataclass
class Loop:
    """A query, and who follows the number."""

    rate: Callable[[float], float]
    """Seconds -> offsets that arrive in each."""
    speed: float
    """Offsets per second of a reader."""
    fixed_s: float
    trigger_s: float = 0.0
    noise: float = 0.0
    """Durations are off by at most this share."""
    readers: int = 1
    after: int = 3
    """In so many batches there are the readers that were asked for."""
    each: int = 1
    """The number is followed at each batch with such a number."""
    seed: int = 1
    cores: int = 1
    """Readers come as workers with so many."""
    limit: int | None = None
    """At most so many offsets in a batch."""
    at_s: float = 0.0
    since_s: float = 0.0
    unread: float = 0.0
    batches: list[Measured] = field(default_factory=list)
    said: list[int] = field(default_factory=list)
    """How many were needed after each batch."""

    def run(self, count: int) -> Loop:
        chance = random.Random(self.seed)
        for _ in range(count):
            self.unread += (self.at_s - self.since_s) * self.rate(self.at_s)
            offsets, self.since_s = min(int(self.unread), self.limit or SPLITS * 10**9), self.at_s
            self.unread -= offsets
            busiest = min(offsets, ceil(1.05 * offsets / self.readers))
            took_s = (self.fixed_s + busiest / self.speed) * chance.uniform(1 - self.noise, 1 + self.noise)
            at_ms, took_ms = round(self.at_s * 1000), max(1, round(took_s * 1000))
            left = int(self.unread)
            held = ("maxOffsetsPerTrigger",) if left else ()
            self.batches.append(Measured(at_ms, offsets, busiest, took_ms, left, self.readers, held))
            self.at_s += max(took_s, self.trigger_s)
            found = readers_needed(self.batches[-100:], lag=left, splits=SPLITS, cuts=False)
            self.said.append(self.readers if found is None else found.readers)
            if len(self.said) % self.each == 0 and len(self.said) >= self.after:
                self.readers = self.cores * ceil(self.said[-self.after] / self.cores)
        return self


def need(rate: float, speed: float) -> int:
    return ceil(1.05 * rate / speed / BUSY_MAX)


def steady(rate: float) -> Callable[[float], float]:
    return lambda _: rate


@pytest.mark.parametrize("readers, noise", [(1, 0.0), (2, 0.1), (4, 0.1), (4, 0.3)])
@pytest.mark.parametrize("each, after", [(5, 1), (1, 3)])
def test_batches_that_hardly_read_and_follow_each_other_at_once_need_no_more(
    readers: int, noise: float, each: int, after: int
) -> None:
    """50 offsets arrive each second, a reader does 2,000, and a batch takes 2 s: one would do.

    In the first four batches it cannot be seen that the query keeps up.
    """
    loop = Loop(steady(50), 2_000, 2.0, noise=noise, readers=readers, each=each, after=after).run(80)
    assert max(loop.said) <= 2 * readers
    assert max(loop.said[4:]) <= readers + 1
    assert set(loop.said[-30:]) == {1}


def test_a_constant_number_of_readers_that_keeps_up_is_enough() -> None:
    """Nothing varies, so that the fixed part cannot be seen; of what arrives, it would be 12 readers."""
    batches = [Measured(number * 2_100, 105, 11, 2_100, 0, 10) for number in range(20)]
    found = readers_needed(batches, lag=105, splits=SPLITS, cuts=False)
    assert found is not None
    assert (found.readers, found.keeps_up) == (10, True)
    assert found.sentence().endswith("; the query keeps up with the readers that it has")
    # Three batches do not show it.
    few = readers_needed(batches[:3], lag=105, splits=SPLITS, cuts=False)
    assert few is not None
    assert (few.readers, few.keeps_up) == (13, False)
    # What is left beyond what comes in one batch is to be read besides.
    more = readers_needed(batches, lag=5_105, splits=SPLITS, cuts=False)
    assert more is not None
    assert more.readers == 10 + 10
    # It falls behind.
    grow = [one._replace(offsets=round(105 * 1.1**number), busiest=11) for number, one in enumerate(batches)]
    behind = readers_needed(grow, lag=0, splits=SPLITS, cuts=False)
    assert behind is not None
    assert behind.readers > 10


@pytest.mark.parametrize(
    "rate, speed, fixed_s, trigger_s, readers",
    [
        (10_000, 2_000, 1, 10, 7),
        (10_000, 2_000, 1, 10, 20),
        (10_000, 2_000, 1, 0, 1),
        (10_000, 2_000, 5, 0, 10),
        (10_000, 2_000, 0.2, 0, 2),
        (300, 2_000, 3, 0, 4),
        (300, 2_000, 9, 10, 4),
        (10_000, 2_000, 6, 10, 4),
        (50_000, 1_000, 2, 1, 40),
    ],
)
@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_it_settles_near_the_true_need(
    rate: float, speed: float, fixed_s: float, trigger_s: float, readers: int, noise: float
) -> None:
    loop = Loop(steady(rate), speed, fixed_s, trigger_s, noise, readers).run(120)
    true = need(rate, speed)
    assert max(loop.said) <= 3 * max(true, readers), "it never runs away"
    late = loop.said[50:]
    assert true / 2 <= min(late) <= max(late) <= 1.25 * true + 1 + (3 if noise == 0.3 else 0)
    assert abs(sum(late) / len(late) - true) <= 0.15 * true + (1 if noise == 0.3 else 0.5)
    last = [one.offsets for one in loop.batches[-20:]]
    assert max(last) <= 4 * rate * max(trigger_s, 6 * fixed_s), "it keeps up"


@pytest.mark.parametrize("trigger_s", [0.0, 10.0])
@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
@pytest.mark.parametrize(
    "rate", [lambda at_s: 1_000 + 10 * min(at_s, 1_000), lambda at_s: max(500.0, 12_000 - 10 * at_s)]
)
def test_it_follows_a_rate_that_rises_or_falls_slowly(
    rate: Callable[[float], float], noise: float, trigger_s: float
) -> None:
    loop = Loop(rate, 2_000, 1.0, trigger_s, noise, need(rate(0), 2_000), after=2).run(150)
    assert max(one.duration_ms or 0 for one in loop.batches) <= 20_000
    for one, said in list(zip(loop.batches, loop.said, strict=True))[20:]:
        assert said <= 1.5 * need(rate((one.at_ms or 0) / 1000), 2_000) + 4


@pytest.mark.parametrize("trigger_s, fixed_s", [(10.0, 1.0), (0.0, 1.0), (0.0, 0.3)])
@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_a_tenfold_step_is_absorbed_within_five_batches(trigger_s: float, fixed_s: float, noise: float) -> None:
    """Workers of three cores come, as in the measurement of the documentation; what there are stay in the meantime."""
    loop = Loop(steady(20), 1_000 / 18, fixed_s, trigger_s, noise, readers=3, after=2, cores=3).run(8)
    loop.rate = steady(200)
    loop.run(14)
    absorbed = next(
        number for number in range(1, 15)
        if all((one.duration_ms or 0) <= 1000 * max(trigger_s, 12 * fixed_s) for one in loop.batches[8 + number :])
    )  # fmt: skip
    assert absorbed <= 5
    assert {one.readers for one in loop.batches[13:]} == {6}


@pytest.mark.parametrize(
    "speed, fixed_s, trigger_s, limit, settled",
    [
        # What the limit lets through in each second, which 50,000 offsets in 10 s are.
        (2_000, 1, 10, 50_000, (4, 4)),
        (2_000, 3, 10, 50_000, (4, 5)),
        # The limit binds at no trigger, and two thirds of a batch are reading.
        (2_000, 1, 0, 50_000, (6, 8)),
        # With 8 readers, a fifth of a batch is reading; as that is not known exactly, it may be some times as many.
        (2_000, 5, 0, 20_000, (8, 30)),
    ],
)
@pytest.mark.parametrize("readers", [4, 20])
def test_a_lag_that_grows_under_a_limit_asks_for_no_more_than_what_is_of_use(
    speed: float, fixed_s: float, trigger_s: float, limit: int, settled: tuple[int, int], readers: int
) -> None:
    """Ten thousand offsets arrive in each second, and cannot all be read."""
    loop = Loop(steady(10_000), speed, fixed_s, trigger_s, 0.1, readers, after=2, limit=limit).run(80)
    late = loop.said[20:]
    assert settled[0] <= min(late) <= max(late) <= settled[1]
