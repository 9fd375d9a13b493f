"""The results as tables, for the screen and for docs/performance.md, where they are between two markers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Protocol

from bench.peer.outcome import Outcome, Results, Verdict, compare, verdict
from bench.peer.plan import (
    CEILING,
    FLOOR,
    OURS,
    OURS_PLAIN,
    OURS_UNDAMAGED,
    QUICK,
    RATES,
    SPARK,
    SPARK_CACHE,
    SPARK_MIN,
    WITNESS,
    Kind,
)
from bench.peer.plot import plot

BEGIN = "<!-- make bench-peer: written by it from here -->"
END = "<!-- make bench-peer: to here -->"
PAGE = "performance.md"
PICTURE = "peer.svg"
LINE_MAX = 130
NOTHING = "–"  # noqa: RUF001  (as in the tables of the page)


class Spread(Protocol):
    """A median with the least and the most."""

    @property
    def median(self) -> float:
        """The one in the middle."""

    @property
    def least(self) -> float:
        """The least."""

    @property
    def most(self) -> float:
        """The most."""


def tables(results: Results) -> str:
    """All tables, in Markdown."""
    parts = [_rates(results), _others(results), _writes(results), _streams(results), _memory(results)]
    parts.append("\n".join(_remarks(results)))
    return "\n\n".join(part for part in parts if part)


def write_docs(results: Results, docs: Path) -> None:
    """Put tables and plot into the pages. Raises ValueError if the page lacks a marker, or they are in wrong order."""
    page = docs / PAGE
    text = f"![Rows per second of each workload]({PICTURE})\n\n{tables(results)}"
    page.write_text(between(page.read_text(), text, BEGIN, END))
    (docs / PICTURE).write_text(plot(results))


def between(page: str, text: str, begin: str, end: str) -> str:
    """`page` with `text` between the markers `begin` and `end`."""
    first, last = page.find(begin), page.find(end)
    if not 0 <= first < last:
        raise ValueError(f"the page must have the lines {begin!r} and, after it, {end!r}: they say where tables go")
    return f"{page[: first + len(begin)]}\n{text}\n{page[last:]}"


def row(cells: Iterable[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def wrapped(line: str) -> str:
    """A line of Markdown in lines of at most `LINE_MAX` characters. One of a table has to stay as it is."""
    if line.startswith("|"):
        return line
    indent = "  " if line.startswith("- ") else ""
    return fill(line, LINE_MAX, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def line(outcome: Outcome) -> str:
    """A workload in one line, for when it is measured."""
    name = f"{outcome.title}, local[{outcome.cores}]"
    if outcome.skipped:
        return f"{name}: left out, {outcome.skipped}"
    unit = {
        Kind.RATE: "rows/s",
        Kind.WRITE: "rows/s",
        Kind.SIZE: "MB",
        Kind.STREAM: "ms",
        Kind.MEMORY: "MiB above idle",
    }[outcome.kind]
    digits = 1 if outcome.kind in (Kind.MEMORY, Kind.SIZE) else 0
    sides = ", ".join(f"{side} {outcome.median(side):,.{digits}f}" for side in outcome.values)
    found = [shown(one) for goal in outcome.goals if (one := verdict(outcome, goal)) is not None and one.against]
    return f"{name}: {sides} {unit}" + (f"; times {', '.join(found)}" if found else "")


def _rates(results: Results) -> str:
    rows = []
    for one in results.of(Kind.RATE):
        if {SPARK, CEILING} <= one.values.keys():
            peer = _beside(one, (SPARK, SPARK_MIN))
            ceiling = _beside(one, (CEILING,))
            rows.append(
                (
                    _name(one),
                    _rate(one, peer.against if peer else SPARK),
                    _rate(one, OURS),
                    shown(peer),
                    _goal(one, peer),
                    _rate(one, CEILING),
                    shown(ceiling),
                    _goal(one, ceiling),
                    _rate(one, WITNESS),
                )
            )
    head = ("workload", "Spark's own, rows/s", "evensplit, rows/s", "times", "goal", "ceiling, rows/s", "of it", "goal")
    return table((*head, "witness, rows/s"), rows)


def _others(results: Results) -> str:
    """Rates without Spark's own source or without the ceiling: a line for each side that they have."""
    what = {CEILING: "all seven columns prebuilt", OURS_PLAIN: "the same without TLS"}
    what |= {OURS_UNDAMAGED: "none malformed"}
    rows = []
    for one in results.of(Kind.RATE):
        if not {SPARK, CEILING} <= one.values.keys():
            for against in (side for side in one.values if side != OURS):
                found = _beside(one, (against,))
                rate = _rate(one, against)
                spark = f"{SPARK}, over TLS" if OURS_PLAIN in one.values else SPARK
                beside = what.get(against, spark)
                rows.append((_name(one), _rate(one, OURS), beside, rate, shown(found), _goal(one, found)))
    return table(("workload", "evensplit, rows/s", "beside", "rows/s", "times", "goal"), rows)


def _writes(results: Results) -> str:
    """Rates of writing, with the processor time that Spark's processes take; and what the broker has then."""
    rows, sizes = [], []
    for one in results.of(Kind.WRITE):
        found = _beside(one, (SPARK,))
        cpu = (spread(one.cpu_s.get(side, []), 2) for side in (SPARK, OURS))
        rates = (_rate(one, SPARK), _rate(one, OURS))
        rows.append((_name(one), *rates, shown(found), _goal(one, found), *cpu))
    for one in results.of(Kind.SIZE):
        found = _beside(one, (SPARK,))
        sizes.append((one.title, *(spread(one.values.get(side, []), 2) for side in (SPARK, OURS)), shown(found)))
        sizes[-1] += (_goal(one, found),)
    heads = ("Spark's own, rows/s", "evensplit, rows/s", "times", "goal", "CPU, Spark's own", "CPU, evensplit")
    found_sizes = table(("MB in the topic", SPARK, OURS, "evensplit / Spark's own", "goal"), sizes)
    return "\n\n".join(part for part in (table(("written", *heads), rows), found_sizes) if part)


def _streams(results: Results) -> str:
    rows = []
    for one in results.of(Kind.STREAM):
        for side in (side for side in (OURS, SPARK, SPARK_CACHE, FLOOR) if side in one.values):
            found = None if side == OURS else _beside(one, (side,))
            rows.append(
                (
                    _name(one) if side == OURS else "",
                    side,
                    _ms(one.percentile(side, 0.5)),
                    _ms(one.percentile(side, 0.95)),
                    str(sum(len(batches) for batches in one.batches[side])),
                    shown(found),
                    _goal(one, found),
                )
            )
    head = ("micro-batches", "source", "p50, ms", "p95, ms", "batches", "evensplit / source", "goal")
    return table(head, rows)


def _memory(results: Results) -> str:
    rows = []
    for one in results.of(Kind.MEMORY):
        if one.jvm_mib:
            found = _beside(one, ())
            worker, own, spark = one.values.get(OURS, []), one.jvm_mib.get(OURS, []), one.jvm_mib.get(SPARK, [])
            rows.append((_name(one), spread(worker), _goal(one, found), spread(own, 0), spread(spark, 0)))
    head = ("peak memory, MiB", "largest Python worker above an idle one", "goal", "JVM", "JVM with Spark's own source")
    return table(head, rows)


def _remarks(results: Results) -> Iterable[str]:
    """How the figures were measured."""
    done = [one for one in results.outcomes if one.load]
    if done:
        yield f"- {results.machine}."
        rounds = [len(values) for one in done for values in one.values.values()]
        many = f"{min(rounds)}" if min(rounds) == max(rounds) else f"{min(rounds)} to {max(rounds)}"
        loads, days = [load for one in done for load in one.load], [one.at[:10] for one in done]
        yield (
            f"- Medians of {many} rounds, [least to most]. Load average {min(loads):.1f} to {max(loads):.1f}; "
            f"measured {min(days)}{'' if min(days) == max(days) else f' to {max(days)}'}."
        )
        quick = [one.key for one in done if one.scale == QUICK.name]
        if quick:
            yield f"- **A quick run**: few records and rounds, for a rough impression only ({', '.join(quick)})."
        smaller = (
            f"{size} {', '.join(f'{codec} {times:.1f}' for codec, times in found.items())}"
            for size, found in results.compression.items()
        )
        yield f"- Compression ratios: {'; '.join(smaller)}."
    for one in results.outcomes:
        yield from (f"- {_name(one)}: {note}." for note in one.notes)
        if one.skipped:
            yield f"- {_name(one)}: left out, since {one.skipped}."


def _beside(outcome: Outcome, against: tuple[str, ...]) -> Verdict | None:
    """Our figure compared with the best of `against`, with the workload's goal for it, if any."""
    found = compare(outcome, OURS, against)
    goal = next((goal for goal in outcome.goals if found and (found.against in goal.against or not against)), None)
    return verdict(outcome, goal) if goal else found


def _goal(outcome: Outcome, found: Verdict | None) -> str:
    if found is None or found.goal is None:
        return NOTHING
    sign = "≥" if outcome.kind in RATES else "≤"
    return f"{sign} {found.goal.limit:g}: {'reached' if found.reached else '**missed**'}"


def _name(outcome: Outcome) -> str:
    return f"{outcome.title}, `local[{outcome.cores}]`"


def shown(found: Spread | None) -> str:
    """A ratio's median, the least and the most."""
    return NOTHING if found is None else f"{number(found.median)} [{number(found.least)} to {number(found.most)}]"


def number(value: float) -> str:
    """With as many digits as say something."""
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _rate(outcome: Outcome, side: str) -> str:
    median = outcome.median(side)
    return NOTHING if median is None else f"{round(median, -3):,.0f}"


def _ms(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Their median, the least and the most."""
    if not values:
        return NOTHING
    return f"{median(values):,.{digits}f} [{min(values):,.{digits}f} to {max(values):,.{digits}f}]"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown with the first column on the left; empty without rows."""
    if not rows:
        return ""
    ruler = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(map(row, (head, ruler, *rows)))
