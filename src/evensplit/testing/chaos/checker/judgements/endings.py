"""Judges how queries and drivers ended, and whether memory grew."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatch

import numpy as np

from evensplit.testing.chaos.checker.context import Context
from evensplit.testing.chaos.checker.excuses import TOPICS
from evensplit.testing.chaos.checker.faults import Fault, around
from evensplit.testing.chaos.checker.verdict import Excuse
from evensplit.testing.chaos.history.events import JobEnded, MemoryMeasured, QueryEnded, RunBegan

LIVES_S, WARM_S, GROWTH_MIB_PER_MINUTE_MAX = 1200.0, 600.0, 1.0
"""Memory is judged of processes that live so long, after so long, and may grow by so much."""

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
        cause = _cause(context, event, excuses)
        error = _shortened(event.error)
        ends.append({"query": event.query, "at_s": event.at_s, "error": error, "cause": cause})
        if not cause:
            context.find("ended by itself", error, event.query, event.at_s)
    context.figures["queries' ends"] = ends


def _cause(context: Context, event: QueryEnded, excuses: Sequence[Excuse]) -> str:
    """The fault that explains the end of a query, and where the documentation says so; empty if none does."""
    on = around(context.faults, event.at_s, context.bound_s)
    for excuse in excuses:
        found = re.search(excuse.pattern, event.error)
        if found is None:
            continue
        # The text of the error is what follows on its line; what is above or below are lines of code, or a plan.
        told = event.error[found.start() :].partition("\n")[0]
        clusters = {cluster for name, cluster in context.names.items() if _names(told, name)}
        topics = {topic for _, topic, _ in context.ledger.kinds if _names(told, topic)}
        kinds = {kind for (_, topic, _), kind in context.ledger.kinds.items() if topic in topics}
        if excuse.kinds and not kinds.intersection(excuse.kinds):
            continue
        for fault in reversed(on):
            if any(fnmatch(fault.nemesis, name) for name in excuse.nemeses) and _fits(fault, clusters, topics):
                return f"{fault.what} ({excuse.where})"
    return ""


def _fits(fault: Fault, clusters: set[str], topics: set[str]) -> bool:
    """Whether a fault is about a cluster and a topic that an error names, as far as either of them names any."""
    if clusters and fault.clusters and not clusters.intersection(fault.clusters):
        return False
    if topics and fault.nemesis in TOPICS and fault.clusters is not None:
        return any(_names(fault.what, topic) for topic in topics)
    return True


def _names(text: str, name: str) -> bool:
    """Whether a text names a cluster or a topic, and not a longer name that begins or ends like it."""
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text) is not None


def _shortened(error: str) -> str:
    left = len(error) - _ERROR_CHARACTERS_MAX
    return error if left <= 0 else f"{error[:_ERROR_CHARACTERS_MAX]} … and {left:,} characters more, see the history"


def judge_memory(context: Context) -> None:
    """The slope of each process that lives long enough, by role."""
    began = next((one for one in context.events if isinstance(one, RunBegan)), None)
    absent = {"executor"} if began is not None and began.spark == "local" else set[str]()
    if began is not None and began.source != "evensplit":
        # It plans in the driver, and reads in executors.
        absent |= {"source python", "executor python"}
    samples: dict[str, dict[int, list[tuple[float, float]]]] = {role: {} for role in ROLES if role not in absent}
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
            rise = _rise(at_s[warm] / 60, mib[warm])
            if max(slope, rise) > GROWTH_MIB_PER_MINUTE_MAX:
                what = f"grows by {slope:.2f} MiB a minute, and by {rise:.2f} from the first tenth to the last one"
                context.find("memory", what, f"{role} {pid}", at_s[-1])
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


def _rise(at: np.ndarray, value: np.ndarray) -> float:
    """The slope from the median of the first tenth of the samples to that of the last: it sees a jump, too."""
    tenth = max(1, len(at) // 10)
    apart = np.median(at[-tenth:]) - np.median(at[:tenth])
    return float((np.median(value[-tenth:]) - np.median(value[:tenth])) / apart) if apart > 0 else 0.0
