"""Judges whether a run that writes to a topic shows what becomes of a batch when its processes die."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from evensplit.testing.chaos.checker.context import Context
from evensplit.testing.chaos.history.events import BatchCutOff, JobStarted

HIDDEN = "records of aborted transactions in the sink's topic"
CUT, FOUND = "batches that the end of a driver cut off", "of them decided before, and found again by the next driver"

_AT_ITS_MOMENT = "writing-kill"
_ENDS_WRITERS = ("driver-kill", _AT_ITS_MOMENT, "python-worker-kill", "executor-kill", "worker-kill")
ENDED_MIN = 6
"""So often processes have to be ended by chance, to be ended once as they write."""

AIMED_MIN = 4
"""So many faults that aim at a decided batch, twice each, have to hit one: it is one for milliseconds."""

_WHAT = "writing through crashes"


def judge_crashes(context: Context, query: str, partition: Any, at: Any, batch: Any) -> None:
    """Add what became of batches that were cut off; and find, or say, what the run does not show.

    `partition`, `at`, `batch`: of each record that readers see in the topic, where it is and the time of its batch.
    """
    _count(context, partition, at, batch)
    made = Counter(one.nemesis for one in context.faults if one.clusters is not None)
    ended, aimed = sum(made[name] for name in _ENDS_WRITERS), made[_AT_ITS_MOMENT]
    hidden, found = context.figures.get(HIDDEN, 0), context.figures[FOUND]
    lacks = []
    if not hidden:
        what = "the sink's topic has no record of an aborted transaction, so no task or driver was ended as it wrote"
        lacks.append((ended >= ENDED_MIN, f"{what}, in {ended} faults that end one"))
    # Of a batch of which nobody could say how far it had come, it is not known.
    unknown = any(isinstance(one, BatchCutOff) and not one.ends for one in context.events)
    if not found:
        what = "no driver was ended after it had decided a batch, and before Spark knew"
        lacks.append((aimed >= AIMED_MIN and not unknown, f"{what}, in {aimed} faults that aim at that"))
    for proves_nothing, what in lacks:
        if proves_nothing:
            context.find("incomplete", what, query, context.end_s)
        else:
            context.not_judged.append(f"{_WHAT}: {what}")


def _count(context: Context, partition: Any, at: Any, batch: Any) -> None:
    """Of what was cut off, count what was decided: readers see records of it that were in the topic by then.

    Had the next driver not found the decision, it would have written the batch again, and aborted these, or readers
    would see both.
    """
    last_s = max((one.at_s for one in context.events if isinstance(one, JobStarted)), default=-np.inf)
    # The last driver ends with the run, and none comes after it.
    cut = [one for one in context.events if isinstance(one, BatchCutOff) and one.at_s <= last_s]
    found = 0
    for one in cut:
        mine = batch == one.batch_ms
        ends = np.array([*one.ends, 0], np.int64)
        before = at[mine] < ends[np.minimum(partition[mine], len(one.ends))]
        found += bool(before.any())
    context.figures[CUT], context.figures[FOUND] = len(cut), found
