"""Judges the counts of a query that aggregates by partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evensplit.testing.chaos.checker.context import Context
from evensplit.testing.chaos.checker.judgements.missing import find_late
from evensplit.testing.chaos.checker.ledger import Place
from evensplit.testing.chaos.checker.sinks import Attempt

Group = tuple[str, Place]
"""What the metadata called the cluster at that time, and the partition."""

Count = tuple[int, int, int]
"""How many records, and the sum and the largest of their numbers."""


def judge_counted(context: Context, attempts: Sequence[Attempt]) -> None:
    """The counts of each partition have to be those of the records that were due, and in time."""
    last: dict[Group, Count] = {}
    before: dict[Group, Count] = {}
    steps: dict[Place, list[tuple[float, int]]] = {}
    former: tuple[Attempt, dict[Group, Count]] | None = None
    for attempt in attempts:
        rows = _counts(context, attempt)
        if former is not None and former[0].batch == attempt.batch:
            _judge_repeated(context, former[1], rows, attempt)
        else:
            before = dict(last)
        for group, count in rows.items():
            if count[0] < before.get(group, (0, 0, -1))[0]:
                what = f"a count goes back from {before[group][0]} to {count[0]} in batch {attempt.batch}"
                context.find("miscounted", what, _where(group[1]), attempt.at_s)
            steps.setdefault(group[1], []).append((attempt.at_s, count[0] - last.get(group, (0, 0, -1))[0]))
        last.update(rows)
        former = (attempt, rows)
    _judge_last(context, last)
    _judge_steps(context, steps)


def _counts(context: Context, attempt: Attempt) -> dict[Group, Count]:
    found: dict[Group, Count] = {}
    for row in attempt.rows.to_pylist():
        cluster = context.names.get(row["cluster"], row["cluster"])
        place = (cluster, row["topic"], int(row["incarnation"]), int(row["partition"]))
        group = (row["cluster"], place)
        if group in found:
            what = f"batch {attempt.batch} has two rows of {row['cluster']}"
            context.find("miscounted", what, _where(place), attempt.at_s)
        found[group] = (int(row["count"]), int(row["sum"]), int(row["max"]))
    return found


def _judge_repeated(context: Context, ours: dict[Group, Count], theirs: dict[Group, Count], again: Attempt) -> None:
    """A batch that comes again has the same counts, but of partitions of which records may be gone."""
    ledger = context.ledger
    changes = dict(zip(ledger.places, context.places_of_change(again.at_s), strict=True))
    taken = {ledger.places[at] for at in np.unique(ledger.place[context.taken(again.at_s)])}
    for group in sorted({*ours, *theirs}):
        if ours.get(group) != theirs.get(group) and not changes.get(group[1], False) and group[1] not in taken:
            what = f"batch {again.batch}: {ours.get(group)}, and {theirs.get(group)} when it was repeated"
            context.find("repeated batch differs", what, _where(group[1]), again.at_s)


def _judge_last(context: Context, last: dict[Group, Count]) -> None:
    found: dict[Place, Count] = {}
    for (_, place), (count, total, most) in last.items():
        sums = found.get(place, (0, 0, -1))
        found[place] = (sums[0] + count, sums[1] + total, max(sums[2], most))
    ledger, duty = context.ledger, context.duty
    settled = duty.must & ~(np.nan_to_num(duty.deadline_s, nan=-1.0) > context.end_s)
    if pending := int(np.sum(duty.must & ~settled)):
        context.not_judged.append(f"counted: {pending} records that were not due when the run ended")
    for number, place in enumerate(ledger.places):
        here = ledger.place == number
        must, may = np.flatnonzero(here & settled), np.flatnonzero(here & duty.may)
        count, total, most = found.pop(place, (0, 0, -1))
        wrong = not len(must) <= count <= len(may) or not int(must.sum()) <= total <= int(may.sum())
        wrong |= not max(must, default=-1) <= most <= max(may, default=-1)
        if wrong:
            expected = f"{len(must)} to {len(may)} records, sum {must.sum()} to {may.sum()}"
            what = f"the last row has count {count}, sum {total}, max {most}; expected {expected}"
            context.find("miscounted", what, _where(place), context.end_s)
    for place in found:
        context.find("made up", "a count of a partition that does not exist", f"counted: {place}", context.end_s)


def _judge_steps(context: Context, steps: dict[Place, list[tuple[float, int]]]) -> None:
    """At each time, a count has to be as high as the number of records that were due by then."""
    ledger, duty = context.ledger, context.duty
    arrived_s = np.full(ledger.size, np.nan)
    for number, place in enumerate(ledger.places):
        due = np.flatnonzero((ledger.place == number) & duty.must & ~np.isnan(duty.deadline_s))
        due = due[np.argsort(duty.deadline_s[due], kind="stable")]
        known = sorted((at_s, more) for at_s, more in steps.get(place, []) if not np.isnan(at_s))
        counts: Any = np.maximum.accumulate(np.cumsum([more for _, more in known])) if known else np.zeros(0, np.int64)
        # The n-th record that was due has come, at the latest, with the first count of n or more.
        at = np.searchsorted(counts, np.arange(1, len(due) + 1))
        times = np.array([at_s for at_s, _ in known] + [np.nan])
        arrived_s[due] = times[at]
    find_late(context, "counted", np.flatnonzero(arrived_s > duty.deadline_s), arrived_s)


def _where(place: Place) -> str:
    return f"counted: {place[0]} {place[1]}-{place[3]} (incarnation {place[2]})"
