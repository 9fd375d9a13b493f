"""A report as one HTML file that needs nothing else: no network, no script, light and dark as the reader has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape

from evensplit.checkpoint.history import CheckpointHistory
from evensplit.cli.live.lags import lag_by_cluster
from evensplit.cli.report.report_charts import Chart, charts_of
from evensplit.cli.usage import time_of
from evensplit.core.text import plain
from evensplit.observe.source_view import View

ROWS_MAX = 200
"""So many clusters, and so many changes, have a row each."""

_CSS = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2328; --faint: #59636e; --grid: #d1d9e0; --tint: #f6f8fa;
  --c1: #0072b2; --c2: #b35c00; --c3: #00795a; --c4: #a3386f; --c5: #6b5ca5; --c6: #7a6a00; --c7: #326e8c;
  --c8: #6e6e6e; }
@media (prefers-color-scheme: dark) { :root { --paper: #0d1117; --ink: #e6edf3; --faint: #9198a1; --grid: #3d444d;
  --tint: #151b23; --c1: #56b4e9; --c2: #e69f00; --c3: #2fc59b; --c4: #e38cba; --c5: #b5a7e6; --c6: #e5d64c;
  --c7: #8ac7e0; --c8: #b0b0b0; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 62rem; padding: 1.5rem; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; } h3 { font-size: 1rem; margin-bottom: 0; }
p, figcaption, caption { color: var(--faint); margin: .2rem 0; }
figure { margin: 1.4rem 0; } svg { display: block; width: 100%; height: auto; }
svg text { font-family: system-ui, sans-serif !important; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
caption { text-align: left; } th, td { padding: .25rem .6rem; text-align: left; border-bottom: 1px solid var(--grid);
  vertical-align: top; } th { font-weight: 600; background: var(--tint); }
.n { text-align: right; } .n, .t { white-space: nowrap; overflow-wrap: normal; }
.key { display: inline-block; margin-right: 1.2rem; color: var(--ink); }
.key i { display: inline-block; width: .9em; height: .9em; border-radius: 2px; margin-right: .4em;
  vertical-align: -.1em; }
.bar { background: var(--c1); height: .7em; min-width: 1px; border-radius: 2px; }
.good { border-left: 4px solid var(--c3); padding-left: .8rem; color: var(--ink); }
@media print { body { max-width: none; } }
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser may load for it: nothing."""


def page_of(
    kept: CheckpointHistory, views: Mapping[str, View], failures: Mapping[tuple[str, str], str], made_ms: int
) -> str:
    """The whole file. `views`: with the ends of the logs, where those are known; `failures`: why some are not."""
    done = "is done" if kept.committed else "is planned, and was not committed yet"
    body = [
        f"<h1>{_text(kept.path.resolve())}</h1>",
        f"<p>{f'Query {_text(kept.query_id)}. ' if kept.query_id else ''}Batches {kept.first:,} to {kept.last:,} were "
        f"kept; the last one, planned {time_of(kept.planned_ms)} UTC, {done}. "
        f"This report was made {time_of(made_ms)} UTC.</p>",
    ]
    for name, view in views.items():
        if len(kept.views) > 1:
            body.append(f"<h2>Source {_text(name)} of the query</h2>")
        body.extend(_source(name, view, {cluster: why for (of, cluster), why in failures.items() if of == name}))
    body.extend(f"<p>Note: {_text(note)}.</p>" for note in kept.notes)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>evensplit: {_text(kept.path.name)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _source(name: str, view: View, failures: Mapping[str, str]) -> Iterator[str]:
    for one in view.explanation.evenness:
        where = "" if one.cluster is None else f"cluster {one.cluster}: "
        yield f'<p class="good">Proven of the owners: {_text(where + one.statement())}.</p>'
    if advice := view.explanation.advice():
        yield f"<p>In the last batch {_text(advice)}.</p>"
    yield from _clusters(view, failures)
    for chart in charts_of(view):
        yield _figure(name, chart)
    yield from _changes(view)
    yield from _numbers(view)


def _clusters(view: View, failures: Mapping[str, str]) -> Iterator[str]:
    lags, rates, totals = lag_by_cluster(list(view.splits())), view.rates(), view.totals
    asked = any(lag is not None for lag in lags.values()) or bool(failures)
    most = max((lag for lag in lags.values() if lag), default=0)
    headings = ["cluster", "#splits", "#offsets/s", "#read", "#moves", "#losses", *(["#lag now", ""] if asked else [])]
    rows: list[list[str]] = []
    for one in view.explanation.clusters[:ROWS_MAX]:
        lag, rate = lags.get(one.id), rates.get(one.id)
        row = [
            _text(one.id),
            f"{sum(one.splits.values()):,}",
            "" if rate is None else f"{rate:,.1f}",
            f"{totals.offsets.get(one.id, 0):,}",
            f"{totals.moves.get(one.id, 0):,}",
            f"{totals.losses.get(one.id, 0):,}",
        ]
        if asked:
            width = 100 * lag / most if lag and most else 0
            why = _text(failures.get(one.id, ""))
            row.extend(
                ["?" if lag is None else f"{lag:,}", why or f'<div class="bar" style="width:{width:.1f}%"></div>']
            )
        rows.append(row)
    yield _table("Clusters, over the batches that were kept", headings, rows, len(view.explanation.clusters))


def _figure(source: str, chart: Chart) -> str:
    keys = "".join(
        f'<span class="key"><i style="background:var(--c{number})"></i>{_text(what)}</span>'
        for number, what in chart.legend
    )
    # Ids of pictures are those of the whole page, which may have several sources.
    svg = chart.svg.replace('id="', f'id="s{_word(source)}-').replace("(#", f"(#s{_word(source)}-")
    svg = svg.replace('href="#', f'href="#s{_word(source)}-')
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{_text(chart.title)}" ', 1)
    return f"<figure><h3>{_text(chart.title)}</h3><figcaption>{_text(chart.note)} {keys}</figcaption>{svg}</figure>"


def _changes(view: View) -> Iterator[str]:
    shown = view.happenings[-ROWS_MAX:]
    latest_first = sorted(shown, key=lambda one: -one.batch)
    rows = [[f"{one.batch:,}", time_of(one.at_ms), _text(one.kind), _text(one.text)] for one in latest_first]
    if rows:
        headings = ["#batch", "~planned (UTC)", "~what", "what happened"]
        yield f"<h3>Changes, the last one first</h3>{_table('', headings, rows, len(view.happenings))}"


def _numbers(view: View) -> Iterator[str]:
    rows = [
        [
            f"{one.batch:,}",
            time_of(one.at_ms),
            f"{one.offsets_sum:,}",
            f"{max(one.offsets.values(), default=0):,}",
            f"{one.share:,.0f}",
            f"{min(one.offsets.values(), default=0):,}",
        ]
        for one in view.work
    ]
    headings = ["#batch", "~planned (UTC)", "#offsets", "#busiest reader", "#its share", "#least busy reader"]
    yield f"<details><summary>The numbers of each batch</summary>{_table('', headings, rows, len(rows))}</details>"


_CLASSES = {"#": ' class="n"', "~": ' class="t"'}


def _table(caption: str, headings: Iterable[str], rows: list[list[str]], count: int) -> str:
    """A table; columns whose headings begin with a # are numbers, and with a ~ short texts. Cells are HTML."""
    kinds = [_CLASSES.get(heading[:1], "") for heading in headings]
    head = "".join(
        f'<th scope="col"{kind}>{_text(heading.lstrip("#~"))}</th>'
        for heading, kind in zip(headings, kinds, strict=True)
    )
    body = "\n".join(
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    more = f"<p>… {count:,} in all</p>" if count > len(rows) else ""
    title = f"<caption>{_text(caption)}</caption>" if caption else ""
    return f'<div class="wide"><table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}'


def _text(value: object) -> str:
    """Text for HTML, in elements and in attributes: whatever it is, nothing of it is markup."""
    return escape(plain(str(value)))


def _word(text: str) -> str:
    return "".join(one if one.isascii() and one.isalnum() else "_" for one in text)
