"""Finds where newly discovered splits start and stop, by the user's strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evensplit.core.model import Cause, Loss, SplitId, StartBy
from evensplit.core.state.offset_strategies import (
    Bounds,
    Earliest,
    Resolution,
    Strategy,
    TopicPartition,
    lookups,
    named_offset,
    resolve,
)
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted
from evensplit.errors import ClusterError
from evensplit.spark.options.parse import ClusterOptions
from evensplit.spark.poll.cluster_monitor import ClusterMonitor
from evensplit.spark.poll.snapshot import ClusterSnapshot

_READ_UNCOMMITTED = frozenset({"start", "stop"})
"""Purposes for which an offset may lie after the last stable offset. The stop of a stream may lie anywhere."""


@dataclass(slots=True)
class Starts:
    """Starts and stops that were found."""

    starts: dict[SplitId, int] = field(default_factory=dict)
    stops: dict[SplitId, int] = field(default_factory=dict)
    """For splits that end."""
    topic_ids: dict[SplitId, str] = field(default_factory=dict)
    """The incarnations that they are of."""
    losses: list[Loss] = field(default_factory=list)
    """Starts that were asked for and that the logs do not have; such a split starts at the beginning of its log."""
    log_ends: dict[SplitId, int] = field(default_factory=dict)
    """Where the logs of `losses` end."""
    problems: list[str] = field(default_factory=list)
    """Why others were not found, a sentence each."""
    errors: list[ClusterError] = field(default_factory=list)
    """Clusters that did not answer; their splits wait."""


class StartLookup:
    """Finds starts and stops by the strategies of each cluster's options.

    Args:
        default: the strategy of a cluster whose options have none.
    """

    def __init__(self, monitor: ClusterMonitor, default: Strategy, now_ms: Callable[[], int]) -> None:
        self._monitor = monitor
        self._default = default
        self._now_ms = now_ms

    def find(
        self,
        found: Starts,
        options: ClusterOptions,
        by: StartBy,
        splits: Iterable[SplitId],
        view: ClusterSnapshot,
        *,
        patient: bool,
    ) -> None:
        """Add the starts and stops of `splits`, all of one cluster, to `found`.

        Look-ups are made in the background, and waited for with `patient`; otherwise splits that need one are left out.
        """
        name, keys = options.id, [(split.topic, split.partition) for split in splits]
        strategy: Strategy = Earliest()
        if by is StartBy.STRATEGY:
            strategy = options.starting or self._default
        ending = options.ending if options.ends_stream else None
        try:
            began = self._resolve(name, strategy, keys, view, patient=patient, purpose="start")
            # Each order has a look-up of its own: of two in one, each would throw away what the other waits for.
            stop = f"stop-{by}"
            ended = None if ending is None else self._resolve(name, ending, keys, view, patient=patient, purpose=stop)
        except ClusterError as error:
            found.errors.append(error)
            return
        if began is None or (ending is not None and ended is None):
            return
        found.starts.update((SplitId(name, *key), offset) for key, offset in began.offsets.items())
        _note_topics(found, name, view, began.offsets)
        found.problems.extend(f"cluster {name!r}, starting offsets: {problem}" for problem in began.problems)
        logs = bounds(view, began.out_of_range, read_uncommitted=True)
        for key, wanted in began.out_of_range.items():
            split, start = SplitId(name, *key), began.offsets[key]
            found.losses.append(Loss(split, Cause.OUT_OF_RANGE, wanted, start, max(0, start - wanted)))
            found.log_ends[split] = logs[key].end
        if ended is not None:
            self._stop(found, name, view, ended)

    def find_stops(
        self, found: Starts, options: ClusterOptions, splits: Sequence[SplitId], view: ClusterSnapshot, *, patient: bool
    ) -> None:
        """Add the stops of `splits`, all of one cluster and read already, to `found`, if its options end a stream."""
        if options.ending is None or not options.ends_stream or not splits:
            return
        keys = [(split.topic, split.partition) for split in splits]
        try:
            ended = self._resolve(options.id, options.ending, keys, view, patient=patient, purpose="late-stop")
        except ClusterError as error:
            found.errors.append(error)
            return
        if ended is not None:
            self._stop(found, options.id, view, ended)

    @staticmethod
    def _stop(found: Starts, name: str, view: ClusterSnapshot, ended: Resolution) -> None:
        found.problems.extend(f"cluster {name!r}, ending offsets: {problem}" for problem in ended.problems)
        # A stop may lie past the end of the log.
        stops = {**ended.offsets, **ended.out_of_range}
        found.stops.update((SplitId(name, *key), at) for key, at in stops.items())
        _note_topics(found, name, view, stops)

    def ends(
        self, cluster: str, strategy: Strategy, keys: Sequence[TopicPartition], view: ClusterSnapshot, *, patient: bool
    ) -> Resolution | None:
        """Return where reading of `keys` ends, also after the last stable offset; None until that is looked up.

        Raises ClusterError.
        """
        return self._resolve(cluster, strategy, keys, view, patient=patient, purpose="stop")

    def _resolve(
        self,
        cluster: str,
        strategy: Strategy,
        keys: Sequence[TopicPartition],
        view: ClusterSnapshot,
        *,
        patient: bool,
        purpose: str,
    ) -> Resolution | None:
        wanted = lookups(strategy, keys, self._now_ms())
        answers = None
        if wanted:
            asked = frozenset(keys)
            partitions = [one for one in view.listing.partitions if (one.topic, one.partition) in asked]
            answers = self._monitor.look_up(cluster, purpose, wanted, partitions, patient=patient)
            if answers is None:
                return None
        return resolve(
            strategy, bounds(view, keys, read_uncommitted=purpose in _READ_UNCOMMITTED), answers, view.listing.keys
        )


def _note_topics(found: Starts, name: str, view: ClusterSnapshot, keys: Iterable[TopicPartition]) -> None:
    """Note which topics the offsets of `keys` were looked up in."""
    ids = view.listing.topic_ids
    found.topic_ids.update((SplitId(name, *key), ids[key]) for key in keys if key in ids)


def bounds(
    view: ClusterSnapshot, keys: Iterable[TopicPartition], *, read_uncommitted: bool = False
) -> Mapping[TopicPartition, Bounds]:
    """Return the bounds of the logs of `keys`, as far as `view` has them.

    Args:
        read_uncommitted: with the log end offsets that are after the last stable offsets.
    """
    log_ends = view.log_ends if read_uncommitted else {}
    # Retention can overtake an end that was looked up just before.
    return {
        key: Bounds(view.earliest[key], max(view.earliest[key], view.latest[key]), log_ends.get(key, 0))
        for key in keys
        if key in view.earliest and key in view.latest
    }


SHOWN_MAX = 3


def stops_that_differ(state: EnumeratorState, clusters: Iterable[ClusterOptions]) -> tuple[str, ...]:
    """Return one sentence for each of `clusters` with splits that stop elsewhere than its options say.

    A stop is final, so it stays; the sentence tells the user why no more records come.
    """
    endings = {cluster.id: cluster.ending if cluster.ends_stream else None for cluster in clusters}
    found: dict[str, list[str]] = {}
    for key, split in state.splits.items():
        if split.stop is None or split.removed_at_ms is not None or key.cluster not in endings:
            continue
        ending = endings[key.cluster]
        wanted = named_offset(ending, (key.topic, key.partition)) if ending is not None else None
        if ending is None:
            said = "without a stop now"
        elif wanted is None or wanted == split.stop:
            continue
        else:
            said = f"not {wanted}"
        found.setdefault(key.cluster, []).append(f"{key.topic}/{key.partition} at {split.stop}, {said}")
    return tuple(
        f"cluster {name!r}: the options name another stop now for {counted(len(splits), 'partition')}: "
        f"{'; '.join(splits[:SHOWN_MAX])}{'; …' if len(splits) > SHOWN_MAX else ''}. A stop that has been found is "
        "final, and one that had been passed is where reading stood; to read on, start a query with another checkpoint"
        for name, splits in found.items()
    )
