"""Events and states in one line, for errors and for logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from itertools import islice

from evensplit.core.machine.events import NOW, Event
from evensplit.core.model import SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted

SHOWN_MAX = 3
"""How many of several things are shown; of the others only how many there are."""


def describe(event: Event) -> str:
    """An event in one short line; of long lists, the beginning and how long they are."""
    told = [(one.name, getattr(event, one.name)) for one in fields(event)]
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in told if value not in ((), {}, "", None, NOW))
    return f"{type(event).__name__}({shown})"


def summary(state: EnumeratorState) -> str:
    """A state in one line."""
    counts: dict[str, int] = {}
    for split in state.splits.values():
        counts[split.lifecycle] = counts.get(split.lifecycle, 0) + 1
    session = state.session
    locations = {reader: one.location for reader, one in session.registrations.items() if one.location}
    known = (
        ("waiting for readers", session.lost),
        ("removed readers", session.removed),
        ("unreachable", dict(session.unreachable)),
        ("readers are at", locations),
    )
    return (
        f"{counted(state.readers, 'reader')}, {len(session.registrations):,} of them registered"
        f"{' and assigned to' if session.assigned else ''}, generation {state.generation}; clusters "
        f"{_shown(tuple(state.clusters))}; {counted(len(state.splits), 'split')}"
        + "".join(f", {counts[name]} {name}" for name in sorted(counts))
        + ("" if state.begun else "; no batch yet")
        + "".join(f"; {what} {_shown(value)}" for what, value in known if value)
    )


def _shown(value: object) -> str:
    """A value in few words."""
    if isinstance(value, SplitId):
        return str(value)
    if isinstance(value, Mapping):
        parts = [f"{_shown(key)}: {_shown(value[key])}" for key in islice(value, SHOWN_MAX)]
        return f"{{{', '.join(parts)}{_more(len(value))}}}"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"({', '.join(_shown(one) for one in value[:SHOWN_MAX])}{_more(len(value))})"
    return repr(value)


def _more(count: int) -> str:
    return f", … {count} in all" if count > SHOWN_MAX else ""
