"""How long an assignment takes, compared with Kafka's own two assignors on the same instances.

    make bench-assign                       all sizes, about eight minutes
    make bench-assign ARGS=--quick          the small ones, less than a minute

Each assignor has its own process, which makes the instance once and then assigns when it is its turn, so that a change
in the machine's speed affects all of them. The first round does not count: it warms up Java's compiler. Ratios are
taken per round. Kafka's jars are those that LocalKafka resolves.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.assign_cases import cases_table
from bench.assign_instances import Shape
from evensplit.testing.process.jars import resolve_jars
from evensplit.testing.process.java import find_java

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results" / "assign.json"
JAVA_HEAP_MAX = "-Xmx6g"
LIMIT_S = 60.0
TABLE_WIDTH_MIN = 150
START_LIMIT_S = 180.0
CLIENT, SERVER, IDS, INTERNED = "client", "server", "ids", "interned"
WHO = {
    CLIENT: "Kafka's client",
    SERVER: "Kafka's server",
    IDS: "ids",
    INTERNED: "interned",
    "verify": "ids, verification",
    "weighted": "ids, weights",
    "increments": "ids, one split",
}


@dataclass(frozen=True)
class Plan:
    """One instance and the assignors to measure on it, each `rounds` times after one that does not count."""

    shape: Shape
    who: tuple[str, ...] = (CLIENT, SERVER, IDS, INTERNED)
    rounds: int = 3
    quick: bool = False


PLANS = [
    Plan(Shape(100_000, 1_000), (CLIENT, SERVER, IDS, "verify", INTERNED), rounds=5, quick=True),
    Plan(Shape(100_000, 1_000, prior="fresh"), quick=True),
    Plan(Shape(100_000, 1_000, prior="stable"), quick=True),
    Plan(Shape(100_000, 1_000, prior="joins"), quick=True),
    Plan(Shape(100_000, 1_000, prior="leaves"), quick=True),
    Plan(Shape(100_000, 1_000), ("increments",), rounds=100, quick=True),
    Plan(Shape(100_000, 1_000, classes=10), (CLIENT, SERVER, IDS, "verify", INTERNED), rounds=5),
    Plan(Shape(500_000, 10_000), rounds=5),
    Plan(Shape(1_000_000, 2_000), (CLIENT, SERVER, IDS, "verify", INTERNED)),
    Plan(Shape(1_000_000, 2_000, classes=10), (SERVER, IDS, "verify", INTERNED)),
    Plan(Shape(1_000_000, 10_000), (IDS, "verify", INTERNED)),
    Plan(Shape(10_000, 100, prior="fresh"), ("weighted",)),
    Plan(Shape(10_000, 100), ("weighted",), rounds=1),
]


@dataclass
class Result:
    """The figures of one assignor per round; empty if it took longer than the limit."""

    who: str
    milliseconds: list[float] = field(default_factory=list)
    cpu_milliseconds: list[float] = field(default_factory=list)
    memory_peak_bytes: list[int] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)
    stopped: bool = False

    @property
    def median(self) -> float:
        """Milliseconds."""
        return statistics.median(self.milliseconds)


class Worker:
    """A process that answers each line with a line."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self._line(START_LIMIT_S) is None:
            raise RuntimeError(f"{' '.join(command)} did not start: {self._said()}")

    def ask(self, what: str) -> dict[str, Any] | None:
        """Send a command and return the answer, or None after the limit, when the process is killed."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        answer = self._line(LIMIT_S)
        if answer is None and self._process.wait() >= 0:
            raise RuntimeError(f"a worker failed: {self._said()}")
        return None if answer is None else dict(answer)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _line(self, limit_s: float) -> Any:
        assert self._process.stdout is not None
        alarm = threading.Timer(limit_s, self._process.kill)
        alarm.start()
        try:
            line = self._process.stdout.readline()
        finally:
            alarm.cancel()
        return json.loads(line) if line else None

    def _said(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.read()[-2_000:] if self._process.poll() is not None else "no answer in time"


@contextmanager
def workers(plan: Plan, java: list[str]) -> Iterator[dict[str, tuple[str, Worker]]]:
    """For each of `plan.who`: the command to send, and the process."""
    shape = [str(part) for part in (plan.shape.splits, plan.shape.readers, plan.shape.classes, plan.shape.prior)]
    started: dict[str, Worker] = {}
    with ExitStack() as stack:
        made: dict[str, tuple[str, Worker]] = {}
        for who in plan.who:
            place = {CLIENT: "kafka", SERVER: "kafka", "verify": IDS}.get(who, who)
            if place not in started:
                python = [sys.executable, "-m", "bench.assign_worker", place]
                started[place] = Worker([*([*java, "serve"] if place == "kafka" else python), *shape])
                stack.callback(started[place].close)
            asked = who if place == "kafka" else "verify" if who == "verify" else "assign"
            made[who] = (asked, started[place])
        yield made


def measure(plan: Plan, java: list[str]) -> list[Result]:
    """Run all rounds of a plan."""
    results = {who: Result(who) for who in plan.who}
    with workers(plan, java) as ready:
        for turn in range(plan.rounds + 1):
            for who, (asked, worker) in ready.items():
                result = results[who]
                if result.stopped:
                    continue
                answer = worker.ask(asked)
                if answer is None:
                    result.stopped = True
                    # The process went with it; the other one of the two needs a new one.
                    return (
                        [*results.values()]
                        if who != CLIENT
                        else [
                            result,
                            *measure(replace(plan, who=tuple(other for other in plan.who if other != who)), java),
                        ]
                    )
                if turn:
                    result.milliseconds.append(answer["milliseconds"])
                    result.cpu_milliseconds.append(answer["cpu_milliseconds"])
                # What a process ever needed never shrinks: only in its first round is it its own.
                result.memory_peak_bytes.append(answer["memory_peak_bytes"])
                result.last = answer
    return list(results.values())


def ratio(result: Result, results: Sequence[Result], other: str) -> str:
    """How many times faster than another assignor: the median over the rounds."""
    beside = next((one for one in results if one.who == other), None)
    if beside is None or result.who not in (IDS, INTERNED, SERVER) or result.who == other:
        return ""
    if beside.stopped:
        return f"> {LIMIT_S * 1e3 / result.median:,.0f}"
    pairs = zip(beside.milliseconds, result.milliseconds, strict=True)
    return shown(statistics.median(theirs / own for theirs, own in pairs))


def shown(number: float) -> str:
    """With a decimal place if that means something."""
    return f"{number:,.1f}" if number < 10 else f"{number:,.0f}"


def verdict(result: Result, results: Sequence[Result]) -> str:
    """Whether the result is optimal, by our certificate of the same instance."""
    if result.who == "weighted":
        return f"gap {result.last['gap']:.3%}"
    if "proven" in result.last:
        return "[green]proven[/]" if result.last["proven"] else "[red]no[/]"
    best = next(one.last for one in results if one.who == IDS)
    if result.last["squares"] > best["squares"]:
        return "[red]uneven[/]"
    more = result.last["moved"] - best["moved"]
    return f"[red]{more:,} moves too many[/]" if more else "[green]yes[/]"


def show(console: Console, outcome: Sequence[tuple[Plan, list[Result]]]) -> None:
    """Print the table."""
    table = Table(
        "splits x readers", "classes", "before", "who", "ms", "min to max", "CPU", "x client", "x server", "loads",
        "moved", "optimal", "MB", box=box.SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    for column in (1, 4, 5, 6, 7, 8, 9, 10, 12):
        table.columns[column].justify = "right"
    for plan, results in outcome:
        shape = plan.shape
        first = [f"{shape.splits:,} x {shape.readers:,}", str(shape.classes), shape.prior]
        for place, result in enumerate(results):
            head = first if place == 0 else ["", "", ""]
            end = place == len(results) - 1
            if result.stopped:
                table.add_row(*head, WHO[result.who], f"> {LIMIT_S:g} s", end_section=end)
                continue
            times, last = result.milliseconds, result.last
            table.add_row(
                *head,
                WHO[result.who],
                shown(result.median),
                f"{shown(min(times))} to {shown(max(times))}",
                shown(statistics.median(result.cpu_milliseconds)),
                ratio(result, results, CLIENT),
                ratio(result, results, SERVER),
                f"{last['load_min']:,} to {last['load_max']:,}",
                f"{last['moved']:,}",
                verdict(result, results),
                f"{min(result.memory_peak_bytes) / 1e6:,.0f}",
                end_section=end,
            )
    # In a narrow window, wrapped lines can be read; columns of three letters cannot.
    Console(width=max(console.width, TABLE_WIDTH_MIN)).print(table)
    console.print(
        "ids: by `assign`, from SplitIds and names to the proof. interned: solver and proof, from arrays.\n"
        "CPU: milliseconds of the assigning thread, hardly affected by other load; without Java's collector.\n"
        "x client, x server: how many times faster than these. MB: peak memory of the process; "
        f"for Kafka, peak heap ({JAVA_HEAP_MAX})."
    )


def write(outcome: Sequence[tuple[Plan, list[Result]]]) -> None:
    """Write all figures as JSON."""
    RESULTS.parent.mkdir(exist_ok=True)
    document = {
        "machine": f"{os.cpu_count()} processors, {platform.machine()}, Python {platform.python_version()}",
        "limit_s": LIMIT_S,
        "results": [{**asdict(plan), "results": [asdict(result) for result in results]} for plan, results in outcome],
    }
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")


def main() -> int:
    """Run the benchmark, print the table and write it as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only the small sizes: less than a minute")
    parser.add_argument("--rounds", type=int, help="counted rounds of each (default 3 to 5)")
    arguments = parser.parse_args()
    console = Console()
    jars = f"{resolve_jars()}/*"
    java = [str(find_java().path), JAVA_HEAP_MAX, "-cp", jars, str(ROOT / "bench" / "KafkaAssignors.java")]
    plans = [plan for plan in PLANS if plan.quick or not arguments.quick]
    if arguments.rounds:
        plans = [plan if plan.rounds == 100 else replace(plan, rounds=arguments.rounds) for plan in plans]
    console.print(cases_table(java))
    outcome: list[tuple[Plan, list[Result]]] = []
    try:
        outcome.extend((plan, measure(plan, java)) for plan in track(plans, "measuring", console=console))
    finally:
        # Whoever loses patience still gets what was measured so far.
        show(console, outcome)
        write(outcome)
    return 0


if __name__ == "__main__":
    sys.exit(main())
