"""The lines about what is proven, how the last batch was shared out and how far it went, and about needed readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evensplit.core.batch.plan_summary import FAR_TIMES
from evensplit.core.state.settings import COUNT, GAIN_PERCENT_DEFAULT, LEVEL, Settings
from evensplit.core.text import counted, some
from evensplit.explain.held import held_sentence
from evensplit.explain.reader_loads import ReaderLoad
from evensplit.explain.readers_needed import ReadersNeeded
from evensplit.observe.source_view import View

LINES_MAX = 12
"""The most lines of proofs."""

CAPACITIES_MAX = 4
"""How many capacities are told, where neighbours with the same count as one."""


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


def how_far(view: View) -> Mapping[str, Any]:
    """What held the last batch (`held`, a sentence; empty if nothing did), and the time that it reached
    (`reached_ms`; None if batches are not aligned)."""
    held = held_sentence(view.explanation.held)
    return {"held": held and f"The last batch was {held}", "reached_ms": view.last.end.reached_ms}


def advised(view: View, needed: ReadersNeeded | None) -> Sequence[tuple[str, str]]:
    """How many readers are needed, and why, with its tone."""
    if needed is None:
        return []
    enough = len(view.explanation.readers) >= needed.readers
    return [("off" if enough and not needed.capped else "bad", f"{needed.sentence()}.")]


def busiest(view: View) -> tuple[ReaderLoad, float] | None:
    """With `capacity`: the reader with the most offsets for its capacity, and these over its share of the last batch.

    None: readers have no capacities, or the batch has no offsets.
    """
    found = view.explanation
    if not view.last.end.settings.capacities or not found.offsets:
        return None
    equal = found.offsets / sum(one.capacity for one in found.readers)
    most = max(found.readers, key=lambda one: (one.offsets / one.capacity, -one.reader))
    return most, most.offsets / most.capacity / equal


def said_of_plan(view: View) -> str:
    """What would help if the busiest reader had far more than its share, by capacity where readers have any; or ""."""
    most = busiest(view)
    return "" if most is not None and most[1] <= FAR_TIMES else view.explanation.advice()


def told_settings(settings: Settings) -> str:
    """The settings of assignment: the usual ones, and those that are not as they are by default."""
    found = [f"policy {settings.policy}", f"rebalance {settings.rebalance}", f"plan {settings.plan}", settings.scope]
    if settings.balance != COUNT:
        found.append(f"balance {settings.balance}")
    if settings.gain_percent != GAIN_PERCENT_DEFAULT:
        found.append(f"rebalanceGain {settings.gain_percent}")
    if settings.moves_per_hour is not None:
        found.append(f"rebalanceMovesPerHour {settings.moves_per_hour}")
    runs: list[tuple[int, int, int]] = []
    for reader, capacity in settings.capacities:
        if runs and runs[-1][1:] == (reader - 1, capacity):
            runs[-1] = (runs[-1][0], reader, capacity)
        else:
            runs.append((reader, reader, capacity))
    shown = [f"{capacity} of reader {a if a == b else f'{a}-{b}'}" for a, b, capacity in runs]
    if shown:
        found.append(f"capacity {some(shown, CAPACITIES_MAX)}")
    return ", ".join(found)


def _planned(view: View) -> Sequence[tuple[str, str]]:
    """How evenly the batch was shared out, each line with its tone; and the plan that would do much better, if any."""
    plan, offsets = view.explanation.plan, view.explanation.offsets
    if not offsets:
        return []
    have = f"Busiest reader: {plan.offsets_max:,} of {counted(offsets, 'offset')}"
    how = "with plan=level" if plan.kind == LEVEL else "without cutting partitions"
    proven = plan.offsets_max <= plan.bound
    best = f", the best possible {how}." if proven else f"; {how}, no plan is below {plan.bound:,}."
    lent = f" {counted(plan.lent, 'range')} lent to other readers, {counted(plan.cuts, 'cut')}."
    found = [("good" if proven else "off", f"{have}{best}{lent if plan.lent or plan.cuts else ''}")]
    if few := plan.few(view.last.end.settings.reader_offsets_min):
        found.append(("good", f"{few}."))
    if advice := said_of_plan(view):
        found.append(("off", f"{advice[0].upper()}{advice[1:]}."))
    return found
