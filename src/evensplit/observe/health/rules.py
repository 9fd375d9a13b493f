"""Advice, and its rules: what each is about, when it is given, and where the documentation has more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Rule(StrEnum):
    """What is not well."""

    AWAY = "away"
    LOST = "lost"
    NOT_WRITTEN = "not-written"
    SILENT = "silent"
    STOPPED = "stopped"
    NOT_DONE = "not-done"
    EDITED = "edited"
    READERS = "readers"
    PARTITIONS = "partitions"
    LIMIT = "limit"
    ALIGNMENT = "alignment"
    LEVEL = "level"
    BY_RATE = "by-rate"
    FIXED = "fixed"
    MOVES = "moves"


PAGES: Mapping[Rule, str] = {
    Rule.AWAY: "howto/regions.md#when-a-region-is-unreachable",
    Rule.LOST: "reliability.md#what-is-promised",
    Rule.NOT_WRITTEN: "howto/writing.md#when-something-fails",
    Rule.SILENT: "howto/monitoring.md#alerts-and-a-grafana-dashboard",
    Rule.STOPPED: "dashboard.md#many-queries",
    Rule.NOT_DONE: "dashboard.md#many-queries",
    Rule.EDITED: "howto/repair.md#how-it-works",
    Rule.READERS: "howto/scaling.md#how-many-are-needed",
    Rule.PARTITIONS: "howto/skew.md#cut-it",
    Rule.LIMIT: "howto/limits.md#which-limit-was-it",
    Rule.ALIGNMENT: "howto/replay.md#what-keeps-others-back",
    Rule.LEVEL: "howto/skew.md#cut-it",
    Rule.BY_RATE: "howto/skew.md#owners-that-weigh-what-partitions-bring",
    Rule.FIXED: "howto/scaling.md#how-many-are-needed",
    Rule.MOVES: "howto/monitoring.md#alerts-and-a-grafana-dashboard",
}
"""Rule -> where the documentation has more: a page below `docs`, and the section."""

URGENT_RULES = frozenset({Rule.AWAY, Rule.LOST, Rule.NOT_WRITTEN, Rule.SILENT, Rule.STOPPED, Rule.NOT_DONE})
"""The rules about records that are not read, not written, or gone."""

NOT_RUNNING = frozenset({Rule.STOPPED, Rule.NOT_DONE, Rule.EDITED})
"""The rules about a checkpoint whose query does not run, it seems: how many readers it needs is not the question."""

WHEN: Mapping[Rule, str] = {
    Rule.AWAY: "A cluster that is read does not answer, or another one does in its place.",
    Rule.LOST: "Losses were declared in the last day, in batches that were seen (failOnDataLoss=false).",
    Rule.NOT_WRITTEN: "The last batch that was written could not be ended.",
    Rule.SILENT: "Nothing was heard of a running query for half an hour.",
    Rule.STOPPED: "A checkpoint had no new batch for ten minutes, and for ten times as long as its batches are apart, "
    "and there are unread records; or for one minute, and five times as long as any two of its batches were apart, in "
    "which records were seen to wait.",
    Rule.NOT_DONE: "The newest batch of a checkpoint is not done after half a minute, and after five times as long as "
    "the slowest of the ten before it would have taken for as many records (where that is less: ten minutes more than "
    "it took, or than twice as long as half of them did). After ten minutes at least if it is more than twice as large "
    "as these, or the first, or the query has sources that are not evensplit's.",
    Rule.EDITED: "The newest batch of a checkpoint was edited by a command, and is not done. Once not-done holds, that "
    "names the edit.",
    Rule.READERS: "More readers are needed than there are.",
    Rule.PARTITIONS: "More readers would be needed than there are partitions.",
    Rule.LIMIT: "A limit keeps batches short, readers have time to spare, and the lag grows; or, where it was looked "
    "at too seldom to tell, it takes ten minutes or more to be read at the pace that the limit allows.",
    Rule.ALIGNMENT: "Alignment keeps batches short while the lag grows, and readers have time to spare.",
    Rule.LEVEL: "In most of the last five batches, one partition had over one and a half times a reader's share, and "
    "over 10,000 offsets.",
    Rule.BY_RATE: "The same of a reader with plan=owners and balance=count, of which no partition alone has so much.",
    Rule.FIXED: "Batches follow each other at once and take five seconds or longer, of which at least half goes by "
    "whatever they read.",
    Rule.MOVES: "Partitions moved in more than half of the batches that are kept, of which there are ten at least.",
}
"""Rule -> when its advice is given."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do."""

    rule: Rule
    text: str
    """What is not well, with its figures, and what to do: a sentence or two."""

    @property
    def page(self) -> str:
        """Where the documentation has more: a page below `docs`, and the section."""
        return PAGES[self.rule]

    @property
    def urgent(self) -> bool:
        """Whether records are not read, not written, or gone."""
        return self.rule in URGENT_RULES

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types."""
        return {"rule": str(self.rule), "urgent": self.urgent, "text": self.text, "page": self.page}
