"""Judges a run from its history and its sinks alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evensplit.testing.chaos.checker.context import Context
from evensplit.testing.chaos.checker.counted import judge_counted
from evensplit.testing.chaos.checker.delivery import delivery_of
from evensplit.testing.chaos.checker.endings import judge_endings, judge_memory
from evensplit.testing.chaos.checker.excused import duty_of
from evensplit.testing.chaos.checker.excuses import EXCUSES
from evensplit.testing.chaos.checker.faults import faults_of
from evensplit.testing.chaos.checker.ledger import ledger_of
from evensplit.testing.chaos.checker.query import judge_query
from evensplit.testing.chaos.checker.sinks import attempts_of
from evensplit.testing.chaos.checker.verdict import Excuse, Verdict
from evensplit.testing.chaos.history.events import (
    ClusterNamed,
    FaultFailed,
    FaultsStopped,
    JobReady,
    RunBegan,
    RunEnded,
)
from evensplit.testing.chaos.history.recorder import read_history


def check(directory: Path, *, excuses: Sequence[Excuse] | None = None, bound_s: float = 30.0) -> Verdict:
    """Judge the run in a directory with `history/*.jsonl` and `sink/<query>`.

    `excuses`: errors with which a query may end by itself; None: those of the source that the run read with.
    `bound_s`: how long delivery may take, after a record is acknowledged and the faults that overlap with this time are
    over. The same directory gives the same verdict. `ChaosError` if the directory holds no run.
    """
    events = read_history(directory / "history")
    end_s = events[-1].at_s if events else 0.0
    faults = faults_of(events, end_s)
    ledger = ledger_of(events)
    # A job that begins takes its time.
    ready_s = min((one.at_s for one in events if isinstance(one, JobReady)), default=0.0)
    np.maximum(ledger.due_s, ready_s, out=ledger.due_s)
    calm_s = min((one.at_s for one in events if isinstance(one, FaultsStopped)), default=None)
    told = ((one.queries, one.source) for one in events if isinstance(one, RunBegan))
    queries, source = next(told, ((), "evensplit"))
    names = {one.name: one.cluster for one in events if isinstance(one, ClusterNamed)}
    context = Context(events, faults, ledger, duty_of(ledger, faults, bound_s), names, end_s, calm_s, bound_s)
    figures: dict[str, Any] = context.figures
    for query in queries:
        attempts = attempts_of(directory, query, events)
        if not attempts:
            context.not_judged.append(f"{query}: its sink holds no batch")
        if query == "counted":
            judge_counted(context, attempts)
        else:
            judge_query(context, query, attempts, delivery_of(attempts, ledger, names))
    if not queries:
        context.not_judged.append("delivery: the history names no query")
    judge_endings(context, EXCUSES[source] if excuses is None else excuses)
    judge_memory(context)
    by_nemesis: dict[str, int] = {}
    for fault in faults:
        by_nemesis[fault.nemesis] = by_nemesis.get(fault.nemesis, 0) + 1
    figures["records written"] = int(np.sum(ledger.place >= 0))
    figures["records acknowledged"] = int(np.sum(ledger.offset >= 0))
    figures["faults by nemesis"] = dict(sorted(by_nemesis.items()))
    if calm_s is None:
        context.not_judged.append("liveness: the faults never stopped")
    for problem in [one.problem for one in events if isinstance(one, RunEnded) and one.problem]:
        context.not_judged.append(f"the run ended before its time: {problem}")
    failed = tuple(f"{one.nemesis}: {one.problem}" for one in events if isinstance(one, FaultFailed))
    return Verdict(tuple(context.findings), figures, tuple(context.not_judged), failed)
