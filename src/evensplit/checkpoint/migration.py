"""Migrate a checkpoint to another source: which of its files change, and how.

Only the lines of Kafka sources change. For Spark a batch is its number and the offsets before and after it, so the next
batch has the number that it would have had; the last one, if it is not done, is planned again from the same offsets to
the same offsets; and state stores and sinks, which count batches, never notice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evensplit.checkpoint.checkpoint import INITIAL_VERSION, Checkpoint
from evensplit.checkpoint.files import is_there
from evensplit.checkpoint.offset_file import VOID
from evensplit.checkpoint.stands import Stand, cluster_of, end_of, stands_of, start_of, states_of
from evensplit.core.import_spark_offsets import (
    Positions,
    begins,
    lost_between,
    positions_of_state,
)
from evensplit.core.state.codec import encode
from evensplit.core.state.spark_offsets import format_positions
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import command_line, some
from evensplit.errors import CheckpointError
from evensplit.explain.changes import told


@dataclass(slots=True)
class Migration:
    """The changes to a checkpoint."""

    files: dict[Path, bytes] = field(default_factory=dict)
    """Path in the checkpoint -> its new content. All other files stay the same."""
    stands: list[Stand] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Warnings, a sentence each."""


def to_evensplit(checkpoint: Checkpoint, clusters: Mapping[str, str]) -> Migration:
    """What changes so that this source goes on.

    `clusters`: of each source that is to change, which is Spark's own by now, the id that its cluster will have.

    Raises CheckpointError where the last batch has to be planned again, and nothing says where it begins.
    """
    found = Migration()
    lines: dict[int, dict[str, str]] = {}
    for source, cluster in clusters.items():
        states = states_of(checkpoint, source, cluster)
        for place, state in states.items():
            if source in checkpoint.batches[place].spark:
                lines.setdefault(place, {})[source] = json.dumps(encode(state))
        found.stands.extend(stands_of(checkpoint, source, states))
        if checkpoint.replays:
            found.notes.extend(
                f"source {source}: batch {checkpoint.newest.number}, which is planned again, leaves out what was to be "
                f"read of {loss.split.topic}/{loss.split.partition}: {told(loss)}; with failOnDataLoss=true the query "
                "ends there, as with Spark's source"
                for loss in lost_between(start_of(checkpoint, source, states), end_of(checkpoint, states))
            )
    found.notes.extend(
        f"source {source}: it has no offsets yet, and {checkpoint.path / 'sources' / source / '0'} says that it is "
        "Spark's own Kafka source and where it began; nothing of that is migrated: with this source it begins as in a "
        "new query, so say startingOffsets=earliest, or what that file has"
        for source in checkpoint.waiting
    )
    _rewrite(found, checkpoint, lines)
    return found


def to_kafka(checkpoint: Checkpoint, sources: Sequence[str]) -> Migration:
    """What changes so that Spark's own Kafka source goes on. `sources`: those that are to change, this one's by now.

    Raises CheckpointError for a source that reads several clusters, or none, or has not found where it starts,
    and where a command has edited a batch that is not done, so that it does not read all up to its end.
    """
    found = Migration()
    lines: dict[int, dict[str, str]] = {}
    for source in sources:
        states = states_of(checkpoint, source, cluster_of(checkpoint, source))
        cluster = _only_cluster(source, end_of(checkpoint, states))
        found.notes.extend(_left_behind(source, end_of(checkpoint, states)))
        (stand,) = stands_of(checkpoint, source, states)
        _check_gaps(checkpoint, stand)
        found.stands.append(stand)
        ends: dict[int, Positions] = {
            place: positions_of_state(state).get(cluster, {}) for place, state in states.items()
        }
        oldest, before = min(states), len(checkpoint.batches) - 2
        initial = checkpoint.initial.get(source)
        if stand.replayed is not None and before in states:
            # Where the batch before it ended is asked for only to plan it again.
            ends[before] = stand.replayed
        elif stand.replayed is not None:
            _check_directories(checkpoint, source)
            initial = stand.replayed
        elif initial is None and checkpoint.batches[oldest].number == 0:
            initial = begins(EnumeratorState(), states[oldest]).get(cluster)
        if initial is None:
            initial = ends[oldest]
        # What is there and is none of these is another source's, where a query reads one source twice.
        is_first = stand.replayed is not None and before not in states
        is_used = is_there(checkpoint.path / "sources" / source / "0")
        if initial and (is_first or not is_used) and initial != checkpoint.initial.get(source):
            text = f"{INITIAL_VERSION}\n{format_positions(initial)}"
            found.files[Path("sources", source, "0")] = b"\0" + text.encode()
        for place, positions in ends.items():
            lines.setdefault(place, {})[source] = format_positions(positions) if positions else VOID
    _rewrite(found, checkpoint, lines)
    return found


def _only_cluster(source: str, state: EnumeratorState) -> str:
    clusters = list(positions_of_state(state))
    if len(clusters) != 1:
        raise CheckpointError(
            f"source {source} reads {len(clusters) or 'no'} clusters{': ' * bool(clusters)}{', '.join(clusters)}; "
            "expected exactly one. Spark's own Kafka source reads one cluster, and its offsets have no room for more. "
            "Take the others out of the options or the metadata and let the query run until they are retained"
        )
    waiting = [str(key) for key, split in state.splits.items() if split.active and split.position is None]
    if waiting:
        raise CheckpointError(
            f"source {source} has not found yet where {some(waiting)} begins; let the query run until it has"
        )
    return clusters[0]


def _check_gaps(checkpoint: Checkpoint, stand: Stand) -> None:
    """Raises CheckpointError if the batch that is planned again is one that Spark's source cannot read."""
    if stand.edited:
        raise CheckpointError(
            f"source {stand.source}: a command has edited batch {checkpoint.newest.number}, which is planned and not "
            f"done: it reads {stand.edited}, and not all up to where it ends. Spark's own Kafka source would read "
            "that, too: its offsets have no room for what is left out. Let the query do the batch first, or take the "
            f"edit back: `{command_line('undo', checkpoint.path)}`"
        )


def _check_directories(checkpoint: Checkpoint, source: str) -> None:
    """Raises CheckpointError if the directory of `source`, which says where its first batch begins, may be another."""
    if checkpoint.repeated:
        raise CheckpointError(
            f"sources {' and '.join(checkpoint.repeated)} have the same offsets in each file, so they may be one "
            "source that the query reads twice; expected different ones, since batch "
            f"{checkpoint.newest.number} is the first one of source {source} and not done, and Spark's source would "
            "look for where it begins under another number in the directory sources. Let the query finish the batch "
            "first"
        )


def _left_behind(source: str, state: EnumeratorState) -> list[str]:
    """What Spark's own Kafka source cannot know."""
    retained = [str(key) for key, split in state.splits.items() if split.removed_at_ms is not None]
    stopping = [str(key) for key, split in state.splits.items() if split.stop is not None]
    notes: list[str] = []
    if retained:
        notes.append(f"source {source}: positions of what is not read any more are left behind: {some(retained)}")
    if stopping:
        notes.append(f"source {source}: Spark's source knows no stop in a stream, and reads on: {some(stopping)}")
    return notes


def _rewrite(found: Migration, checkpoint: Checkpoint, lines: Mapping[int, Mapping[str, str]]) -> None:
    for place, texts in sorted(lines.items()):
        batch = checkpoint.batches[place]
        data = batch.text.with_offsets(texts)
        found.files[Path("offsets", batch.path.name)] = data
