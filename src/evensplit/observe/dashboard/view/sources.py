"""The sources that there are pages of, and which of them a page is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from evensplit.observe.dashboard.view.query import PageQuery
from evensplit.observe.recorder import RUNS, Begun, SourceStatus
from evensplit.observe.recorder_group import RecorderGroup
from evensplit.observe.sinks import SinkStatus
from evensplit.observe.source_view import Source

Shown = SourceStatus | Begun | SinkStatus
"""What a page can be about."""


def find(group: RecorderGroup, params: PageQuery) -> Shown | None:
    """The source that `params` ask for, or the one with the latest news; None if there is none yet.

    A query without a batch stands for its first source, until it is known which of its sources are ours; and so does
    one over other sources that writes.
    """
    known = everything(group)
    if params.source is None:
        return known[-1] if known else None
    exact = [one for one in known if (source_of(one).query_id, source_of(one).number) == params.source]
    return next(iter(exact or [one for one in known if params.source == (source_of(one).query_id, 0)]), None)


def everything(group: RecorderGroup) -> Sequence[Shown]:
    """All sources, queries without a batch and others that write, in the order of `RecorderGroup.watched`."""
    found: list[Shown] = [*group.begun(), *group.watched()]
    reading = {source_of(one).query_id for one in found}
    found += [one for one in group.sinks() if one.view.query_id not in reading]
    return sorted(found, key=lambda one: (runs(one), one.heard_ms or 0))


def runs(one: Shown) -> bool:
    """Whether its query has not ended."""
    return one.runs if isinstance(one, SinkStatus) else one.stage in RUNS


def source_of(one: Shown) -> Source:
    """The source; of a query without a batch, and of one over other sources, the first."""
    if isinstance(one, SinkStatus):
        return Source(one.view.query_id, 0, one.view.name)
    return one.source if isinstance(one, Begun) else one.view.source


def choices(group: RecorderGroup, shown: Shown | None) -> Sequence[tuple[str, str, bool]]:
    """Name, value in an address, and whether it is shown, of each source; the one with the latest news first."""
    sources = [source_of(one) for one in everything(group)[::-1]]
    names = list(map(str, sources))
    many = Counter(names)
    return [
        # Two queries of one name are told apart by their ids.
        (
            name if many[name] == 1 else f"{name} ({source.query_id})",
            f"{source.number}:{source.query_id}",
            shown is not None and source == source_of(shown),
        )
        for source, name in zip(sources, names, strict=True)
    ]
