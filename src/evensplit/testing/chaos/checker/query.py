"""Judges the rows that one query delivered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evensplit.testing.chaos.checker.context import Context
from evensplit.testing.chaos.checker.delivery import Delivery
from evensplit.testing.chaos.checker.sinks import Attempt
from evensplit.testing.chaos.history.events import QueryStarted

LIVENESS_S = 60.0
"""Everything has to be delivered so long after the faults stop."""


def judge_query(context: Context, query: str, attempts: Sequence[Attempt], rows: Delivery) -> None:
    """Add to the context all findings about a query that writes the records themselves."""
    at_s = np.array([one.at_s for one in attempts])
    batch = np.array([one.batch for one in attempts], np.int64)
    if np.isnan(at_s).any():
        context.not_judged.append(f"{query}: stalls of {int(np.isnan(at_s).sum())} attempts that the history has not")
    first = _first_attempts(batch)
    if query == "async":
        # Its batches come again with other boundaries: what counts is the order in which they came.
        order = np.argsort(np.argsort(np.nan_to_num(at_s, nan=np.inf), kind="stable"), kind="stable")
        batch, first = order.astype(np.int64), np.ones(len(attempts), bool)
    else:
        _judge_repeated_batches(context, query, attempts, batch, first, rows)
    rows = rows.where(first[rows.attempt]) if len(attempts) else rows
    when, step = (at_s[rows.attempt], batch[rows.attempt]) if len(attempts) else (np.zeros(0), np.zeros(0, np.int64))
    real = _judge_rows(context, query, rows, when)
    rows, when, step = rows.where(real), when[real], step[real]
    order = np.lexsort((rows.offset, step, rows.number))
    rows, when, step = rows.where(order), when[order], step[order]
    again = np.zeros(len(rows.number), bool)
    again[1:] = rows.number[1:] == rows.number[:-1]
    _judge_repeats(context, query, rows, when, again)
    rows, when, step = rows.where(~again), when[~again], step[~again]
    _judge_order(context, query, rows, when, step)
    delivered_s = np.full(context.ledger.size, np.nan)
    delivered = np.zeros(context.ledger.size, bool)
    delivered_s[rows.number], delivered[rows.number] = when, True
    judge_missing(context, query, delivered)
    _judge_lateness(context, query, delivered_s)
    context.figures.setdefault("records delivered", {})[query] = len(rows.number)
    context.figures.setdefault("batches", {})[query] = len({one.batch for one in attempts})
    context.figures.setdefault("repeated batches", {})[query] = len(attempts) - len({one.batch for one in attempts})


def _first_attempts(batch: Any) -> Any:
    first = np.ones(len(batch), bool)
    first[1:] = batch[1:] != batch[:-1]
    return first


def _judge_repeated_batches(
    context: Context, query: str, attempts: Sequence[Attempt], batch: Any, first: Any, rows: Delivery
) -> None:
    for later in np.flatnonzero(~first).tolist():
        earlier = int(np.searchsorted(batch, batch[later]))
        before, after = (rows.where(rows.attempt == one) for one in (earlier, later))
        # Records that were deleted in the meantime cannot come again.
        kept = np.isin(before.number, after.number) | ~_may_be_gone(context, before, attempts[later].at_s)
        ours, theirs = _as_multiset(before.where(kept)), _as_multiset(after)
        if not np.array_equal(ours, theirs):
            what = f"batch {batch[later]}: {ours.shape[1]} rows, and {theirs.shape[1]} other ones when it was repeated"
            at_s = attempts[later].at_s
            context.find("repeated batch differs", what, query, at_s if at_s == at_s else -1.0)


def _may_be_gone(context: Context, rows: Delivery, at_s: float) -> Any:
    """Which rows are of records that the log need not have any more at a time."""
    ledger = context.ledger
    if not ledger.size:
        return np.zeros(len(rows.number), bool)
    known = (rows.number >= 0) & (rows.number < ledger.size)
    number = np.where(known, rows.number, 0)
    deleted_s = np.array([ledger.deleted_s.get(place[:3], np.inf) for place in ledger.places] + [np.inf])
    gone = (deleted_s[rows.place] <= at_s) | (ledger.of_kind("compacted") | ledger.of_kind("unclean"))[number]
    for one in ledger.removals:
        place = (one.cluster, one.topic, one.incarnation, one.partition)
        if one.at_s <= at_s and place in ledger.places:
            gone |= (rows.place == ledger.places.index(place)) & (rows.offset < one.before_offset)
    return known & gone


def _as_multiset(rows: Delivery) -> Any:
    columns = np.stack([rows.number, rows.column_place, rows.offset])
    return columns[:, np.lexsort(columns)]


def _judge_rows(context: Context, query: str, rows: Delivery, when: Any) -> Any:
    """Judge each row on its own. Which rows are of records that were sent, to the place they name."""
    ledger = context.ledger
    known = (rows.number >= 0) & (rows.number < ledger.size)
    number = np.where(known, rows.number, 0)
    if not ledger.size:
        real = known
    else:
        real = known & (ledger.place[number] >= 0) & (ledger.place[number] == rows.place)
    context.find_records("made up", "were never sent", query, rows.number[~real], when[~real])

    def judge(kind: str, what: str, bad: Any) -> None:
        context.find_records(kind, what, query, rows.number[real & bad], when[real & bad])

    if ledger.size:
        of = ledger.offset[number]
        unclean = ledger.of_kind("unclean")[number]
        judge("wrong place", "have columns that differ from their value", rows.column_place != rows.place)
        judge("wrong offset", "have another offset than the brokers gave", (of >= 0) & (of != rows.offset) & ~unclean)
        sent = ledger.timestamp_ms[number]
        judge("changed", "have another timestamp than they were sent with", (sent >= 0) & (sent != rows.timestamp_ms))
        key = ledger.key[number]
        judge("changed", "have another key than they were sent with", (key >= 0) & (key != rows.key))
        judge("aborted but seen", "are of aborted transactions", ledger.aborted[number])
    return real


def _judge_repeats(context: Context, query: str, rows: Delivery, when: Any, again: Any) -> None:
    bad = again
    if query == "async":
        starts = np.array([one.at_s for one in context.events if isinstance(one, QueryStarted) and one.query == query])
        started = np.searchsorted(starts, when, side="right")
        bad = again.copy()
        bad[1:] &= started[1:] == started[:-1]
        context.figures["delivered again by async after a start"] = int(again.sum() - bad.sum())
    context.find_records("repeated", "were delivered again", query, rows.number[bad], when[bad])


def _judge_order(context: Context, query: str, rows: Delivery, when: Any, step: Any) -> None:
    ledger = context.ledger
    exempt = ledger.of_kind("unclean")[rows.number] if ledger.size else np.zeros(0, bool)
    bad = _behind(rows.place, step, rows.offset) & ~exempt
    context.find_records("reordered", "came after ones of higher offsets", query, rows.number[bad], when[bad])
    topics: dict[tuple[str, str], int] = {}
    topic = np.array([topics.setdefault(place[:2], len(topics)) for place in ledger.places] + [-1], np.int64)
    incarnation = np.array([place[2] for place in ledger.places] + [-1], np.int64)
    bad = _behind(topic[rows.place], step, incarnation[rows.place])
    what = "came after ones of a later incarnation"
    context.find_records("wrong incarnation", what, query, rows.number[bad], when[bad])


def _behind(group: Any, step: Any, position: Any) -> Any:
    """Which rows have a lower position than some row of the same group in an earlier step."""
    bad = np.zeros(len(group), bool)
    order = np.lexsort((position, step, group))
    group, step, position = group[order], step[order], position[order]
    edges: Any = np.flatnonzero(np.diff(group, prepend=group[:1] - 1)) if len(group) else []
    for begin, end in zip(edges, [*edges[1:], len(group)], strict=True):
        highest = np.maximum.accumulate(position[begin:end])
        # The highest of all earlier steps: that before the first row of this step.
        at = np.searchsorted(step[begin:end], step[begin:end], side="left")
        before = np.where(at > 0, highest[np.maximum(at - 1, 0)], -1)
        bad[order[begin:end]] = position[begin:end] < before
    return bad


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
    unknown = np.flatnonzero(ledger.unknown & (ledger.offset >= 0) & ~free)
    parts = ledger.transaction[unknown]
    seen = np.isin(parts, np.unique(parts[delivered[unknown]]))
    absent = unknown[seen & ~delivered[unknown]]
    what = "are missing from transactions of unknown outcome of which others were delivered"
    context.find_records("part of a transaction", what, query, absent, ledger.sent_s[absent])


def _stretches(numbers: Any, at_s: Any, apart_s: float) -> list[Any]:
    """Numbers of records in the order of their times, cut where nothing happens for longer than `apart_s`."""
    if not len(numbers):
        return []
    numbers = numbers[np.argsort(at_s[numbers], kind="stable")]
    return np.split(numbers, np.flatnonzero(np.diff(at_s[numbers]) > apart_s) + 1)


def _judge_lateness(context: Context, query: str, delivered_s: Any) -> None:
    due_s, deadline_s = context.ledger.due_s, context.duty.deadline_s
    known = ~np.isnan(delivered_s) & ~np.isnan(due_s)
    calm_s = np.inf if context.calm_s is None else context.calm_s
    late = known & (delivered_s > deadline_s)
    dead = late & (delivered_s > np.maximum(due_s, calm_s) + LIVENESS_S)
    for kind, some in (("liveness", dead), ("stalled", late & ~dead)):
        for at in _stretches(np.flatnonzero(some), delivered_s, context.bound_s):
            places = len(np.unique(context.ledger.place[at]))
            most = float(np.max(delivered_s[at] - deadline_s[at]))
            what = f"{len(at):,} records of {places} partitions were delivered up to {most:.1f} s after the latest "
            what += f"allowed time, e.g. number {at[0]}"
            context.find(kind, what, query, float(delivered_s[at[0]]), len(at))
    latency = (delivered_s - due_s)[known]
    if len(latency):
        context.figures.setdefault("delivery latency (s)", {})[query] = {
            f"p{part}": round(float(np.percentile(latency, part)), 3) for part in (50, 90, 99, 100)
        }
        stall = (delivered_s - (deadline_s - context.bound_s))[known]
        longest = round(max(0.0, float(stall.max())), 3)
        context.figures.setdefault("longest stall after a fault (s)", {})[query] = longest
