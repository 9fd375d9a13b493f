"""Judges which records a query has not delivered, and which too late."""

from __future__ import annotations

from typing import Any

import numpy as np

from evensplit.testing.chaos.checker.context import Context
from evensplit.testing.chaos.checker.excused import LIVENESS_S


def judge_missing(context: Context, query: str, delivered: Any) -> None:
    """Lost records, and transactions of which a part is missing."""
    ledger, duty = context.ledger, context.duty
    missing = duty.must & ~delivered
    pending = missing & (np.nan_to_num(duty.deadline_s, nan=-1.0) > context.end_s)
    if pending.any():
        context.not_judged.append(f"{query}: {int(pending.sum())} records that were not due when the run ended")
    lost = np.flatnonzero(missing & ~pending)
    context.find_records("lost", "were not delivered", query, lost, duty.deadline_s[lost])
    free = np.zeros(ledger.size, bool)
    for reason, some in duty.excused.items():
        if "outcome" not in reason:
            free |= some
        if count := int(np.sum(some & ~delivered)):
            context.figures.setdefault(f"not delivered, {query}", {})[reason] = count
    if count := int(np.sum(duty.unread & ~delivered)):
        what = f"{query}: {count} records that an unclean election may have lost, in logs that no other client has read"
        context.not_judged.append(what)
    unknown = np.flatnonzero(ledger.unknown & ledger.acknowledged & ~free & ~duty.must)
    parts = ledger.transaction[unknown]
    seen = np.isin(parts, np.unique(ledger.transaction[ledger.unknown & delivered]))
    absent = unknown[seen & ~delivered[unknown]]
    what = "are missing from transactions of unknown outcome of which others were delivered"
    context.find_records("part of a transaction", what, query, absent, ledger.sent_s[absent])


def judge_lateness(context: Context, query: str, delivered_s: Any) -> None:
    """Records that waited longer than the faults allow, one finding for each standstill."""
    due_s, deadline_s = context.ledger.due_s, context.duty.deadline_s
    known = ~np.isnan(delivered_s) & np.isfinite(due_s)
    find_late(context, query, np.flatnonzero(known & (delivered_s > deadline_s)), delivered_s)
    latency = (delivered_s - due_s)[known]
    if len(latency):
        context.figures.setdefault("delivery latency (s)", {})[query] = {
            f"p{part}": round(float(np.percentile(latency, part)), 3) for part in (50, 90, 99, 100)
        }
        stall = (delivered_s - (deadline_s - context.bound_s))[known]
        longest = round(max(0.0, float(stall.max())), 3)
        context.figures.setdefault("longest stall after a fault (s)", {})[query] = longest


def find_late(context: Context, query: str, late: Any, arrived_s: Any) -> None:
    """Add a finding for each standstill. `late`: numbers of records; `arrived_s`: when each record of all arrived."""
    ledger, deadline_s = context.ledger, context.duty.deadline_s
    calm_s = np.inf if context.calm_s is None else context.calm_s
    dead = arrived_s[late] > np.maximum(ledger.due_s[late], calm_s) + LIVENESS_S
    for kind, some in (("liveness", late[dead]), ("stalled", late[~dead])):
        for at in _stretches(some, arrived_s, context.bound_s):
            places = len(np.unique(ledger.place[at]))
            most = float(np.max(arrived_s[at] - deadline_s[at]))
            what = f"{len(at):,} records of {places} partitions were delivered up to {most:.1f} s after the latest "
            what += f"allowed time, e.g. number {at[0]}"
            context.find(kind, what, query, float(arrived_s[at[0]]), len(at))


def _stretches(numbers: Any, at_s: Any, apart_s: float) -> list[Any]:
    """Numbers of records in the order of their times, cut where nothing happens for longer than `apart_s`."""
    if not len(numbers):
        return []
    numbers = numbers[np.argsort(at_s[numbers], kind="stable")]
    return np.split(numbers, np.flatnonzero(np.diff(at_s[numbers]) > apart_s) + 1)
