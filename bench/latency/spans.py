"""Spans of time: what a process or a kind of thread did, in a start or in a batch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

WORKERS = {
    "pyspark.worker": "task",
    "pyspark.sql.worker.lookup_data_sources": "look up sources",
    "pyspark.sql.worker.create_data_source": "create source",
    "pyspark.sql.worker.plan_data_source_read": "plan read",
    "pyspark.sql.streaming.python_streaming_source_runner": "source",
    "-c": "version of Python",
}
"""Python module that Spark starts, or the way it asks which Python it has -> the name of its processes."""

USER = "user's process"
DAEMON = "pyspark.daemon"
NS_PER_MS = 1e6


class Kind(StrEnum):
    """What a span is: it decides its colour."""

    PHASE = "phase"
    BEGIN = "begin"
    IMPORT = "import"
    RUN = "run"
    BROKER = "broker"
    COMMAND = "command"
    FILE = "file"
    CLASSES = "classes"
    WAIT = "wait"


CLOSE_MS = {Kind.COMMAND: 12.0, Kind.CLASSES: 60.0}
"""So close are spans of these kinds that are drawn as one, if not as close as others: what the JVM takes to start a
command is before its span, and between reading classes it works with them."""

LEAST_MS = {Kind.COMMAND: 0.0, Kind.CLASSES: 60.0}
"""So long are those that are shown, if not as long as others."""


@dataclass(frozen=True, slots=True)
class Span:
    """One span. `row`: the process, or the kind of thread. `cpu_ms`: of the process meanwhile; None: not known."""

    row: str
    name: str
    kind: Kind
    start_ms: float
    took_ms: float
    cpu_ms: float | None = None
    times: int = 1
    """How many it stands for, one shortly after the other."""

    @property
    def end_ms(self) -> float:
        """Its end."""
        return self.start_ms + self.took_ms

    @property
    def label(self) -> str:
        """Its name, with how many it stands for."""
        return self.name if self.times == 1 else f"{self.name} ({self.times})"


@dataclass(slots=True)
class Timeline:
    """The spans of a start or a batch of a side, from its beginning at 0 ms, row by row."""

    side: str
    cores: int
    length_ms: float
    spans: list[Span]

    @classmethod
    def read(cls, document: dict[str, Any]) -> Timeline:
        """From JSON."""
        spans = [Span(**{**one, "kind": Kind(one["kind"])}) for one in document.pop("spans")]
        return cls(spans=spans, **document)

    @property
    def rows(self) -> list[str]:
        """In order."""
        return list(dict.fromkeys(one.row for one in self.spans))


def of_hook(lines: Iterable[str], user_pid: int, begin_ns: int) -> list[Span]:
    """The spans that the hook has written, each in the row of its process, in order of time."""
    found = sorted((json.loads(line) for line in lines), key=lambda one: int(one["start_ns"]))
    names = _processes(found, user_pid)
    return [
        Span(
            names[one["pid"]],
            one["name"],
            _kind(one["name"]),
            (one["start_ns"] - begin_ns) / NS_PER_MS,
            (one["end_ns"] - one["start_ns"]) / NS_PER_MS,
            one["cpu_s"] * 1e3,
        )
        for one in found
        if one["pid"] in names
    ]


def _processes(found: Sequence[dict[str, Any]], user_pid: int) -> dict[int, str]:
    """Process -> its name, of those that are known, numbered where there are several."""
    modules: dict[int, str] = {}
    daemons: set[int] = set()
    for one in found:
        words = one["name"].split()
        if words[0] == "python" and words[-1] in WORKERS:
            modules[one["pid"]] = WORKERS[words[-1]]
            if words[1] == DAEMON:
                daemons.add(one["pid"])
        elif one["ppid"] in daemons:
            modules.setdefault(one["pid"], modules[one["ppid"]])
    names = {user_pid: USER}
    for name in dict.fromkeys(modules.values()):
        same = [pid for pid, module in modules.items() if module == name and pid not in daemons]
        numbered = [name] if len(same) <= 1 else [f"{name} {number}" for number in range(1, len(same) + 1)]
        names |= dict(zip(same, numbered, strict=False))
        # A daemon has little to do but to become its first worker.
        names |= {pid: numbered[0] for pid in daemons if modules[pid] == name}
    return names


def _kind(name: str) -> Kind:
    first = name.split()[0]
    return {
        "python": Kind.BEGIN,
        "fork": Kind.BEGIN,
        "start": Kind.BEGIN,
        "import": Kind.IMPORT,
        "broker:": Kind.BROKER,
    }.get(first, Kind.RUN)


def within(spans: Iterable[Span], begin_ms: float, length_ms: float) -> list[Span]:
    """What there is of spans in a window, from its beginning on. Processor time is given for whole spans only."""
    made = []
    for one in spans:
        start, end = max(one.start_ms, begin_ms), min(one.end_ms, begin_ms + length_ms)
        if start < end or (start == end and begin_ms <= one.start_ms < begin_ms + length_ms):
            whole = (start, end) == (one.start_ms, one.end_ms)
            cpu_ms = one.cpu_ms if whole else None
            made.append(replace(one, start_ms=start - begin_ms, took_ms=end - start, cpu_ms=cpu_ms))
    return made


def condensed(spans: Iterable[Span], least_ms: float, gap_ms: float) -> list[Span]:
    """Spans of one name with at most `gap_ms` between them as one, without those that are then shorter than
    `least_ms`; in order of time. Some kinds have limits of their own.
    """
    last: dict[tuple[str, str], int] = {}
    made: list[Span] = []
    for one in sorted(spans, key=lambda one: one.start_ms):
        place = last.get((one.row, one.name))
        before = None if place is None else made[place]
        # One within another is a part of it, not the next.
        gap = CLOSE_MS.get(one.kind, gap_ms)
        if place is not None and before is not None and before.end_ms <= one.start_ms <= before.end_ms + gap:
            cpu_ms = None if before.cpu_ms is None or one.cpu_ms is None else before.cpu_ms + one.cpu_ms
            took_ms = one.end_ms - before.start_ms
            made[place] = replace(before, took_ms=took_ms, cpu_ms=cpu_ms, times=before.times + one.times)
        else:
            last[one.row, one.name] = len(made)
            made.append(one)
    return [one for one in made if one.took_ms >= LEAST_MS.get(one.kind, least_ms)]


def in_rows(spans: Iterable[Span], first: Sequence[str]) -> list[Span]:
    """Row by row: those of `first`, then the others as they begin; in a row by time."""
    ordered = sorted(spans, key=lambda one: (one.start_ms, -one.took_ms))
    rows = dict.fromkeys([*first, *(one.row for one in ordered)])
    return [one for row in rows for one in ordered if one.row == row]


def lanes(spans: Sequence[Span]) -> list[list[Span]]:
    """The spans of a row, so that none overlaps another of its lane: what is within another is below it."""
    made: list[list[Span]] = []
    for one in sorted(spans, key=lambda one: (one.start_ms, -one.took_ms)):
        lane = next((lane for lane in made if lane[-1].end_ms <= one.start_ms), None)
        if lane is None:
            made.append([one])
        else:
            lane.append(one)
    return made


def median_batch(milliseconds: Sequence[float], last: int = 10) -> int:
    """Which of the `last` batches has the median duration (of two, the lower). Raises ValueError without batches."""
    if not milliseconds:
        raise ValueError("no batches")
    begin = max(0, len(milliseconds) - last)
    ranked = sorted(range(begin, len(milliseconds)), key=lambda place: milliseconds[place])
    return ranked[(len(ranked) - 1) // 2]


PHASES = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets")
"""Those of a batch, in order, as Spark names them."""

FIRST_PHASES = 4


def of_phases(phases_ms: dict[str, float]) -> Iterator[Span]:
    """Spark's phases of a batch. It tells durations only: the first ones follow the beginning, the last the end."""
    at = 0.0
    starts = {}
    for name in PHASES[:FIRST_PHASES]:
        starts[name] = at
        at += phases_ms.get(name, 0.0)
    at = phases_ms["triggerExecution"]
    for name in reversed(PHASES[FIRST_PHASES:]):
        at -= phases_ms.get(name, 0.0)
        starts[name] = at
    for name in PHASES:
        if phases_ms.get(name):
            yield Span("phases", name, Kind.PHASE, starts[name], phases_ms[name])
