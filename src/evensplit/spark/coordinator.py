"""The driver's side of a source: observes the clusters, tells the core, and does what the core orders."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from evensplit.core.codec import same
from evensplit.core.effects import Effect, ReportLoss, ResolveStart
from evensplit.core.enumerator import Step, step
from evensplit.core.events import (
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    Event,
    ListedCluster,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
)
from evensplit.core.model import SplitId, StartBy
from evensplit.core.plan import plan_ends
from evensplit.core.report import Report
from evensplit.core.starting import EARLIEST, Bounds, Earliest, Latest, Strategy, resolve
from evensplit.core.state import EnumeratorState
from evensplit.core.story import changes
from evensplit.errors import ClusterError, DataLossError, EvenSplitError, SubscriptionError
from evensplit.kafka.client import ClusterClient
from evensplit.kafka.port import ClusterPort
from evensplit.spark.options import ClusterOptions, SourceOptions
from evensplit.spark.world import Answer, View, World

log = logging.getLogger("evensplit")

SHRINK_SIGHTINGS_MAX = 3
"""How many answers in a row may show a log that ends before a position until that is loss and not a stale answer."""


def connect_client(cluster: ClusterOptions) -> ClusterPort:
    """The real connection to a cluster."""
    return ClusterClient(cluster.id, cluster.settings)


class Coordinator:
    """Plans the batches of one source. Lives in the driver's process for as long as the query does."""

    def __init__(
        self,
        options: SourceOptions,
        *,
        readers_default: int,
        starting_default: Strategy,
        connect: Callable[[ClusterOptions], ClusterPort] = connect_client,
    ) -> None:
        self._options = options
        self._readers_default = readers_default
        self._starting_default = starting_default
        self._world = World(options.clusters, connect)
        self._latest: dict[SplitId, int] = {}
        self._unreachable: dict[str, str] = {}
        self._shrunk: dict[SplitId, frozenset[int]] = {}
        self._fixed = False
        if options.ignored:
            log.warning("these Kafka settings have no meaning here and are ignored: %s", ", ".join(options.ignored))

    def plan(self, start: EnumeratorState, *, limited: bool, fix_ends: bool = False) -> EnumeratorState:
        """The state at the end of the batch that begins at `start`; `start` itself where nothing has changed.

        An untouched `start` is given a full state with resolved positions, even where there is nothing to read.
        `limited`: `maxOffsetsPerTrigger` holds. `fix_ends` (AvailableNow): partitions and ends stay those of the first
        call. Raises what `observe` raises.
        """
        state = self.observe(start, fix_ends=fix_ends)
        positions = {key: split.position for key, split in state.splits.items() if split.position is not None}
        ends = plan_ends(positions, self._latest, self._options.offsets_max if limited else None)
        state = self._tell(state, BatchPlanned(ends)).state
        if start.clusters and same(state, start):
            return start
        for sentence in changes(start, state).sentences():
            log.info(sentence)
        return state

    def observe(self, start: EnumeratorState, *, fix_ends: bool) -> EnumeratorState:
        """`start` after a look at the clusters: with the splits that are new, their starts and their owners.

        Raises:
            SubscriptionError: topics, partitions or offsets that were asked for do not exist, and there is no state
                yet; it lists all problems of all clusters.
            ClusterError: a cluster does not answer, and there is no state yet or the ends are to be fixed; or it has
                not answered for too long.
            DataLossError: a topic was created anew, or a log ends before its position.
        """
        fresh = not start.clusters
        state = self._tell(start, BatchOpened()).state
        readers = self._options.readers or state.readers or self._readers_default
        if readers != state.readers:
            state = self._tell(state, ParallelismChanged(readers)).state
        if self._fixed:
            return state
        answers = self._world.refresh(patient=fresh or fix_ends)
        self._check(answers, fresh=fresh, complete=fix_ends)
        state = self._discover(state, answers)
        self._watch_shrinking(state, answers)
        if fix_ends and self._shrunk:
            # There is no later look that would correct a stale answer: look again, until it is gone or it is loss.
            return self.observe(start, fix_ends=True)
        self._fixed = fix_ends
        return state

    def report(self) -> Report:
        """What the last `plan` or `observe` saw."""
        return Report(dict(self._latest), dict(self._unreachable))

    def latest(self, split: SplitId) -> int:
        """The end of the log of `split`, as last seen."""
        return self._latest[split]

    def close(self) -> None:
        """Drop all connections."""
        self._world.close()

    def _tell(self, state: EnumeratorState, event: Event) -> Step:
        after = step(state, event)
        for effect in after.effects:
            if isinstance(effect, ReportLoss):
                raise DataLossError(
                    *effect.split,
                    f"{effect.detail}. To read the new topic from its beginning, start with a new checkpoint",
                )
        return after

    def _check(self, answers: Mapping[str, Answer], *, fresh: bool, complete: bool) -> None:
        """Without a state, everything must be there; to fix the ends, every cluster must have answered."""
        failed = {name: answer for name, answer in sorted(answers.items()) if isinstance(answer, ClusterError)}
        for name, error in failed.items():
            if name not in self._unreachable and not fresh:
                log.warning("cluster %s does not answer; its splits keep their positions: %s", name, error)
        for name in self._unreachable:
            if name not in failed:
                log.warning("cluster %s answers again", name)
        self._unreachable = {name: str(error) for name, error in failed.items()}
        problems = [
            f"cluster {name!r}: {problem}"
            for name, answer in sorted(answers.items())
            if fresh and isinstance(answer, View)
            for problem in (*answer.listing.missing, *answer.listing.incomplete)
        ]
        _raise_all(list(failed.values()) if fresh or complete else [], problems)

    def _discover(self, state: EnumeratorState, answers: Mapping[str, Answer]) -> EnumeratorState:
        """Tell the core what the clusters answered, and resolve the starts that it asks for."""
        listed = tuple(
            ListedCluster(cluster.id, cluster.settings.bootstrap_servers, cluster.starts_by_itself)
            for cluster in self._options.clusters
        )
        state = self._tell(state, ClustersListed(listed)).state
        self._latest = {}
        effects: list[Effect] = []
        for name, answer in sorted(answers.items()):
            if isinstance(answer, View):
                self._latest.update((SplitId(name, *key), end) for key, end in answer.latest.items())
                # An answer with gaps is not a discovery: what it lacks would later pass for new.
                if not answer.listing.incomplete:
                    after = self._tell(state, PartitionsListed(name, answer.listing.partitions))
                    state, effects = after.state, [*effects, *after.effects]
        starts: dict[SplitId, int] = {}
        errors: list[EvenSplitError] = []
        problems: list[str] = []
        for order in effects:
            if isinstance(order, ResolveStart):
                try:
                    starts.update(self._starts(order, problems))
                except ClusterError as error:
                    if order.by is StartBy.STRATEGY:
                        errors.append(error)
                    else:
                        log.warning("new splits wait until their start is known: %s", error)
        _raise_all(errors, problems)
        return self._tell(state, OffsetsResolved(starts)).state if starts else state

    def _starts(self, order: ResolveStart, problems: list[str]) -> Mapping[SplitId, int]:
        """Where the splits of `order` start; what the user's strategy cannot give goes to `problems`."""
        options = self._options.cluster(order.cluster)
        strategy: Strategy = Earliest()
        if order.by is StartBy.STRATEGY:
            strategy = (options.starting if options else None) or self._starting_default
        keys = [(split.topic, split.partition) for split in order.splits]
        ends = {key: self._latest[SplitId(order.cluster, *key)] for key in keys}
        found = resolve(strategy, self.bounds(order.cluster, ends, needed=not isinstance(strategy, Latest)))
        problems.extend(f"cluster {order.cluster!r}, startingOffsets: {problem}" for problem in found.problems)
        return {SplitId(order.cluster, *key): offset for key, offset in found.offsets.items()}

    def bounds(
        self, cluster: str, ends: Mapping[tuple[str, int], int], *, needed: bool = True
    ) -> Mapping[tuple[str, int], Bounds]:
        """The bounds of the logs that end at `ends`; their starts are looked up only if `needed`."""
        starts = self._world.port(cluster).list_offsets(dict.fromkeys(ends, EARLIEST)) if needed else ends
        # Retention can overtake an end that was looked up a moment before.
        return {key: Bounds(starts[key], max(starts[key], end)) for key, end in ends.items()}

    def _watch_shrinking(self, state: EnumeratorState, answers: Mapping[str, Answer]) -> None:
        """A log that ends before its position was cut off, unless a broker that lags behind answered."""
        seen = {name: answer.number for name, answer in answers.items() if isinstance(answer, View)}
        shrunk: dict[SplitId, frozenset[int]] = {}
        for key, split in state.splits.items():
            end = self._latest.get(key)
            if end is None or split.position is None or end >= split.position:
                continue
            shrunk[key] = self._shrunk.get(key, frozenset()) | {seen[key.cluster]}
            if len(shrunk[key]) >= SHRINK_SIGHTINGS_MAX:
                raise DataLossError(
                    *key,
                    f"its log ends at offset {end}, before the position {split.position} that was read up to: the "
                    "topic was created anew, or records were lost by an unclean leader election. Start with a new "
                    "checkpoint, from offsets that exist",
                )
        self._shrunk = shrunk


def _raise_all(errors: Sequence[EvenSplitError], problems: Sequence[str]) -> None:
    """Raise what there is: one error as it is, several as one that lists them all."""
    if len(errors) == 1 and not problems:
        raise errors[0]
    if errors or problems:
        raise SubscriptionError([*map(str, errors), *problems])
