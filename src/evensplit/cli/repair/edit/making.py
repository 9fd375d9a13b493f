"""Make the edit in each source that it is about, and check it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evensplit.checkpoint.edits import open_batches, streams
from evensplit.checkpoint.stands import ends_before
from evensplit.cli.live.connection_options import check_source
from evensplit.cli.repair.edit.outcome import Outcome
from evensplit.core.repair.edit import OpenBatch
from evensplit.core.repair.past import Past, past
from evensplit.core.repair.proof import check_edit, consequences, edits_made
from evensplit.core.state.edits import as_one
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted
from evensplit.errors import EditRefused

Make = Callable[[str, OpenBatch], EnumeratorState | None]
"""Source and its open batch -> the end of that batch with the edit; None: this source stays as it is."""


def make_edit(outcome: Outcome, chosen: tuple[str, ...], make: Make) -> None:
    """Fill in what the edit comes to.

    Raises EditRefused if it cannot be made, or if it turns out to break a law, which would be a fault of this package.
    """
    _fill_in(outcome, _batches(outcome, chosen), make)


def _fill_in(outcome: Outcome, batches: Mapping[str, OpenBatch], make: Make) -> None:
    broken: list[str] = []
    for source, batch in batches.items():
        after = make(source, batch)
        if after is None:
            continue
        broken.extend(check_edit(batch, after))
        outcome.states[source], outcome.edits[source] = after, as_one(edits_made(batch, after))
        back = any(jump.to < jump.at for jump in outcome.edits[source].jumps)
        come = past(ends_before(outcome.checkpoint, source, batch.start), after) if back else Past()
        outcome.come[source], outcome.found[source] = come, consequences(batch, after, come)
    if broken:
        raise EditRefused(
            f"the edit would break {counted(len(broken), 'law')}, and nothing was written: {'; '.join(broken[:5])}. "
            "This is a fault of evensplit; please report it with this message"
        )


def _check_sources(outcome: Outcome, chosen: Sequence[str]) -> None:
    """Raise click.UsageError for `--source` with one that is not there, or is not evensplit's."""
    for source in chosen:
        check_source(source, list(outcome.checkpoint.newest.ours), "--source")


def _batches(outcome: Outcome, chosen: tuple[str, ...]) -> dict[str, OpenBatch]:
    _check_sources(outcome, chosen)
    return open_batches(outcome.checkpoint, chosen)


def newest_states(outcome: Outcome, chosen: tuple[str, ...]) -> dict[str, EnumeratorState]:
    """Source -> where it stands, of those that are edited: the `chosen` ones, or all. Raises as `streams`, too."""
    _check_sources(outcome, chosen)
    return {source: outcome.checkpoint.newest.ours[source] for source in streams(outcome.checkpoint, chosen)}


def in_those(
    outcome: Outcome,
    chosen: tuple[str, ...],
    has: Callable[[OpenBatch], bool],
    make: Callable[[OpenBatch], EnumeratorState],
) -> None:
    """Fill in an edit of the sources that have what it is about; the others stay.

    Raises EditRefused as `make` does, also where no source has it.
    """
    batches = _batches(outcome, chosen)
    anywhere = any(map(has, batches.values()))
    _fill_in(outcome, batches, lambda _, batch: make(batch) if has(batch) or not anywhere else None)
