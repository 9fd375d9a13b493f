"""The record of long runs with faults and of the simulator's nights, on the page about reliability.

    python -m bench.long_runs chaos-7 --commit 1a2b3c4           check a run of `evensplit chaos` and add it
    python -m bench.long_runs --night night.json --commit 1a2b3c4
                        add what `evensplit simulate --part all --minutes 60 --format json` has printed
    python -m bench.long_runs                                    the tables of the last results again

A run stands in place of an earlier one of its seed, Spark and queries; a night in place of one with its first seed. All
figures are in bench/results/long_runs.json, and go from there into docs/reliability.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.peer.chaos_figures import explained_ends, latency_s, no_proof, standstill_s
from bench.peer.processes import ROOT, machine, now
from bench.peer.report import between, row, wrapped
from evensplit.core.text import counted
from evensplit.testing.chaos.checker.check import check
from evensplit.testing.chaos.checker.judgements.crashes import CUT, FOUND, HIDDEN
from evensplit.testing.chaos.checker.judgements.written import READ_AGAIN
from evensplit.testing.chaos.checker.verdict import Verdict
from evensplit.testing.chaos.history.events import RunBegan
from evensplit.testing.chaos.history.recorder import read_history
from evensplit.testing.chaos.job.sinks import KAFKA

RESULTS = ROOT / "bench" / "results" / "long_runs.json"
PAGE = ROOT / "docs" / "reliability.md"
BEGIN = "<!-- bench.long_runs: written by it from here -->"
END = "<!-- bench.long_runs: to here -->"


@dataclass(frozen=True, slots=True)
class LongRun:
    """What the checker said of one run."""

    seed: int
    minutes: float
    spark: str
    queries: list[str]
    commit: str
    at: str
    machine: str
    faults: dict[str, int]
    """Nemesis -> how many faults of it there were."""
    failed_faults: int
    acknowledged: int
    """Records."""
    delivered: dict[str, int]
    """Query -> records; none for a query that only counts them."""
    broken: dict[str, int]
    """Kind of finding -> how many there are."""
    ends: int
    """How often a query ended with an error that the documentation explains by a fault of the run."""
    latency_s: dict[str, list[float]]
    """`p50` and `p99` of each query."""
    standstill_s: float
    """The longest after a fault."""
    slopes: dict[str, float]
    """Role of a process -> how fast the memory of one grew at most, in MiB a minute."""
    not_judged: list[str]
    written: dict[str, int] = field(default_factory=dict)
    """Of a run that writes to a topic: heading -> number."""


@dataclass(frozen=True, slots=True)
class Night:
    """What the simulator did in one go. `parts` as `evensplit simulate --format json` prints them."""

    commit: str
    at: str
    parts: list[dict[str, Any]]

    @property
    def first_seed(self) -> int:
        return min(int(part["firstSeed"]) for part in self.parts)


@dataclass(slots=True)
class Record:
    runs: list[LongRun] = field(default_factory=list)
    nights: list[Night] = field(default_factory=list)


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.long_runs", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directories", nargs="*", type=Path, help="runs of evensplit chaos to add")
    parser.add_argument("--night", type=Path, action="append", default=[], help="a night of the simulator to add")
    parser.add_argument("--commit", default="", help="the commit that they were made with")
    arguments = parser.parse_args()
    if (arguments.directories or arguments.night) and not arguments.commit:
        parser.error("--commit is missing: a figure without it says nothing")
    record = read()
    for directory in arguments.directories:
        add_run(record, long_run(directory, arguments.commit))
    for file in arguments.night:
        add_night(record, Night(arguments.commit, now(), json.loads(file.read_text())["parts"]))
    RESULTS.write_text(json.dumps(asdict(record), indent=1) + "\n")
    PAGE.write_text(between(PAGE.read_text(), tables(record), BEGIN, END))
    print(tables(record))
    return 0


def read() -> Record:
    """The record so far."""
    if not RESULTS.exists():
        return Record()
    found = json.loads(RESULTS.read_text())
    return Record([LongRun(**one) for one in found["runs"]], [Night(**one) for one in found["nights"]])


def long_run(directory: Path, commit: str) -> LongRun:
    """Check the run in a directory."""
    began = next(one for one in read_history(directory / "history") if isinstance(one, RunBegan))
    verdict = check(directory)
    if problems := no_proof(verdict):
        raise SystemExit(f"{directory}: {problems}. Only whole runs with a sound history go on record")
    figures = verdict.figures
    return LongRun(
        seed=began.seed,
        minutes=began.minutes,
        spark=began.spark,
        queries=list(began.queries),
        commit=commit,
        at=now(),
        machine=machine(),
        faults=figures["faults by nemesis"],
        failed_faults=len(verdict.failed_faults),
        acknowledged=figures["records acknowledged"],
        delivered=dict(figures.get("records delivered", {})),
        broken=dict(sorted(Counter(one.kind for one in verdict.findings).items())),
        ends=explained_ends(figures),
        latency_s=latency_s(figures),
        standstill_s=standstill_s(figures),
        slopes={role: max(some.values()) for role, some in figures["memory slopes (MiB/min)"].items()},
        not_judged=list(verdict.not_judged),
        written=written(verdict),
    )


def written(verdict: Verdict) -> dict[str, int]:
    """What became of the topic that a run writes to; empty if it does not write to one."""
    figures = verdict.figures
    if KAFKA not in figures.get("records delivered", {}):
        return {}

    def of_kind(*kinds: str) -> int:
        some = [one for one in verdict.findings if one.kind in kinds and one.where.startswith(KAFKA)]
        return sum(one.count for one in some)

    return {
        "records written": figures["records delivered"][KAFKA],
        "read again": figures.get(READ_AGAIN, 0),
        "lost": of_kind("lost", "part of a transaction"),
        "repeated": of_kind("repeated"),
        "out of order": of_kind("reordered"),
        "of aborted transactions": figures.get(HIDDEN, 0),
        "batches decided": figures["batches"][KAFKA],
        "cut off by the end of a driver": figures.get(CUT, 0),
        "of them found decided": figures.get(FOUND, 0),
    }


def add_run(record: Record, run: LongRun) -> None:
    """Add a run, in place of an earlier one of the same kind."""

    def kind(one: LongRun) -> tuple[Any, ...]:
        return one.seed, one.spark, sorted(one.queries)

    record.runs = sorted([*(one for one in record.runs if kind(one) != kind(run)), run], key=kind)


def add_night(record: Record, night: Night) -> None:
    """Add a night, in place of an earlier one with the same seeds."""
    others = [one for one in record.nights if one.first_seed != night.first_seed]
    record.nights = sorted([*others, night], key=lambda one: one.first_seed)


def tables(record: Record) -> str:
    """The whole record in Markdown."""
    return "\n".join(map(wrapped, (*run_lines(record.runs), *night_lines(record.nights))))


def run_lines(runs: Sequence[LongRun]) -> Iterator[str]:
    if not runs:
        yield "No long run is on record yet."
        return
    kinds = {name for one in runs for name in one.faults}
    held = sum(not one.broken for one in runs)
    hours = sum(one.minutes for one in runs) / 60
    faults, records = sum(sum(one.faults.values()) for one in runs), sum(one.acknowledged for one in runs)
    yield (
        f"{counted(len(runs), 'run')} with {hours:.1f} hour{'s' * (hours != 1)} of faults, "
        f"{counted(faults, 'fault')} of {counted(len(kinds), 'kind')}, and {counted(records, 'acknowledged record')}. "
        f"In {held} of them every promise was kept."
    )
    yield ""
    yield (
        "| seed | minutes | Spark, queries | faults (kinds) | records | broken promises | ends of queries, explained | "
        "latency p50, p99 (s) | longest standstill (s) | memory (MiB/min) | day, commit |"
    )
    yield "|---:|---:|---|---:|---:|---|---:|---:|---:|---:|---|"
    for one in runs:
        cells = [
            f"{one.seed}",
            f"{one.minutes:g}",
            f"{one.spark}: {', '.join(one.queries)}",
            f"{sum(one.faults.values())} ({len(one.faults)})",
            f"{one.acknowledged:,}",
            ", ".join(f"{count} {kind}" for kind, count in one.broken.items()) or "none",
            f"{one.ends}",
            ", ".join(f"{max(some):.1f}" if some else "none" for some in one.latency_s.values()),
            f"{one.standstill_s:.1f}",
            f"{max(one.slopes.values()):.2f}" if one.slopes else "not judged",
            f"{one.at[:10]}, {one.commit}",
        ]
        yield row(cells)
    yield ""
    yield (
        "A standstill is the time without delivery after a fault has ended; 30 s are allowed. Latency is that of the "
        "slower query, with faults in it; both leave out `counted`, which keeps no records. Memory is that of the "
        f"process that grew most. On {runs[-1].machine}."
    )
    for one in runs:
        if one.failed_faults or one.not_judged:
            failed = [f"{counted(one.failed_faults, 'fault')} could not be made or ended"] if one.failed_faults else []
            yield f"Seed {one.seed}: {'; '.join([*failed, *one.not_judged])}."
    yield from written_lines(runs)


def written_lines(runs: Sequence[LongRun]) -> Iterator[str]:
    """A table of the runs that write to a topic; nothing if there are none."""
    runs = [one for one in runs if one.written]
    if not runs:
        return
    heads = list(runs[-1].written)
    yield ""
    yield "What another client found at the end in the topics that runs with the query `kafka` wrote to:"
    yield ""
    yield f"| seed | Spark | {' | '.join(heads)} |"
    yield f"|---:|---|{'---:|' * len(heads)}"
    for one in runs:
        yield row([f"{one.seed}", one.spark, *(f"{one.written[head]:,}" for head in heads)])
    yield ""
    yield (
        "Records written are those that the reader of the run saw with `read_committed`, each once. Those of aborted "
        "transactions are in the logs, and hidden from such readers. A batch is cut off if the driver ends before "
        "Spark has noted it as done; it was decided if readers see records of it from before that."
    )


def night_lines(nights: Sequence[Night]) -> Iterator[str]:
    parts = [(night, part) for night in nights for part in night.parts]
    if not parts:
        return
    events, seeds, hours = (sum(part[what] for _, part in parts) for what in ("events", "seeds", "cpuHours"))
    yield ""
    yield f"The simulator: {counted(events, 'event')}, {counted(seeds, 'seed')}, {hours:.1f} hours of a processor."
    yield ""
    yield "| part | seeds from | seeds | events | CPU hours | broken laws | day, commit |"
    yield "|---|---:|---:|---:|---:|---|---|"
    for night, part in parts:
        cells = [part["part"], *(f"{part[what]:,}" for what in ("firstSeed", "seeds", "events"))]
        cells += [f"{part['cpuHours']:.2f}"]
        cells += [", ".join(f"{one['law']} (seed {one['seed']})" for one in part["found"]) or "none"]
        yield row([*cells, f"{night.at[:10]}, {night.commit}"])


if __name__ == "__main__":
    sys.exit(main())
