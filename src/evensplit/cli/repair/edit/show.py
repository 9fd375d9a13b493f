"""An edit for people, and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.text import Text

from evensplit.checkpoint.edits import batch_number
from evensplit.cli.repair.edit.notes import reread
from evensplit.cli.repair.edit.outcome import Outcome
from evensplit.cli.repair.edit.table import table
from evensplit.cli.usage import new_console, source_title
from evensplit.core.text import plain
from evensplit.explain.edited import edit_json, edit_sentence


def show(outcome: Outcome, last: str) -> None:
    """Print the edit for people."""
    checkpoint, number = outcome.checkpoint, batch_number(outcome.checkpoint)
    parts: list[Any] = []
    where = (
        f"Batch {number - 1} is done. The edit becomes batch {number}, which the query does first when it starts."
        if not checkpoint.replays
        else f"Batch {number} is planned and not done. The edit goes into it; the query does it first when it starts."
    )
    parts.append(Text(where))
    for source, edit in outcome.edits.items():
        several = len(checkpoint.newest.text.offsets) > 1
        title = f"{source_title(source, outcome.states[source].splits)}: " if several else ""
        parts.append(Text(plain(f"{title}{edit_sentence(edit, outcome.again_in(source))}."), "bold"))
        if outcome.found[source]:
            parts.append(table(outcome.found[source], number))
    console = new_console()
    console.print(Group(*parts))
    checked = "Checked: what the edit does not name stays, each offset has one reader, and no law is broken that held."
    for text in (*(Text(plain(f"Note: {note}.")) for note in outcome.notes), Text(checked), Text(plain(last), "bold")):
        # A command is copied: a line break within it would be copied, too. So the terminal folds it.
        console.print(text, soft_wrap="`evensplit " in text.plain)


def as_json(outcome: Outcome) -> Mapping[str, Any]:
    return {
        "checkpoint": str(outcome.checkpoint.path),
        **outcome.more,
        "batch": batch_number(outcome.checkpoint),
        "isNew": not outcome.checkpoint.replays,
        "written": outcome.written,
        "obstacles": outcome.obstacles,
        "notes": outcome.notes,
        "readAgain": outcome.again,
        "neverRead": outcome.never,
        "sources": [
            {
                "source": source,
                "edit": edit_json(edit, outcome.again_in(source)),
                "leftOut": [
                    {"split": str(split), "at": start, "to": end, "by": line}
                    for ones in reread(outcome, source).left_out().values()
                    for split, start, end, line in ones
                ],
                "partitions": [
                    {
                        "split": str(one.split),
                        "next": one.before,
                        "nextEdited": one.after,
                        "readAgain": one.again,
                        "neverRead": one.never,
                        "readByBatch": one.now,
                    }
                    for one in outcome.found[source]
                ],
            }
            for source, edit in outcome.edits.items()
        ],
    }
