"""The lines about what is proven, how the last batch was shared out, and how many readers are needed."""

from __future__ import annotations

from collections.abc import Sequence

from evensplit.core.state.settings import LEVEL
from evensplit.core.text import counted
from evensplit.explain.held import held_sentence
from evensplit.explain.readers_needed import ReadersNeeded
from evensplit.observe.recorder import QueryStatus, SourceStatus
from evensplit.observe.source_view import View

LINES_MAX = 12
"""The most lines of proofs."""

OVER = frozenset({QueryStatus.ENDED, QueryStatus.FAILED})
"""The states in which nothing is read any more."""


def proofs(view: View) -> Sequence[tuple[str, str]]:
    """The lines about proofs and the plan, each with its tone."""
    lines: list[tuple[str, str]] = []
    for one in view.explanation.evenness:
        where = "All partitions" if one.cluster is None else f"Cluster {one.cluster}"
        tone = "good" if one.even else "off" if one.even is None or not one.promised else "bad"
        lines.append((tone, f"{where}: {one.statement()}."))
    left = len(lines) - LINES_MAX
    if left > 0:
        lines = [*lines[:LINES_MAX], ("off", f"… and {counted(left, 'more cluster')}, each balanced on its own.")]
    return [*lines, *_planned(view)]


def advised(watched: SourceStatus) -> Sequence[tuple[str, str]]:
    """How many readers are needed, and why, with its tone."""
    needed = needed_now(watched)
    if needed is None:
        return []
    enough = len(watched.view.explanation.readers) >= needed.readers
    return [("off" if enough and not needed.capped else "bad", f"{needed.sentence()}.")]


def needed_now(watched: SourceStatus) -> ReadersNeeded | None:
    """How many readers are needed; None if that is not known, or the query has ended."""
    if watched.stage in OVER:
        return None
    return watched.view.readers_needed(watched.heard_ms if watched.stage is QueryStatus.IDLE else None)


def _planned(view: View) -> Sequence[tuple[str, str]]:
    """How evenly the batch was shared out, each line with its tone; and the plan that would do much better, if any."""
    plan, offsets = view.explanation.plan, view.explanation.offsets
    if not offsets:
        return []
    have = f"Busiest reader: {plan.offsets_max:,} of {counted(offsets, 'offset')}"
    how = "with plan=level" if plan.kind == LEVEL else "without cutting partitions"
    proven = plan.offsets_max <= plan.bound
    best = f", the best possible {how}." if proven else f". Best possible {how}: {plan.bound:,}."
    lent = f" {counted(plan.lent, 'range')} lent to other readers, {counted(plan.cuts, 'cut')}."
    found = [("good" if proven else "off", f"{have}{best}{lent if plan.lent or plan.cuts else ''}")]
    if plan.joined:
        few = f"{counted(plan.joined, 'reader')} had too few offsets for a task: others read them (readerOffsetsMin)."
        found.append(("good", few))
    if advice := view.explanation.advice():
        found.append(("off", f"{advice[0].upper()}{advice[1:]}."))
    if held := held_sentence(view.explanation.held):
        found.append(("off", f"{held[0].upper()}{held[1:]}."))
    return found
