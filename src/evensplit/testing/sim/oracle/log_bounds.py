"""Where logs begin and end, in the oracle: what is lost by that, and how often it has to be seen."""

from __future__ import annotations

from evensplit.core.machine.events import LogsObserved
from evensplit.core.model import Cause, Loss
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.oracle.known import Known

ANSWERS_MIN = 3
"""So many different answers in a row show a log that ends before its position, before that is believed."""

SHORT_MS_MIN = 3_000
"""The first and the last of them are so far apart, and a discovery interval if that is longer."""


def observe_logs(model: Known, event: LogsObserved, before: EnumeratorState) -> None:
    """A log that begins after its position has lost what was before; one that ends before it, after a while."""
    cluster = before.clusters.get(event.cluster)
    if cluster is None or cluster.removed_at_ms is not None:
        return
    if event.answer:
        if event.answer <= model.observed.get(event.cluster, 0):
            return
        model.observed[event.cluster] = event.answer
    asked_ms = model.asked_ms(event.asked)
    left_out = {
        key: True
        for key in event.ends
        if key not in model.known
        or model.is_log_doubted(key, before.splits.get(key))
        or model.one_log.is_former(key, event)
    }
    for key, end in event.ends.items():
        if key in left_out:
            continue
        short = model.short.pop(key, (0, end, -1, asked_ms))
        model.ends[key] = max(end, model.ends.get(key, end))
        split, mark = before.splits.get(key), model.marks.get(key)
        if split is not None and split.removed_at_ms is not None:
            # Nobody compares what is away, so its log need not be the one that was read.
            left_out[key] = True
        if split is None or mark is None or not split.active:
            continue
        start = event.starts.get(key, 0)
        replaced = model.one_log.replaced_from(key, mark, event)
        if replaced is not None:
            if model.lose(Loss(key, Cause.REPLACED, mark, replaced)):
                model.begin(key, replaced)
                model.ends[key] = end
        elif end >= mark and start > mark:
            if model.lose(Loss(key, Cause.AGED_OUT, mark, start, min(start, model.stops.get(key, start)) - mark)):
                model.begin(key, start)
                if key in model.stops:
                    model.stops[key] = max(start, model.stops[key])
        elif end < mark:
            left_out[key] = True
            count, low, answer, since_ms = short
            if answer != event.answer:
                count, low = count + 1, min(low, end)
            few = count < ANSWERS_MIN or not event.asked.turned
            if few or asked_ms - since_ms < max(model.interval_ms, SHORT_MS_MIN):
                model.short[key] = count, low, event.answer, since_ms
            elif model.lose(Loss(key, Cause.TRUNCATED, mark, low)):
                model.begin(key, low)
                model.ends[key] = end
    model.one_log.look(event, left_out, model.ends)
