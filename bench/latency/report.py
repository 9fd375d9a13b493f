"""The results as tables and pictures: for the screen, and between two markers of docs/performance.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.latency.outcome import Ratio, Results, ratio
from bench.latency.plan import (
    BATCH_GOAL,
    BATCH_GOAL_CORES,
    COLD,
    QUICK,
    READY,
    REGISTER,
    REGISTER_GOAL,
    START_CORES,
    START_GOALS,
)
from bench.latency.spans import PHASES, Timeline
from bench.latency.timeline import picture
from bench.peer.plan import OURS, SPARK
from bench.peer.report import NOTHING, PAGE, between, shown, spread, table, wrapped
from bench.sampler import PARTS

BEGIN = "<!-- make bench-latency: written by it from here -->"
END = "<!-- make bench-latency: to here -->"
START_PICTURE, BATCH_PICTURE = "latency-start.svg", "latency-batch.svg"
START_TITLE, BATCH_TITLE = "From the start of the process to the first row", "One small batch"
WITH_GOAL = (OURS, REGISTER)
"""The sides that have goals against Spark's own."""


def tables(results: Results) -> str:
    """All tables, in Markdown."""
    parts = [_start(results), _batches(results), _phases(results), "\n".join(_remarks(results))]
    return "\n\n".join(part for part in parts if part)


def pictures(results: Results) -> dict[str, str]:
    """File -> picture: Spark's own source and evensplit, of each that was traced."""
    found = {}
    for name, title, lines in (
        (START_PICTURE, START_TITLE, results.start_lines),
        (BATCH_PICTURE, BATCH_TITLE, results.batch_lines),
    ):
        if beside := _beside(lines):
            found[name] = picture(title, beside)
    return found


def write_docs(results: Results, docs: Path) -> None:
    """Put tables and pictures into the pages. Raises ValueError if the page lacks a marker."""
    drawn = pictures(results)
    titles = {START_PICTURE: START_TITLE, BATCH_PICTURE: BATCH_TITLE}
    parts = [tables(results), *(f"![{titles[name]}]({name})" for name in drawn)]
    page = docs / PAGE
    page.write_text(between(page.read_text(), "\n\n".join(parts), BEGIN, END))
    for name, drawing in drawn.items():
        (docs / name).write_text(drawing)


def _beside(lines: Sequence[Timeline]) -> list[Timeline]:
    known = {one.side: one for one in lines}
    return [known[side] for side in (SPARK, OURS) if side in known]


def _start(results: Results) -> str:
    rows = []
    for side, one in results.start.items():
        cold, ready, again = NOTHING, NOTHING, NOTHING
        peer = results.start.get(SPARK)
        if side != SPARK and peer is not None:
            has_goal = side in WITH_GOAL
            cold = goal(ratio(one.whole, peer.whole, START_GOALS[COLD] if has_goal else None))
            ready = goal(ratio(one.ready, peer.ready, START_GOALS[READY] if has_goal else None))
            again = goal(ratio(one.again, peer.again))
        rows.append((side, spread(one.whole, 2), cold, spread(one.ready, 2), ready, spread(one.again, 2), again))
    times = "/ Spark's own"
    head = ("first row", "of a cold process, s", times, "with the session ready, s", times, "again, s", times)
    return table(head, rows)


def _batches(results: Results) -> str:
    rows = []
    for cores, sides in results.batches.items():
        for side, one in sides.items():
            peer, plain = sides.get(SPARK), sides.get(OURS)
            times = without = NOTHING
            if side != SPARK and peer is not None:
                has_goal = side in WITH_GOAL and cores in BATCH_GOAL_CORES
                times = goal(ratio(one.p50, peer.p50, BATCH_GOAL if has_goal else None))
            if side.startswith(f"{OURS}, ") and plain is not None:
                without = goal(ratio(one.p50, plain.p50, REGISTER_GOAL if side == REGISTER else None))
            cpu = (f"{one.cpu(part):,.0f}" for part in PARTS)
            rows.append((f"`local[{cores}]`", side, spread(one.p50, 0), times, without, *cpu))
    head = ("small batches", "source", "p50, ms", "/ Spark's own", "/ without `register`")
    return table((*head, *(f"CPU {part}, ms" for part in PARTS)), rows)


def _phases(results: Results) -> str:
    shown_phases = [name for name in PHASES if name != "getBatch"]
    rows = [
        (f"`local[{cores}]`", side, *(f"{one.phase(name):,.0f}" for name in shown_phases))
        for cores, sides in results.batches.items()
        for side, one in sides.items()
    ]
    return table(("phases, ms", "source", *(f"`{name}`" for name in shown_phases)), rows)


def _remarks(results: Results) -> Iterator[str]:
    """How the figures were measured."""
    if results.parts:
        loads = [load for one in results.parts.values() for load in one.load]
        days = sorted({one.at[:10] for one in results.parts.values()})
        said = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        rounds = " and ".join(_rounds(results))
        counted = f" Medians of {rounds}, [least to most]." if rounds else ""
        yield wrapped(
            f"- {results.machine}. Load average {min(loads):.1f} to {max(loads):.1f}; measured {said}.{counted}"
        )
    if results.start:
        yield f"- First rows are read at `local[{START_CORES}]`."
    quick = [name for name, one in results.parts.items() if one.scale == QUICK.name]
    if quick:
        yield f"- **A quick run**: few rounds, for a rough impression only ({', '.join(quick)})."
    for note in dict.fromkeys(note for one in results.parts.values() for note in one.notes):
        yield wrapped(f"- {note}.")


def _rounds(results: Results) -> Iterator[str]:
    starts = {len(one.whole) for one in results.start.values()}
    if starts:
        yield f"{max(starts)} starts"
    batches = [one.milliseconds for sides in results.batches.values() for one in sides.values() if one.milliseconds]
    if batches:
        yield f"{max(map(len, batches))} rounds of {len(batches[0][0])} batches"


def goal(found: Ratio | None) -> str:
    """A ratio, and whether its goal is reached, if it has one."""
    if found is None or found.limit is None:
        return shown(found)
    return f"{shown(found)}, ≤ {found.limit:g}: {'reached' if found.reached else '**missed**'}"
