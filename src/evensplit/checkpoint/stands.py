"""Where each Kafka source of a checkpoint stands, whosever it is by now: this package's, or Spark's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evensplit.checkpoint.checkpoint import Batch, Checkpoint
from evensplit.checkpoint.files import is_there
from evensplit.core.import_spark_offsets import (
    NEW_PARTITION_START,
    Positions,
    begins,
    firsts_between,
    gaps,
    positions_of_state,
    state_of_positions,
)
from evensplit.core.model import SplitId
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import offsets_text, some
from evensplit.errors import CheckpointCorrupt, CheckpointError
from evensplit.spark.options.per_cluster import DEFAULT_CLUSTER

EDITS = '"edits"'
"""What an offset has in it whose batch was edited by a command."""


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
    gaps: Mapping[SplitId, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """What that batch reads (start, end exclusive), where it is not all from `replayed` to `positions`: a command has
    edited it."""

    @property
    def next(self) -> Positions:
        """The next offsets to read."""
        return self.positions if self.replayed is None else self.replayed

    @property
    def edited(self) -> str:
        """What that batch reads of the `gaps`, in a clause; empty if it has none."""
        return some([f"{offsets_text(*ranges)} of {key}" for key, ranges in self.gaps.items()])


def stands(checkpoint: Checkpoint) -> list[Stand]:
    """Where each Kafka source of a checkpoint goes on, whosever it is."""
    found: list[Stand] = []
    newest = checkpoint.newest
    for source in [one for one in newest.text.offsets if one in newest.spark or one in newest.ours]:
        states = states_of(checkpoint, source, cluster_of(checkpoint, source))
        found.extend(stands_of(checkpoint, source, states))
    return found


def stands_of(checkpoint: Checkpoint, source: str, states: Mapping[int, EnumeratorState]) -> list[Stand]:
    """Where one source stands in each of its clusters. `states`: those after its batches, as of `states_of`."""
    end = end_of(checkpoint, states)
    start = start_of(checkpoint, source, states) if checkpoint.replays else end
    replayed, edited = (begins(start, end), gaps(start, end)) if checkpoint.replays else ({}, {})
    return [
        Stand(source, cluster, of.bootstrap_servers, positions, replayed.get(cluster), of.kafka_id, ones)
        for cluster, positions in positions_of_state(end).items()
        for of in [end.clusters[cluster]]
        for ones in [{key: ranges for key, ranges in edited.items() if key.cluster == cluster}]
    ]


def end_of(checkpoint: Checkpoint, states: Mapping[int, EnumeratorState]) -> EnumeratorState:
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
        for key, split in end_of(checkpoint, states).splits.items()
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


def ends_before(checkpoint: Checkpoint, source: str, start: EnumeratorState) -> list[EnumeratorState]:
    """Where batches ended, from the first one on that a command has edited, up to `start`, where a batch begins.

    Before that one, each batch went on where the last one ended, so `start` alone tells what they have read.
    """
    before = [batch.text.offsets.get(source) for batch in checkpoint.batches[:-1]]
    edited = [place for place, line in enumerate(before) if line is not None and EDITS in line.text]
    if not edited:
        return [start]
    last = len(checkpoint.batches) - edited[0]
    states = states_of(checkpoint, source, cluster_of(checkpoint, source), last)
    return [*(states[place] for place in sorted(states) if place < len(before)), start]


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
