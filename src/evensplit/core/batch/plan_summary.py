"""How the plan of a batch is told: as numbers, and in words where something would do better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evensplit.core.batch.plan import CUT_OFFSETS_MIN, BatchPlan
from evensplit.core.state.settings import LEVEL
from evensplit.core.text import counted

TIMES_SHARE = 2
"""A reader with more than so many times its share is worth a line in the log."""

FAR_TIMES = 1.5
"""One with more than so many times its share is worth a word to somebody who looks."""


@dataclass(frozen=True, slots=True)
class PlanView:
    """How one batch was shared out (see `plan.BatchPlan`). `offsets_max`: what the busiest reader had to go through.

    `share`: what it would have to go through at least if ranges were cut at will.
    """

    kind: str
    offsets_max: int
    bound: int
    lent: int
    cuts: int
    share: int

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types."""
        return {
            "kind": self.kind,
            "offsetsMax": self.offsets_max,
            "offsetsMaxBound": self.bound,
            "offsetsMaxShare": self.share,
            "lent": self.lent,
            "cuts": self.cuts,
        }

    @property
    def levels(self) -> bool:
        """Whether the option plan=level would have left the busiest reader far less to do."""
        return self.kind != LEVEL and self.offsets_max > max(FAR_TIMES * self.share, CUT_OFFSETS_MIN)

    def advice(self, offsets: int, readers: int) -> str:
        """What helps where the busiest reader had far more than its share, or why nothing does; empty where it had not.

        `offsets`, `readers`: of the whole batch. It is a sentence without a full stop. Owners can be as even as
        possible all the same: those are whole partitions, however much is in each.
        """
        if self.kind == LEVEL or self.offsets_max <= FAR_TIMES * self.share:
            return ""
        said = (
            f"the busiest reader has {self.offsets_max:,} of {counted(offsets, 'offset')}, "
            f"{self.offsets_max * readers / offsets:.0%} of an equal share, since each partition is read as a whole"
        )
        if not self.levels:
            return f"{said}; the option plan=level would not help, as it cuts nothing of {CUT_OFFSETS_MIN:,} or fewer"
        return (
            f"{said}; with the option plan=level they are cut, and it would have {max(self.share, CUT_OFFSETS_MIN):,}"
        )


def told_plan(plan: BatchPlan) -> tuple[str, ...]:
    """What is worth saying of a plan, a sentence each: what was lent and cut, and where cuts would do better."""
    if not plan.readers:
        return ()
    lines: list[str] = []
    have = f"the busiest reader has {plan.offsets_max:,} of {plan.offsets:,} offsets"
    if plan.lent or plan.cuts:
        pieces = f"{counted(plan.lent, 'range')} lent, {plan.cuts:,} cut"
        least = f"at least {plan.bound:,} with this plan" if plan.offsets_max > plan.bound else "as few as can be"
        lines.append(f"plan {plan.kind}: {pieces}; {have}, {least}")
    if plan.kind != LEVEL and plan.offsets_max > max(TIMES_SHARE * plan.share, CUT_OFFSETS_MIN):
        lines.append(
            f"plan {plan.kind}: {have}; with the option plan=level it would have {max(plan.share, CUT_OFFSETS_MIN):,}, "
            "as ranges are cut then"
        )
    return tuple(lines)
