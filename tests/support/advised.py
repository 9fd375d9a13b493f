"""Batches whose sizes, durations and lag are given, and what is advised of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from evensplit.core.model import Held
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.observe.health.rules import Advice, Rule
from evensplit.observe.recorder import QueryStatus, SourceStatus
from evensplit.observe.source_view import Batch, Source, View, advance
from tests.support.views import behind, keys_of, state


def watched(view: View, stage: QueryStatus = QueryStatus.RUNNING, heard_ms: int | None = None) -> SourceStatus:
    return SourceStatus(view, stage, heard_ms if heard_ms is not None else view.last.at_ms, "", view.last.run_id)


def rules(found: Sequence[Advice]) -> list[str]:
    return [str(one.rule) for one in found]


def text(found: Sequence[Advice], rule: Rule) -> str:
    return next(one.text for one in found if one.rule is rule)


def played(
    ends: Sequence[EnumeratorState], *, took: Callable[[int], int | None], every_ms: int, lag: Callable[[int], int]
) -> View:
    """Batches between these states, each planned `every_ms` after the one before."""
    view: View | None = None
    for number, end in enumerate(ends[1:]):
        made = Batch(
            Source("q"),
            number,
            ends[number],
            end,
            behind(end, lambda key, now=number: lag(now)),  # type: ignore[misc]
            1_000_000 + every_ms * number,
            "run-1",
            1,
            took(number),
        )
        view = advance(view, made)
    assert view is not None
    return view


def batches(
    sizes: Callable[[int, int], int],
    *,
    count: int = 10,
    splits: int = 4,
    readers: int = 2,
    settings: Settings | None = None,
    held: tuple[Held, ...] = (),
) -> list[EnumeratorState]:
    """The ends of batches. `sizes`: batch and partition -> offsets."""
    keys = keys_of({("east", "orders"): splits})
    owners = {key: key.partition % readers for key in keys}
    at = dict.fromkeys(keys, 0)
    found = [state(owners, at, readers, settings)]
    for batch in range(count):
        at = {key: position + sizes(batch, key.partition) for key, position in at.items()}
        found.append(replace(state(owners, at, readers, settings), held=held))
    return found
