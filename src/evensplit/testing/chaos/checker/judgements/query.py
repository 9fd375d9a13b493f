"""Judges the rows that one query delivered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evensplit.testing.chaos.checker.context import Context
from evensplit.testing.chaos.checker.delivery import Delivery
from evensplit.testing.chaos.checker.judgements.missing import judge_lateness, judge_missing
from evensplit.testing.chaos.checker.sinks import Attempt
from evensplit.testing.chaos.history.events import QueryStarted


def judge_query(context: Context, query: str, attempts: Sequence[Attempt], rows: Delivery) -> None:
    """Add to the context all findings about a query that writes the records themselves."""
    at_s = np.array([one.at_s for one in attempts])
    batch = np.array([one.batch for one in attempts], np.int64)
    first = _first_attempts(batch)
    if query == "async":
        # Its batches come again with other boundaries: what counts is the order in which they came.
        order = np.argsort(np.argsort(np.nan_to_num(at_s, nan=np.inf), kind="stable"), kind="stable")
        batch, first = order.astype(np.int64), np.ones(len(attempts), bool)
    elif query == "kafka":
        # What readers saw at one time is a part of a batch.
        first = np.ones(len(attempts), bool)
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
    judge_lateness(context, query, delivered_s)
    context.figures.setdefault("records delivered", {})[query] = len(rows.number)


def _first_attempts(batch: Any) -> Any:
    first = np.ones(len(batch), bool)
    first[1:] = batch[1:] != batch[:-1]
    return first


def _judge_repeated_batches(
    context: Context, query: str, attempts: Sequence[Attempt], batch: Any, first: Any, rows: Delivery
) -> None:
    for later in np.flatnonzero(~first).tolist():
        earlier = int(np.searchsorted(batch, batch[later]))
        before, after = rows.of_attempt(earlier), rows.of_attempt(later)
        # Records that were deleted in the meantime cannot come again.
        kept = np.isin(before.number, after.number) | ~_may_be_gone(context, before, attempts[later].at_s)
        ours, theirs = _as_multiset(before.where(kept)), _as_multiset(after)
        if not np.array_equal(ours, theirs):
            what = f"batch {batch[later]}: {ours.shape[1]} rows, and {theirs.shape[1]} other ones when it was repeated"
            context.find("repeated batch differs", what, query, attempts[later].at_s)


def _may_be_gone(context: Context, rows: Delivery, at_s: float) -> Any:
    """Which rows are of records that the log need not have any more at a time."""
    ledger = context.ledger
    if not ledger.size:
        return np.zeros(len(rows.number), bool)
    known = (rows.number >= 0) & (rows.number < ledger.size)
    return known & context.may_be_gone(at_s)[np.where(known, rows.number, 0)]


def _as_multiset(rows: Delivery) -> Any:
    columns = np.stack([rows.number, rows.column_place, rows.offset, rows.timestamp_ms, rows.checksum, rows.key])
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
        judge("wrong place", "have columns that differ from their value", rows.column_place != rows.place)
        judge("wrong offset", "have another offset than the brokers gave", (of >= 0) & (of != rows.offset))
        sent = ledger.timestamp_ms[number]
        judge("changed", "have another timestamp than they were sent with", (sent >= 0) & (sent != rows.timestamp_ms))
        judge("changed", "have another key than they were sent with", ledger.key[number] != rows.key)
        sum_of = ledger.checksum[number]
        judge("changed", "have another value than they were sent with", (sum_of >= 0) & (sum_of != rows.checksum))
        judge("made up", "were delivered before they were sent", when < ledger.sent_s[number])
        judge("aborted but seen", "are of aborted transactions", (ledger.aborted & ~ledger.in_log)[number])
        absent = context.duty.absent & ~ledger.aborted
        judge("not in the log", "were never confirmed, and another client did not find them", absent[number])
    return real


def _judge_repeats(context: Context, query: str, rows: Delivery, when: Any, again: Any) -> None:
    bad = again
    if query == "async" and again.any():
        excused = np.zeros(len(again), bool)
        excused[1:] = _delivered_again_by_start(context, query, when[:-1], when[1:])
        context.figures["delivered again by async after a start"] = int(np.sum(again & excused))
        bad = again & ~excused
    context.find_records("repeated", "were delivered again", query, rows.number[bad], when[bad])


def _delivered_again_by_start(context: Context, query: str, before_s: Any, again_s: Any) -> Any:
    """Whether the query was started between two deliveries, and the first was among the last ones before the start.

    Progress is kept every few seconds; what was delivered longer before the start is not delivered again. A run that
    was too short to keep any leaves to the next one what it had to do again itself.
    """
    starts = [one.at_s for one in context.events if isinstance(one, QueryStarted) and one.query == query]
    times = np.sort(before_s[~np.isnan(before_s)])
    # For each start, from when on what was delivered before it may be delivered again.
    again_from_s = [-np.inf]
    for place, start in enumerate(starts):
        last = int(np.searchsorted(times, start, side="right")) - 1
        from_s = times[last] - context.bound_s if last >= 0 else -np.inf
        first = int(np.searchsorted(times, starts[place - 1])) if place else 0
        short = place > 0 and (first > last or start - times[first] <= context.bound_s)
        again_from_s.append(min(from_s, again_from_s[-1]) if short else from_s)
    start = np.searchsorted(starts, again_s, side="right")
    return (before_s < np.array([-np.inf, *starts])[start]) & (before_s >= np.array(again_from_s)[start])


def _judge_order(context: Context, query: str, rows: Delivery, when: Any, step: Any) -> None:
    """Within a batch no order is judged: partitions are read by several tasks, and each writes a file of its own."""
    ledger = context.ledger
    # After an unclean election, offsets are given anew.
    begin_s = np.array([context.first_fault_s(place[0]) for place in ledger.places] + [np.inf])
    exempt = ledger.of_kind("unclean")[rows.number] & ~(when < begin_s[rows.place])
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
    if not len(group):
        return bad
    order = np.lexsort((position, step, group))
    group, step, position = group[order], step[order], position[order]
    edges: Any = np.flatnonzero(np.diff(group, prepend=group[:1] - 1))
    for begin, end in zip(edges, [*edges[1:], len(group)], strict=True):
        highest = np.maximum.accumulate(position[begin:end])
        # The highest of all earlier steps: that before the first row of this step.
        at = np.searchsorted(step[begin:end], step[begin:end], side="left")
        before = np.where(at > 0, highest[np.maximum(at - 1, 0)], -1)
        bad[order[begin:end]] = position[begin:end] < before
    return bad
