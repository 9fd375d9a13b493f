"""What to do about a query whose checkpoint is followed in a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from evensplit.checkpoint.history import durations
from evensplit.checkpoint.places.place import Place
from evensplit.cli.live.lags import LogEnds
from evensplit.explain.readers_needed import ReadersNeeded
from evensplit.observe.health.advice import advice_of
from evensplit.observe.health.rules import Advice
from evensplit.observe.history.lag_history import LagHistory
from evensplit.observe.recorder import QueryStatus, SourceStatus
from evensplit.observe.source_view import View, look, with_durations


@dataclass(slots=True)
class Advisor:
    """Keeps the lag over time, which advice depends on; a checkpoint has none of it."""

    checkpoint: Place
    _lags: dict[str, LagHistory] = field(default_factory=dict)

    def look(self, views: Mapping[str, View], ends: LogEnds, at_ms: int) -> dict[str, View]:
        """The views with the lag over time, and how long batches took, after a look at `ends`."""
        found: dict[str, View] = {}
        for name, view in views.items():
            before = replace(view, lags=self._lags.get(name, LagHistory()))
            seen = look(before, ends.report(name, view), at_ms)
            self._lags[name] = seen.lags
            found[name] = with_durations(seen, durations(self.checkpoint, view.work))
        return found


def advice_now(view: View, at_ms: int, needed: ReadersNeeded | None) -> tuple[Advice, ...]:
    """What to do about a query that is known from its checkpoint; `view` as `Advisor.look` has it."""
    return advice_of(SourceStatus(view, QueryStatus.UNKNOWN, view.last.at_ms), at_ms, needed=needed)
