"""What helps against an edit that cannot be taken back: a query has done it, or a checkpoint is a copy by it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evensplit.core.repair.edit import SKIP, OpenBatch
from evensplit.core.repair.places import left_out, not_read_again
from evensplit.core.repair.records import Record
from evensplit.core.state.edits import Jump
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import command_line, skip_text

_REWIND = "rewind"


@dataclass(frozen=True, slots=True)
class Edited:
    """One source, since the batch that was edited."""

    chosen: tuple[str, ...]
    """What names it in a command; empty where the query has no other."""
    ends: Sequence[EnumeratorState]
    """Where batches ended, from that batch to the last one."""
    batch: OpenBatch
    """The one that an edit goes into now."""

    def jumps(self, record: Record) -> list[Jump]:
        """Where `record`, an edit of that batch, led."""
        made = [edit for edit in self.ends[0].edits if (edit.line, edit.at_ms) == (record.line, record.at_ms)]
        return [jump for edit in made for jump in edit.jumps]


def on_done(path: object, records: Sequence[Record], sources: Sequence[Edited]) -> str:
    """What helps where a query has done the edits `records` of the checkpoint `path`, those of one batch, the last one
    first."""
    last, *earlier = records
    if last.stays:
        return on_copy(path, last, begun=True)
    advice = [*_on_last(path, last, sources)]
    for record in earlier:
        advice.extend(
            f"what `{record.line}` went back over in the same batch, and is not read again yet, can be left out: {skip}"
            for skip in _skips(path, record, sources)
        )
    return "; ".join(advice)


def on_copy(path: object, record: Record, *, begun: bool) -> str:
    """What helps where the checkpoint `path` is a copy by `record`. `begun`: a query has gone on from it."""
    if not record.moves:
        return (
            f"{path} is a copy, and stays one. To be rid of it, stop its query and remove it; the original is as it was"
        )
    never = "of two queries with one id, each would leave out what the other has written"
    if begun:
        return (
            f"The query was moved to {path} and goes on here. Never start the checkpoint that it was moved from, nor "
            f"remove this one: {never}. To move it once more, fork {path} with --same-query"
        )
    return (
        f"the query was moved to {path}, which stays so. If it was not started here yet, call the move off so: remove "
        f"{path}, and start the checkpoint that it was moved from. Once it was started here, never start that: {never}"
    )


def _on_last(path: object, record: Record, sources: Sequence[Edited]) -> Iterator[str]:
    command, *said = record.said
    if command == _REWIND:
        yield "What was read again has been read, and cannot be taken back"
        for skip in _skips(path, record, sources):
            yield f"what is not read again yet can be left out: {skip}"
    elif command == SKIP:
        places = [*_rewinds(path, record, sources)]
        if not places:
            yield "What was left out is not there any more: its topic is away, or was created anew"
        for rewind in places:
            yield f"{rewind} goes back to what was left out"
    elif command == "drop":
        yield (
            "What was dropped is forgotten: what the options of the query name of it is new, and read from its first "
            "offset"
        )
    elif command == "rename-cluster" and len(said) == 2:
        yield f"`{command_line(command, path, *reversed(said))}` gives the cluster its former id"


def _skips(path: object, record: Record, sources: Iterable[Edited]) -> Iterator[str]:
    """Commands by which what `record` went back over and no batch has read since is left out: all of it, since the next
    edit is all that is known after them."""
    for source in sources:
        parts = not_read_again(source.jumps(record), source.ends, source.batch)
        if parts:
            yield f"`{command_line(SKIP, path, *(skip_text(*part) for part in parts), *source.chosen)}`"


def _rewinds(path: object, record: Record, sources: Iterable[Edited]) -> Iterator[str]:
    """Commands that go back to the first offset of each partition that `record` has left out."""
    for source in sources:
        found: dict[str, Any] = {}
        end = source.batch.end
        for key, at in left_out(source.jumps(record), source.ends, source.batch).items():
            topics = found if len(end.clusters) == 1 else found.setdefault(key.cluster, {})
            topics.setdefault(key.topic, {})[str(key.partition)] = at
        if found:
            offsets = json.dumps(found, separators=(",", ":"))
            yield f"`{command_line(_REWIND, path, '--to', offsets, *source.chosen)}`"
