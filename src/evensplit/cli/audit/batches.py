"""What the batches of a checkpoint have read, by source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import click

from evensplit.checkpoint.checkpoint import Checkpoint, Kind, read_checkpoint
from evensplit.checkpoint.places.place import Place
from evensplit.checkpoint.stands import cluster_of, stands, states_of
from evensplit.core.batch.plan import batch_ranges
from evensplit.core.import_spark_offsets import positions_of_state
from evensplit.core.model import Range, SplitId, split_called
from evensplit.core.state.edits import begins_query
from evensplit.core.state.state import EnumeratorState, edits_between, renamed_between
from evensplit.errors import CheckpointForeign

FORMER = "of the query of which the checkpoint is a fork, and not looked at: {}"


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """What one batch has read of the sources, or will read, if it is not done. `done`: by this query, and finished."""

    number: int
    done: bool
    ranges: tuple[Range, ...]


@dataclass(slots=True)
class ReadBatches:
    """The batches that a checkpoint has kept, and whose start it knows, oldest first.

    - floors: where what is known begins in each split.
    - whole: nothing was read before that.
    - servers: cluster -> its bootstrap servers, as the checkpoint has them; empty if it does not.
    - topic_ids: by cluster and topic, where they are known.
    - began: the first batch of this query; those before it are of the query of which the checkpoint is a fork.
    - renamed: former name -> last name of clusters. What was read has the last one. A name that another cluster has had
      since, or before, is not there.
    - all_known: there is no source of another kind.
    """

    batches: list[ReadBatch] = field(default_factory=list)
    floors: dict[SplitId, int] = field(default_factory=dict)
    whole: bool = True
    servers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    topic_ids: dict[tuple[str, str], str] = field(default_factory=dict)
    began: int = 0
    renamed: dict[str, str] = field(default_factory=dict)
    all_known: bool = True

    def last_name(self, split: SplitId) -> SplitId:
        """The split by the last name of its cluster."""
        return split_called(split, self.renamed)

    @property
    def former(self) -> int:
        """How many batches are of the query of which the checkpoint is a fork."""
        return sum(batch.number < self.began for batch in self.batches)

    @property
    def offsets(self) -> dict[int, int]:
        """Batch -> how many offsets it has read; empty if some source is not Kafka."""
        if not self.all_known:
            return {}
        return {batch.number: sum(one.size for one in batch.ranges) for batch in self.batches}


def read_batches(path: Place, chosen: Sequence[str] = ()) -> ReadBatches:
    """Read a checkpoint. `chosen`: only these sources; none: all.

    Raises CheckpointError for one that cannot be read, or has no Kafka source, and click.UsageError for a source that
    is not there.
    """
    checkpoint = read_checkpoint(path, whole=False)
    kafka = checkpoint.sources(Kind.SPARK, Kind.OURS)
    if not kafka:
        raise CheckpointForeign(f"{path} is the checkpoint of a query that reads no Kafka cluster")
    for source in chosen:
        if source not in kafka:
            raise click.UsageError(f"--source names source {source!r}; expected one of {', '.join(kafka)}")
    found = ReadBatches(all_known=len(kafka) == len(checkpoint.kinds))
    by_number: dict[int, list[Range]] = {}
    names = _Names()
    for source in chosen or kafka:
        _add(found, by_number, names, checkpoint, source)
    found.renamed = names.renamed()
    _follow_names(found, by_number)
    done = -1 if checkpoint.committed is None else checkpoint.committed
    found.batches = [
        ReadBatch(number, found.began <= number <= done, tuple(by_number[number])) for number in sorted(by_number)
    ]
    for stand in stands(checkpoint):
        if stand.source in (chosen or kafka):
            found.servers[stand.cluster] = stand.bootstrap_servers
    return found


def _add(
    found: ReadBatches, by_number: dict[int, list[Range]], names: _Names, checkpoint: Checkpoint, source: str
) -> None:
    states = states_of(checkpoint, source, cluster_of(checkpoint, source))
    before: EnumeratorState | None = EnumeratorState()
    if checkpoint.batches[0].number:
        # The batch before the oldest one is not there any more, so where that began is not known.
        before, found.whole = None if 0 in states else before, False
    for place, state in states.items():
        batch = checkpoint.batches[place]
        if before is not None:
            names.follow(before, state)
            if any(map(begins_query, edits_between(before, state))):
                found.began = max(found.began, batch.number)
            ranges = batch_ranges(before, state)
            by_number.setdefault(batch.number, []).extend(ranges)
            for one in ranges:
                found.floors[one.split] = min(one.start, found.floors.get(one.split, one.start))
        for split, position in _positions(state).items():
            if split not in found.floors:
                # If nothing of it was read, nothing is known of what is before.
                found.floors[split] = position
        before = state
    found.topic_ids.update(_topic_ids(before))


class _Names:
    """The names that clusters have had."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}
        self._kafka_ids: dict[str, str] = {}
        self._shared: set[str] = set()

    def follow(self, before: EnumeratorState, state: EnumeratorState) -> None:
        """Note which clusters have another name in `state` than in the one before, and which names mean others now."""
        more = renamed_between(before, state)
        self._last = {**{former: more.get(name, name) for former, name in self._last.items()}, **more}
        for name, cluster in (*before.clusters.items(), *state.clusters.items()):
            if cluster.kafka_id and self._kafka_ids.setdefault(name, cluster.kafka_id) != cluster.kafka_id:
                self._shared.add(name)

    def renamed(self) -> dict[str, str]:
        """Former name -> last name, of clusters whose names no other one has had."""
        return {
            former: name
            for former, name in self._last.items()
            if former != name and self._shared.isdisjoint((former, name))
        }


def _follow_names(found: ReadBatches, by_number: Mapping[int, list[Range]]) -> None:
    """Let all that was read have the last names of its clusters."""
    for ranges in by_number.values():
        ranges[:] = [one._replace(split=found.last_name(one.split)) for one in ranges]
    floors: dict[SplitId, int] = {}
    for split, floor in found.floors.items():
        split = found.last_name(split)
        floors[split] = min(floor, floors.get(split, floor))
    found.floors = floors


def _positions(state: EnumeratorState) -> dict[SplitId, int]:
    positions = positions_of_state(state)
    return {SplitId(cluster, *key): at for cluster, of in positions.items() for key, at in of.items()}


def _topic_ids(state: EnumeratorState | None) -> Mapping[tuple[str, str], str]:
    splits = {} if state is None else state.splits
    return {key[:2]: split.topic_id for key, split in splits.items() if split.topic_id}
