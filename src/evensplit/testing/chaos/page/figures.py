"""The figures of a verdict, chosen and put into words: for the page and for a terminal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evensplit.core.text import counted
from evensplit.observe.dashboard.view.formatting import exact
from evensplit.testing.chaos.checker.verdict import Verdict
from evensplit.testing.chaos.history import events as ev
from evensplit.testing.chaos.page.facts import RESOURCES, Facts, resource_of, title_of

Figures = Mapping[str, Any]

LATENCY, RECOVERY, ENDS = "delivery latency (s)", "longest stall after a fault (s)", "queries' ends"
SLOPES, BY_NEMESIS, MISSING = "memory slopes (MiB/min)", "faults by nemesis", "not delivered, "
WRITTEN, ACKNOWLEDGED, DELIVERED = "records written", "records acknowledged", "records delivered"
BATCHES, REPEATED = "batches", "repeated batches"

_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"^[A-Za-z_][\w.]*: .*", re.MULTILINE)
"""What a traceback ends with."""
_FIRST_MAX = 200


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under their heads; the first cell of each names it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def survived(facts: Facts, verdict: Verdict) -> str:
    """Say in numbers what the run went through."""
    figures = verdict.figures
    kinds = counted(len({one.nemesis for one in facts.faults}), "kind")
    on = Counter(resource_of(one.nemesis) for one in facts.faults)
    said = ", ".join(f"{title_of(one)} {on[one]}" for one in RESOURCES if on[one])
    first = f"{counted(round(storm_s(facts) / 60), 'minute')} with {counted(len(facts.faults), 'fault')}"
    sentences = [f"{first} of {kinds}: {said}" if said else first]
    written = f"{counted(figures.get(WRITTEN, 0), 'record')} written, {figures.get(ACKNOWLEDGED, 0):,} acknowledged"
    delivered = [f"{number:,} delivered by {query}" for query, number in figures.get(DELIVERED, {}).items()]
    sentences.append(", ".join([written, *delivered]))
    if ends := figures.get(ENDS):
        explained = sum(bool(one["cause"]) for one in ends)
        by = "all explained by faults" if explained == len(ends) else f"{explained} of them explained by a fault"
        sentences.append(f"{counted(len(ends), 'query', 'queries')} ended by an error, {by}")
    else:
        sentences.append("No query ended by an error")
    if killed := sum(bool(one.cause) for one in facts.lives):
        sentences[-1] += f"; faults ended the driver {counted(killed, 'time')}"
    if latency := worst_latency(figures):
        sentences.append(
            f"Half of the records arrived within {exact(latency['p50'])} s, 99% in {exact(latency['p99'])} s"
        )
    if stalls := figures.get(RECOVERY):
        last = f"The slowest recovery took {exact(max(stalls.values()))} s after a fault"
        sentences.append(f"{last}; {facts.bound_s:g} s are allowed")
    return ". ".join(sentences) + "."


def storm_s(facts: Facts) -> float:
    """How long faults could happen."""
    times = {type(one): one.at_s for one in facts.events if isinstance(one, ev.JobReady | ev.FaultsStopped)}
    return times.get(ev.FaultsStopped, facts.end_s) - times.get(ev.JobReady, 0.0)


def worst_latency(figures: Figures) -> Mapping[str, float] | None:
    """The percentiles of the slowest query."""
    return max(figures.get(LATENCY, {}).values(), key=lambda one: one["p99"], default=None)


def slopes_of(figures: Figures) -> dict[str, float]:
    """Process, named by its role and its number -> MiB a minute."""
    return {" ".join(names): value for names, value in _leaves(figures.get(SLOPES, {}))}


def tables(verdict: Verdict) -> Iterator[Table]:
    """All figures that are not told elsewhere, those that say most first."""
    figures = verdict.figures
    queries = list(dict.fromkeys([*figures.get(DELIVERED, {}), *figures.get(BATCHES, {})]))
    columns: dict[str, Figures] = {
        "delivered": figures.get(DELIVERED, {}),
        "batches": figures.get(BATCHES, {}),
        "repeated": figures.get(REPEATED, {}),
        **{
            f"{name} (s)": {query: some[part] for query, some in figures.get(LATENCY, {}).items()}
            for name, part in (
                ("half within", "p50"),
                ("90% within", "p90"),
                ("99% within", "p99"),
                ("all within", "p100"),
            )
        },
        "recovery within (s)": figures.get(RECOVERY, {}),
    }
    yield _grid("Deliveries", "query", queries, columns)
    gone = {name.removeprefix(MISSING): some for name, some in figures.items() if name.startswith(MISSING)}
    reasons = list(dict.fromkeys(reason for some in gone.values() for reason in some))
    yield _grid("Not delivered, and why that is right", "reason", reasons, gone)
    slopes = slopes_of(figures)
    yield _grid("Growth of memory after ten minutes", "process", list(slopes), {"MiB a minute": slopes})
    told = {LATENCY, RECOVERY, ENDS, SLOPES, BY_NEMESIS, WRITTEN, ACKNOWLEDGED, DELIVERED, BATCHES, REPEATED}
    others = {name: value for name, value in figures.items() if name not in told and not name.startswith(MISSING)}
    rows = tuple((", ".join(names), _said(value)) for names, value in _leaves(others))
    yield Table("More figures", ("figure", "value"), rows)


def telling(text: str) -> str:
    """The lines of an error that say most: the first, and that which a traceback ends with. At most 200 letters."""
    lines = [line for line in text.splitlines() if line.strip()] or [""]
    first = lines[0].removesuffix(_TRACEBACK).rstrip()
    if _TRACEBACK in text:
        last = _RAISED.search(text.partition(_TRACEBACK)[2])
        first = "\n".join(line for line in (first, last and last[0]) if line)
    return first if len(first) <= _FIRST_MAX else f"{first[:_FIRST_MAX].rpartition(' ')[0] or first[:_FIRST_MAX]} …"


def _grid(title: str, what: str, names: Sequence[str], columns: Mapping[str, Figures]) -> Table:
    """A table with a row for each name, and those of the columns that have a value."""
    filled = {head: some for head, some in columns.items() if some}
    rows = tuple((name, *(exact(some[name]) if name in some else "" for some in filled.values())) for name in names)
    return Table(title, (what, *filled), rows)


def _leaves(value: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What is not a mapping in nested ones, each with the names that lead to it."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, *names, name)
    else:
        yield names, value


def _said(value: Any) -> str:
    if isinstance(value, list | tuple):
        return exact(len(value))
    return exact(value) if isinstance(value, int | float) else str(value)
