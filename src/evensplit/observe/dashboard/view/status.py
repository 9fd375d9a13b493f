"""The state of a query, in the words at the top of the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evensplit.observe.recorder import RUNS, Begun, QueryStatus, SourceStatus
from evensplit.observe.sinks import SinkStatus
from evensplit.observe.source_view import View

SHOWN_MAX = 3
"""How many clusters, and how many servers of each, are named."""

_STAGES: Mapping[QueryStatus, tuple[str, str]] = {
    QueryStatus.STARTING: ("off", "starting"),
    QueryStatus.RUNNING: ("good", "running"),
    QueryStatus.IDLE: ("good", "running, nothing new"),
    QueryStatus.ENDED: ("off", "ended"),
    QueryStatus.FAILED: ("bad", "failed"),
    QueryStatus.UNKNOWN: ("off", "from a checkpoint"),
}


@dataclass(frozen=True, slots=True)
class Status:
    """The state in words. `tone`: good, bad or off. `since_ms`: since when; None: not shown."""

    tone: str
    said: str
    since_ms: int | None = None


def status_of(watched: SourceStatus) -> Status:
    """The state of a source's query. It waits if it can read nothing; else clusters that are away are named."""
    view, stage = watched.view, watched.stage
    if stage is QueryStatus.WAITING:
        return Status("bad", f"waiting for {_named(_servers(view, _read(view)))}", watched.heard_ms)
    if stage in (QueryStatus.RUNNING, QueryStatus.IDLE) and view.away:
        away = _servers(view, sorted(view.away))
        if view.waits:
            since = [one.unreachable_since_ms for one in view.explanation.clusters if one.id in view.away]
            known = [one for one in since if one is not None]
            return Status("bad", f"waiting for {_named(away)}", min(known, default=None))
        return Status("bad", f"running, {_some(list(away))} {'is' if len(away) == 1 else 'are'} away")
    return Status(*_STAGES[stage], watched.heard_ms if stage is QueryStatus.STARTING else None)


def status_of_begun(begun: Begun) -> Status:
    """The same for a query without a batch."""
    if begun.stage is QueryStatus.WAITING:
        return Status("bad", f"waiting for {awaited(begun)}", begun.since_ms)
    if begun.stage is QueryStatus.RUNNING:
        return Status("good", "reading its first batch", begun.since_ms)
    stage = QueryStatus.STARTING if begun.stage in RUNS else begun.stage
    return Status(*_STAGES[stage], begun.since_ms)


def status_of_sink(sink: SinkStatus) -> Status:
    """The same for a query over other sources."""
    return Status("good", "writes, and reads other sources") if sink.runs else Status("off", "ended", sink.heard_ms)


def awaited(begun: Begun) -> str:
    """The clusters that have to answer before the first batch, with their servers."""
    return _named(begun.awaited) or "its clusters"


def _read(view: View) -> Sequence[str]:
    return [one.id for one in view.explanation.clusters if one.removed_at_ms is None]


def _servers(view: View, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
    clusters = view.last.end.clusters
    return {name: clusters[name].bootstrap_servers if name in clusters else () for name in names}


def _named(servers: Mapping[str, Sequence[str]]) -> str:
    """Clusters with their servers: `east (a:9092, b:9092), west (c:9092) and 2 more`."""
    return _some([f"{name} ({', '.join(_first(ones))})" if ones else name for name, ones in servers.items()])


def _first(servers: Sequence[str]) -> Sequence[str]:
    return servers if len(servers) <= SHOWN_MAX else [*servers[:SHOWN_MAX], "…"]


def _some(names: Sequence[str]) -> str:
    left = len(names) - SHOWN_MAX
    return f"{', '.join(names[:SHOWN_MAX])} and {left:,} more" if left > 0 else " and ".join(_joined(names))


def _joined(names: Sequence[str]) -> Sequence[str]:
    return [", ".join(names[:-1]), names[-1]] if len(names) > 1 else names
