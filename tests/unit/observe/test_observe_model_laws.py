"""What holds of a view whatever happens to a source: sums, happenings, and that it is pure."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.model import SplitId
from evensplit.core.state.observation import Report
from evensplit.core.state.state import EnumeratorState
from evensplit.observe.source_view import Batch, Source, View, advance
from evensplit.observe.timeline import Kind
from evensplit.observe.totals import Totals
from tests.support.batches import orders, viewed

STEPS = st.lists(
    st.sampled_from(
        [
            "write",
            "read",
            "read some",
            "discover",
            "rescale",
            "shuffle",
            "lose",
            "away",
            "back",
            "retain",
            "restart",
            "batch",
        ]
    ),
    max_size=40,
)


def played(steps: list[str]) -> list[Batch]:
    """The batches of a source to which that happens."""
    script = orders({"east": 3, "west": 2})
    batches = [script.batch()]
    for number, step in enumerate(steps):
        match step:
            case "write":
                script.write(number)
            case "read":
                script.read()
            case "read some":
                script.read(1)
            case "discover":
                script.discover("west", "clicks", 1 + number % 3)
            case "rescale":
                script.rescale(1 + number % 5)
            case "shuffle":
                script.shuffle()
            case "lose":
                script.lose(SplitId("east", "orders", number % 3), number if number % 2 else None)
            case "away":
                script.unreachable["west"] = "refused"
            case "back":
                script.unreachable.clear()
            case "retain":
                script.retain("west")
            case "restart":
                script.restart()
            case _:
                batches.append(script.batch(reported=number % 4 > 0, rows=number or None))
    return [*batches, script.batch()]


def sums(totals: Totals) -> list[tuple[str, object, int]]:
    """All sums, by their names."""
    found: list[tuple[str, object, int]] = []
    for name in Totals.__dataclass_fields__:
        value = getattr(totals, name)
        if isinstance(value, tuple):
            found.append((name, None, len(value)))
        elif isinstance(value, Mapping):
            found += [(name, key, count) for key, count in value.items()]
        else:
            found.append((name, None, value))
    return found


@given(STEPS)
def test_sums_never_go_down_and_are_what_the_batches_did(steps: list[str]) -> None:
    batches = played(steps)
    view: View | None = None
    least: dict[tuple[str, object], int] = {}
    for batch in batches:
        view = advance(view, batch)
        now = {(name, key): count for name, key, count in sums(view.totals)}
        assert all(now[key] >= count for key, count in least.items())
        least = now
    assert view is not None
    explained = [viewed(batch).explanation for batch in batches]
    assert sum(view.totals.offsets.values()) == sum(view.totals.work.values()) == sum(one.offsets for one in explained)
    assert sum(view.totals.moves.values()) == sum(len(one.changes.moves) for one in explained)
    assert sum(view.totals.losses.values()) == sum(len(one.changes.losses) for one in explained)
    assert view.totals.moving == sum(bool(one.changes.moves) for one in explained)
    assert view.totals.batches == len(batches)


@given(STEPS)
def test_it_is_pure_and_a_repetition_changes_nothing(steps: list[str]) -> None:
    batches = played(steps)
    view = viewed(*batches)
    assert view == viewed(*batches) == viewed(*(one for batch in batches for one in (batch, batch)))
    assert list(view.splits()) == list(view.splits())


@given(STEPS)
def test_happenings_count_every_split_that_something_happened_to(steps: list[str]) -> None:
    view: View | None = None
    for batch in played(steps):
        view = advance(view, batch)
        found = view.explanation.changes
        told: dict[Kind, int] = {}
        for one in view.happenings:
            if one.batch == batch.number:
                told[one.kind] = told.get(one.kind, 0) + one.splits
        assert told.get(Kind.MOVED, 0) == len(found.moves)
        assert told.get(Kind.DISCOVERED, 0) == len(found.discoveries)
        assert told.get(Kind.LOST, 0) == len(found.losses)
        assert told.get(Kind.RETAINED, 0) == len(found.retained)


def test_nothing_at_all_is_a_view_too() -> None:
    view = advance(None, Batch(Source("q"), 0, EnumeratorState(), EnumeratorState(), Report()))
    assert (list(view.splits()), view.rates(), view.work[0].share, view.work[0].lag) == ([], {}, 0.0, None)
    assert str(view.source) == "q"
    assert str(Source("q", 1, "orders")) == "orders, source 1"
