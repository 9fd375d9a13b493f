"""Checkpoints that `evensplit migrate` is run on, and what it makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from evensplit.core.batch.plan import batch_ranges
from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import BatchOpened, BatchPlanned, ParallelismChanged, ReaderRegistered
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.state import EnumeratorState
from tests.support.checkpoints import age, checkpoint, put
from tests.support.commands import invoke

OLD = '{"t":{"1":3,"0":5}}'
NEW = '{"t":{"0":8,"1":3,"2":4}}'


def two_batches(directory: Path) -> Path:
    """A checkpoint in `directory`, of two batches that are both done."""
    return checkpoint(directory / "from", [OLD], [NEW], committed=1, initial={"0": 'v1\n{"t":{"0":2,"1":0}}'})


def migrate(place: Path, *options: str, to: Path | None = None, code: int = 0) -> tuple[str, str]:
    """Standard output and error, the latter without its breaks of lines."""
    return invoke("migrate", place, to or place.parent / "to", *options, code=code)


def migrated(place: Path, *options: str, to: Path | None = None) -> Path:
    target = to or place.parent / "to"
    migrate(place, "--yes", *options, to=target)
    age(target)
    return target


def line(place: Path, batch: int, number: int = 3) -> str:
    return (place / "offsets" / str(batch)).read_text().split("\n")[number - 1]


def state(place: Path, batch: int, number: int = 3) -> EnumeratorState:
    return decode(json.loads(line(place, batch, number)))


def ranges(start: EnumeratorState, end: EnumeratorState) -> dict[str, tuple[int, int]]:
    return {f"{part.split.topic}/{part.split.partition}": part[1:] for part in batch_ranges(start, end)}


def going_on(place: Path, ends: Mapping[int, int], *, done: bool) -> None:
    """Let the query have planned one more batch with this source, in which partition 3 begins at 6."""
    batch = len(list((place / "offsets").glob("[0-9]*")))
    start = state(place, batch - 1)
    if not start.readers:
        for event in (BatchOpened(), ParallelismChanged(2), ReaderRegistered(0), ReaderRegistered(1)):
            start = step(start, event).state
    end = step(start, BatchPlanned({key: ends[key.partition] for key in start.splits if key.partition in ends})).state
    split = next(iter(end.splits.values()))
    new = split._replace(id=split.id._replace(partition=3), position=9, first=6, owner=1)
    end = decode(
        encode(EnumeratorState(2, end.clusters, {**end.splits, new.id: new}, begun=True, assigned_readers=(0, 1)))
    )
    lines = (place / "offsets" / str(batch - 1)).read_text().split("\n")
    put(place / "offsets" / str(batch), "\n".join([*lines[:2], json.dumps(encode(end)), *lines[3:]]).encode())
    if done:
        put(place / "commits" / str(batch), b"v1\n{}")
