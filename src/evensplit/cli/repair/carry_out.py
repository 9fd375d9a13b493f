"""What all commands that edit a checkpoint do: read it, make the edit, check it, show it, and write it if told to."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import click
from rich.console import Group
from rich.text import Text

from evensplit.checkpoint.checkpoint import Checkpoint, read_checkpoint
from evensplit.checkpoint.edits import (
    batch_number,
    edits_of_newest,
    is_made_by_edit,
    keeps_state,
    offset_text,
    open_batches,
    streams,
    watermark_ms,
    without_own,
    write_edit,
)
from evensplit.checkpoint.look import Seen, look, signs_of_life
from evensplit.checkpoint.places.place import Place
from evensplit.checkpoint.stands import ends_before
from evensplit.cli.live.connection_options import check_source
from evensplit.cli.repair.table import table
from evensplit.cli.usage import PLACE, form_option, new_console
from evensplit.core.repair.edit import OpenBatch, Told
from evensplit.core.repair.past import LeftOut, Past, past
from evensplit.core.repair.proof import Consequence, check_edit, consequences, edits_made
from evensplit.core.repair.records import Record
from evensplit.core.state.edits import Edit, as_one
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted, is_one_offset, offsets_text, plain, skip_text
from evensplit.errors import EditRefused
from evensplit.explain.edited import edit_json, edit_sentence
from evensplit.times import time_of

RANGES_NAMED_MAX = 10
"""Of more ranges that were left out before and are read now, the rest are counted."""
STOPPED = "Make sure that its query is stopped: while it waits for records, it writes nothing that would show it."

Make = Callable[[str, OpenBatch], EnumeratorState | None]
"""Source and its open batch -> the end of that batch with the edit; None: this source stays as it is."""


@dataclass
class Outcome:
    """An edit as it would be, or is, written."""

    checkpoint: Checkpoint
    seen: Seen
    told: Told
    states: dict[str, EnumeratorState] = field(default_factory=dict)
    """Source -> the end of its batch with the edit."""
    edits: dict[str, Edit] = field(default_factory=dict)
    """Source -> its edit, as one."""
    found: dict[str, tuple[Consequence, ...]] = field(default_factory=dict)
    """Source -> what it comes to."""
    come: dict[str, Past] = field(default_factory=dict)
    """Source -> what has been delivered, and left out, by the end of its batch."""
    notes: list[str] = field(default_factory=list)
    """What else one should know, a sentence each."""
    obstacles: list[str] = field(default_factory=list)
    """Why nothing can be written now."""
    written: bool = False
    more: dict[str, str | None] = field(default_factory=dict)
    """What else `--format json` has."""

    @cached_property
    def records(self) -> list[Record]:
        """The edits before this one that no query has done, the last one first."""
        return edits_of_newest(self.checkpoint)

    @property
    def again(self) -> int:
        """How many offsets are read once more."""
        return sum(map(self.again_in, self.found))

    def again_in(self, source: str) -> int:
        """How many of one source."""
        return sum(one.again for one in self.found[source])

    @property
    def never(self) -> int:
        """How many offsets are left out for good."""
        return sum(one.never for ones in self.found.values() for one in ones)

    @property
    def data(self) -> bytes:
        """The offset file with the edit."""
        return offset_text(self.checkpoint, self.states, self.told.at_ms)


def editing(command: Any) -> Any:
    """Add what all these commands have: CHECKPOINT, `--source`, `--yes`, `--assume-stopped` and `--format`."""
    command = writing("Write the edit. Without it, only show what it would change.")(command)
    return click.option("--source", "chosen", multiple=True, metavar="SOURCE", help="Only this source. Repeatable.")(
        command
    )


def writing(what: str) -> Callable[[Any], Any]:
    """Add `--yes`, whose help is `what`, `--assume-stopped` and `--format`."""

    def add(command: Any) -> Any:
        command = form_option(command)
        assumed = (
            "The query of CHECKPOINT is stopped: go ahead where files look as if it ran, or where none could show it."
        )
        command = click.option("--assume-stopped", is_flag=True, help=assumed)(command)
        return click.option("--yes", is_flag=True, help=what)(command)

    return add


checkpoint_argument = click.argument("checkpoint", type=PLACE)
"""CHECKPOINT, the directory that is edited."""


def begin(path: Place, command: str, said: str) -> Outcome:
    """Read a checkpoint that is to be edited by `evensplit COMMAND CHECKPOINT SAID`."""
    seen = look(path)
    return Outcome(read_checkpoint(path), seen, Told(command, said, round(time.time() * 1000)))


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


def finish(outcome: Outcome, *, yes: bool, assume_stopped: bool, form: str) -> None:
    """Write the edit into the checkpoint, if `yes` and nothing hinders, and print what it is. Raises as `conclude`."""
    path, told = outcome.checkpoint.path, outcome.told
    conclude(
        outcome,
        lambda: write_edit(outcome.checkpoint, outcome.seen, outcome.data, told.edit().line, told.at_ms),
        done=f"Written. Start the query as always; `evensplit undo {path}` takes the edit back until then.",
        offered=f"{path} is edited so. {STOPPED}",
        replaced=outcome.checkpoint.newest.number if outcome.checkpoint.replays else None,
        yes=yes,
        assume_stopped=assume_stopped,
        form=form,
    )


def conclude(
    outcome: Outcome,
    write: Callable[[], None],
    *,
    done: str,
    offered: str,
    replaced: int | None = None,
    yes: bool,
    assume_stopped: bool,
    form: str,
) -> None:
    """`write` the edit, if `yes` and nothing hinders, and print what it is.

    Args:
        done: the last line, if it is written.
        offered: the last sentence, if nothing hinders it: what `--yes` would do.
        replaced: the batch whose offset file is replaced; None: none is.

    Raises click.ClickException for what hinders it, and what `write` raises.
    """
    _add_notes(outcome)
    if not assume_stopped:
        outcome.obstacles.extend(
            hindrances(
                outcome.checkpoint,
                outcome.seen,
                outcome.told.at_ms,
                edited=bool(outcome.records),
                replaced=replaced,
                yes=yes,
            )
        )
    if yes and not outcome.obstacles:
        write()
        outcome.written = True
    if form == "json":
        click.echo(json.dumps(_plain(outcome), indent=1))
    else:
        _show(outcome, done if outcome.written else not_written(offered, outcome.obstacles, replaced))
    refuse(outcome.obstacles)


def not_written(offered: str, obstacles: Sequence[str], replaced: int | None) -> str:
    """The last line of a command that has written nothing: what would make it do what is `offered`."""
    if obstacles:
        return "Nothing was written."
    return f"Nothing was written. With {'--yes' if replaced is None else '--yes --assume-stopped'}, {offered}"


def refuse(obstacles: Sequence[str]) -> None:
    """Raise click.ClickException if there are any."""
    if obstacles:
        raise click.ClickException(plain("; ".join(obstacles)))


def hindrances(
    checkpoint: Checkpoint, seen: Seen, now_ms: int, *, edited: bool, replaced: int | None, yes: bool
) -> list[str]:
    """Why nothing may be written, or shown as if it might be, as long as nobody says that the query is stopped.

    Args:
        edited: the newest offset file is what an edit has made of it.
        replaced: the batch whose offset file is to be replaced or removed; None: none is.
        yes: it is to be written.
    """
    path = checkpoint.path
    signs = "; ".join(signs_of_life(path, now_ms / 1000, without_own(checkpoint, seen, edited=edited)))
    if signs and replaced is None:
        return [f"a query may still run on {path}: {signs}. Stop it; if it has ended, wait, or say --assume-stopped"]
    if signs:
        return [
            f"a query may still run on {path}: {signs}; and batch {replaced} is planned and not done, so later nothing "
            "would show it either. Stop the query, and say --assume-stopped"
        ]
    if yes and replaced is not None:
        return [
            f"batch {replaced} is planned and not done, and a query that is in it at this moment may write nothing for "
            "as long as it takes. Stop the query, and say --assume-stopped"
        ]
    return []


def _add_notes(outcome: Outcome) -> None:
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
    outcome.notes.extend(_read_now(outcome))
    if outcome.again and keeps_state(checkpoint):
        watermark = watermark_ms(checkpoint)
        late = f", unless it is before its watermark, {time_of(watermark)}, and so late" if watermark else ""
        outcome.notes.append(f"The query keeps state: what is read again counts there once more{late}")
    if checkpoint.replays and not is_made_by_edit(checkpoint, outcome.records):
        outcome.notes.append(
            f"Batch {number} was begun and not finished: the sink may have some of its records already. It is repeated "
            "with this edit"
        )


def _read_now(outcome: Outcome) -> list[str]:
    """What commands have left out, and is read by this edit, a sentence each; how to leave it out again, in the last.

    A batch that is there already cannot read on, so it leaves out only what begins where it ends.
    """
    found: list[str] = []
    at_once: list[LeftOut] = []
    later: list[LeftOut] = []
    for source, edit in outcome.edits.items():
        ends = outcome.states[source].splits
        for key in dict.fromkeys(jump.split for jump in edit.jumps if jump.to < jump.at):
            position = ends[key].position or 0
            for one in outcome.come[source].left_out(key, position):
                (at_once if one.start == position else later).append(one)
    for split, start, end, line in (*at_once, *later)[:RANGES_NAMED_MAX]:
        was = "was" if is_one_offset((start, end)) else "were"
        found.append(f"{split}: {offsets_text((start, end))} {was} left out by `{line}`, and will be read now")
    if (rest := len(at_once) + len(later) - RANGES_NAMED_MAX) > 0:
        found.append(f"So will {counted(rest, 'range')} more that were left out")
    path = outcome.checkpoint.path
    if at_once:
        said = f"`evensplit skip {path} {_ranges(at_once)} --yes --assume-stopped`"
        found.append(f"When this edit is written, and before the query is started, {said} leaves out the first of it")
    if later:
        said = f"`evensplit skip {path} {_ranges(later)}`"
        found.append(f"Start the query; when it has come to what was left out, and not before, stop it and say {said}")
    return found


def _ranges(parts: Sequence[LeftOut]) -> str:
    """What `evensplit skip` is told, to leave out the first of `parts`."""
    return " ".join(skip_text(split, start, end) for split, start, end, _ in parts[:RANGES_NAMED_MAX])


def _show(outcome: Outcome, last: str) -> None:
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
        title = f"Source {source} of the query: " if len(checkpoint.newest.text.offsets) > 1 else ""
        parts.append(Text(plain(f"{title}{edit_sentence(edit, outcome.again_in(source))}."), "bold"))
        if outcome.found[source]:
            parts.append(table(outcome.found[source]))
    parts.extend(Text(plain(f"Note: {note}.")) for note in outcome.notes)
    parts.append(
        Text("Checked: what the edit does not name stays, each offset has one reader, and no law is broken that held.")
    )
    parts.append(Text(plain(last), "bold"))
    new_console().print(Group(*parts))


def _plain(outcome: Outcome) -> Mapping[str, Any]:
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
