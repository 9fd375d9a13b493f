"""The tasks of a batch: one for each reader that has work, or more where tasks are to be more, or smaller."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace

from evensplit.core.batch.plan import BatchPlan, ReaderPlan
from evensplit.core.model import Range


def plan_tasks(
    plan: BatchPlan, *, tasks_min: int | None = None, offsets_max: int | None = None
) -> tuple[ReaderPlan, ...]:
    """The work of each task, ascending by reader; several of one reader go on where the one before ends.

    `tasks_min`: how many tasks there are at least, unless the batch has fewer offsets. `offsets_max`: how many offsets
    a task has at most. Both are at least 1; None: one task for each reader. A reader's work is cut into parts that
    differ by one offset at most; more parts go to whose parts would be longest. Laws: S2, S11.
    """
    plans = plan.readers
    parts = [1 if offsets_max is None else -(-plan.offsets // offsets_max) for plan in plans]
    missing = min(tasks_min or 0, plan.offsets) - sum(parts)
    if missing > 0:
        longest = [(-one.offsets / parts[number], number) for number, one in enumerate(plans)]
        heapify(longest)
        for _ in range(missing):
            number = longest[0][1]
            parts[number] += 1
            # Once its parts have one offset each, there is nothing more to cut.
            offsets = plans[number].offsets
            heapreplace(longest, (-offsets / parts[number] if parts[number] < offsets else 0.0, number))
    return tuple(
        ReaderPlan(plan.reader, part)
        for plan, count in zip(plans, parts, strict=True)
        for part in _parts(plan.ranges, plan.offsets, count)
    )


def _parts(ranges: Sequence[Range], offsets: int, count: int) -> list[tuple[Range, ...]]:
    """`ranges`, one behind the other, in `count` parts of about the same number of offsets."""
    parts: list[tuple[Range, ...]] = []
    number, begun = 0, 0
    for part in range(count):
        size = offsets * (part + 1) // count - offsets * part // count
        taken: list[Range] = []
        while size:
            whole = ranges[number]
            begin = whole.start + begun
            end = min(whole.end, begin + size)
            taken.append(Range(whole.split, begin, end))
            size, begun = size - (end - begin), begun + (end - begin)
            if end == whole.end:
                number, begun = number + 1, 0
        parts.append(tuple(taken))
    return parts
