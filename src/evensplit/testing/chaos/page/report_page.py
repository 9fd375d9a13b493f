"""The report of a run as one HTML file, without network and without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from evensplit.core.text import counted
from evensplit.observe.dashboard.rendering import HERE, render
from evensplit.observe.dashboard.view.formatting import exact, short
from evensplit.observe.dashboard.view.page import Tile
from evensplit.testing.chaos.checker.verdict import Finding, Verdict
from evensplit.testing.chaos.history import events as ev
from evensplit.testing.chaos.page import figures as fig
from evensplit.testing.chaos.page import timeline
from evensplit.testing.chaos.page.command import command_of
from evensplit.testing.chaos.page.facts import Facts, Life, resource_of

FINDINGS_OPEN_MAX = 12
"""So many findings are open at first; the others are folded."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A text of which the lines that say most are shown, and all of it on demand."""

    shown: str
    whole: str

    @classmethod
    def of(cls, text: str) -> Folded:
        shown = fig.telling(text)
        return cls(shown, "" if shown == text.strip() else text)


@dataclass(frozen=True, slots=True)
class End:
    """The end of a driver or a query. `again`: when it ran again."""

    at: str
    who: str
    reason: Folded
    cause: Folded
    again: str
    tone: str


def report_page(directory: Path, facts: Facts, verdict: Verdict) -> bytes:
    """The page about the run in a directory: verdict, findings, pictures over the time, and tables. UTF-8."""
    style = "".join((HERE / "assets" / name).read_text("utf-8") for name in ("dashboard.css", "chaos.css"))
    first, _, rest = verdict.sentence.partition("; ")
    causes = {(one["query"], one["at_s"]): one["cause"] for one in verdict.figures.get(fig.ENDS, [])}
    findings = [_found(facts, one) for one in sorted(verdict.findings, key=lambda one: one.at_s)]
    lives = timeline.life_lanes(facts, causes)
    return render(
        "chaos.html",
        {
            # Our own files.
            "css": Markup(style),  # noqa: S704
            "tone": "good" if verdict.held else "bad",
            "verdict": first,
            "rest": rest,
            "survived": fig.survived(facts, verdict),
            "command": command_of(facts.began, directory) if facts.began else "",
            "tiles": list(_tiles(facts, verdict)),
            "findings": findings[:FINDINGS_OPEN_MAX],
            "findings_folded": findings[FINDINGS_OPEN_MAX:],
            "not_judged": [Folded.of(one) for one in verdict.not_judged],
            "failed": [Folded.of(one) for one in verdict.failed_faults],
            "ticks": timeline.time_ticks(facts.end_s),
            "backdrop": timeline.backdrop(facts),
            "marks": timeline.finding_marks(facts, verdict.findings),
            "lanes": timeline.fault_lanes(facts),
            "lives": timeline.Lanes("Driver and queries", "", 1, lives),
            "clusters": facts.clusters,
            "lag": timeline.lag_strips(facts),
            "latency": timeline.latency_strips(facts),
            "bound_s": facts.bound_s,
            "without": [one for one in (facts.began.queries if facts.began else ()) if one not in facts.delivered_s],
            "memory": timeline.memory_strips(facts, fig.slopes_of(verdict.figures)),
            "tables": [one for one in fig.tables(verdict) if one.rows],
            "ends": [_end(facts, one, causes) for one in facts.lives if one.reason is not None],
            "spells": [_spell(number, one) for number, one in enumerate(facts.spells, 1)],
            "faults_count": len(facts.faults),
            "versions": sorted(facts.began.versions.items()) if facts.began else [],
        },
    )


def _found(facts: Facts, finding: Finding) -> dict[str, Any]:
    """A finding, with the whole of an error of which the verdict has the beginning."""
    ends = [one for one in facts.events if isinstance(one, ev.QueryEnded) and one.query == finding.where]
    by_itself = [one.error for one in ends if abs(one.at_s - finding.at_s) < 0.001]
    whole = next(iter(by_itself), finding.what) if finding.kind == "ended by itself" else finding.what
    at = timeline.clock(finding.at_s) if finding.at_s >= 0 else "at no known time"
    return {"kind": finding.kind, "at": at, "where": finding.where, "what": Folded.of(whole), "faults": finding.faults}


def _tiles(facts: Facts, verdict: Verdict) -> Iterator[Tile]:
    figures = verdict.figures
    kinds = counted(len({one.nemesis for one in facts.faults}), "kind")
    yield Tile("Faults", exact(len(facts.faults)), "", f"of {kinds}, in {counted(len(facts.spells), 'spell')}", "")
    written, acknowledged = figures.get(fig.WRITTEN, 0), figures.get(fig.ACKNOWLEDGED, 0)
    yield Tile("Acknowledged", short(acknowledged), "records", f"of {exact(written)} written", exact(acknowledged))
    if delivered := figures.get(fig.DELIVERED):
        least = min(delivered.values())
        said = "by the one query" if len(delivered) == 1 else f"at least, by each of {len(delivered)} queries"
        yield Tile("Delivered", short(least), "records", said, exact(least))
    ends = figures.get(fig.ENDS, [])
    bad = sum(not one["cause"] for one in ends)
    said = f"{bad} without an explanation" if bad else "all explained by a fault" if ends else "no query ended itself"
    yield Tile("Ends by an error", exact(len(ends)), "", said, "", "bad" if bad else "")
    if latency := fig.worst_latency(figures):
        said = f"99%: {exact(latency['p99'])} s, the last: {exact(latency['p100'])} s"
        yield Tile("Half arrived within", exact(latency["p50"]), "s", said, "In the slowest query")
    if stalls := figures.get(fig.RECOVERY):
        query = max(stalls, key=stalls.__getitem__)
        tone = "bad" if stalls[query] > facts.bound_s else ""
        said = f"{query}; {facts.bound_s:g} s are allowed"
        yield Tile("Slowest recovery", exact(stalls[query]), "s", said, "From the end of the faults around it", tone)


def _end(facts: Facts, life: Life, causes: dict[tuple[str, float], str]) -> End:
    cause = causes.get((life.who, life.end_s)) or life.cause
    again = next((one.begin_s for one in facts.lives if one.who == life.who and one.begin_s >= life.end_s), None)
    return End(
        timeline.clock(life.end_s),
        life.who,
        Folded.of(life.reason or ""),
        Folded.of(cause),
        "" if again is None else f"{again - life.end_s:.0f} s later",
        "bad" if life.bad and not cause else "",
    )


def _spell(number: int, spell: Any) -> dict[str, Any]:
    faults: Sequence[Any] = sorted(spell.faults, key=lambda one: one.begin_s)
    return {
        "number": number,
        "recovery_s": spell.recovery_s,
        "faults": [
            {
                "colour": timeline.colour_of(resource_of(one.nemesis)),
                "nemesis": one.nemesis,
                "what": Folded.of(one.what),
                "at": timeline.clock(one.begin_s),
                "lasted": f"{one.end_s - one.begin_s:.1f} s",
            }
            for one in faults
        ],
    }
