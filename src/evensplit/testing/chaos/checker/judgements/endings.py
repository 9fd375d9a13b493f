"""Judges how queries and drivers ended, and whether memory grew."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatch

import numpy as np

from evensplit.testing.chaos.checker.context import Context
from evensplit.testing.chaos.checker.faults import around
from evensplit.testing.chaos.checker.verdict import Excuse
from evensplit.testing.chaos.history.events import JobEnded, MemoryMeasured, QueryEnded, RunBegan

LIVES_S, WARM_S, SLOPE_MAX = 1200.0, 600.0, 1.0
"""Memory is judged of processes that live so long, after so long, and may grow by so many MiB a minute."""

ROLES = ("driver", "driver python", "source python", "executor", "executor python")
"""The processes of a run whose memory is judged. Spark in one process has no executors of its own."""

_SAMPLES_MAX = 400
_ERROR_CHARACTERS_MAX = 300


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
        error = _shortened(event.error)
        ends.append({"query": event.query, "at_s": event.at_s, "error": error, "cause": cause})
        if not cause:
            context.find("ended by itself", error, event.query, event.at_s)
    context.figures["queries' ends"] = ends


def _shortened(error: str) -> str:
    left = len(error) - _ERROR_CHARACTERS_MAX
    return error if left <= 0 else f"{error[:_ERROR_CHARACTERS_MAX]} … and {left:,} characters more, see the history"


def judge_memory(context: Context) -> None:
    """The slope of each process that lives long enough, by role."""
    spark = next((one.spark for one in context.events if isinstance(one, RunBegan)), "")
    samples: dict[str, dict[int, list[tuple[float, float]]]] = {
        role: {} for role in ROLES if role != "executor" or spark != "local"
    }
    for event in context.events:
        if isinstance(event, MemoryMeasured):
            samples.setdefault(event.process, {}).setdefault(event.pid, []).append((event.at_s, event.resident_mib))
    slopes: dict[str, dict[str, float]] = {}
    for role, processes in samples.items():
        longest_s = 0.0
        for pid, some in sorted(processes.items()):
            at_s, mib = np.array(some).T
            warm = at_s >= at_s[0] + WARM_S
            longest_s = max(longest_s, at_s[-1] - at_s[0])
            if at_s[-1] - at_s[0] < LIVES_S or warm.sum() < 2:
                continue
            slope = slopes.setdefault(role, {})[str(pid)] = round(_slope(at_s[warm] / 60, mib[warm]), 3)
            if slope > SLOPE_MAX:
                context.find("memory", f"grows by {slope:.2f} MiB a minute", f"{role} {pid}", at_s[-1])
        if role not in slopes:
            lived = f"lived for {LIVES_S / 60:g} minutes, the longest for {longest_s / 60:.1f}"
            context.not_judged.append(f"memory: of {role}, no process {lived if processes else 'was measured'}")
    context.figures["memory slopes (MiB/min)"] = slopes


def _slope(at: np.ndarray, value: np.ndarray) -> float:
    """The median of the slopes between all pairs of samples (Theil and Sen)."""
    keep = np.unique(np.linspace(0, len(at) - 1, _SAMPLES_MAX).astype(int))
    at, value = at[keep], value[keep]
    early, late = np.triu_indices(len(at), 1)
    apart = at[late] > at[early]
    early, late = early[apart], late[apart]
    return float(np.median((value[late] - value[early]) / (at[late] - at[early])))
