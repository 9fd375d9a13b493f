"""The verdict for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from evensplit.core.text import counted
from evensplit.testing.chaos.checker.verdict import Verdict
from evensplit.testing.chaos.page.figures import Table, tables, telling

_FINDINGS_MAX = 40


def verdict_text(verdict: Verdict, said: str = "") -> str:
    """The verdict first, with what is `said` about the run; then findings, what was not judged, and figures."""
    lines = [f"{verdict.sentence}.", *([said] if said else [])]
    if verdict.findings:
        lines += ["", "Findings"]
        wide = max(len(one.kind) for one in verdict.findings)
        for one in verdict.findings[:_FINDINGS_MAX]:
            what = telling(one.what).replace("\n", f"\n  {'':<{wide}}              ")
            lines.append(f"  {one.kind:<{wide}}  {one.at_s:>8.1f} s  {one.where}: {what}")
            lines += [f"  {'':<{wide}}              during: {fault}" for fault in one.faults]
        if len(verdict.findings) > _FINDINGS_MAX:
            lines.append(f"  and {counted(len(verdict.findings) - _FINDINGS_MAX, 'more', 'more')}; the report has all")
    failed = [telling(one) for one in verdict.failed_faults]
    for title, some in (("Not judged", verdict.not_judged), ("Faults that could not be made or ended", failed)):
        if some:
            lines += ["", title, *(f"  {one.replace(chr(10), ' ')}" for one in some)]
    for table in tables(verdict):
        lines += _table(table)
    return "\n".join(lines) + "\n"


def _table(table: Table) -> Iterator[str]:
    if not table.rows:
        return
    yield from ("", table.title)
    for row in (table.head, *table.rows):
        first = max(len(one[0]) for one in (table.head, *table.rows))
        wides = [max(len(one[at]) for one in (table.head, *table.rows)) for at in range(1, len(row))]
        cells = (f"{cell:>{wide}}" for cell, wide in zip(row[1:], wides, strict=True))
        yield f"  {row[0]:<{first}}  {'  '.join(cells)}"
