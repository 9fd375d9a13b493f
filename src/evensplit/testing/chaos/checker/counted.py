"""Judges the counts of a query that aggregates by partition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evensplit.testing.chaos.checker.context import Context
from evensplit.testing.chaos.checker.ledger import Place
from evensplit.testing.chaos.checker.sinks import Attempt


def judge_counted(context: Context, attempts: Sequence[Attempt]) -> None:
    """The last count, sum and maximum of each partition have to be those of the records that were due."""
    last: dict[tuple[str, Place], tuple[int, int, int]] = {}
    for attempt in attempts:
        for row in attempt.rows.to_pylist():
            cluster = context.names.get(row["cluster"], row["cluster"])
            place = (cluster, row["topic"], int(row["incarnation"]), int(row["partition"]))
            last[row["cluster"], place] = (int(row["count"]), int(row["sum"]), int(row["max"]))
    found: dict[Place, tuple[int, int, int]] = {}
    for (_, place), (count, total, most) in last.items():
        before = found.get(place, (0, 0, -1))
        found[place] = (before[0] + count, before[1] + total, max(before[2], most))
    ledger, duty = context.ledger, context.duty
    settled = duty.must & ~(np.nan_to_num(duty.deadline_s, nan=-1.0) > context.end_s)
    for number, place in enumerate(ledger.places):
        here = ledger.place == number
        must, may = np.flatnonzero(here & settled), np.flatnonzero(here & duty.may)
        count, total, most = found.pop(place, (0, 0, -1))
        wrong = not len(must) <= count <= len(may) or not int(must.sum()) <= total <= int(may.sum())
        wrong |= not max(must, default=-1) <= most <= max(may, default=-1)
        if wrong:
            expected = f"{len(must)} to {len(may)} records, sum {must.sum()} to {may.sum()}"
            where = f"counted: {place[0]} {place[1]}-{place[3]} (incarnation {place[2]})"
            what = f"the last row has count {count}, sum {total}, max {most}; expected {expected}"
            context.find("miscounted", what, where, context.end_s)
    for place in found:
        context.find("made up", "a count of a partition that does not exist", f"counted: {place}", context.end_s)
    context.figures.setdefault("batches", {})["counted"] = len({one.batch for one in attempts})
