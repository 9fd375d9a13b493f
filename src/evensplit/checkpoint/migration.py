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

from evensplit.checkpoint.checkpoint import INITIAL_VERSION, Batch, Checkpoint
from evensplit.checkpoint.files import is_there
from evensplit.checkpoint.offset_file import VOID
from evensplit.core.import_spark_offsets import (
    NEW_PARTITION_START,
    Positions,
    begins,
    firsts_between,
    lost_between,
    positions_of_state,
    state_of_positions,
)
from evensplit.core.state.codec import encode
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.state.spark_offsets import format_positions
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import some
from evensplit.errors import CheckpointCorrupt, CheckpointError
from evensplit.explain.changes import told
from evensplit.spark.options.per_cluster import DEFAULT_CLUSTER


@dataclass(frozen=True, slots=True)
class Stand:
    """The positions of one source in one cluster."""

    source: str
    cluster: str
    bootstrap_servers: tuple[str, ...]
    """Empty if the checkpoint does not have them."""
    positions: Positions
    """The end of the last planned batch."""
    replayed: Positions | None = None
    """The start of that batch if it is not done, and so will be planned again."""
    kafka_id: str = ""
    """The cluster as Kafka calls it; empty if that is not known."""

    @property
    def next(self) -> Positions:
        """The next offsets to read."""
        return self.positions if self.replayed is None else self.replayed


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
        found.stands.extend(_stands(checkpoint, source, states))
        if checkpoint.replays:
            found.notes.extend(
                f"source {source}: batch {checkpoint.newest.number}, which is planned again, leaves out what was to be "
                f"read of {loss.split.topic}/{loss.split.partition}: {told(loss)}; with failOnDataLoss=true the query "
                "ends there, as with Spark's source"
                for loss in lost_between(start_of(checkpoint, source, states), _end(checkpoint, states))
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

    Raises CheckpointError for a source that reads several clusters, or none, or has not found where it starts.
    """
    found = Migration()
    lines: dict[int, dict[str, str]] = {}
    for source in sources:
        states = states_of(checkpoint, source, cluster_of(checkpoint, source))
        cluster = _only_cluster(source, _end(checkpoint, states))
        found.notes.extend(_left_behind(source, _end(checkpoint, states)))
        (stand,) = _stands(checkpoint, source, states)
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


def stands(checkpoint: Checkpoint) -> list[Stand]:
    """Where each Kafka source of a checkpoint goes on, whosever it is."""
    found: list[Stand] = []
    newest = checkpoint.newest
    for source in [one for one in newest.text.offsets if one in newest.spark or one in newest.ours]:
        states = states_of(checkpoint, source, cluster_of(checkpoint, source))
        found.extend(_stands(checkpoint, source, states))
    return found


def _stands(checkpoint: Checkpoint, source: str, states: Mapping[int, EnumeratorState]) -> list[Stand]:
    end = _end(checkpoint, states)
    replayed = begins(start_of(checkpoint, source, states), end) if checkpoint.replays else {}
    return [
        Stand(source, cluster, of.bootstrap_servers, positions, replayed.get(cluster), of.kafka_id)
        for cluster, positions in positions_of_state(end).items()
        for of in [end.clusters[cluster]]
    ]


def _end(checkpoint: Checkpoint, states: Mapping[int, EnumeratorState]) -> EnumeratorState:
    """The state after the newest batch."""
    return states[len(checkpoint.batches) - 1]


def start_of(checkpoint: Checkpoint, source: str, states: Mapping[int, EnumeratorState]) -> EnumeratorState:
    """The state before the newest batch: an empty one, if everything begins with that.

    Raises CheckpointCorrupt if something was read before and nothing says how far.
    """
    before = len(checkpoint.batches) - 2
    if before in states:
        return states[before]
    newest = checkpoint.newest
    known = [
        str(key)
        for key, split in _end(checkpoint, states).splits.items()
        if split.position is not None and split.removed_at_ms is None and split.first is None
    ]
    if newest.number and source in newest.ours and known:
        raise CheckpointCorrupt(
            f"{checkpoint.batches[before].path} has no offset for source {source}; expected how far it had come before "
            f"batch {newest.number}, which is not done and does not begin with {some(known)}. Restore the file from a "
            "copy of the checkpoint"
        )
    return EnumeratorState()


def states_of(checkpoint: Checkpoint, source: str, cluster: str, last: int | None = None) -> dict[int, EnumeratorState]:
    """The state of one source after each batch, by the place of the batch; batches are left out where it had none yet.

    `cluster`: the id of the cluster of what Spark's source has written, which says nothing of that. `last`: of so many
    batches only, the newest ones; None: of all.
    """
    states: dict[int, EnumeratorState] = {}
    oldest = 0 if last is None else len(checkpoint.batches) - last
    before: Positions | None = None
    ours: Batch | None = None
    for place, batch in enumerate(checkpoint.batches):
        if source in batch.ours:
            ours = batch
            if place >= oldest:
                states[place] = batch.ours[source]
        elif source in batch.spark:
            if ours is not None:
                before, ours = positions_of_state(ours.ours[source]).get(cluster, {}), None
            positions = batch.spark[source]
            if place >= oldest:
                firsts = _firsts(checkpoint, source, batch, before, positions)
                states[place] = state_of_positions(cluster, (), positions, firsts)
            before = positions
    return states


def _firsts(
    checkpoint: Checkpoint, source: str, batch: Batch, before: Positions | None, positions: Positions
) -> Mapping[TopicPartition, int]:
    """Where partitions begin that begin with `batch`, which ends at `positions`; `before`: where it began, if known."""
    if before is not None:
        return firsts_between(before, positions)
    if batch.number and batch is checkpoint.batches[0]:
        # Spark has thrown away the batch before it, which is done.
        return {}
    initial = checkpoint.initial.get(source)
    sources = list(batch.text.offsets)
    if checkpoint.repeated and sources.index(source) > sources.index(checkpoint.repeated[0]):
        # It is another source's, if there is one.
        initial = None
    topics = {topic for topic, _ in positions}
    if initial is not None and (not initial or any(topic in topics for topic, _ in initial)):
        return {key: initial.get(key, NEW_PARTITION_START) for key in positions}
    if checkpoint.replays and batch is checkpoint.newest:
        file = checkpoint.path / "sources" / source / "0"
        problem = "is of other topics" if initial else "is another source's" if is_there(file) else "is not there"
        raise CheckpointError(
            f"{file} {problem}; "
            f"expected where source {source} began, since batch {batch.number} is its first one, is not done, and has "
            "to be read again from there. Restore the file from a copy of the checkpoint, or let Spark finish the "
            "batch first"
        )
    return {}


def cluster_of(checkpoint: Checkpoint, source: str) -> str:
    """The id of the cluster of a source that may have been Spark's before it was this one's."""
    if not any(source in batch.spark for batch in checkpoint.batches):
        return DEFAULT_CLUSTER  # nothing is asked for it, and to know it takes a state of its own
    for batch in checkpoint.batches:
        if source in batch.ours:
            return next(iter(positions_of_state(batch.ours[source])), DEFAULT_CLUSTER)
    return DEFAULT_CLUSTER


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
