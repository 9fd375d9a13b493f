"""The verdict for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evensplit.testing.chaos.checker.verdict import Verdict

_FINDINGS_MAX = 40


def verdict_text(verdict: Verdict) -> str:
    """The verdict first, then findings, figures, and all that was not judged."""
    lines = [f"{verdict.sentence}."]
    if verdict.findings:
        lines += ["", "Findings"]
        wide = max(len(one.kind) for one in verdict.findings)
        for one in verdict.findings[:_FINDINGS_MAX]:
            lines.append(f"  {one.kind:<{wide}}  {one.at_s:>8.1f} s  {one.where}: {one.what}")
            lines += [f"  {'':<{wide}}              during: {fault}" for fault in one.faults]
        if len(verdict.findings) > _FINDINGS_MAX:
            lines.append(f"  and {len(verdict.findings) - _FINDINGS_MAX} more")
    flat = [pair for name, value in verdict.figures.items() for pair in _flat(name, value)]
    lines += ["", "Figures"]
    wide = max((len(name) for name, _ in flat), default=0)
    lines += [f"  {name:<{wide}}  {value:>14}" for name, value in flat]
    for title, some in (("Not judged", verdict.not_judged), ("Faults that could not be made", verdict.failed_faults)):
        if some:
            lines += ["", title, *(f"  {one}" for one in some)]
    return "\n".join(lines) + "\n"


def _flat(name: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [pair for inner, one in value.items() for pair in _flat(f"{name}, {inner}", one)]
    if isinstance(value, list):
        return [(name, str(len(value)))]
    return [(name, f"{value:,}")]
