"""The report of a run as one HTML file, without network and without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from evensplit.testing.chaos.checker.faults import Fault, faults_of
from evensplit.testing.chaos.checker.verdict import Verdict
from evensplit.testing.chaos.history import events as ev
from evensplit.testing.chaos.history.recorder import read_history
from evensplit.testing.chaos.page.timeline import area, lanes, lines, marks

_STYLE = """
:root{color-scheme:light dark;--ink:#1d2430;--soft:#5c6675;--line:#dde2ea;--back:#fff;--good:#18794e;--bad:#c62828;
--a:#3565c4;--b:#c2701c}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#9aa4b5;--line:#323a48;--back:#14181f;--good:#4cc38a;
--bad:#ff6b6b;--a:#7da2f0;--b:#e8a35c}}
body{margin:0 auto;max-width:1180px;padding:24px 16px 64px;background:var(--back);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}
h1{font-size:26px;margin:0 0 4px}h1.held{color:var(--good)}h1.broken{color:var(--bad)}
h2{font-size:18px;margin:32px 0 8px}code{font-size:13px}p{margin:4px 0}.soft{color:var(--soft)}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13.5px}
th{text-align:left;color:var(--soft);font-weight:500}td,th{padding:5px 14px 5px 0;border-bottom:1px solid var(--line);
vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
svg{display:block;width:100%;min-width:680px;height:auto}svg text{fill:var(--soft);font:11px system-ui,sans-serif}
"""


def report_page(directory: Path, verdict: Verdict) -> bytes:
    """The page about the run in a directory: verdict, findings, a timeline, and tables. UTF-8."""
    events = read_history(directory / "history")
    end_s = max(events[-1].at_s, 1.0)
    began = next((one for one in events if isinstance(one, ev.RunBegan)), None)
    faults = faults_of(events, end_s)
    repeat = f"evensplit chaos --minutes {began.minutes:g} --seed {began.seed}" if began else ""
    if began and began.source != "evensplit":
        repeat += f" --source {began.source}"
    colour = "held" if verdict.held else "broken"
    body = [
        f'<h1 class="{colour}">{escape(verdict.sentence)}</h1>',
        f'<p class="soft">To repeat it: <code>{escape(repeat)}</code></p>',
        _table(
            "Findings",
            ("kind", "at (s)", "where", "finding", "faults around"),
            [(one.kind, one.at_s, one.where, one.what, "; ".join(one.faults)) for one in verdict.findings],
        ),
        "<h2>Timeline</h2>",
        *_timeline(events, faults, end_s),
        _table("Faults", ("nemesis", "begin (s)", "end (s)", "next delivery (s)", "fault"), _faults(events, faults)),
        *_figures(verdict),
        _table("Not judged", ("promise, and why",), [(one,) for one in verdict.not_judged]),
        _table("Faults that could not be made", ("fault",), [(one,) for one in verdict.failed_faults]),
        _table("Versions", ("program", "version"), sorted(began.versions.items()) if began else []),
    ]
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>evensplit chaos</title><style>{_STYLE}</style></head><body>{''.join(body)}</body></html>"
    )
    return text.encode()


def _timeline(events: Sequence[ev.Event], faults: Sequence[Fault], end_s: float) -> Iterable[str]:
    yield lanes([(one.nemesis, one.what, one.begin_s, one.end_s) for one in faults], end_s)
    delivered = [one for one in events if isinstance(one, ev.BatchDelivered)]
    lag: list[tuple[float, float]] = []
    queries = sorted({one.query for one in delivered if one.query != "counted"})
    committed = {
        one.transaction: one.at_s
        for one in events
        if isinstance(one, ev.TransactionEnded) and one.outcome == "committed"
    }
    steps = [
        (committed.get(one.transaction, one.at_s), len(one.numbers))
        for one in events
        if isinstance(one, ev.RecordsAcknowledged) and (not one.transaction or one.transaction in committed)
    ]
    if queries:
        steps += [(one.at_s, -one.rows) for one in delivered if one.query == queries[0]]
    held = 0
    for at_s, change in sorted(steps):
        held += change
        lag.append((at_s, max(0, held)))
    yield area(f"Acknowledged, not yet delivered ({queries[0] if queries else 'no query'}), records", lag, end_s)
    rows = {query: [(one.at_s, one.rows) for one in delivered if one.query == query] for query in queries}
    yield lines("Rows of each batch", rows, end_s)
    memory: dict[str, list[tuple[float, float]]] = {}
    for one in events:
        if isinstance(one, ev.MemoryMeasured):
            memory.setdefault(f"{one.process} {one.pid}", []).append((one.at_s, one.resident_mib))
    yield lines("Memory, MiB", memory, end_s)
    yield marks("Starts and ends of drivers and queries", list(_ends(events)), end_s)


def _ends(events: Sequence[ev.Event]) -> Iterable[tuple[float, str, bool]]:
    for one in events:
        if isinstance(one, ev.QueryStarted | ev.QueryEnded):
            bad = isinstance(one, ev.QueryEnded) and bool(one.error)
            yield one.at_s, f"{type(one).__name__} {one.query} {getattr(one, 'error', '')[:200]}", bad
        elif isinstance(one, ev.JobStarted | ev.JobEnded):
            yield one.at_s, f"{type(one).__name__} {one.pid}", isinstance(one, ev.JobEnded)


def _faults(events: Sequence[ev.Event], faults: Sequence[Fault]) -> list[tuple[Any, ...]]:
    times = [one.at_s for one in events if isinstance(one, ev.BatchDelivered) and one.rows]
    return [
        (
            one.nemesis,
            round(one.begin_s, 1),
            round(one.end_s, 1),
            next((round(at_s - one.end_s, 1) for at_s in times if at_s >= one.end_s), "none"),
            one.what,
        )
        for one in faults
    ]


def _figures(verdict: Verdict) -> Iterable[str]:
    plain = [(name, value) for name, value in verdict.figures.items() if not isinstance(value, dict | list)]
    yield _table("Figures", ("figure", "value"), plain)
    for name, value in verdict.figures.items():
        if isinstance(value, dict):
            rows = [
                (key, ", ".join(f"{part} {one}" for part, one in some.items()) if isinstance(some, dict) else some)
                for key, some in value.items()
            ]
            yield _table(name[0].upper() + name[1:], ("", "value"), rows)
        elif isinstance(value, list):
            ends = [(one["query"], one["at_s"], one["error"], one["cause"] or "none") for one in value]
            yield _table(name[0].upper() + name[1:], ("query", "at (s)", "error", "explained by"), ends)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table under its title; empty if there are no rows."""
    if not rows:
        return ""

    def cell(value: Any, tag: str) -> str:
        number = ' class="n"' if isinstance(value, int | float) else ""
        shown = f"{value:,}" if isinstance(value, int | float) else str(value)
        return f"<{tag}{number}>{escape(shown)}</{tag}>"

    titles = "".join(
        f"<th{' class=' + chr(34) + 'n' + chr(34) if _numeric(rows, at) else ''}>{escape(one)}</th>"
        for at, one in enumerate(head)
    )
    lines = "".join("<tr>" + "".join(cell(value, "td") for value in row) + "</tr>" for row in rows)
    return f'<h2>{escape(title)}</h2><div class="wide"><table><tr>{titles}</tr>{lines}</table></div>'


def _numeric(rows: Sequence[Sequence[Any]], at: int) -> bool:
    return isinstance(rows[0][at], int | float)
