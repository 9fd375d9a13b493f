"""Checkpoints of queries over this source in which something has happened: reading, new partitions, moves, a loss."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evensplit.core.model import Cause, ClusterState, Loss, Split, SplitId
from evensplit.core.state.codec import encode
from evensplit.core.state.state import EnumeratorState

BEGAN_MS = 1_700_000_000_000
STEP_MS = 10_000

NASTY = "<script>alert('x')</script>[bold]\"&"
"""A name that a cluster may have, since it is printable and without a slash, if it is given in another way."""


def state(
    positions: Mapping[tuple[str, str], Sequence[int]], readers: int = 3, topic_id: str = "id"
) -> EnumeratorState:
    """Splits of topics, by cluster and topic: where each stands, and began. Each reader owns one in turn."""
    splits: dict[SplitId, Split] = {}
    for (cluster, topic), offsets in sorted(positions.items()):
        for number, position in enumerate(offsets):
            key = SplitId(cluster, topic, number)
            splits[key] = Split(key, topic_id, position, position, len(splits) % readers, since=1)
    names = sorted({key.cluster for key in splits})
    return EnumeratorState(
        readers,
        {name: ClusterState(name, ("127.0.0.1:1",), False, True, None, f"kafka-{name[:8]}") for name in names},
        splits,
        begun=True,
        assigned_readers=tuple(range(readers)),
        revision=1,
    )


def history(count: int = 6) -> list[EnumeratorState]:
    """The ends of batches 0 to `count - 1`. In batch 3 one is new and one moves; in batch 4 one lost."""
    found: list[EnumeratorState] = []
    for batch in range(count):
        read = 100 * (batch + 1)
        topics = {("east", "orders"): [read, 2 * read, read], ("west", "clicks"): [5 * read, 0]}
        if batch >= 3:
            topics["west", "clicks"] = [5 * read, 0, read - 300]
        one = replace(state(topics), revision=batch + 1)
        if batch >= 3:
            key = SplitId("east", "orders", 2)
            new = SplitId("west", "clicks", 2)
            changed = {key: one.splits[key]._replace(owner=0), new: one.splits[new]._replace(first=100, since=4)}
            one = replace(one, splits={**one.splits, **changed}, generation=1)
        if batch == 4:
            one = replace(one, losses=(Loss(SplitId("east", "orders", 0), Cause.AGED_OUT, 400, 450, 50),))
        found.append(one)
    return found


def line(end: EnumeratorState) -> str:
    """The end of a batch as a line of its offset file."""
    return json.dumps(encode(end))


def write_batch(
    place: Path,
    batch: int,
    *lines: str,
    at_ms: int,
    version: str = "v1",
    head: str | None = None,
    committed: bool = True,
) -> Path:
    """The offset file of a batch, with a line for each source, and its commit. `head`: instead of one with `at_ms`."""
    for name in ("offsets", "commits"):
        (place / name).mkdir(parents=True, exist_ok=True)
    usual = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": at_ms, "conf": {}})
    file = place / "offsets" / str(batch)
    file.write_text("\n".join([version, usual if head is None else head, *lines]))
    if committed:
        (place / "commits" / str(batch)).write_text("v1\n{}")
    return file


def write(
    place: Path, ends: Sequence[EnumeratorState], *, first: int = 0, committed: bool = True, others: Sequence[str] = ()
) -> Path:
    """The checkpoint at `place`, with the ends of batches from `first` on. `others`: lines of other sources."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "metadata").write_text('{"id":"0b9c"}')
    for batch, end in enumerate(ends, start=first):
        done = committed or batch < first + len(ends) - 1
        write_batch(place, batch, line(end), *others, at_ms=BEGAN_MS + STEP_MS * batch, committed=done)
    return place
