"""What a job is told: the contract between a run and the job that it tests."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from evensplit.errors import ChaosError

VARIABLE = "EVENSPLIT_CHAOS"
"""The environment variable of a job's process with its task, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a job has to do: read with these options, and write all rows to the sink.

    A job is any command. It is started with this in the environment variable `EVENSPLIT_CHAOS`, and again, with the
    same directories, whenever it has ended. It runs until it is killed.
    """

    master: str
    """Spark's master."""
    source: str
    """The format to read: `evensplit`, or `kafka` for Spark's own source."""
    options: Mapping[str, str]
    """Options of the source."""
    queries: tuple[str, ...]
    """The queries to run, by the names of their sinks. A job of your own has one, `parquet`, unless it wants others."""
    directory: Path
    """Where checkpoints (`checkpoint/<query>`) and sinks (`sink/<query>`) belong."""
    history: Path
    """The directory of the run's history."""
    began_s: float
    """When the run began, by `time.monotonic()`."""
    trigger_ms: int = 500
    """The interval between the beginnings of two batches."""
    session: Mapping[str, str] = field(default_factory=dict)
    """Settings of the Spark session."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Options of our own sink, for the query `kafka`."""

    def checkpoint(self, query: str) -> Path:
        return self.directory / "checkpoint" / query

    def sink(self, query: str) -> Path:
        return self.directory / "sink" / query

    def environment(self) -> dict[str, str]:
        """The variable that hands this on."""
        return {VARIABLE: json.dumps(asdict(self), default=str)}

    @classmethod
    def from_environment(cls) -> Self:
        """The task of this process. `ChaosError` if it was not started by a run."""
        text = os.environ.get(VARIABLE)
        if text is None:
            raise ChaosError(f"{VARIABLE} is not set: this job is started by `evensplit chaos --job`, not by hand")
        found: dict[str, Any] = json.loads(text)
        for name in ("directory", "history"):
            found[name] = Path(found[name])
        return cls(**{**found, "queries": tuple(found["queries"])})
