"""The plan of a batch for people: in numbers, and in a sentence where another plan would do better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evensplit.core.batch.plan import CUT_OFFSETS_MIN, BatchPlan
from evensplit.core.state.settings import LEVEL
from evensplit.core.text import counted

TIMES_SHARE = 2
"""The log warns if a reader has more than this many times its share."""

FAR_TIMES = 1.5
"""Reports and pages mention a reader that has more than this many times its share."""


@dataclass(frozen=True, slots=True)
class PlanView:
    """The plan of one batch in numbers (see `plan.BatchPlan`)."""

    kind: str
    offsets_max: int
    """The offsets of the busiest reader."""
    bound: int
    """The least that `offsets_max` can be with this kind of plan."""
    lent: int
    cuts: int
    share: int
    """The least that `offsets_max` can be if ranges may be cut anywhere."""
    joined: int = 0
    """How many readers had their offsets read by another one, since they were few."""

    def few(self, reader_offsets_min: int) -> str:
        """Say why fewer readers than have offsets read the batch, and what changes it; empty if all did.

        A sentence without a full stop. `reader_offsets_min`: of the batch's settings.
        """
        if not self.joined:
            return ""
        return (
            f"{counted(self.joined, 'reader')} had too few offsets for a task: others read them "
            f"(readerOffsetsMin={reader_offsets_min}; with 1, each reader reads its own)"
        )

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types."""
        return {
            "kind": self.kind,
            "offsetsMax": self.offsets_max,
            "offsetsMaxBound": self.bound,
            "offsetsMaxShare": self.share,
            "lent": self.lent,
            "cuts": self.cuts,
            "joined": self.joined,
        }

    @property
    def levels(self) -> bool:
        """Whether the option plan=level would have given the busiest reader far fewer offsets."""
        return self.kind != LEVEL and self.offsets_max > max(FAR_TIMES * self.share, CUT_OFFSETS_MIN)

    def advice(self, offsets: int, readers: int) -> str:
        """Say what helps if the busiest reader had far more than its share, or why nothing does; empty if it had not.

        A sentence without a full stop. `offsets`, `readers`: of the whole batch. This can happen although the
        assignment is as even as possible: it balances partitions, however many records are in each.
        """
        if self.kind == LEVEL or self.offsets_max <= FAR_TIMES * self.share:
            return ""
        said = (
            f"the busiest reader has {self.offsets_max:,} of {counted(offsets, 'offset')}, "
            f"{self.offsets_max * readers / offsets:.0%} of an equal share, since each partition is read as a whole"
        )
        if not self.levels:
            return (
                f"{said}; the option plan=level would not help: it cuts nothing of {CUT_OFFSETS_MIN:,} offsets or fewer"
            )
        return f"{said}; the option plan=level would cut them, and leave it {max(self.share, CUT_OFFSETS_MIN):,}"


def told_plan(plan: BatchPlan) -> tuple[str, ...]:
    """Sentences for the log: what was lent and cut, and whether the option plan=level would do better."""
    if not plan.readers:
        return ()
    lines: list[str] = []
    have = f"busiest reader: {plan.offsets_max:,} of {plan.offsets:,} offsets"
    if plan.lent or plan.cuts:
        pieces = f"{counted(plan.lent, 'range')} lent, {plan.cuts:,} cut"
        cutting = "" if plan.kind == LEVEL else " without cutting partitions"
        least = f"best possible{cutting}: {plan.bound:,}" if plan.offsets_max > plan.bound else "the least possible"
        lines.append(f"plan {plan.kind}: {pieces}; {have}, {least}")
    if plan.kind != LEVEL and plan.offsets_max > max(TIMES_SHARE * plan.share, CUT_OFFSETS_MIN):
        lines.append(f"plan {plan.kind}: {have}; plan=level would cut ranges: {max(plan.share, CUT_OFFSETS_MIN):,}")
    return tuple(lines)
