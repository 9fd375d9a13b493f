"""What follows from an edit for the sink, for the state of the query, and from a batch that is not done."""

from __future__ import annotations

from evensplit.checkpoint.checkpoint import Checkpoint
from evensplit.checkpoint.edits import batch_number, is_made_by_edit, keeps_state, naming, streams, watermark_ms
from evensplit.cli.repair.edit.outcome import Outcome
from evensplit.core.repair.reread import Reread, read_now
from evensplit.core.text import counted
from evensplit.times import time_of


def add_notes(outcome: Outcome) -> None:
    """Add what follows for the sink, for the state of the query, and from a batch that is not done."""
    checkpoint, number = outcome.checkpoint, batch_number(outcome.checkpoint)
    # Each source of a query may have said the same.
    outcome.notes[:] = dict.fromkeys(outcome.notes)
    if outcome.again:
        oldest = checkpoint.batches[0].number
        known = f" (as far as Spark has kept batches: from {oldest} on)" if oldest else ""
        outcome.notes.append(
            f"The sink gets the records of up to {counted(outcome.again, 'offset')}{known} a second time, in batches "
            "with new numbers: one that knows rows by a key, as a MERGE or an upsert does, has them once; any other "
            "has them twice"
        )
    outcome.notes.extend(read_now(checkpoint.path, number, [reread(outcome, source) for source in outcome.edits]))
    if outcome.again and keeps_state(checkpoint):
        watermark = watermark_ms(checkpoint)
        late = f", unless it is before its watermark, {time_of(watermark)}, and so late" if watermark else ""
        outcome.notes.append(f"The query keeps state: what is read again counts there once more{late}")
    if checkpoint.replays and not is_made_by_edit(checkpoint, outcome.records):
        outcome.notes.append(
            f"Batch {number} was begun and not finished: the sink may have some of its records already. It is repeated "
            "with this edit"
        )


def reread(outcome: Outcome, source: str) -> Reread:
    """What of a source was left out before."""
    chosen = _chosen(outcome.checkpoint, source)
    return Reread(chosen, outcome.edits[source], outcome.states[source], outcome.come[source])


def _chosen(checkpoint: Checkpoint, source: str) -> tuple[str, ...]:
    """What names `source` in a command about partitions; empty where no other source has one of its own."""
    states = checkpoint.newest.ours
    others = [states[one].splits for one in streams(checkpoint) if one != source]
    shared = any(key in splits for key in states[source].splits for splits in others)
    return naming(checkpoint, source) if shared else ()
