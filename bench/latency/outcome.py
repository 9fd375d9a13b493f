"""The figures of a run, round by round, and what follows from them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.latency.plan import BATCHES, START, TIMELINES
from bench.latency.spans import Timeline
from bench.peer.outcome import ratios


@dataclass(slots=True)
class Start:
    """Seconds of each round: from the start of the process to the first row; to its session; and for the same again."""

    whole: list[float] = field(default_factory=list)
    session: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)

    @property
    def ready(self) -> list[float]:
        """From when the session was ready to the first row."""
        return [one - other for one, other in zip(self.whole, self.session, strict=True)]


@dataclass(slots=True)
class Batches:
    """Milliseconds of each batch of each round, of each of Spark's phases, and processor milliseconds by process."""

    milliseconds: list[list[float]] = field(default_factory=list)
    phases_ms: list[dict[str, float]] = field(default_factory=list)
    """Medians, by round."""
    cpu_ms: list[dict[str, float]] = field(default_factory=list)
    """Per batch, by round."""

    @property
    def p50(self) -> list[float]:
        """Of each round."""
        return [statistics.median(one) for one in self.milliseconds]

    def phase(self, name: str) -> float:
        """The median over rounds."""
        return statistics.median(one.get(name, 0.0) for one in self.phases_ms)

    def cpu(self, part: str) -> float:
        """The median over rounds."""
        return statistics.median(one.get(part, 0.0) for one in self.cpu_ms)


@dataclass(slots=True)
class Part:
    """When a part was measured: the time, the load average before and after, at which scale; `notes`: remarks."""

    at: str
    scale: str
    load: list[float]
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Results:
    """All that was measured, each part by the last run that had it. `batches`: by cores, then by side."""

    machine: str = ""
    parts: dict[str, Part] = field(default_factory=dict)
    start: dict[str, Start] = field(default_factory=dict)
    batches: dict[int, dict[str, Batches]] = field(default_factory=dict)
    start_lines: list[Timeline] = field(default_factory=list)
    batch_lines: list[Timeline] = field(default_factory=list)

    def only(self, parts: Sequence[str]) -> Results:
        """Those of some parts."""
        return Results(
            self.machine,
            {name: one for name, one in self.parts.items() if name in parts},
            self.start if START in parts else {},
            self.batches if BATCHES in parts else {},
            self.start_lines if TIMELINES in parts else [],
            self.batch_lines if TIMELINES in parts else [],
        )

    def to_json(self) -> str:
        """For a file."""
        return json.dumps(asdict(self), indent=1) + "\n"


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median of each round's ratio, the least and the most, and whether a goal is reached; None without one."""

    median: float
    least: float
    most: float
    limit: float | None = None

    @property
    def reached(self) -> bool | None:
        """Whether the median is not above the goal."""
        return None if self.limit is None else self.median <= self.limit


def ratio(values: Sequence[float], others: Sequence[float], limit: float | None = None) -> Ratio | None:
    """`values` against `others`, round by round; None if there is no round of both."""
    found = ratios(values, others)
    return Ratio(statistics.median(found), min(found), max(found), limit) if found else None


def read(file: Path) -> Results:
    """The reverse of `to_json`."""
    found: dict[str, Any] = json.loads(file.read_text())
    return Results(
        machine=found["machine"],
        parts={name: Part(**one) for name, one in found["parts"].items()},
        start={side: Start(**one) for side, one in found["start"].items()},
        batches={
            int(cores): {side: Batches(**one) for side, one in sides.items()}
            for cores, sides in found["batches"].items()
        },
        start_lines=[Timeline.read(one) for one in found["start_lines"]],
        batch_lines=[Timeline.read(one) for one in found["batch_lines"]],
    )
