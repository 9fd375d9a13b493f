"""Which sides take turns, how often, and which goals they have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from bench.peer.plan import FLOOR, OURS, PARTITIONS, SPARK, Host

REGISTER = "evensplit, register"
WATCHED = "evensplit, register, metrics, dashboard"
START, BATCHES, TIMELINES = PLAN = ("start", "batches", "timelines")
"""The parts of the benchmark."""

START_CORES = 1
TIMELINE_CORES = 2
RECORDS = 100_000
VALUE_BYTES = 100

COLD, READY = "cold", "ready"
START_GOALS = {COLD: 1.05, READY: 1.2}
"""Of the time to the first row, against Spark's own: of a cold process, and with the session ready."""

BATCH_GOAL, BATCH_GOAL_CORES = 1.0, (1, 2)
"""Of the median of a small batch, against Spark's own, where there are so many cores."""

REGISTER_GOAL = 1.03
"""Of the same with `register`, against without."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side: its name in the tables, its source, and the arguments of `register`; None: it is not called."""

    name: str
    source: str
    register: Mapping[str, int] | None = None

    @property
    def slug(self) -> str:
        """Its name in names of files."""
        return re.sub(r"\W+", "-", self.name).lower()

    @property
    def host(self) -> Host:
        """The kind of process that it runs in."""
        return {"kafka": Host.SPARK, "evensplit": Host.OURS}.get(self.source, Host.PYTHON)

    def asks(self, bootstrap: str, topic: str, cores: int, **more: Any) -> dict[str, Any]:
        """What its process is asked to read; `more`: of the request."""
        options = {"tasks": "1"}
        if self.source != "floor":
            options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
        if self.source == "evensplit" and self.register is None:
            options["readers"] = str(cores)
        if more.pop("latest", False) and self.source != "floor":
            options["startingOffsets"] = "latest"
        register = None if self.register is None else dict(self.register)
        return {"source": self.source, "options": options, "register": register, **more}


_SPARK, _OURS, _FLOOR = Side(SPARK, "kafka"), Side(OURS, "evensplit"), Side(FLOOR, "floor")
_REGISTER = Side(REGISTER, "evensplit", MappingProxyType({}))
_WATCHED = Side(WATCHED, "evensplit", MappingProxyType({"metrics_port": 0, "dashboard_port": 0}))
START_SIDES = (_SPARK, _OURS, _REGISTER, _FLOOR)
BATCH_SIDES = (_SPARK, _OURS, _REGISTER, _WATCHED, _FLOOR)


@dataclass(frozen=True, slots=True)
class Scale:
    """How many rounds count (after one that does not), of how many batches (after `skip`), with how many cores."""

    name: str
    start_rounds: int
    batch_rounds: int
    batches: int
    traced_batches: int
    cores: tuple[int, ...]
    skip: int = 3


FULL = Scale("full", start_rounds=5, batch_rounds=5, batches=20, traced_batches=30, cores=(1, 2, 4))
QUICK = Scale("quick", start_rounds=1, batch_rounds=1, batches=6, traced_batches=12, cores=(2,))


def chosen(only: str) -> list[str]:
    """The parts that `only` names, separated by commas, or all. Raises ValueError for a word that names none."""
    words = [word.strip() for word in only.split(",") if word.strip()]
    wrong = [word for word in words if word not in PLAN]
    if wrong:
        raise ValueError(f"--only names {', '.join(wrong)}; the parts are: {', '.join(PLAN)}")
    return [part for part in PLAN if not words or part in words]


TOPIC = "first"
TRICKLE = "trickle"
TOPIC_PARTITIONS = TRICKLE_PARTITIONS = PARTITIONS
