"""Judges how queries and drivers ended."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatch

import numpy as np

from evensplit.testing.chaos.checker.context import Context
from evensplit.testing.chaos.checker.excuses import OF_ONE_TOPIC
from evensplit.testing.chaos.checker.faults import Fault, deadlines, starts_of
from evensplit.testing.chaos.checker.verdict import Excuse
from evensplit.testing.chaos.history.events import JobEnded, QueryEnded, RunBegan

_ERROR_CHARACTERS_MAX = 300
_SAID_CHARACTERS_MAX = 250
_TRACEBACK = "Traceback (most recent call last):"


def judge_endings(context: Context, excuses: Sequence[Excuse]) -> None:
    """Every end needs a fault that explains it. The driver of our own job catches all errors, and has no excuse."""
    ours = not any(one.job for one in context.events if isinstance(one, RunBegan))
    ends: list[dict[str, object]] = []
    for event in context.events:
        if isinstance(event, JobEnded) and not event.expected:
            # A job that was not killed, and ends by an error, says so last. What it logged before may be anything.
            _, traceback, said = event.said.rpartition(_TRACEBACK)
            judged = not ours and event.code > 0 and bool(traceback)
            last = said.strip()[-_SAID_CHARACTERS_MAX:]
            who, error = "driver", f"the driver ended with code {event.code}" + (f": … {last}" if last else "")
            cause = _cause(context, event.at_s, said, excuses) if judged else ""
        elif isinstance(event, QueryEnded) and event.error:
            who, error = event.query, event.error
            cause = _cause(context, event.at_s, event.error, excuses)
        else:
            continue
        ends.append({"query": who, "at_s": event.at_s, "error": _shortened(error), "cause": cause})
        if not cause:
            context.find("ended by itself", _shortened(error), who, event.at_s)
    context.figures["queries' ends"] = ends


def _cause(context: Context, at_s: float, error: str, excuses: Sequence[Excuse]) -> str:
    """The fault that explains an end, and where the documentation says so; empty if none does."""
    for excuse in excuses:
        found = [*re.finditer(excuse.pattern, error)]
        if not found or (excuse.unless and re.search(excuse.unless, error)):
            continue
        # The text of an error follows on its line; what is above or below are lines of code, or a plan.
        told = error[found[-1].start() :].partition("\n")[0]
        topics = _topics(context, told)
        kinds = {kind for (_, topic, _), kind in context.ledger.kinds.items() if topic in topics}
        if excuse.kinds and not kinds.intersection(excuse.kinds):
            continue
        for fault in reversed(context.faults):
            fits = any(fnmatch(fault.nemesis, name) for name in excuse.nemeses) and _fits(context, fault, told, topics)
            if fits and fault.begin_s <= at_s <= _until_s(context, fault, excuse):
                return f"{fault.what} ({excuse.where})"
    return ""


def _until_s(context: Context, fault: Fault, excuse: Excuse) -> float:
    """Until when a fault explains an end."""
    if not excuse.lasting:
        return fault.end_s + context.bound_s
    others = [*context.faults, *starts_of(context.events)]
    return float(deadlines(others, np.array([fault.end_s]), context.bound_s)[0])


def _fits(context: Context, fault: Fault, told: str, topics: set[str]) -> bool:
    """Whether a fault is about a cluster and a topic that an error names, if both of them name any."""
    clusters = {cluster for name, cluster in context.names.items() if _names(told, name)}
    if clusters and fault.clusters and not clusters.intersection(fault.clusters):
        return False
    harmed = _topics(context, fault.what) if fault.nemesis in OF_ONE_TOPIC else set()
    return not topics or not harmed or bool(topics & harmed)


def _topics(context: Context, text: str) -> set[str]:
    return {topic for _, topic, _ in context.ledger.kinds if _names(text, topic)}


def _names(text: str, name: str) -> bool:
    """Whether a text names a cluster or a topic, and not a longer name that begins or ends like it."""
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text) is not None


def _shortened(error: str) -> str:
    left = len(error) - _ERROR_CHARACTERS_MAX
    return error if left <= 0 else f"{error[:_ERROR_CHARACTERS_MAX]} … and {left:,} characters more, see the history"
