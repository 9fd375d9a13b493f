"""How many readers a query needs to keep up, and to be through with its lag in time: a rule over measured batches.

    readers = (arriving + lag / LAG_WITHIN_S) / (BUSY_MAX * speed), rounded up

`arriving` and `speed` are offsets per second: by how much the logs grow, and what one reader goes through.

**What arrives** is measured for each cluster by itself, where its lag is known at both ends of the time, and of as many
partitions. So nothing seems to arrive, or to stop, as a cluster goes away and comes back: while it is away, what
it brought before counts. Of a cluster whose ends were never known, what was read counts.

**Speed** is without the time that a batch takes whatever it reads. A straight line is laid through the last
`FIXED_BATCHES_MAX` batches (seconds by the offsets of the busiest reader); where the number of readers has changed,
that too makes the sizes differ. Where it says the time without reading to within a tenth, that is taken off; otherwise
only what is certain of it. Then the speed is rather too low, and where batches follow each other at once, more readers
would make it lower still, without end. So there, **a query that keeps up needs no more readers than it has**: what
there is to read has not become more over the last `BATCHES_MAX` batches, four at least. Batches that went without a
cluster that was away are not among those that are measured: they may have waited for it.

**What is held back** is no reason for more readers. Where the last batches were kept short by limits or by alignment,
and readers had time to spare, the lag does not count: of a limit, only what it lets through is to be read; under
alignment alone, at least what arrives. Where the time without reading is not known, as many as there are do for that.
Where such batches follow each other at once, there are at most as many as read for a fifth of a batch, and more would
gain hardly anything.

Where a limit makes each batch as large as the one before, and they follow each other at once, how much of a batch is
reading cannot be told. Nor can it by the first one of a run, which has waited for executors and processes to start; nor
whether there is time to spare, as long as that one is among those that are measured. The number, as high as it may be,
is then not `sure`, and nobody should be advised by it. A scaler may follow it: with other numbers it becomes known.

All partitions are taken to bring the same: one that alone brings more than a reader goes through needs plan=level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Any

from evensplit.core.state.state import READERS_MAX
from evensplit.core.text import counted
from evensplit.explain.batch_rates import (
    SPEED_BATCHES_MAX,
    ClusterPart,
    Measured,
    arriving_of,
    held_back,
    keeps_up,
    pace_of,
)

LAG_WITHIN_S = 120.0
"""In so many seconds the lag should be read, beside what arrives."""

BUSY_MAX = 0.8
"""For what share of the time readers should read at most: the rest is for planning, and for rates that vary."""


@dataclass(frozen=True, slots=True)
class ReadersNeeded:
    """How many readers are needed, and why."""

    readers: int
    """At least 1; at most the number of partitions, unless ranges are cut (plan=level)."""
    arriving: float
    """Offsets per second that are written to the logs; see `ends_known`."""
    speed: float
    """Offsets per second that one reader goes through."""
    lag: int
    """Offsets to be read, when the query last looked."""
    capped: bool = False
    """More would be needed, and would have nothing to read."""
    ends_known: bool = True
    """Whether `arriving` is by the ends of all logs; if not, it is what was read where they are not known."""
    keeps_up: bool = False
    """It is the present number: the query keeps up, and how long a batch takes without reading is not known."""
    held_by: tuple[str, ...] = ()
    """The limits that hold the lag back, so that it does not count."""
    let_through: float | None = None
    """Offsets per second that they let through, if that counts in place of `arriving`."""
    sure: bool = True
    """False: fewer may do, since limits hold batches, and it is not known yet how much of them is reading."""

    def sentence(self) -> str:
        """Say how many, and why."""
        verb = "is" if self.readers == 1 else "are"
        arrive = "arrive" if self.ends_known else "were read"
        said = (
            f"{counted(self.readers, 'reader')} {verb} needed: {_rate(self.arriving)} offsets/s {arrive}, and one "
            f"reader does {_rate(self.speed)}/s"
        )
        lag = f"a lag of {counted(self.lag, 'offset')}"
        if self.held_by:
            by, s = " and ".join(self.held_by), "s" if len(self.held_by) == 1 else ""
            said += f"; {by} hold{s} the rest back, however many readers there are"
            if self.let_through is not None:
                said += f", and let{s} {_rate(self.let_through)}/s through"
            said += f", so {lag} does not count" if self.lag else ""
        elif self.lag and not self.keeps_up:
            said += f"; {lag} is to be read within {LAG_WITHIN_S / 60:.0f} min"
        if self.keeps_up:
            said += "; the query keeps up with the readers that it has"
        if self.capped:
            said += "; more than one for each partition would need plan=level"
        if not self.sure:
            said += "; fewer may do, as batches that limits hold do not show how much of them is reading"
        return said

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types."""
        return {
            "readers": self.readers,
            "arriving": self.arriving,
            "speed": self.speed,
            "lag": self.lag,
            "capped": self.capped,
            "endsKnown": self.ends_known,
            "keepsUp": self.keeps_up,
            "heldBy": list(self.held_by),
            "letThrough": self.let_through,
            "sure": self.sure,
            "sentence": self.sentence(),
        }


def readers_needed(
    batches: Sequence[Measured],
    *,
    lag: int | None,
    splits: int,
    cuts: bool,
    until_ms: int | None = None,
    left: Mapping[str, ClusterPart] | None = None,
    growing: Mapping[str, float] | None = None,
) -> ReadersNeeded | None:
    """Say how many readers are needed; None as long as that is not known.

    It is known after two batches with times, half a second apart, and once those with a duration and something to read
    have taken as long (`SPAN_MS_MIN`). A lag that is not known counts as none, and what arrives is then what was read.

    Args:
        batches: those of one run, oldest first. The last ones count, see `BATCHES_MAX` and `FIXED_BATCHES_MAX`.
        lag: offsets to be read by now.
        splits: how many partitions are read.
        cuts: ranges are cut, so that several readers can share a partition.
        until_ms: (idle) nothing more was read until then.
        left: (idle) cluster -> what is left to read there by then; None: the batches do not say what is of which.
        growing: cluster -> offsets per second that its logs grow by, where that was measured otherwise.
    """
    looks = list(batches)
    if until_ms is not None and looks and (looks[-1].at_ms is None or until_ms > looks[-1].at_ms):
        # A batch that reads nothing, in place of what an idle query does.
        parts = None if looks[-1].clusters is None else left
        looks.append(Measured(until_ms, 0, 0, 0, lag, looks[-1].readers, looks[-1].held, parts))
    arriving, pace = arriving_of(looks, growing or {}), pace_of(looks)
    if arriving is None or pace is None:
        return None
    (rate, ends_known), behind = arriving, lag or 0
    held, each = held_back(looks, pace.fixed_s), BUSY_MAX * pace.speed
    wanted = most_wanted = (rate + behind / LAG_WITHIN_S) / each
    present = batches[-1].present
    if held is not None:
        enough = min(held.useful(rate) / each, inf if pace.sure else present)
        wanted = min(wanted, held.most if held.at_once else enough)
    elif pace.at_once and not pace.sure and keeps_up(batches):
        # What comes while a batch runs is no lag to be worked off: the next one reads it.
        beyond = max(0.0, behind - rate * pace.apart_s)
        wanted = min(wanted, min(rate / each, present) + beyond / LAG_WITHIN_S / each)
    # Rounded, since 0.8 * 5 must not need a sixth reader.
    readers, less = max(1, ceil(round(wanted, 6))), ceil(round(wanted, 6)) < ceil(round(most_wanted, 6))
    most = READERS_MAX if cuts else max(1, min(splits, READERS_MAX))
    return ReadersNeeded(
        min(readers, most),
        rate,
        pace.speed,
        behind,
        capped=readers > most,
        ends_known=ends_known,
        keeps_up=less and held is None and readers <= present,
        held_by=held.by if less and held is not None else (),
        let_through=held.through if less and held is not None and not (held.aligned or held.at_once) else None,
        sure=not looks[-1].held or readers <= present or _shows_reading(looks, at_once=pace.at_once),
    )


def _shows_reading(looks: Sequence[Measured], *, at_once: bool) -> bool:
    """Whether batches that limits hold show how much of them is reading, the first of the run aside, and whether there
    is time to spare. There have to be enough of them."""
    if len(looks) <= SPEED_BATCHES_MAX + 1:
        return False
    pace = pace_of(looks[1:]) if at_once else None
    return not at_once or (pace is not None and pace.sure)


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
