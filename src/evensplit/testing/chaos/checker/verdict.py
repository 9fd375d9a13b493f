"""A verdict on a run: whether all promises held, and the findings if not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Excuse:
    """An error with which a query may end by itself, and the faults that may cause it."""

    pattern: str
    """A regular expression that is searched in the error."""
    nemeses: tuple[str, ...]
    """One of them must have been on, or have ended at most 30 s before. If the fault has clusters, or is about
    one topic, and the error names any, they must have one in common. `*` stands for any text."""
    where: str
    """The place in the documentation that says so."""
    kinds: tuple[str, ...] = ()
    """The kinds of topics that the error may be about; empty: of any kind, or about none."""
    unless: str = ""
    """A regular expression for what an error with this cause does not have; empty: nothing is known."""
    lasting: bool = False
    """Whether what the fault did lasts. Then the time of later faults, and of starts of the driver, is not counted."""


NO_PROOF = ("history", "incomplete")
"""Kinds of findings by which a run proves nothing: its history contradicts itself, or it was not a whole run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One promise that was broken, with one example."""

    kind: str
    """`lost`, `repeated`, `repeated batch differs`, `reordered`, `wrong offset`, `wrong incarnation`, `wrong place`,
    `aborted but seen`, `part of a transaction`, `made up`, `not in the log`, `changed`, `miscounted`, `stalled`,
    `liveness`, `nothing delivered`, `vanished` (from the sink), `held up` (readers of a
    topic), `ended by itself`, `memory`, or one of `NO_PROOF`."""
    what: str
    where: str
    """The query, and the partition or the process."""
    at_s: float
    """Of the first example, in seconds since the run began; -1 if unknown."""
    faults: tuple[str, ...] = ()
    """The faults that were on at this time, or had ended at most 30 s before."""
    count: int = 1
    """How many records it is about; 1 if it is not about records."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one run."""

    findings: tuple[Finding, ...]
    figures: Mapping[str, Any]
    """Name -> a number, or a mapping of numbers."""
    not_judged: tuple[str, ...]
    """Each a sentence: which promise, and why."""
    failed_faults: tuple[str, ...]
    """Faults that could not be made, or not be ended. They say nothing about the source."""

    @property
    def held(self) -> bool:
        """Whether no promise was broken, as far as they were judged."""
        return not self.findings

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, with what it does not cover."""
        empty = all(one.kind in NO_PROOF for one in self.findings)
        found = f"{'Proves nothing' if empty else 'Not held'}: {_counted(len(self.findings), 'finding')}"
        parts = ["Held" if self.held else found]
        if self.not_judged:
            # Each names its promise before the colon.
            parts.append(
                f"not judged in full: {', '.join(dict.fromkeys(one.split(':')[0] for one in self.not_judged))}"
            )
        if self.failed_faults:
            parts.append(f"{_counted(len(self.failed_faults), 'fault')} could not be made or ended")
        return "; ".join(parts)


def _counted(number: int, one: str) -> str:
    return f"{number:,} {one if number == 1 else one + 's'}"
