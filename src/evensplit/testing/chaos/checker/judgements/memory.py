"""Judges whether memory grew."""

from __future__ import annotations

import numpy as np

from evensplit.testing.chaos.checker.context import Context
from evensplit.testing.chaos.history.events import MemoryMeasured, RunBegan

LIVES_S, WARM_S, GROWTH_MIB_PER_MINUTE_MAX = 1200.0, 600.0, 1.0
"""Memory is judged of processes that live so long, after so long, and may grow by so much."""

JUMP_MIB_MAX = 32.0
"""So much may come and go: what processes share, and what is not collected yet."""

ROLES = ("driver", "driver python", "source python", "executor", "executor python")
"""The processes of a run whose memory is judged. Spark in one process has no executors of its own."""

_SAMPLES_MAX = 400


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
            allowed = max(JUMP_MIB_MAX, GROWTH_MIB_PER_MINUTE_MAX * (at_s[-1] - at_s[0] - WARM_S) / 60)
            rise = _rise(mib[warm])
            if slope > GROWTH_MIB_PER_MINUTE_MAX or rise > allowed:
                what = f"grows by {slope:.2f} MiB a minute, by {rise:.0f} MiB from the first samples to the last ones"
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


def _rise(value: np.ndarray) -> float:
    """By how much the last tenth of the samples is above the first one, by their medians: it sees a jump, too."""
    tenth = max(1, len(value) // 10)
    return float(np.median(value[-tenth:]) - np.median(value[:tenth]))
