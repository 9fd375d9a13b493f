"""How much attention a query needs, beside others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from evensplit.core.text import counted
from evensplit.explain.edited import edit_json
from evensplit.observe.health.advice import advice_of
from evensplit.observe.health.figures import OVER, Figures, figures_of
from evensplit.observe.health.rules import NOT_RUNNING, Advice
from evensplit.observe.recorder import QueryStatus, SourceStatus
from evensplit.observe.sinks import SinkView
from evensplit.observe.source_view import Source

URGENT, ADVISED, RUNNING, QUIET = 3, 2, 1, 0
"""It has failed, or records are not read, not written, or gone; there is other advice; it runs; it has ended."""

Order = tuple[int, float, float, str]
"""What to sort by."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A source, with what to do about it."""

    source: Source
    figures: Figures
    advice: tuple[Advice, ...]
    attention: int
    """URGENT, ADVISED, RUNNING or QUIET."""

    @property
    def name(self) -> str:
        """What it is called."""
        return str(self.source)

    @property
    def order(self) -> Order:
        """Those that need attention first; of these the one whose records wait longest, then the one with most lag."""
        age = self.figures.age
        return order_of(self.attention, self.name, 0 if age is None else age.least_ms, self.figures.lag or 0)

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types."""
        figures, age = self.figures, self.figures.age
        return {
            "name": self.name,
            "attention": self.attention,
            "batch": figures.batch,
            "plannedMs": figures.at_ms,
            "tookMs": figures.duration_ms,
            "done": figures.done,
            "edits": [edit_json(one) for one in figures.edits],
            "splits": figures.splits,
            "lag": figures.lag,
            "lagUnknown": figures.lag_unknown,
            "waitedMs": None if age is None else {"least": age.least_ms, "most": age.most_ms},
            "rate": figures.rate,
            "even": figures.even,
            "proof": figures.proof,
            "advice": [one.to_json() for one in self.advice],
        }


def standing_of(one: SourceStatus, now_ms: int, sink: SinkView | None = None) -> Standing:
    """The standing of a source at `now_ms`. `sink`: what its query writes."""
    advice = advice_of(one, now_ms, sink)
    attention = QUIET if one.stage in OVER else RUNNING
    if one.stage is QueryStatus.FAILED or any(found.urgent for found in advice):
        attention = URGENT
    elif advice:
        attention = ADVISED
    figures = figures_of(one)
    if any(found.rule in NOT_RUNNING for found in advice):
        # What it read in a second when it ran is not what it reads now.
        figures = replace(figures, rate=None)
    return Standing(one.view.source, figures, advice, attention)


def verdict(attentions: Collection[int]) -> str:
    """How many queries there are, and how many of them need how much attention."""
    count = Counter(attentions)
    parts = [
        f"{count[URGENT]:,} need{'s' if count[URGENT] == 1 else ''} attention" if count[URGENT] else "",
        f"{count[ADVISED]:,} {'more ' if count[URGENT] else ''}with advice" if count[ADVISED] else "",
        f"{count[QUIET]:,} ended" if count[QUIET] else "",
    ]
    said = ", ".join(part for part in parts if part)
    well = "all is well" if attentions else "nothing to watch"
    return f"{counted(len(attentions), 'query', 'queries')}: {said or well}"


def order_of(attention: int, name: str, waited_ms: int = 0, lag: int = 0) -> Order:
    """The order of a query of which no more is known."""
    return -attention, -float(waited_ms), -float(lag), name
