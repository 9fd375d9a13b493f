"""Tells the core the results of the polls of metadata and clusters, and looks up the starts that it asks for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from evensplit.core.loss_text import describe_loss
from evensplit.core.machine.effects import RefuseCluster, ReportLoss, ResolveStart
from evensplit.core.machine.enumerator import Step, step
from evensplit.core.machine.events import (
    Asked,
    ClusterPollFailed,
    ClustersListed,
    Event,
    ListedCluster,
    LogsObserved,
    OffsetsResolved,
    PartitionsListed,
    ReadLogsPolled,
    RecordsLost,
    SettingsChanged,
    TimePassed,
)
from evensplit.core.model import EpochTable, Split, SplitId, StartBy
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.state.open_questions import unsure_clusters
from evensplit.core.state.reader_schema import changes
from evensplit.core.state.settings import DECLARE, DISCOVERY_INTERVAL_MS_DEFAULT, FAIL, Settings
from evensplit.core.state.state import EnumeratorState, Session
from evensplit.core.text import counted
from evensplit.errors import CheckpointForeign, ClusterError, DataLossError, SchemaChanged, line_of
from evensplit.spark.driver.agenda import Due
from evensplit.spark.driver.metadata_poller import MetadataPoller
from evensplit.spark.driver.notices import raise_all
from evensplit.spark.driver.start_lookup import StartLookup, Starts
from evensplit.spark.options.parse import ClusterOptions, SourceOptions
from evensplit.spark.poll.cluster_monitor import ClusterMonitor
from evensplit.spark.poll.scheduler import Scheduler
from evensplit.spark.poll.snapshot import ClusterSnapshot, PollResult

log = logging.getLogger("evensplit")

_CLAUSES_MAX = 20
"""So many differences of a schema are said."""

LOOK_UP_INTERVAL_S = 1.0
"""How long, in s, after a failed look-up of starts the next one is made."""


def tell(state: EnumeratorState, event: Event, advance: Callable[[EnumeratorState, Event], Step] = step) -> Step:
    """Make one step of the core. Raises for the orders that end the run; other losses are in the state."""
    after = advance(state, event)
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


def settings_changed(options: SourceOptions, settings: Settings, clusters: Iterable[ClusterOptions]) -> SettingsChanged:
    """Return the event for the options of today.

    Args:
        settings: those so far.
        clusters: the clusters that are to be read.
    """
    interval_ms = options.discovery_interval_ms
    return SettingsChanged(
        replace(
            options.settings,
            bounded=settings.bounded or any(cluster.ends_stream for cluster in clusters),
        ),
        eligible=options.pins,
        discovery=interval_ms > 0,
        discovery_interval_ms=interval_ms if interval_ms > 0 else DISCOVERY_INTERVAL_MS_DEFAULT,
        loss=FAIL if options.reading.fail_on_data_loss else DECLARE,
    )


def check_schemas(settings: Settings, options: SourceOptions) -> None:
    """Raise SchemaChanged if keys or values would be decoded by another schema, format or framing than by `settings`,
    those of a checkpoint, and the user has not accepted it. A checkpoint from before they were kept takes any; what the
    options leave open is not compared."""
    if not options.schemas_known:
        return
    found: list[str] = []
    fingerprints: list[str] = []
    for side, before, after in (
        ("key", settings.key_schema, options.settings.key_schema),
        ("value", settings.value_schema, options.settings.value_schema),
    ):
        if not before.is_followed_by(after) and after.fingerprint not in options.accepted_schemas:
            found.append(f"the column {side}: {_some(changes(before, after))}")
            fingerprints.append(after.fingerprint)
    if found:
        raise SchemaChanged(
            f"keys or values would be decoded in another way than in the checkpoint: {'. And '.join(found)}. A batch "
            "that is repeated would have other rows than before. If that is meant, set acceptSchema to "
            f"{','.join(fingerprints)}; otherwise give the former schema, format and framing: if a registry has a "
            "newer version, the former one by value.subject or key.subject, as in orders-value:1"
        )


def _some(clauses: Sequence[str]) -> str:
    more = len(clauses) - _CLAUSES_MAX
    return "; ".join((*clauses[:_CLAUSES_MAX], *([f"and {more} more"] if more > 0 else [])))


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


class EventFeed:
    """Tells the core what was polled. Each poll has its number, by which the core ignores what it has seen."""

    def __init__(
        self,
        options: SourceOptions,
        metadata: MetadataPoller,
        monitor: ClusterMonitor,
        starts: StartLookup,
        scheduler: Scheduler,
        advance: Callable[[EnumeratorState, Event], Step] = step,
    ) -> None:
        self._options = options
        self._metadata = metadata
        self._monitor = monitor
        self._starts = starts
        self._scheduler = scheduler
        self._advance = advance
        self.latest: dict[SplitId, int] = {}
        """The ends of the logs by the last polls, without late clusters: one may be unreachable, and a batch that reads
        from it would fail, now and whenever it is done again."""
        self.late: Collection[str] = ()
        """The late clusters that `latest` leaves out."""
        self._retry_s: float | None = None
        self._answered_once: Collection[str] = ()
        self.begin()

    def begin(self) -> None:
        """Begin a session: the core has been told nothing."""
        self._listed: tuple[int, int, tuple[str, ...]] | None = None
        self._epochs: dict[str, tuple[Mapping[TopicPartition, EpochTable] | None, Mapping[SplitId, EpochTable]]] = {}
        self._told_s = self._scheduler.monotonic()

    def tell(self, state: EnumeratorState, event: Event) -> EnumeratorState:
        """Return the state after `event`; raises for the orders that end the run."""
        if isinstance(event, TimePassed):
            self._told_s = self._scheduler.monotonic()
        return tell(state, event, self._advance).state

    def dues(self, session: Session) -> Iterator[Due]:
        """When to plan again: for polls that the core waits for, and for starts whose look-up failed."""
        if self._retry_s is not None:
            yield Due(self._retry_s)
        for name in unsure_clusters(session):
            yield Due(cluster=name, poll=session.observed.get(name, 0))
        for name, read in session.read.items():
            compared = session.compared.get(name, (0, 0))[0]
            for one in read:
                if one.polls is None:
                    yield Due()
                elif not one.is_before(compared):
                    yield Due(cluster=name, poll=one.polls)

    def take(
        self, state: EnumeratorState, answers: Mapping[str, PollResult], left_out: Sequence[str], *, patient: bool
    ) -> EnumeratorState:
        """Tell the core the results of all polls, and resolve the starts that it asks for.

        Args:
            left_out: clusters that this run does without.
            patient: wait for starts that have to be looked up.

        Raises ClusterError, SubscriptionError, DataLossError.
        """
        self._monitor.forget_awaited()
        before = state.session.observed
        state = self._list_clusters(state, left_out)
        self.latest = {}
        found = Starts()
        waiting = {key.cluster: True for key, split in state.splits.items() if split.position is None and split.active}
        for name, answer in sorted(answers.items()):
            if isinstance(answer, ClusterSnapshot) and name in state.clusters:
                if _is_new(before, name, answer) or name in waiting:
                    state = self._list_partitions(state, name, answer, found, patient=patient)
            elif isinstance(answer, ClusterError) and name in state.clusters:
                state = self.tell(state, ClusterPollFailed(name, str(answer)))
        self._find_stops(state, answers, found, patient=patient)
        state = self._begin_splits(state, found, patient=patient)
        self._leave_out_late(before, answers)
        for name, answer in sorted(answers.items()):
            if isinstance(answer, ClusterSnapshot):
                if _is_new(before, name, answer):
                    state = self._observe_logs(state, name, answer)
                if name in state.clusters and name not in self.late:
                    self.latest.update(_valid_ends(state, name, answer))
        return self.take_read(state, answers)

    def take_read(self, state: EnumeratorState, answers: Mapping[str, PollResult]) -> EnumeratorState:
        """Tell the core which of the ranges that were read are still in the logs, and nothing else."""
        for name in sorted(state.session.read):
            answer = answers.get(name)
            if isinstance(answer, ClusterSnapshot) and any(
                one.is_before(answer.number) for one in state.session.read[name]
            ):
                listed = {SplitId(name, one.topic, one.partition): one.topic_id for one in answer.listing.partitions}
                starts = {
                    SplitId(name, *key): start
                    for key, start in answer.earliest.items()
                    if not _may_be_another(
                        state.splits.get(SplitId(name, *key)), listed, answer.log_ends.get(key, answer.latest.get(key))
                    )
                }
                discovery = answer.discovery if answer.whole else 0
                asked = self._asked(state, name, answer)
                state = self.tell(state, ReadLogsPolled(name, listed, starts, answer.number, discovery, asked))
        return state

    def _begin_splits(self, state: EnumeratorState, found: Starts, *, patient: bool) -> EnumeratorState:
        """Tell the core the starts that were found, and raise or log why others were not."""
        if state.session.loss == FAIL:
            found.problems.extend(
                f"{loss.split}: {describe_loss(loss, found.log_ends[loss.split])}" for loss in found.losses
            )
        raise_all(found.errors if patient else [], found.problems)
        for error in found.errors:
            log.warning(
                "starts of new partitions could not be looked up; trying again in %g s: %s",
                LOOK_UP_INTERVAL_S,
                line_of(error),
            )
        self._retry_s = self._scheduler.monotonic() + LOOK_UP_INTERVAL_S if found.errors else None
        if found.losses:
            state = self.tell(state, RecordsLost(tuple(found.losses)))
        if found.starts or found.stops:
            state = self.tell(state, OffsetsResolved(found.starts, found.stops, found.topic_ids))
        return state

    def _leave_out_late(self, before: Mapping[str, int], answers: Mapping[str, PollResult]) -> None:
        # A cluster that is always slow is read by the polls that it answers meanwhile. If there is a reason why it
        # does not answer now, it has to answer two of them: one that is unreachable does not answer a second one.
        late = self._monitor.late
        answered = [name for name in late if _is_new(before, name, answers.get(name))]
        once = {name for name in answered if self._monitor.reason(name) and name not in self._answered_once}
        self.late = [name for name in late if name not in answered or name in once]
        self._answered_once = once

    def _list_clusters(self, state: EnumeratorState, left_out: Sequence[str]) -> EnumeratorState:
        # Known clusters keep their positions, also in a run that does without them.
        without = tuple(name for name in left_out if name not in state.clusters)
        listed = (self._metadata.answers, self._monitor.proven, without)
        if self._listed == listed and state.session.listed is not None:
            return state
        if self._metadata.complete:
            check_migrated(state, [one.id for one in self._metadata.clusters])
        wanted = settings_changed(self._options, state.settings, self._metadata.clusters)
        if wanted.settings != state.settings:
            state = self.tell(state, wanted)
        self._listed = listed
        return self.tell(state, self._clusters_listed(state, without))

    def _clusters_listed(self, state: EnumeratorState, left_out: Collection[str]) -> ClustersListed:
        """Return the listing of the clusters, without those that are `left_out`: one may be a known one, renamed."""
        listed: list[ListedCluster] = []
        for cluster in self._metadata.clusters:
            if cluster.id in left_out:
                continue
            proven, known = self._monitor.options(cluster.id), state.clusters.get(cluster.id)
            servers = (proven or cluster).settings.bootstrap_servers
            if proven is None and known is not None and known.bootstrap_servers:
                # Servers that have not led to the cluster yet do not become part of the state.
                servers = known.bootstrap_servers
            listed.append(ListedCluster(cluster.id, servers, cluster.starts_by_itself, cluster.subscription))
        complete = self._metadata.complete and not left_out
        return ClustersListed(tuple(listed), self._metadata.confirmed, complete, self._metadata.answers)

    def _list_partitions(
        self, state: EnumeratorState, name: str, view: ClusterSnapshot, found: Starts, *, patient: bool
    ) -> EnumeratorState:
        known = state.clusters[name]
        # An incomplete listing is no first discovery. A cluster that is known by another name was discovered before.
        if known.initial and not view.whole and not _is_known(state, view.listing.cluster_id):
            return state
        asked, kafka_id = self._asked(state, name, view), view.listing.cluster_id
        listed = PartitionsListed(
            name, view.bounded, view.whole, kafka_id, view.unbounded, view.number, asked, view.discovery
        )
        after = tell(state, listed, self._advance)
        options = self._monitor.options(name)
        for order in after.effects:
            if not isinstance(order, ResolveStart) or options is None:
                continue
            # As long as the metadata could not be read, it is not known where new splits start.
            if order.by is StartBy.EARLIEST or self._metadata.answers:
                self._starts.find(found, options, order.by, order.splits, view, patient=patient)
        return after.state

    def _find_stops(
        self, state: EnumeratorState, answers: Mapping[str, PollResult], found: Starts, *, patient: bool
    ) -> None:
        """Find the stops of splits that were read without one: until then, they are not read on."""
        for name, answer in sorted(answers.items()):
            options = self._monitor.options(name)
            if isinstance(answer, ClusterSnapshot) and options is not None and options.ends_stream:
                keys = [SplitId(name, one.topic, one.partition) for one in answer.bounded]
                splits = [state.splits[key] for key in keys if key in state.splits]
                endless = [one.id for one in splits if one.active and one.position is not None and one.stop is None]
                self._starts.find_stops(found, options, endless, answer, patient=patient)

    def _observe_logs(self, state: EnumeratorState, name: str, view: ClusterSnapshot) -> EnumeratorState:
        ends = {SplitId(name, *key): end for key, end in view.latest.items()}
        for key, end in view.log_ends.items():
            # A position after the last stable offset is no loss; one after the log end offset is.
            split = state.splits.get(SplitId(name, *key))
            if split is not None and split.position is not None and ends.get(split.id, end) < split.position:
                ends[split.id] = min(split.position, end)
        starts = {SplitId(name, *key): start for key, start in view.earliest.items()}
        epochs = self._by_split(name, view.epochs)
        asked = self._asked(state, name, view)
        return self.tell(state, LogsObserved(name, ends, starts, view.number, epochs, asked))

    def _asked(self, state: EnumeratorState, name: str, view: ClusterSnapshot) -> Asked:
        """Return how a snapshot came about. Its poll can have been over for long when the core was told the time."""
        age_ms = int((self._told_s - self._monitor.looked_at(name)) * 1000)
        at_ms = (state.session.now_ms or 0) - max(0, age_ms)
        return Asked(at_ms, view.turned, view.words, view.listing.broker)

    def _by_split(self, name: str, tables: Mapping[TopicPartition, EpochTable]) -> Mapping[SplitId, EpochTable]:
        """Return the epochs by split; the same object for the same tables, so that they need not be compared."""
        seen, named = self._epochs.get(name, (None, {}))
        if seen is not tables:
            named = {SplitId(name, *key): table for key, table in tables.items()}
            self._epochs[name] = tables, named
        return named


def _may_be_another(split: Split | None, listed: Mapping[SplitId, str], end: int | None) -> bool:
    """Whether a log that ends before the position of `split` may be that of another topic, of which a broker that lags
    names the id that is read.
    """
    if split is None or not split.active or split.position is None or end is None or end >= split.position:
        return False
    return listed.get(split.id) in ("", split.topic_id)


def _is_new(observed: Mapping[str, int], name: str, answer: PollResult | None) -> bool:
    """Whether the core has not observed this poll yet."""
    return isinstance(answer, ClusterSnapshot) and answer.number > observed.get(name, 0)


def _valid_ends(state: EnumeratorState, name: str, view: ClusterSnapshot) -> Iterator[tuple[SplitId, int]]:
    """Yield the ends of a cluster's logs, without those that may be of another topic, or are of a former leader."""
    session, splits = state.session, state.splits
    late = frozenset(session.former_leaders.get(name, ()))
    ends = ((SplitId(name, *key), end) for key, end in view.latest.items())
    if not (late or session.id_conflicts or session.former_topic_ids):
        return ends
    return (one for one in ends if one[0] not in late and not session.doubts(one[0], splits.get(one[0])))


def _is_known(state: EnumeratorState, kafka_id: str) -> bool:
    return any(one.kafka_id == kafka_id for one in state.clusters.values() if kafka_id)
