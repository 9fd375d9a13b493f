"""`evensplit why`: the history of one partition, from the offsets that Spark has kept in a checkpoint."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import click
from rich.box import SIMPLE
from rich.console import Group
from rich.table import Table
from rich.text import Text

from evensplit.checkpoint.offset_log import OffsetLog, read_offset_log
from evensplit.checkpoint.places.place import Place
from evensplit.cli.usage import PLACE, ending, form_option, new_console, watched
from evensplit.core.model import SplitId
from evensplit.core.text import plain, some
from evensplit.explain.split_history import Entry, SplitHistory, describe_split, split_histories
from evensplit.times import time_of

SUGGESTIONS_MAX = 5


@dataclass(frozen=True, slots=True)
class Wanted:
    """A split as it was asked for. `cluster`: None if it was left out."""

    cluster: str | None
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{'' if self.cluster is None else f'{self.cluster}/'}{self.topic}/{self.partition}"


def parse_split(context: click.Context, parameter: click.Parameter, text: str) -> Wanted:
    """What CLUSTER/TOPIC/PARTITION or TOPIC/PARTITION means."""
    parts = text.split("/")
    partition = parts[-1]
    if len(parts) not in (2, 3) or not all(parts) or not (partition.isascii() and partition.isdecimal()):
        raise click.BadParameter(
            f"{text!r}: expected CLUSTER/TOPIC/PARTITION, as in east/orders/3, or TOPIC/PARTITION, as in orders/3"
        )
    # No broker has more than 2^31 partitions, and Python refuses to read numbers of thousands of digits.
    return Wanted(parts[0] if len(parts) == 3 else None, parts[-2], int(partition[:20]))


@click.command(
    epilog=ending(
        "the history was printed",
        "the checkpoint cannot be read, or knows no such partition",
        "evensplit why /checkpoints/orders east/orders/3",
    )
)
@click.argument("checkpoint", type=PLACE)
@click.argument("split", callback=parse_split, metavar="[CLUSTER/]TOPIC/PARTITION")
@form_option
def why(checkpoint: Place, split: Wanted, form: str) -> None:
    """Show the history of one partition.

    It says which reader read which offsets, and why. It comes from the offset files in CHECKPOINT, the
    checkpointLocation of a query (a path, or a URL as s3a://bucket/orders), which may be running. Spark keeps those of
    the last 100 batches; of older ones only the result is known. CLUSTER can be left out if only one cluster has such a
    partition. It may be any name that the cluster had in these batches: the history goes on over new names. If
    another cluster has the name now, both are shown.
    """
    log = read_offset_log(checkpoint)
    found = [(source, story) for source in log.sources for story in _stories(log, source, split)]
    names = sorted({story.split for _, story in found})
    if split.cluster is None and len(names) > 1:
        raise click.ClickException(
            plain(f"{split} is in several clusters; say which: {', '.join(map(str, names[:SUGGESTIONS_MAX]))}")
        )
    if not found:
        known = sorted({key for source in log.sources for end in log.outermost(source) for key in end.state.splits})
        raise click.ClickException(plain(_unknown(split, known, log)))
    if form == "json":
        click.echo(json.dumps(_plain(checkpoint, log, found), indent=1))
    else:
        new_console().print(_page(log, split, found))


def _stories(log: OffsetLog, source: str, split: Wanted) -> Sequence[SplitHistory]:
    ends = watched("batches", log.ends(source), len(log.files))
    return split_histories(split.topic, split.partition, ends, split.cluster)


def _unknown(wanted: Wanted, known: Sequence[SplitId], log: OffsetLog) -> str:
    """What there is instead: the partitions of that topic, or names that are alike, or all topics."""
    said = f"no partition {wanted} is known in batches {log.files[0].batch} to {log.files[-1].batch}"
    of_topic = [key for key in known if key.topic == wanted.topic and wanted.cluster in (None, key.cluster)]
    if of_topic:
        return f"{said}; of this topic there {_listed(of_topic)}"
    names = {str(key) if wanted.cluster is not None else f"{key.topic}/{key.partition}": key for key in known}
    close = difflib.get_close_matches(str(wanted), list(names), SUGGESTIONS_MAX)
    if close:
        return f"{said}. Did you mean {'one of ' * (len(close) > 1)}{', '.join(str(names[name]) for name in close)}?"
    topics = sorted({f"{key.cluster}/{key.topic}" for key in known})
    return f"{said}; of topics there {_listed(topics)}" if topics else f"{said}: nothing has been found to read yet"


def _listed(things: Sequence[object]) -> str:
    return f"{'is' if len(things) == 1 else 'are'} {some(things, SUGGESTIONS_MAX)}"


def _page(log: OffsetLog, split: Wanted, found: Sequence[tuple[str, SplitHistory]]) -> Group:
    last = log.files[-1].batch
    parts: list[Text | Table] = []
    for source, story in found:
        if parts:
            parts.append(Text())
        if split.cluster not in (None, story.split.cluster):
            until = max(one.until for one in story.former if one.split.cluster == split.cluster)
            said = (
                f"What was called {split} before batch {until} goes on as {story.split}: its cluster has another name."
            )
            parts += [Text(plain(said)), Text()]
        where = f", source {source} of the query" if len(log.sources) > 1 else ""
        parts.append(Text(plain(f"{story.split}{where}"), "bold"))
        parts.append(_table(story))
        parts.append(Text(f"Now, after batch {last}: {story.stands}.", "bold"))
    if not log.committed:
        parts.append(Text(f"Batch {last} is planned, but Spark has not committed it yet."))
    parts.extend(Text(f"Note: {plain(note)}.") for note in log.notes)
    return Group(*parts)


def _table(story: SplitHistory) -> Table:
    table = Table(box=SIMPLE)
    table.add_column("batch", no_wrap=True)
    table.add_column("planned (UTC)", no_wrap=True)
    table.add_column("what happened", overflow="fold")
    rows = [(chapter.first.batch, _row(chapter)) for chapter in story.chapters]
    if story.known_from:
        stood = "not there" if story.before is None else f"already there; {describe_split(story.before)}"
        rows.append((story.known_from - 1, (f"before {story.known_from}", "", stood)))
    for _, row in sorted(rows, key=lambda one: one[0]):
        table.add_row(*map(Text, row))
    return table


def _row(chapter: Entry) -> tuple[str, str, str]:
    first, last = chapter.first, chapter.last
    batches = str(first.batch) if first is last else f"{first.batch}-{last.batch}"
    times = (
        time_of(first.planned_ms) if first is last else f"{time_of(first.planned_ms)} to\n{time_of(last.planned_ms)}"
    )
    edited = dict(chapter.edits)
    said = [f"{one}, of {time_of(edited[one])} UTC" if one in edited else one for one in chapter.sentences()]
    return batches, times, "\n".join(map(plain, said))


def _plain(checkpoint: Place, log: OffsetLog, found: Sequence[tuple[str, SplitHistory]]) -> dict[str, object]:
    return {
        "checkpoint": str(checkpoint),
        "firstBatch": log.files[0].batch,
        "lastBatch": log.files[-1].batch,
        "committed": log.committed,
        "notes": list(log.notes),
        "stories": [{"source": source, **story.to_json()} for source, story in found],
    }
