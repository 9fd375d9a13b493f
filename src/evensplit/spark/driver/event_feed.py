"""Tells the core what metadata and clusters answered, and resolves the starts that it asks for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from evensplit.core.machine.data_loss import describe_loss
from evensplit.core.machine.effects import RefuseCluster, ReportLoss, ResolveStart
from evensplit.core.machine.enumerator import Step, step
from evensplit.core.machine.events import (
    Asked,
    ClusterPollFailed,
    Event,
    LogsObserved,
    OffsetsResolved,
    PartitionsListed,
    RecordsLost,
)
from evensplit.core.model import EpochTable, Loss, SplitId, StartBy
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted
from evensplit.errors import CheckpointForeign, ClusterError, DataLossError, line_of
from evensplit.spark.driver.intent import clusters_listed, settings_changed
from evensplit.spark.driver.metadata_poller import MetadataPoller
from evensplit.spark.driver.notices import raise_all
from evensplit.spark.driver.start_lookup import StartLookup, Starts
from evensplit.spark.options.parse import SourceOptions
from evensplit.spark.poll.cluster_monitor import ClusterMonitor
from evensplit.spark.poll.snapshot import ClusterSnapshot, PollResult

log = logging.getLogger("evensplit")

LOOK_UP_INTERVAL_S = 1.0
"""How long after a look-up of starts that failed the next one is made."""


def tell(state: EnumeratorState, event: Event) -> Step:
    """The step; raises for the orders that end the run. Losses that do not are in the state."""
    after = step(state, event)
    fatal: list[ReportLoss] = []
    for effect in after.effects:
        if isinstance(effect, RefuseCluster):
            raise ClusterError(effect.cluster, effect.detail)
        if isinstance(effect, ReportLoss) and effect.fatal:
            fatal.append(effect)
    if fatal:
        others = f" ({counted(len(fatal) - 1, 'more partition')} lost records as well)" if len(fatal) > 1 else ""
        raise DataLossError(*fatal[0].split, f"{fatal[0].detail}{others}")
    return after


def declare(state: EnumeratorState, losses: Sequence[Loss]) -> EnumeratorState:
    """The state that knows of `losses`."""
    return tell(state, RecordsLost(tuple(losses))).state if losses else state


def check_migrated(state: EnumeratorState, listed: Sequence[str]) -> None:
    """Raise CheckpointForeign if positions were migrated under an id that is none of `listed`, the ids of all clusters.

    Only what `evensplit migrate` writes has positions of a cluster and no servers. Left alone, they would be retained,
    and the cluster that they are of read from its beginning.
    """
    strange = [
        name
        for name, cluster in state.clusters.items()
        if not cluster.bootstrap_servers and cluster.removed_at_ms is None and name not in listed
    ]
    strange = [name for name in strange if any(key.cluster == name for key in state.splits)]
    if strange:
        raise CheckpointForeign(
            f"the checkpoint was migrated with the positions of cluster {', '.join(strange)}, and the options or the "
            f"metadata have {', '.join(listed) or 'none'}: these would be read from the beginning. Migrate the "
            "original checkpoint again, with the id that the query has for the cluster: "
            "`evensplit migrate FROM TO --cluster ID`"
        )


def _believed(state: EnumeratorState, name: str, view: ClusterSnapshot) -> Iterator[tuple[SplitId, int]]:
    """The ends of a cluster's logs, without those of other topics, perhaps, and of former leaders."""
    doubted = {topic for cluster, topic in state.session.doubts if cluster == name}
    late = frozenset(state.session.late.get(name, ()))
    ends = ((SplitId(name, *key), end) for key, end in view.latest.items() if key[0] not in doubted)
    return (one for one in ends if one[0] not in late) if late else ends


def _is_known(state: EnumeratorState, kafka_id: str) -> bool:
    return any(one.kafka_id == kafka_id for one in state.clusters.values() if kafka_id)


class EventFeed:
    """What the core has been told in this session, so that each answer counts once.

    `latest`: the ends of the logs by the last answers, without those of clusters that are late: one may be away, and a
    batch that is to read from it would fail, today and whenever it is done again. `late`: which these were.
    """

    def __init__(
        self,
        options: SourceOptions,
        fleet: MetadataPoller,
        world: ClusterMonitor,
        starts: StartLookup,
        monotonic: Callable[[], float],
    ) -> None:
        self._options = options
        self._fleet = fleet
        self._world = world
        self._starts = starts
        self._monotonic = monotonic
        self.latest: dict[SplitId, int] = {}
        self._retry_at: float | None = None
        self.late: Collection[str] = ()
        self._doubted: Collection[str] = ()
        self.begin()

    def begin(self) -> None:
        """A session begins: nothing has been told."""
        self._told: dict[str, int] = {}
        self._discoveries: dict[str, int] = {}
        self._fleet_told: tuple[int, int, tuple[str, ...]] | None = None
        self._epochs: dict[str, tuple[Mapping[TopicPartition, EpochTable] | None, Mapping[SplitId, EpochTable]]] = {}

    def is_behind(self, name: str, answers: Mapping[str, PollResult]) -> bool:
        """Whether the core has not been told the last answer of a cluster."""
        answer = answers.get(name)
        return isinstance(answer, ClusterSnapshot) and self._told.get(name) != answer.number

    def has_news(self) -> bool:
        """Whether a cluster is late no longer, or it is time to make a look-up of starts that failed once more."""
        if any(name not in self._world.late for name in self.late):
            return True
        return self._retry_at is not None and self._monotonic() >= self._retry_at

    def asked_ms(self, state: EnumeratorState, name: str) -> int:
        """When the last view of a cluster was asked for. It can have been there for long."""
        age_ms = int((self._monotonic() - self._world.looked_at(name)) * 1000)
        return (state.session.now_ms or 0) - max(0, age_ms)

    def tell_all(
        self, state: EnumeratorState, answers: Mapping[str, PollResult], left_out: Sequence[str], *, patient: bool
    ) -> EnumeratorState:
        """Tell the core what the metadata and the clusters answered, and resolve the starts that it asks for.

        `left_out`: clusters that this run does without. `patient`: starts that have to be looked up are waited for.
        Raises ClusterError, SubscriptionError, DataLossError.
        """
        state = self._list_clusters(state, left_out)
        self.latest = {}
        found = Starts()
        waiting = {key.cluster: True for key, split in state.splits.items() if split.position is None and split.active}
        for name, answer in sorted(answers.items()):
            if isinstance(answer, ClusterSnapshot) and name in state.clusters:
                again = self._told.get(name) == answer.number
                if not again or name in waiting:
                    state = self._list_partitions(state, name, answer, found, patient=patient)
            elif isinstance(answer, ClusterError) and self._is_other_news(state, name, answer):
                state = tell(state, ClusterPollFailed(name, str(answer))).state
        self._find_stops(state, answers, found, patient=patient)
        if self._options.fail_on_data_loss:
            found.problems.extend(
                f"{loss.split}: {describe_loss(loss, found.log_ends[loss.split])}" for loss in found.losses
            )
        raise_all(found.errors if patient else [], found.problems)
        for error in found.errors:
            log.warning("where new partitions start could not be looked up, and will be again: %s", line_of(error))
        self._retry_at = self._monotonic() + LOOK_UP_INTERVAL_S if found.errors else None
        state = declare(state, found.losses)
        if found.starts or found.stops:
            state = tell(state, OffsetsResolved(found.starts, found.stops, found.topic_ids)).state
        # One that is always slow is read by the answers that come meanwhile. Where there is a reason why it does not
        # answer now, it has to give two of them: one that is away gives no second one.
        answered = [name for name in self._world.late if self.is_behind(name, answers)]
        doubted = {name for name in answered if self._world.reason(name) and name not in self._doubted}
        self.late = [name for name in self._world.late if name not in answered or name in doubted]
        self._doubted = doubted
        for name, answer in sorted(answers.items()):
            if isinstance(answer, ClusterSnapshot):
                state = self._observe_logs(state, name, answer)
                if name in state.clusters and name not in self.late:
                    self.latest.update(_believed(state, name, answer))
        return state

    def _list_clusters(self, state: EnumeratorState, left_out: Sequence[str]) -> EnumeratorState:
        # What is known keeps its place, also in a run that does without it.
        without = tuple(name for name in left_out if name not in state.clusters)
        told = (self._fleet.answers, self._world.proven, without)
        if self._fleet_told == told and state.session.listed is not None:
            return state
        if self._fleet.complete:
            check_migrated(state, [one.id for one in self._fleet.clusters])
        wanted = settings_changed(self._options, state.settings, self._fleet.clusters)
        if wanted.settings != state.settings:
            state = tell(state, wanted).state
        # An answer that is told again is no second one.
        again = self._fleet_told is not None and self._fleet_told[0] == self._fleet.answers
        listed = clusters_listed(self._fleet, state, self._world.options, without, again=again)
        self._fleet_told = told
        return tell(state, listed).state

    def _list_partitions(
        self, state: EnumeratorState, name: str, view: ClusterSnapshot, found: Starts, *, patient: bool
    ) -> EnumeratorState:
        known = state.clusters[name]
        # An answer with gaps is not a first discovery, and never says what is not there. A cluster that is known under
        # another name was discovered before.
        if known.initial and not view.whole and not _is_known(state, view.listing.cluster_id):
            return state
        # A discovery that is looked at again is no second one; only for the first one it makes no difference.
        again = known.discovered and self._discoveries.get(name) == view.discovery
        complete = view.whole and not again
        asked, cluster_id = self._asked(state, name, view), view.listing.cluster_id
        listed = PartitionsListed(name, view.bounded, complete, cluster_id, view.unbounded, view.number, asked)
        after = tell(state, listed)
        if complete:
            self._discoveries[name] = view.discovery
        options = self._world.options(name)
        for order in after.effects:
            if not isinstance(order, ResolveStart) or options is None:
                continue
            # Where the metadata could not be read yet, nobody knows where what is to start by its word starts.
            if order.by is StartBy.EARLIEST or self._fleet.answers:
                self._starts.find(found, options, order.by, order.splits, view, patient=patient)
        return after.state

    def _find_stops(
        self, state: EnumeratorState, answers: Mapping[str, PollResult], found: Starts, *, patient: bool
    ) -> None:
        """Find the stops of splits that were read without one: until then, they are not read on."""
        for name, answer in sorted(answers.items()):
            options = self._world.options(name)
            if isinstance(answer, ClusterSnapshot) and options is not None and options.ends_stream:
                keys = [SplitId(name, one.topic, one.partition) for one in answer.bounded]
                splits = [state.splits[key] for key in keys if key in state.splits]
                endless = [one.id for one in splits if one.active and one.position is not None and one.stop is None]
                self._starts.find_stops(found, options, endless, answer, patient=patient)

    def _observe_logs(self, state: EnumeratorState, name: str, view: ClusterSnapshot) -> EnumeratorState:
        if self._told.get(name) == view.number:
            return state
        self._told[name] = view.number
        ends = {SplitId(name, *key): end for key, end in view.latest.items()}
        for key, end in view.undecided.items():
            # A position among what is not decided yet is no loss; one after the real end of the log is.
            split = state.splits.get(SplitId(name, *key))
            if split is not None and split.position is not None and ends.get(split.id, end) < split.position:
                ends[split.id] = min(split.position, end)
        starts = {SplitId(name, *key): start for key, start in view.earliest.items()}
        epochs = self._by_split(name, view.epochs)
        asked = self._asked(state, name, view)
        return tell(state, LogsObserved(name, ends, starts, view.number, epochs, asked)).state

    def _asked(self, state: EnumeratorState, name: str, view: ClusterSnapshot) -> Asked:
        return Asked(self.asked_ms(state, name), view.turned, view.words, view.listing.broker)

    def _by_split(self, name: str, tables: Mapping[TopicPartition, EpochTable]) -> Mapping[SplitId, EpochTable]:
        """Epochs of a cluster; the same object for the same tables, so that nobody has to compare them."""
        seen, named = self._epochs.get(name, (None, {}))
        if seen is not tables:
            named = {SplitId(name, *key): table for key, table in tables.items()}
            self._epochs[name] = tables, named
        return named

    def _is_other_news(self, state: EnumeratorState, name: str, answer: ClusterError) -> bool:
        return name in state.clusters and state.session.unreachable.get(name) != str(answer)
