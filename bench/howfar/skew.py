"""How even owners are under rates that shift: by rates, by counts, and by Flink's rules; the real core, no brokers.

    python -m bench.howfar.skew [--quick] [NAME OF A TRACE ...]

A trace says what each split brings in each batch. The enumerator is told the offsets that were read, as in a query, and
decides the owners. The load of a reader is what its splits bring in the next batch, by the true rates.
`bench/results/howfar.json` gets, for each trace and each way to choose owners: the mean over the batches of the largest
load / the mean load, and how many splits moved in an hour.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.howfar.results import keep, known
from evensplit.core.batch.plan import plan_batch
from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    Event,
    ListedCluster,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderRegistered,
    SettingsChanged,
    TimePassed,
)
from evensplit.core.model import ListedPartition, SplitId
from evensplit.core.state.settings import COUNT, RATE, Settings
from evensplit.core.state.state import EnumeratorState

SPLITS, READERS, BATCHES, BATCH_S = 200, 16, 10_000, 10
TOTAL_PER_S = 100_000
"""Offsets of all splits together in a second, on average over the day."""

DAY_H = 24
ZONES_H = (0, 5, 8, 13)
"""By how much the days of the clusters are apart."""
START_MS = 1_700_000_000_000
PLANNED_EACH = 50
"""Of so many batches one is planned in full, to see what is lent in it."""

Rates = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Trace:
    """What shifts, and how much. The rates of splits fall as 1 / (place + `flat`).

    `day`: by how much a cluster's rates are above and below their mean in the course of a day: 1/3 is twice as much at
    the peak as at night. `drift`: the standard deviation of each split's own factor, which is another one after a day.
    `bursts_per_h`: how often some split brings `burst` times as much, for `burst_s`. `tripled_h`: between these hours
    one topic brings three times as much.
    """

    clusters: int = 4
    flat: float = 10.0
    day: float = 1 / 3
    drift: float = 0.1
    bursts_per_h: float = 1.0
    burst: float = 3.0
    burst_s: int = 120
    tripled_h: tuple[float, float] | None = None
    seed: int = 1


REFERENCE = Trace()
BURSTS = replace(REFERENCE, burst=5.0, burst_s=180)
TRACES: Mapping[str, Trace] = {
    "reference": REFERENCE,
    "reference, another seed": replace(REFERENCE, seed=2),
    "reference, a third seed": replace(REFERENCE, seed=3),
    "no bursts": replace(BURSTS, bursts_per_h=0.0),
    "larger bursts": BURSTS,
    "larger bursts, another seed": replace(BURSTS, seed=2),
    "larger bursts, a third seed": replace(BURSTS, seed=3),
    "larger bursts, no days": replace(BURSTS, day=0.0),
    "larger bursts, days of 3 : 1": replace(BURSTS, day=0.5),
    "larger bursts, drift of 20 %": replace(BURSTS, drift=0.2),
    "larger bursts, six an hour": replace(BURSTS, bursts_per_h=6.0),
    "larger bursts, a heavier tail": replace(BURSTS, flat=5.0),
    "larger bursts, a topic triples for six hours": replace(BURSTS, tripled_h=(10.0, 16.0)),
    "all of it": replace(BURSTS, flat=5.0, day=0.5, drift=0.2, bursts_per_h=6.0, tripled_h=(10.0, 16.0)),
}

WAYS: Mapping[str, Settings] = {
    "rate": Settings(balance=RATE),
    "rate, 5 % an hour": Settings(balance=RATE, moves_per_hour=SPLITS // 20),
    "rate, without bound": Settings(balance=RATE, moves_per_hour=1_000_000),
    "rate, first owners kept": Settings(balance=RATE, moves_per_hour=0),
    "count": Settings(),
    "hash": Settings(policy="hash"),
    "global": Settings(policy="global"),
}
"""`global` is the counter of Flink's dynamic source, `hash` the formula of its KafkaSource."""


def splits_of(trace: Trace) -> list[SplitId]:
    """The splits, in the order of their ids: five topics in each cluster."""
    each = SPLITS // trace.clusters
    found = (SplitId(f"c{n // each}", f"t{n % each % 5}", n % each // 5) for n in range(SPLITS))
    return sorted(found)


def rates_of(trace: Trace, batches: int) -> Iterator[Rates]:
    """What each split brings a second, batch by batch. No split ever brings more than a reader's mean load."""
    random = np.random.default_rng(trace.seed)
    splits = splits_of(trace)
    cluster = np.array([int(split.cluster[1:]) for split in splits])
    tripled = np.array([split.topic == "t0" and split.cluster == "c0" for split in splits])
    base = random.permutation(1 / (np.arange(1, SPLITS + 1) + trace.flat))
    base *= TOTAL_PER_S / base.sum()
    own = random.normal(0, trace.drift, SPLITS)
    keep = np.exp(-BATCH_S / 3600 / DAY_H)
    noise = trace.drift * np.sqrt(1 - keep * keep)
    burst_left = np.zeros(SPLITS)
    for batch in range(batches):
        hour = batch * BATCH_S / 3600
        own = keep * own + random.normal(0, noise, SPLITS)
        burst_left = np.maximum(burst_left - BATCH_S, 0)
        if random.random() < trace.bursts_per_h * BATCH_S / 3600:
            burst_left[random.integers(SPLITS)] = trace.burst_s
        zones = np.array(ZONES_H)[cluster % len(ZONES_H)]
        rates = base * np.exp(own) * (1 + trace.day * np.cos(2 * np.pi * (hour - zones) / DAY_H))
        rates = np.where(burst_left > 0, trace.burst * rates, rates)
        if trace.tripled_h is not None and trace.tripled_h[0] <= hour < trace.tripled_h[1]:
            rates = np.where(tripled, 3 * rates, rates)
        yield np.minimum(rates, rates.sum() / READERS)


@dataclass(slots=True)
class Figures:
    """What one way to choose owners comes to in one trace."""

    ratio_mean: float
    """The mean over the batches of the largest load / the mean load."""
    ratio_p95: float
    """The same of 95 in 100 batches is at most this."""
    first_deal: int
    """How many splits moved when owners were decided by rates for the first time."""
    first_deal_s: int
    """When that was, after the first batch."""
    moved_per_hour: float
    """How many splits moved after that, in an hour on average."""
    moved_per_hour_max: int
    """In the hour with the most of them."""
    lent_share: float
    """What part of the offsets other readers than the owners read, with plan=whole."""
    ratio_by_hour: list[float]
    """The mean of the largest load / the mean load in each hour, in order; the last one may be shorter."""


def told(state: EnumeratorState, *events: Event) -> EnumeratorState:
    """The state after some events."""
    for event in events:
        state = step(state, event).state
    return state


def begun(splits: list[SplitId], settings: Settings) -> EnumeratorState:
    """A query whose first batch is to be planned."""
    names = sorted({split.cluster for split in splits})
    listed = {name: [ListedPartition(*split[1:]) for split in splits if split.cluster == name] for name in names}
    return told(
        EnumeratorState(),
        SettingsChanged(settings),
        ParallelismChanged(READERS),
        TimePassed(START_MS),
        ClustersListed(tuple(ListedCluster(name, (f"{name}:9092",)) for name in names)),
        *(PartitionsListed(name, tuple(listed[name])) for name in names),
        OffsetsResolved(dict.fromkeys(splits, 0)),
        *(ReaderRegistered(reader) for reader in range(READERS)),
    )


def run(trace: Trace, settings: Settings, batches: int) -> Figures:
    """Go through a trace."""
    random = np.random.default_rng(trace.seed)
    splits = splits_of(trace)
    state = begun(splits, settings)
    owner = np.array([state.splits[split].owner for split in splits])
    position = np.zeros(len(splits), dtype=np.int64)
    ratios, moves, lent = np.empty(batches), np.zeros(batches, dtype=np.int64), []
    first: tuple[int, int] = (0, 0)
    for batch, rates in enumerate(rates_of(trace, batches)):
        load = np.bincount(owner, weights=rates, minlength=READERS)
        ratios[batch] = load.max() / load.mean()
        position += random.poisson(rates * BATCH_S)
        if settings.balance == COUNT and batch % PLANNED_EACH < PLANNED_EACH - 2:
            # As many splits as before: nothing else could change the owners.
            continue
        ends = dict(zip(splits, position.tolist(), strict=True))
        before = state
        state = told(state, TimePassed(START_MS + batch * BATCH_S * 1000), BatchOpened(), BatchPlanned(ends))
        if batch % PLANNED_EACH == PLANNED_EACH - 1:
            lent.append(lent_share(before, state))
        now = np.array([state.splits[split].owner for split in splits])
        moved = int(np.count_nonzero(now != owner))
        if before.rate_moves is None and state.rate_moves is not None:
            first = moved, batch * BATCH_S
        else:
            moves[batch] = moved
        owner = now
    window = 3600 // BATCH_S
    sums = np.convolve(moves, np.ones(window, dtype=np.int64))
    return Figures(
        round(float(ratios.mean()), 4),
        round(float(np.percentile(ratios, 95)), 4),
        *first,
        round(float(moves.sum()) * window / batches, 2),
        int(sums.max()),
        round(float(np.mean(lent)), 4),
        [round(float(ratios[begin : begin + window].mean()), 3) for begin in range(0, batches, window)],
    )


def lent_share(before: EnumeratorState, after: EnumeratorState) -> float:
    """What part of a batch's offsets is read by another reader than the owner."""
    plan = plan_batch(before, after)
    ranges = [(one.reader, part) for one in plan.readers for part in one.ranges]
    total = sum(part.size for _, part in ranges)
    return sum(part.size for reader, part in ranges if after.splits[part.split].owner != reader) / max(1, total)


def kept(setup: Mapping[str, Any], traces: Mapping[str, Any]) -> None:
    """Write the figures of traces beside those of other traces and other measurements."""
    keep("skew", {"setup": setup, "traces": {**known("skew").get("traces", {}), **traces}})


def main() -> None:
    """Run all traces, or those that are named, the reference with every way to choose owners."""
    quick = "--quick" in sys.argv
    named = [name for name in sys.argv[1:] if name != "--quick"] or list(TRACES)
    batches = 1_000 if quick else BATCHES
    found: dict[str, Any] = {}
    for name in named:
        trace = TRACES[name]
        ways = WAYS if trace == REFERENCE else {way: WAYS[way] for way in ("rate", "count", "hash", "global")}
        shares = [float(rates.max() / rates.sum()) for rates in rates_of(trace, batches)]
        found[name] = {
            "trace": asdict(trace),
            "largest_split": round(max(shares) * READERS, 3),
            "ways": {way: asdict(run(trace, settings, batches)) for way, settings in ways.items()},
        }
        for way, figures in found[name]["ways"].items():
            by_hour = figures.pop("ratio_by_hour")
            print(f"{name:32} {way:24} {figures}", flush=True)
            if trace == REFERENCE:
                figures["ratio_by_hour"] = by_hour
    setup = {"splits": SPLITS, "readers": READERS, "batches": batches, "batch_s": BATCH_S, "balance_default": COUNT}
    if not quick:
        kept(setup, found)


if __name__ == "__main__":
    main()
