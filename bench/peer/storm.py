"""Spark's own Kafka source and evensplit in the same storm: the same Spark, writers, faults and checker, in turn.

    make chaos-peer                             seed 7, 10 minutes of faults, on a standalone cluster: 30 minutes
    make chaos-peer ARGS="--seed 3 --minutes 4 --spark local"
    make chaos-peer ARGS=--render               the table of the last results again

Both runs are `evensplit chaos`; the second repeats the faults of the first. Spark's source comes first, so that only
faults are made that it can take part in. Figures go to bench/results/storm.json, each pair in place of its former one,
and from there into docs/reliability.md. Histories, sinks and reports stay in build/storm.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from bench.peer.chaos_figures import explained_ends, latency_s, no_proof, standstill_s
from bench.peer.processes import ROOT, machine, now
from bench.peer.report import between, row, wrapped
from evensplit.errors import EvenSplitError
from evensplit.testing.chaos.checker.check import check
from evensplit.testing.chaos.checker.verdict import Finding, Verdict
from evensplit.testing.chaos.job.spark_source import settings
from evensplit.testing.chaos.nemesis.registry import NEMESES
from evensplit.testing.chaos.workload.topics import LAYOUT, SHORT_LIVED

RESULTS = ROOT / "bench" / "results" / "storm.json"
PAGE = ROOT / "docs" / "reliability.md"
RUNS = ROOT / "build" / "storm"
SOURCES = ("kafka", "evensplit")
BEGIN = "<!-- make chaos-peer: written by it from here -->"
END = "<!-- make chaos-peer: to here -->"
REASONS_MAX = 5

DELETED = frozenset(name for name, kind, _ in LAYOUT if kind == SHORT_LIVED)
"""The topics that faults delete and create again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one source in one run."""

    source: str
    seed: int
    minutes: float
    spark: str
    commit: str
    """Of this checkout; `changed` follows if it was not as committed."""
    at: str
    machine: str
    load: list[float]
    """The machine's load average before and after."""
    held: bool
    acknowledged: int
    faults: dict[str, int]
    """Nemesis -> how many faults of it there were."""
    failed_faults: int
    left_out: list[str]
    """The nemeses that Spark's own source has no part in."""
    batches: int
    """Of all queries."""
    broken: dict[str, int]
    """Kind of finding -> records, or findings for kinds that are not about records; of the query with most of them."""
    lost_of_deleted: int
    """How many of the lost records were in topics that faults delete and create again; of the query with most."""
    standstill_s: float
    """The longest after a fault."""
    latency_s: dict[str, list[float]]
    """`p50` and `p99` of each query."""
    explained_ends: int
    """How often queries ended with an error for which the source's documentation has a reason, and the run a fault."""
    errors: dict[str, int]
    """The first line of each other error that ended a query -> how often."""

    @property
    def pair(self) -> tuple[int, float, str]:
        """What both runs of a pair have in common."""
        return self.seed, self.minutes, self.spark


def main() -> int:
    """The exit code: 1 if a run could not be made, 2 if this environment cannot make it, 130 if interrupted."""
    arguments = parse()
    outcomes = read() if RESULTS.exists() else []
    if not arguments.render:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            settings()
            fresh = pair(arguments.seed, arguments.minutes, arguments.spark)
        except EvenSplitError as error:
            print(error, file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("Interrupted.", file=sys.stderr)
            return 130
        if not fresh:
            return 1
        outcomes = [one for one in outcomes if one.pair != fresh[0].pair] + fresh
        RESULTS.write_text(json.dumps([asdict(one) for one in outcomes], indent=1) + "\n")
    if not outcomes:
        print(f"There is no {RESULTS.relative_to(ROOT)} yet: call this without --render first.", file=sys.stderr)
        return 2
    PAGE.write_text(between(PAGE.read_text(), table(outcomes), BEGIN, END))
    print(table(outcomes))
    return 0


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make chaos-peer", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=7, help="it makes the faults (default: 7)")
    parser.add_argument("--minutes", type=float, default=10, help="how long faults happen, for each source")
    parser.add_argument("--spark", choices=("standalone", "local"), default="standalone")
    parser.add_argument("--render", action="store_true", help="only write the table anew from the last results")
    return parser.parse_args()


def pair(seed: int, minutes: float, spark: str) -> list[Outcome]:
    """Make the run with both sources; empty if one of them could not be made, which is said."""
    commit = commit_now()
    outcomes: list[Outcome] = []
    for source in SOURCES:
        directory = RUNS / f"{source}-{seed}-{spark}"
        shutil.rmtree(directory, ignore_errors=True)
        command = [sys.executable, "-m", "evensplit.cli", "chaos", "--source", source, "--seed", str(seed)]
        command += ["--minutes", f"{minutes:g}", "--spark", spark, "--directory", str(directory)]
        if outcomes:
            command += ["--schedule", str(RUNS / f"{SOURCES[0]}-{seed}-{spark}" / "schedule.json")]
        print(f"$ {' '.join(command)}", flush=True)
        load_before = os.getloadavg()[0]
        call(command)
        if not (directory / "history").is_dir():
            return []
        verdict = check(directory)
        if problems := no_proof(verdict):
            print(f"{source}: {problems}", file=sys.stderr)
            return []
        outcomes.append(outcome(verdict, source, seed, minutes, spark, commit, load_before))
    return outcomes


def call(command: Sequence[str]) -> None:
    """Run a command to its end. When this process is told to end, the command is, too, and ends what it has started."""
    # In a session of its own Ctrl-C does not reach it as well: told twice, it would not end everything.
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            process.wait()
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise


def outcome(
    verdict: Verdict, source: str, seed: int, minutes: float, spark: str, commit: str, load_before: float
) -> Outcome:
    """The figures of a verdict."""
    figures = verdict.figures
    ends = figures["queries' ends"]
    return Outcome(
        source=source,
        seed=seed,
        minutes=minutes,
        spark=spark,
        commit=commit,
        at=now(),
        machine=machine(),
        load=[load_before, os.getloadavg()[0]],
        held=verdict.held,
        acknowledged=figures["records acknowledged"],
        faults=figures["faults by nemesis"],
        failed_faults=len(verdict.failed_faults),
        left_out=[name for name, one in NEMESES.items() if one.needs == "evensplit"],
        batches=sum(figures.get("batches", {}).values()),
        broken={
            kind: most([one for one in verdict.findings if one.kind == kind])
            for kind in sorted({one.kind for one in verdict.findings})
        },
        lost_of_deleted=most([one for one in verdict.findings if one.kind == "lost" and of_deleted(one)]),
        standstill_s=standstill_s(figures),
        latency_s=latency_s(figures),
        explained_ends=explained_ends(figures),
        errors=dict(Counter(one["error"].splitlines()[0][:160] for one in ends if not one["cause"]).most_common()),
    )


def most(findings: Sequence[Finding]) -> int:
    """How many records the findings are about, of the query that has most: the others read the same records."""
    by_query: Counter[str] = Counter()
    for one in findings:
        by_query[one.where.partition(":")[0]] += one.count
    return max(by_query.values(), default=0)


def of_deleted(finding: Finding) -> bool:
    """Whether the records of a finding are in a topic that faults delete."""
    found = re.search(r": \S+ (\S+)-\d+ \(incarnation", finding.where)
    return found is not None and found[1] in DELETED


def table(outcomes: Sequence[Outcome]) -> str:
    """All outcomes in Markdown: the figures side by side, and how they were measured."""
    sides = [[one for one in outcomes if one.source == source] for source in SOURCES]
    rows = [(title, *(show(side) for side in sides)) for title, show in ROWS]
    lines = ["| | Spark's own source | evensplit |", "|---|---:|---:|", *map(row, rows)]
    return "\n".join([*lines, "", *map(wrapped, remarks(outcomes))])


def remarks(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """How the figures were measured, and what else there is to know about them."""
    for seed, minutes, spark in dict.fromkeys(one.pair for one in outcomes):
        those = [one for one in outcomes if one.pair == (seed, minutes, spark)]
        loads = [load for one in those for load in one.load]
        kinds = ", ".join(f"`{name}`" for name in sorted(those[0].faults))
        yield (
            f"- Seed {seed}, {minutes:g} minutes of faults, Spark {spark}, measured {those[0].at[:10]} at commit "
            f"{those[0].commit} on {those[0].machine}, load average {min(loads):.1f} to {max(loads):.1f}: {kinds}."
        )
    errors: Counter[str] = Counter()
    for one in outcomes:
        errors.update({f"{NAMES[one.source]}: {error}": count for error, count in one.errors.items()})
    for error, count in errors.most_common(REASONS_MAX):
        yield f"- An end without a reason in the documentation, {count} times: `{error.replace('`', '')}`"
    none = sorted({f"`{name}`" for one in outcomes for name in one.left_out})
    yield f"- Left out, since Spark's own source has no part in them: {', '.join(none)}."


NAMES = {"kafka": "Spark's own", "evensplit": "evensplit"}
OTHERS = ("made up", "changed", "wrong place", "wrong offset", "part of a transaction", "repeated batch differs")


def total(*kinds: str) -> Callable[[Sequence[Outcome]], str]:
    """The sum over runs of what was found of some kinds."""
    return lambda side: f"{sum(one.broken.get(kind, 0) for one in side for kind in kinds):,}"


def spread(part: str) -> Callable[[Sequence[Outcome]], str]:
    """From the query with the least latency to that with the most."""

    def show(side: Sequence[Outcome]) -> str:
        all_of_them = [value for one in side for value in one.latency_s[part]]
        ends = dict.fromkeys(f"{end:.1f}" for end in (min(all_of_them), max(all_of_them))) if all_of_them else ["none"]
        return " to ".join(ends)

    return show


ROWS: tuple[tuple[str, Callable[[Sequence[Outcome]], str]], ...] = (
    ("runs in which every promise held", lambda side: f"{sum(one.held for one in side)} of {len(side)}"),
    ("faults", lambda side: f"{sum(sum(one.faults.values()) for one in side)}"),
    ("of them could not be made or ended", lambda side: f"{sum(one.failed_faults for one in side)}"),
    ("records acknowledged", lambda side: f"{sum(one.acknowledged for one in side):,}"),
    ("batches", lambda side: f"{sum(one.batches for one in side):,}"),
    ("records lost", total("lost")),
    (
        "of them in topics that were deleted and created again",
        lambda side: f"{sum(one.lost_of_deleted for one in side):,}",
    ),
    ("records repeated", total("repeated")),
    ("records out of order", total("reordered")),
    ("records of the wrong incarnation", total("wrong incarnation")),
    ("records of aborted transactions seen", total("aborted but seen")),
    ("records changed, misplaced or made up, batches that differ", total(*OTHERS)),
    ("partitions with a wrong count", total("miscounted")),
    ("records that came later than 30 s after the fault", total("stalled", "liveness")),
    ("longest standstill after a fault, s", lambda side: f"{max((one.standstill_s for one in side), default=0):.1f}"),
    ("latency p50, s", spread("p50")),
    ("latency p99, s", spread("p99")),
    ("ends of queries with a reason in the documentation", lambda side: f"{sum(one.explained_ends for one in side)}"),
    ("ends of queries without one", lambda side: f"{sum(sum(one.errors.values()) for one in side)}"),
)


def read() -> list[Outcome]:
    """The outcomes so far."""
    return [Outcome(**one) for one in json.loads(RESULTS.read_text())]


def commit_now() -> str:
    """The commit of this checkout."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return git("rev-parse", "--short", "HEAD") + (", changed" if changed else "")


if __name__ == "__main__":
    sys.exit(main())
