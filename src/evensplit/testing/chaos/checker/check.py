"""Judges a run from its history and its sinks alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evensplit.errors import ChaosError
from evensplit.testing.chaos.checker.context import Context
from evensplit.testing.chaos.checker.delivery import delivery_of
from evensplit.testing.chaos.checker.excused import duty_of
from evensplit.testing.chaos.checker.excuses import EXCUSES
from evensplit.testing.chaos.checker.faults import faults_of, spells, starts_of
from evensplit.testing.chaos.checker.judgements.contradictions import judge_history
from evensplit.testing.chaos.checker.judgements.counted import judge_counted
from evensplit.testing.chaos.checker.judgements.endings import judge_endings
from evensplit.testing.chaos.checker.judgements.memory import judge_memory
from evensplit.testing.chaos.checker.judgements.query import judge_query
from evensplit.testing.chaos.checker.judgements.written import judge_written
from evensplit.testing.chaos.checker.ledger import ledger_of
from evensplit.testing.chaos.checker.sinks import attempts_of, judge_sink
from evensplit.testing.chaos.checker.verdict import Excuse, Verdict
from evensplit.testing.chaos.history.events import (
    ClusterNamed,
    Event,
    FaultFailed,
    FaultsStopped,
    JobReady,
    RunBegan,
    RunEnded,
)
from evensplit.testing.chaos.history.recorder import read_history

WRITTEN_SHARE_MIN = 0.25
"""So much of what writers are to write, they write in spite of faults."""

JUDGED_SHARE_MIN = 0.5
"""So many of the acknowledged records have to arrive, whatever becomes of topics and transactions."""


def check(directory: Path, *, excuses: Sequence[Excuse] | None = None, bound_s: float = 30.0) -> Verdict:
    """Judge the run in a directory with `history/*.jsonl` and `sink/<query>`.

    `excuses`: errors with which a query may end by itself; None: those of the source that the run read with.
    `bound_s`: how long delivery may take, after a record is acknowledged and the faults that overlap with this time are
    over. The same directory gives the same verdict. `ChaosError` if the directory holds no run.
    """
    events = read_history(directory / "history")
    began = next((one for one in events if isinstance(one, RunBegan)), None)
    if began is None or not began.queries:
        raise ChaosError(f"{directory}: the history does not say how a run began, and with which queries")
    context = _context(events, bound_s)
    figures: dict[str, Any] = context.figures
    judge_history(context)
    for query in began.queries:
        attempts = attempts_of(directory, query, events)
        judge_sink(context, query, attempts)
        if query == "counted":
            judge_counted(context, attempts)
        else:
            if query == "kafka":
                attempts = judge_written(context, query, attempts)
            judge_query(context, query, attempts, delivery_of(attempts, context.ledger, context.names))
    judge_endings(context, EXCUSES[began.source] if excuses is None else excuses)
    judge_memory(context)
    by_nemesis = Counter(fault.nemesis for fault in context.faults if fault.clusters is not None)
    figures["records written"] = int(np.sum(context.ledger.place >= 0))
    figures["records acknowledged"] = int(np.sum(context.ledger.acknowledged))
    hard = spells([*context.faults, *starts_of(events)])
    figures["time with faults (s)"] = round(sum(end_s - begin_s for begin_s, end_s in hard), 1)
    figures["longest time with faults (s)"] = round(max((end_s - begin_s for begin_s, end_s in hard), default=0.0), 1)
    figures["faults by nemesis"] = dict(sorted(by_nemesis.items()))
    _judge_end(context)
    _judge_amount(context, began)
    failed = tuple(f"{one.nemesis}: {one.problem}" for one in events if isinstance(one, FaultFailed))
    return Verdict(tuple(context.findings), figures, tuple(context.not_judged), failed)


def _context(events: list[Event], bound_s: float) -> Context:
    end_s = events[-1].at_s
    faults = faults_of(events, end_s)
    ledger = ledger_of(events)
    # A job that begins takes its time.
    ready_s = min((one.at_s for one in events if isinstance(one, JobReady)), default=np.inf)
    np.maximum(ledger.due_s, ready_s, out=ledger.due_s)
    calm_s = min((one.at_s for one in events if isinstance(one, FaultsStopped)), default=None)
    duty = duty_of(ledger, faults, starts_of(events), bound_s, calm_s)
    names = {one.name: one.cluster for one in events if isinstance(one, ClusterNamed)}
    return Context(events, faults, ledger, duty, names, end_s, calm_s, bound_s)


def _judge_end(context: Context) -> None:
    """Find what a run does not prove that ended early, or has not ended, and say what else could not be judged."""
    events = context.events

    def lacks(what: str) -> None:
        context.find("incomplete", what, "history", context.end_s)

    ends = [one for one in events if isinstance(one, RunEnded)]
    ready_s = min((one.at_s for one in events if isinstance(one, JobReady)), default=None)
    if ready_s is None:
        lacks("the job was never ready, so nothing had to be delivered by a certain time")
    elif context.calm_s is None:
        lacks("the faults never stopped, so not everything had to be delivered")
    if not ends:
        lacks("the end of the run is not in it")
    for one in ends:
        if one.problem:
            lacks(f"the run ended before its time: {one.problem}")
    failed = {one.fault: one for one in events if isinstance(one, FaultFailed)}
    if not context.faults:
        lacks("the run had no faults")
    elif all(one.number in failed for one in context.faults):
        lacks(f"none of {len(context.faults)} faults could be made and ended")
    half_s = ((ready_s or 0.0) + (context.end_s if context.calm_s is None else context.calm_s)) / 2
    for fault in context.faults:
        if fault.number in failed and failed[fault.number].made and fault.clusters:
            what = f"from {fault.begin_s:.0f} s on a fault could not be ended, {fault.what}"
            context.not_judged.append(f"the rest of the run: {what}")
            if fault.begin_s < half_s:
                lacks(f"more than half of the run is not judged: {what}")
    ledger = context.ledger
    live = {at for at, place in enumerate(ledger.places) if place[:3] not in ledger.deleted_s}
    if unread := sorted(live - ledger.read):
        cluster, topic, _, partition = ledger.places[unread[0]]
        where = f"the logs of {len(unread)} partitions, e.g. {cluster} {topic}-{partition}"
        context.not_judged.append(f"{where}: no other client has read them")
    if (ledger.checksum[ledger.place >= 0] < 0).any():
        context.not_judged.append("values: the history has no checksums of them")


def _judge_amount(context: Context, began: RunBegan) -> None:
    """Find what shows too little: writers that hardly wrote, or records most of which need not arrive."""
    if context.calm_s is None:
        # It is found already that not everything had to arrive.
        return
    ledger, duty = context.ledger, context.duty
    acknowledged, must = int(np.sum(ledger.acknowledged)), int(np.sum(duty.must & ledger.acknowledged))
    wanted = int(began.records_per_s * began.minutes * 60 * WRITTEN_SHARE_MIN)
    if acknowledged < wanted:
        what = f"{acknowledged:,} records were acknowledged, of {wanted:,} that such a run has at least"
        context.find("incomplete", what, "history", context.end_s)
    if must < acknowledged * JUDGED_SHARE_MIN:
        what = f"only {must:,} of {acknowledged:,} acknowledged records had to arrive"
        context.find("incomplete", what, "history", context.end_s)
