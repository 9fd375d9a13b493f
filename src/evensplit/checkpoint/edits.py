"""Edits of a checkpoint on its file system: which file an edit goes into, how it is written, and how it is taken back.

An edit is one file of the offset log: a new one, or the last one again if its batch is not done. So it is there or it
is not, whenever it is interrupted. Before it, what was there is kept in the directory `evensplit-edits` of the
checkpoint, of which Spark takes no notice, for as long as Spark keeps its batch. A record of an edit that was never
made, or is taken back, does not fit the offset log, and counts for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

from evensplit.checkpoint.checkpoint import Checkpoint
from evensplit.checkpoint.files import (
    READS_AT_ONCE,
    crc_path,
    is_directory,
    is_number,
    is_there,
    make_directory,
    numbers_in,
    read_bytes,
    reads,
    remove,
    replace,
    write_new,
)
from evensplit.checkpoint.look import Seen, check_unchanged
from evensplit.checkpoint.offset_file import object_in
from evensplit.checkpoint.places.place import Place
from evensplit.checkpoint.stands import cluster_of, start_of, states_of
from evensplit.core.json_text import parse_json
from evensplit.core.repair.advice import Edited, on_copy, on_done
from evensplit.core.repair.edit import OpenBatch, open_batch
from evensplit.core.repair.records import Record, digest, made_by
from evensplit.core.state.codec import encode
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CheckpointCorrupt, CheckpointError, CheckpointForeign, EditRefused

DIRECTORY = "evensplit-edits"
_WATERMARK, _TIME = "batchWatermarkMs", "batchTimestampMs"


def batch_number(checkpoint: Checkpoint) -> int:
    """The batch that an edit goes into: the last one, or the one after it if that is done."""
    return checkpoint.newest.number + (not checkpoint.replays)


def open_batches(checkpoint: Checkpoint, chosen: Sequence[str] = ()) -> dict[str, OpenBatch]:
    """Source -> the batch that an edit goes into. `chosen`: only these sources; none: all of this package.

    A source that the query reads twice is there once, as in `streams`. Raises CheckpointForeign if there is none, and
    EditRefused for one that cannot be edited.
    """
    ours = streams(checkpoint, chosen)
    if not ours:
        raise CheckpointForeign(
            f"{checkpoint.newest.path} has no offset of evensplit, and so there is nothing to edit. If it reads from "
            "Spark's own Kafka source, `evensplit migrate` takes it over"
        )
    found: dict[str, OpenBatch] = {}
    for source in ours:
        states = states_of(checkpoint, source, cluster_of(checkpoint, source), last=2)
        end = states[len(checkpoint.batches) - 1]
        start = start_of(checkpoint, source, states) if checkpoint.replays else end
        found[source] = open_batch(start, end, done=not checkpoint.replays)
    return found


def streams(checkpoint: Checkpoint, chosen: Sequence[str] = ()) -> list[str]:
    """The sources of this package, those that the query reads twice once: by the last of their lines.

    `chosen`: only these; none: all. Raises EditRefused if it names only some of the lines of one source: Spark starts
    all from the last one.
    """
    found: list[str] = []
    for source in checkpoint.newest.ours:
        alike = lines_of(checkpoint, source)
        named = [one for one in alike if not chosen or one in chosen]
        if named and named != alike:
            raise EditRefused(
                f"the query reads one source twice, as sources {' and '.join(alike)} of the checkpoint; --source names "
                f"{' and '.join(named)} alone, expected all of them, or none"
            )
        if named and source == alike[-1]:
            found.append(source)
    return found


def lines_of(checkpoint: Checkpoint, source: str) -> list[str]:
    """The sources that are the same as `source`, and itself: in a query that reads one twice, each has a line."""
    if source not in checkpoint.repeated:
        return [source]
    return [one for one in checkpoint.newest.ours if _texts(checkpoint, one) == _texts(checkpoint, source)]


def naming(checkpoint: Checkpoint, source: str) -> tuple[str, ...]:
    """What names `source` in a command; empty where the query has no other."""
    lines = lines_of(checkpoint, source)
    return () if len(lines) == len(checkpoint.newest.ours) else tuple(chain(*(("--source", line) for line in lines)))


def _texts(checkpoint: Checkpoint, source: str) -> list[str | None]:
    """What the batch that an edit goes into begins and ends with."""
    offsets = [batch.text.offsets.get(source) for batch in checkpoint.batches[-2:]]
    return [None if line is None else line.text for line in offsets]


def is_made_by_edit(checkpoint: Checkpoint, edits: Sequence[Record]) -> bool:
    """Whether the batch that is not done was made by an edit, and not by a query. `edits`: as `edits_of_newest`."""
    return checkpoint.replays and bool(edits) and edits[-1].before is None


def watermark_ms(checkpoint: Checkpoint) -> int:
    """The watermark of the batch that an edit goes into, in ms since 1970; 0: it has none."""
    known = _number(checkpoint.newest.text.document.get(_WATERMARK))
    if not checkpoint.replays:
        known = max(known, _number(_committed(checkpoint).get("nextBatchWatermarkMs")))
    return known


def keeps_state(checkpoint: Checkpoint) -> bool:
    """Whether the query has state, as aggregations, joins and deduplication have."""
    return is_directory(checkpoint.path / "state")


def offset_text(checkpoint: Checkpoint, states: Mapping[str, EnumeratorState], now_ms: int) -> bytes:
    """The offset file of the batch that an edit goes into, where sources end at `states`, and others as they did.

    `states` has one of the lines of a source that the query reads twice; all of them become that.
    A new file has the time `now_ms`, and the watermark that Spark has written down for its batch.
    """
    text = checkpoint.newest.text
    texts = {source: json.dumps(encode(state)) for source, state in states.items()}
    data = text.with_offsets({line: texts[source] for source in texts for line in lines_of(checkpoint, source)})
    if checkpoint.replays or not text.metadata.strip():
        return data
    metadata = text.document
    if _WATERMARK in metadata:
        metadata[_WATERMARK] = watermark_ms(checkpoint)
    if _TIME in metadata:
        metadata[_TIME] = max(_number(metadata[_TIME]), now_ms)
    lines = data.decode().split("\n")
    lines[1] = json.dumps(metadata, separators=(",", ":"))
    return "\n".join(lines).encode()


def record_of_copy(checkpoint: Checkpoint, seen: Seen, data: bytes, line: str, now_ms: int) -> dict[Path, bytes]:
    """The record of the edit `data` in a copy of `checkpoint`, by its path: what it writes itself is no query's."""
    record = _record(checkpoint, seen, data, line, now_ms)
    return {Path(DIRECTORY, str(record.number)): _text(record)}


def write_edit(checkpoint: Checkpoint, seen: Seen, data: bytes, line: str, now_ms: int) -> None:
    """Write the offset file of the batch that an edit goes into. `seen`: the checkpoint, as it was when that was read.

    Raises CheckpointError, and changes nothing that Spark reads, if the checkpoint is another one by now, as where a
    query runs, or the file cannot be written. Of two edits at once, one gets that.
    """
    check_unchanged(checkpoint.path, seen, "read")
    record = _record(checkpoint, seen, data, line, now_ms)
    path = checkpoint.path / "offsets" / str(record.batch)
    kept = checkpoint.path / DIRECTORY / str(record.number)
    make_directory(kept.parent)
    try:
        write_new(kept, _text(record))
    except FileExistsError:
        raise CheckpointError(f"{kept} is there already: another command edits {checkpoint.path}; try again") from None
    try:
        if record.before is None:
            write_new(path, data)
        else:
            replace(path, data)
    except FileExistsError:
        remove(kept)
        raise CheckpointError(
            f"{path} is there by now: a query runs on {checkpoint.path}. Stop it, and try again; nothing was edited"
        ) from None
    _remove_old(checkpoint)


def last_edit(checkpoint: Checkpoint) -> Record:
    """The edit that can be taken back: the last one, if no query has done its batch.

    Raises EditRefused, with what helps instead, if there is none, or it made the checkpoint a copy: what is undone is
    then the copy itself, which is removed.
    """
    if checkpoint.replays and (edits := edits_of_newest(checkpoint)):
        if edits[0].stays:
            raise EditRefused(
                f"the last edit, `{edits[0].line}`, is that {checkpoint.path} was made: "
                f"{on_copy(checkpoint.path, edits[0], begun=False)}"
            )
        return edits[0]
    newest = checkpoint.newest.number
    kept = {batch.number: batch.text for batch in checkpoint.batches}
    for record in takewhile(lambda record: record.batch >= min(kept), _records(checkpoint.path)):
        if record.batch in kept and digest(kept[record.batch].data) == record.after:
            # Where a checkpoint was restored around an edit, there may be newer records of older batches.
            done = _edits_of(checkpoint, record.batch, kept[record.batch].data) or [record]
            raise EditRefused(
                f"the last edit, `{record.line}`, is in batch {record.batch}, and a query has gone on from it: its "
                f"last batch is {newest}{'' if checkpoint.replays else ', which is done'}. Expected a checkpoint as "
                f"the edit left it. {on_done(checkpoint.path, done, [*_since(checkpoint, record)])}"
            )
    raise EditRefused(f"{checkpoint.path} has no edit that could be taken back: its last batch is of a query")


def _since(checkpoint: Checkpoint, record: Record) -> Iterator[Edited]:
    """Each source since the batch of `record`."""
    place = next(at for at, batch in enumerate(checkpoint.batches) if batch.number == record.batch)
    for source, batch in open_batches(checkpoint).items():
        states = states_of(checkpoint, source, cluster_of(checkpoint, source))
        ends = [states[at] for at in sorted(states) if at >= place]
        yield Edited(naming(checkpoint, source), ends, batch)


def undo_edit(checkpoint: Checkpoint, seen: Seen, record: Record) -> None:
    """Take back `record`, the last edit. Raises CheckpointError as `write_edit` does."""
    check_unchanged(checkpoint.path, seen, "read")
    path = checkpoint.path / "offsets" / str(record.batch)
    if record.before is None:
        remove(path)
    else:
        replace(path, record.before.encode())
    remove(checkpoint.path / DIRECTORY / str(record.number))


def without_own(checkpoint: Checkpoint, seen: Seen, *, edited: bool) -> Seen:
    """`seen` without what edits, and copies, have written: it is no sign of a query that runs.

    `edited`: the newest offset file is what an edit has made of it; see `edits_of_newest`.
    """
    metadata = Path("metadata")
    own = (metadata, crc_path(metadata))
    kept = {path: stat for path, stat in seen.items() if path.parts[0] != DIRECTORY and path not in own}
    if edited:
        newest = Path("offsets", str(checkpoint.newest.number))
        kept = {path: stat for path, stat in kept.items() if path not in (newest, crc_path(newest))}
    return kept


def edits_of_newest(checkpoint: Checkpoint) -> list[Record]:
    """The edits that made the newest offset file what it is, the last one first."""
    return _edits_of(checkpoint, checkpoint.newest.number, checkpoint.newest.text.data)


def _edits_of(checkpoint: Checkpoint, number: int, data: bytes) -> list[Record]:
    """The same of batch `number`, whose offset file is `data`."""
    last = list(takewhile(lambda record: record.batch >= number, _records(checkpoint.path)))
    return made_by(last[::-1], number, data)


def _records(path: Place, *, oldest_first: bool = False) -> Iterator[Record]:
    """The records, the last one first, or the other way round. Their batches only grow with their numbers.

    They are read as they are asked for, since they are many, and may be large; elsewhere, a few ahead. Raises
    CheckpointCorrupt for one that is damaged.
    """
    directory = path / DIRECTORY
    if not is_directory(directory):
        return
    paths = [directory / str(number) for number in sorted(numbers_in(directory), reverse=not oldest_first)]
    for at in range(0, len(paths), READS_AT_ONCE):
        some = paths[at : at + READS_AT_ONCE]
        for one, data in zip(some, reads(some, checked=False), strict=True):
            # Another edit has removed it since.
            if not isinstance(data, FileNotFoundError):
                yield _parsed(one, data)


def _parsed(path: Place, data: bytes) -> Record:
    try:
        document = parse_json(data.decode())
        return Record(
            int(path.name),
            str(document["edit"]),
            int(document["atMs"]),
            int(document["batch"]),
            None if document["before"] is None else str(document["before"]),
            str(document["after"]),
        )
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise CheckpointCorrupt(
            f"{path} is not the record of an edit: {error!r}. Remove it: then that edit cannot be taken back, and "
            "nothing else depends on it"
        ) from error


def _remove_old(checkpoint: Checkpoint) -> None:
    """Remove the records of batches that Spark has thrown away: nothing can be taken back in these.

    The edit is written by now. What cannot be removed stays, and is left to the next one. No query reads them, and a
    second edit at this moment has seen them, and so writes nothing.
    """
    kept = checkpoint.batches[0].number
    with suppress(CheckpointError):
        for record in takewhile(lambda record: record.batch < kept, _records(checkpoint.path, oldest_first=True)):
            remove(checkpoint.path / DIRECTORY / str(record.number))


def _record(checkpoint: Checkpoint, seen: Seen, data: bytes, line: str, now_ms: int) -> Record:
    """The record of an edit that makes the offset file of its batch `data`.

    Its number follows those in `seen`, and not those that are there by now: so of two edits that have seen the same,
    both want one number, and only one gets it.
    """
    last = max((int(path.name) for path in seen if path.parent == Path(DIRECTORY) and is_number(path.name)), default=0)
    before = checkpoint.newest.text.data.decode() if checkpoint.replays else None
    return Record(last + 1, line, now_ms, batch_number(checkpoint), before, digest(data))


def _text(record: Record) -> bytes:
    document = {
        "edit": record.line,
        "atMs": record.at_ms,
        "batch": record.batch,
        "before": record.before,
        "after": record.after,
    }
    return json.dumps(document).encode()


def _committed(checkpoint: Checkpoint) -> Mapping[str, Any]:
    """What Spark has written down with the newest batch."""
    path = checkpoint.path / "commits" / str(checkpoint.newest.number)
    lines = read_bytes(path).decode(errors="replace").split("\n") if is_there(path) else []
    return object_in(lines[1]) if len(lines) > 1 else {}


def _number(found: object) -> int:
    """A number of ms that Spark has written; 0 for anything else."""
    return found if isinstance(found, int) else 0
