"""Judges how queries and drivers ended, and whether memory grew."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatch

import numpy as np

from evensplit.testing.chaos.checker.context import Context
from evensplit.testing.chaos.checker.faults import around
from evensplit.testing.chaos.checker.verdict import Excuse
from evensplit.testing.chaos.history.events import JobEnded, MemoryMeasured, QueryEnded

LIVES_S, WARM_S, SLOPE_MAX = 1200.0, 600.0, 1.0
"""Memory is judged of processes that live so long, after so long, and may grow by so many MiB a minute."""

_SAMPLES_MAX = 400


def judge_endings(context: Context, excuses: Sequence[Excuse]) -> None:
    """Every end needs a fault that explains it."""
    ends: list[dict[str, object]] = []
    for event in context.events:
        if isinstance(event, JobEnded) and not event.expected:
            context.find("ended by itself", f"the driver ended with code {event.code}", "driver", event.at_s)
        if not isinstance(event, QueryEnded) or not event.error:
            continue
        on = around(context.faults, event.at_s, context.bound_s)
        cause = ""
        for excuse in excuses:
            fit = [one for one in on if any(fnmatch(one.nemesis, name) for name in excuse.nemeses)]
            if fit and re.search(excuse.pattern, event.error):
                cause = f"{fit[-1].what} ({excuse.where})"
                break
        ends.append({"query": event.query, "at_s": event.at_s, "error": event.error[:300], "cause": cause})
        if not cause:
            context.find("ended by itself", event.error[:300], event.query, event.at_s)
    context.figures["queries' ends"] = ends


def judge_memory(context: Context) -> None:
    """The slope of each process that lives long enough."""
    samples: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for event in context.events:
        if isinstance(event, MemoryMeasured):
            samples.setdefault((event.process, event.pid), []).append((event.at_s, event.resident_mib))
    slopes: dict[str, float] = {}
    for (process, pid), some in sorted(samples.items()):
        at_s, mib = np.array(some).T
        warm = at_s >= at_s[0] + WARM_S
        if at_s[-1] - at_s[0] < LIVES_S or warm.sum() < 2:
            continue
        slope = slopes[f"{process} {pid}"] = round(_slope(at_s[warm] / 60, mib[warm]), 3)
        if slope > SLOPE_MAX:
            context.find("memory", f"grows by {slope:.2f} MiB a minute", f"{process} {pid}", at_s[-1])
    context.figures["memory slopes (MiB/min)"] = slopes
    if not slopes:
        context.not_judged.append("memory: no process lived for 20 minutes")


def _slope(at: np.ndarray, value: np.ndarray) -> float:
    """The median of the slopes between all pairs of samples (Theil and Sen)."""
    keep = np.unique(np.linspace(0, len(at) - 1, _SAMPLES_MAX).astype(int))
    at, value = at[keep], value[keep]
    early, late = np.triu_indices(len(at), 1)
    apart = at[late] > at[early]
    early, late = early[apart], late[apart]
    return float(np.median((value[late] - value[early]) / (at[late] - at[early])))
