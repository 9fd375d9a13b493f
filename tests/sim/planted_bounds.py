"""Planted bugs of what is bounded: how far batches go, how many splits move for work, how many readers there are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from evensplit.core.assign.by_rate import RateOwners, by_rate
from evensplit.core.batch.alignment import HOLD, Cut, TimeSearch
from evensplit.core.batch.limits import BatchLimits, Caps, named, scoped
from evensplit.core.batch.reader_count import ReaderCount, follow
from evensplit.core.batch.shares import Shares, share
from evensplit.core.machine.enumerator import Step, step
from evensplit.core.machine.events import BatchPlanned, Event
from evensplit.core.model import Held, SplitId
from evensplit.core.state import rates
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.driver.ends import aligned_ends
from evensplit.spark.driver.ends.aligned_ends import AlignedEnds
from evensplit.spark.driver.ends.batch_ends import BatchEnds
from evensplit.spark.slots import reader_number
from evensplit.testing.sim import Rules
from tests.sim.planted_host import in_host
from tests.sim.planting import Planted, by_step, swapped

Ends = Mapping[SplitId, int]
Sizes = Mapping[SplitId, int]


def names_ignored(positions: Ends, latest: Ends, limits: BatchLimits, sizes: Sizes) -> Shares:
    """Limits of clusters and topics count for nothing."""
    whole = BatchLimits(Caps(limits.offsets.batch), Caps(limits.bytes.batch), limits.priority)
    return share(positions, latest, whole, sizes)


def bytes_ignored(positions: Ends, latest: Ends, limits: BatchLimits, sizes: Sizes) -> Shares:
    """Limits in bytes count for nothing."""
    return share(positions, latest, replace(limits, bytes=Caps()), sizes)


def sizes_unlearned(positions: Ends, latest: Ends, limits: BatchLimits, sizes: Sizes) -> Shares:
    """All records count as short ones, whatever tasks have told."""
    return share(positions, latest, limits, dict.fromkeys(sizes, 64))


def small_starve(positions: Ends, latest: Ends, limits: BatchLimits, sizes: Sizes) -> Shares:
    """A split whose part of a limit is less than an offset reads nothing."""
    found = share(positions, latest, limits, sizes)
    kept = {key: end for key, end in found.ends.items() if end > positions[key] + 1 or end == latest[key]}
    return found._replace(ends=kept)


def held_unsaid(*given: Any) -> Shares:
    """Nobody says what held a batch back."""
    return share(*given)._replace(held=())


def held_by_all(positions: Ends, latest: Ends, limits: BatchLimits, sizes: Sizes) -> Shares:
    """Every limit that there is is said to have held a batch back, if any has."""
    found = share(positions, latest, limits, sizes)
    options = {False: "maxOffsetsPerTrigger", True: "maxBytesPerTrigger"}
    every = tuple(sorted(Held(options[is_bytes], named(scope)) for is_bytes, scope, _ in scoped(limits)))
    return found._replace(held=every if found.held else ())


def aligned_without_limits(_: BatchEnds, __: Ends, ___: Ends, cut: Cut, ____: Sizes | None) -> BatchPlanned:
    """A batch that ends at a time has no other limits."""
    return BatchPlanned(dict(cut.at_most), cut.reached_ms)


def farther(*given: Any, ahead_ms: int, **how: Any) -> TimeSearch:
    """Splits may be ahead of the slowest one by twice as much."""
    return TimeSearch(*given, ahead_ms=2 * ahead_ms, **how)


def never_idle(_: AlignedEnds, __: EnumeratorState, positions: Ends, latest: Ends, *, known: bool) -> list[SplitId]:
    """A split to which nothing is written any more keeps the others back for good."""
    return [key for key in positions if latest[key] > 0]


def held_by_away(ends: AlignedEnds, *given: Any, **how: Any) -> Cut:
    """A cluster that does not answer keeps the others back, also where it is to count as idle."""
    ends._limits = replace(ends._limits, away=HOLD)
    return FIND(ends, *given, **how)


def stopped_by_away(ends: AlignedEnds, state: EnumeratorState, positions: Ends, *given: Any, **how: Any) -> Cut:
    """As long as a cluster does not answer nothing is read, though some of it may be."""
    if how["unseen"]:
        ends.due_s = math.inf
        return Cut(positions, positions, None, min(how["unseen"]).cluster)
    return FIND(ends, state, positions, *given, **how)


FIND = AlignedEnds.find


def by_rates(name: str, other: Callable[..., Any]) -> Rules:
    """The real rules, with another function of rates."""

    def stepped(state: EnumeratorState, event: Event) -> Step:
        with swapped(name, other, rates):
            return step(state, event)

    return by_step(stepped)


def by_owners(other: Callable[..., RateOwners]) -> Rules:
    """The real rules, with other owners by work."""

    def stepped(state: EnumeratorState, event: Event) -> Step:
        with swapped("by_rate", other):
            return step(state, event)

    return by_step(stepped)


WITH_MOVES = rates.with_moves


def upside_down(splits: Any, readers: Any, weight: Mapping[SplitId, int], **how: Any) -> RateOwners:
    """What brings least counts most."""
    most = max(weight.values(), default=0)
    return by_rate(splits, readers, {key: most + 1 - one for key, one in weight.items()}, **how)


def levelled_whatever_is_allowed(*given: Any, moves_max: int | None, **how: Any) -> RateOwners:
    """Where nothing may move, as much moves as it takes."""
    return by_rate(*given, moves_max=moves_max or None, **how)


def fewer_at_once(known: ReaderCount, slots: int | None, *given: int) -> ReaderCount:
    """There are fewer readers as soon as there are fewer slots."""
    return ReaderCount(slots) if slots else follow(known, slots, *given)


def never_fewer(known: ReaderCount, slots: int | None, *given: int) -> ReaderCount:
    """There are never fewer readers."""
    found = follow(known, slots, *given)
    return found if found.readers >= known.readers else known


BUGS: Mapping[str, Planted] = {
    "names-ignored": Planted(
        "limits of clusters and topics do not hold", ("S18",), Rules(share=names_ignored), seed=15
    ),
    "bytes-ignored": Planted("limits in bytes do not hold", ("S18",), Rules(share=bytes_ignored), seed=15),
    "sizes-unlearned": Planted("long records count as short ones", ("S18",), Rules(share=sizes_unlearned), seed=15),
    "small-starve": Planted("a small split reads nothing", ("S18",), Rules(share=small_starve), seed=1),
    "held-unsaid": Planted("nobody says what held a batch back", ("S18",), Rules(share=held_unsaid), seed=1),
    "held-by-all": Planted(
        "every limit is said to have held a batch back", ("S18",), Rules(share=held_by_all), seed=15
    ),
    "aligned-without-limits": Planted(
        "a batch that ends at a time has no limits",
        ("S18",),
        Rules(),
        host=in_host("_within", aligned_without_limits, BatchEnds),
        seed=10,
    ),
    "aligned-farther": Planted(
        "splits get twice as far ahead as they may",
        ("S17",),
        Rules(),
        host=in_host("TimeSearch", partial(farther), aligned_ends),
        seed=7,
    ),
    "never-idle": Planted(
        "a split that is idle keeps the others back",
        ("liveness", "S17"),
        Rules(),
        like="FLINK-35886",
        host=in_host("_busy", never_idle, AlignedEnds),
        seed=14,
    ),
    "held-by-away": Planted(
        "a cluster that is away keeps the others back",
        ("S17",),
        Rules(),
        host=in_host("find", held_by_away, AlignedEnds),
        seed=14,
    ),
    "stopped-by-away": Planted(
        "without one cluster nothing is read",
        ("S17",),
        Rules(),
        host=in_host("find", stopped_by_away, AlignedEnds),
        seed=14,
    ),
    "moves-unbounded": Planted(
        "as many splits move as it takes", ("S19",), by_rates("moves_left", lambda *_: 1_000_000), seed=3
    ),
    "moves-forgotten": Planted(
        "only the last moves count", ("S19",), by_rates("with_moves", lambda _, *now: WITH_MOVES((), *now)), seed=22
    ),
    "moves-for-nothing": Planted("splits move to the busiest reader", ("S19",), by_owners(upside_down), seed=1),
    "moves-never-allowed": Planted(
        "splits move where none may", ("S5", "S19"), by_owners(levelled_whatever_is_allowed), seed=3
    ),
    "readers-fewer-at-once": Planted(
        "an executor that is replaced moves its splits twice",
        ("S20",),
        Rules(),
        host=in_host("follow", fewer_at_once, reader_number),
        seed=38,
    ),
    "readers-never-fewer": Planted(
        "there are more readers than slots for good",
        ("S20",),
        Rules(),
        host=in_host("follow", never_fewer, reader_number),
        seed=38,
    ),
}
"""Name -> bug."""
