"""The plan of a run: what takes part, for how long, and what is done to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from evensplit.errors import ChaosError
from evensplit.testing.chaos.schedule import Planned

QUERIES = (("foreach-batch", "deduplicated"), ("parquet", "counted"), ("async", "deduplicated"), ("kafka", "counted"))
"""What our own job runs unless it is told otherwise, in turn by the seed: a sink without state and one with. All of
them at once keep two processors busy with nothing but batches, and then every fault is followed by a standstill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run."""

    directory: Path
    """Where everything is kept: history, sinks, checkpoints, logs, data of brokers, the report. It must be empty."""
    seed: int = 0
    """It makes the schedule, and all choices of nemeses and writers."""
    minutes: float = 10.0
    """How long faults may happen. Starting takes a minute more, and the end two."""
    nemeses: tuple[str, ...] = ()
    """The names of those that may be used; empty: all that can be."""
    spark: str = "standalone"
    """`standalone`: a master and two workers; `local`: all in the process of the driver."""
    source: str = "evensplit"
    """The format to read: `evensplit`, or `kafka` for Spark's own source."""
    queries: tuple[str, ...] = ()
    """The queries of the job, by their names; if none are given, two that the seed chooses of `QUERIES`."""
    job: tuple[str, ...] = ()
    """The command of a job of your own; empty: the one that comes with this package."""
    options: Mapping[str, str] | None = None
    """Options of the source, above those that a run sets."""
    session: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark, above those of the job."""
    records_per_s: float = 200.0
    """How many records are written each second, by all writers together."""
    schedule: tuple[Planned, ...] | None = None
    """Faults to repeat, instead of those that the seed would make."""

    def __post_init__(self) -> None:
        if not self.queries:
            object.__setattr__(self, "queries", QUERIES[self.seed % len(QUERIES)])


def read_schedule(file: Path) -> tuple[Planned, ...]:
    """The schedule of an earlier run, as `write_schedule` left it. `ChaosError` if the file holds none."""
    try:
        return tuple(Planned(**one) for one in list[dict[str, Any]](json.loads(file.read_text())))
    except (OSError, ValueError, TypeError) as error:
        raise ChaosError(f"{file}: expected the schedule.json of a run ({error})") from error


def write_schedule(file: Path, schedule: Sequence[Planned]) -> None:
    """Keep a schedule, one fault a line, so that it can be cut down by hand and repeated."""
    file.write_text("[\n" + ",\n".join(json.dumps(one) for one in plain(schedule)) + "\n]\n")


def plain(schedule: Sequence[Planned]) -> tuple[dict[str, Any], ...]:
    """A schedule as JSON has it."""
    return tuple(asdict(one) for one in schedule)
