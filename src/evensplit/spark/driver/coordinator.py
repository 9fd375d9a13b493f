"""The driver's side of a source: polls the clusters, tells the core, and does what the core orders."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evensplit.core.batch.plan import batch_ranges, plan_batch
from evensplit.core.batch.plan_summary import told_plan
from evensplit.core.batch.tasks import plan_tasks
from evensplit.core.machine.enumerator import Step, step
from evensplit.core.machine.events import BatchOpened, Event, ParallelismChanged, ReaderRegistered, TimePassed
from evensplit.core.machine.skipped_records import is_unsaid
from evensplit.core.model import ClusterState, SplitId
from evensplit.core.state.codec import same
from evensplit.core.state.observation import Report
from evensplit.core.state.offset_strategies import Bounds, Resolution, Strategy, TopicPartition
from evensplit.core.state.open_questions import next_due_ms, open_since_ms, unsure_clusters
from evensplit.core.state.state import EnumeratorState, Session
from evensplit.errors import MetadataError, line_of
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.admin.protocol import ClusterPort
from evensplit.kafka.options.client import ClientSettings
from evensplit.metadata import MetadataService
from evensplit.registry.settings import RegistrySettings
from evensplit.spark.driver.agenda import Agenda, Due, Wait
from evensplit.spark.driver.change_log import say_changes
from evensplit.spark.driver.ends.batch_ends import BatchEnds
from evensplit.spark.driver.ends.record_sizes import RecordSizes
from evensplit.spark.driver.event_feed import EventFeed, check_schemas, settings_changed
from evensplit.spark.driver.foreign_checkpoint import deal
from evensplit.spark.driver.metadata_poller import MetadataPoller, open_metadata
from evensplit.spark.driver.notices import Notices
from evensplit.spark.driver.start_lookup import StartLookup, bounds
from evensplit.spark.driver.unsure import Unsure
from evensplit.spark.options.hints import ignored_text
from evensplit.spark.options.parse import ClusterOptions, MetadataOptions, SourceOptions
from evensplit.spark.poll.cluster_monitor import ClusterMonitor
from evensplit.spark.poll.cluster_poller import REFRESH_INTERVAL_S
from evensplit.spark.poll.scheduler import Scheduler, SteadyTime
from evensplit.spark.poll.snapshot import ClusterSnapshot, PollResult
from evensplit.spark.slots.reader_number import AskSlots, ReaderNumber
from evensplit.spark.task.deferred_bounds import DeferredBounds, carry
from evensplit.spark.task.partition import ReaderPartition, input_partitions

log = logging.getLogger("evensplit")

POLL_AGAIN_S = 0.5
"""How long, in s, until a run that ends polls again what is not sure."""

Batch = tuple[EnumeratorState, EnumeratorState]
"""The states that a batch begins and ends at."""


def connect_client(cluster: ClusterOptions) -> ClusterPort:
    """Connect to a cluster."""
    return ClusterClient(cluster.id, cluster.settings)


class Coordinator:
    """Plans batches. Lives as long as the driver's process; what must survive it is in the states it returns."""

    def __init__(
        self,
        options: SourceOptions,
        *,
        readers_default: int,
        starting_default: Strategy,
        slots: AskSlots | None = None,
        connect: Callable[[ClusterOptions], ClusterPort] = connect_client,
        opened: Callable[[MetadataOptions], MetadataService] = open_metadata,
        scheduler: Scheduler | None = None,
        advance: Callable[[EnumeratorState, Event], Step] = step,
        batch: bool = False,
    ) -> None:
        self._options = options
        self._readers_default = readers_default
        self._readers = ReaderNumber(options.readers, readers_default, slots)
        self._batch = batch
        self.scheduler = scheduler = scheduler or Scheduler()
        """Tells the time, waits and works for everything on the driver's side."""
        self._passed_ms = SteadyTime(scheduler).now_ms
        self._metadata = MetadataPoller(options, batch=batch, opened=opened, scheduler=scheduler)
        self._monitor = ClusterMonitor(options, connect, scheduler)
        self._starts = StartLookup(self._monitor, starting_default, scheduler.now_ms)
        self._feed = EventFeed(options, self._metadata, self._monitor, self._starts, scheduler, advance)
        self._notices = Notices(self._metadata, self._monitor, options, scheduler)
        self._unsure = Unsure(options.discovery_interval_ms, self._monitor.deadline_ms)
        self._ends = BatchEnds(options, self._monitor, scheduler)
        self._given: EnumeratorState | None = None
        """The result of the last plan: the next batch begins there, unless Spark goes back."""
        self._session = Session()
        self._durable = 0
        self._answers: Mapping[str, PollResult] = {}
        self._agenda: Agenda | None = None
        self._fixed = False
        """Partitions and ends are those of the first plan, and not looked for any more."""
        in_batch = options.ignored_in_batch if batch else ()
        ignored = sorted({*options.ignored, *in_batch})
        if ignored:
            log.warning("these options have no meaning here and are ignored: %s", ignored_text(ignored, in_batch))

    def plan(
        self, start: EnumeratorState, *, limited: bool, fix_ends: bool = False, repeated: Sequence[Batch] = ()
    ) -> EnumeratorState:
        """Return the state at the end of the batch that begins at `start`; `start` itself where nothing has changed.

        From an empty `start`, the result is a full state with resolved positions, even where there is nothing to read.
        Where losses are declared, a run with `fix_ends` ends with a state in which all batches are compared.

        Args:
            limited: the limits of the options apply, and their minimum.
            fix_ends: (AvailableNow) partitions and ends stay those of the first call, and no minimum holds back.
            repeated: batches that another process planned and this one has read since the last call.

        Raises what `observe` raises.
        """
        state = self.observe(start, fix_ends=fix_ends, repeated=repeated)
        seen = self._feed.latest, self._metadata.clusters
        planned = self._ends.find(state, *seen, limited=limited, fix_ends=fix_ends, known=self._monitor.is_known())
        state = self._feed.tell(state, planned)
        self._session = state.session
        # A run that ends writes down what is compared: the next one cannot tell records that were lost before they were
        # read from those that were lost since.
        if start.begun and same(state, start) and not is_unsaid(start, state, last=fix_ends):
            end = start
        else:
            say_changes(start, state, self.report)
            self._notices.say_unreadable(state)
            end = state
        self._given = end
        self._agenda = self._write_agenda(state)
        return end

    def observe(self, start: EnumeratorState, *, fix_ends: bool, repeated: Sequence[Batch] = ()) -> EnumeratorState:
        """Return `start` after a poll of the clusters: with new splits, their starts and their owners.

        Raises:
            MetadataError: the metadata cannot be read, and there is no state yet; or for too many times.
            SubscriptionError: topics, partitions or offsets that were asked for do not exist, and there is no state
                yet; it lists all problems of all clusters.
            ClusterError: a cluster does not answer, and there is no state yet or the ends are to be fixed; it, or some
                of its partitions, has not answered for too long; it is another Kafka cluster than before, or is listed
                twice.
            DataLossError: records that were still to be read are gone, and that ends the run.
        """
        state = self._open(start, repeated)
        since = {
            name: self._monitor.polls
            for name, read in state.session.read.items()
            if any(one.polls == self._monitor.polls for one in read)
        }
        look, looks_back = (self._look_back, bool(since)) if self._fixed else (self._look, False)
        while True:
            state, is_unsure = look(state, fix_ends=fix_ends, since=since)
            if not is_unsure:
                break
            # No later poll of this run would correct a stale broker: poll again, until everything is sure.
            self.scheduler.sleep(POLL_AGAIN_S)
            state, since = self._feed.tell(state, TimePassed(self._passed_ms())), {}
        if self._fixed:
            if looks_back:
                self._notices.say_uncompared(state)
            return self._register(state)
        self._notices.say_outages(self._answers, self._feed.late)
        if not fix_ends:
            self._notices.silence.look(state, self._answers)
        self._notices.compare_stops(state, self._metadata.clusters)
        self._fixed = fix_ends
        return state

    def has_news(self) -> bool:
        """Poll the clusters that are due. Return whether there is anything that the last `plan` has not taken in."""
        if self._agenda is None or self._given is None:
            return True
        if not self._fixed:
            self._metadata.refresh(self._given, patient=False)
            self._monitor.want(self._metadata.clusters)
            self._poll(self._given, self._session, patient=False, discover=self._discovers(self._session))
        return self._agenda.has_news(
            versions=self._versions(),
            now_ms=self._passed_ms(),
            now_s=self.scheduler.monotonic(),
            polls=self._monitor.answered,
            late=self._monitor.late,
        )

    def new_wait(self) -> Wait:
        """A wait that begins now, for `await_news`: as long as one healthy cluster may take to answer."""
        limit_s = max(REFRESH_INTERVAL_S, self._options.cluster_wait_ms / 1000)
        return Wait(self._monitor.polls, self.scheduler.monotonic() + limit_s, self.scheduler.monotonic)

    def await_news(self, wait: Wait) -> bool:
        """Block until there is something to plan; return False if there is nothing.

        There is nothing when all clusters have answered a poll that was sent since `wait` began, or when it is over.
        Clusters that are unreachable, and ends that are fixed, are not waited for.
        """
        while not self.has_news():
            if wait.is_over or self._fixed or not self._monitor.rest(wait.polls):
                return False
        return True

    @property
    def late(self) -> Mapping[str, str]:
        """See `ClusterMonitor.late`: the one part of the report that changes without a plan."""
        return self._monitor.late

    def report(self) -> Report:
        """Return what the last `plan` or `observe` saw, and which clusters are late by now."""
        unreachable = self._notices.unreachable
        return Report(
            {split: end for split, end in self._feed.latest.items() if split.cluster not in unreachable},
            unreachable,
            (*self._notices.notices, *self._unsure.notices, *self._notices.stops, *self._ends.notices),
            self._notices.left_out,
            {name: self.scheduler.now_ms() - self._monitor.away_ms(name) for name in unreachable},
        )

    def ends(self, cluster: ClusterOptions, strategy: Strategy, keys: Sequence[TopicPartition]) -> Resolution | None:
        """Return where a bounded read of `keys` ends by `strategy`; None if the cluster did not answer."""
        view = self._answers.get(cluster.id)
        if not isinstance(view, ClusterSnapshot):
            return None
        return self._starts.ends(cluster.id, strategy, keys, view, patient=True)

    def bounds(self, cluster: ClusterOptions) -> Mapping[TopicPartition, Bounds]:
        """Return the bounds of the logs of a cluster, with records of open transactions; empty if it did not answer."""
        view = self._answers.get(cluster.id)
        return bounds(view, view.latest, read_uncommitted=True) if isinstance(view, ClusterSnapshot) else {}

    def clusters(self) -> Sequence[ClusterOptions]:
        """Return the clusters that are to be read, as the options or the metadata list them."""
        return self._metadata.clusters

    def cluster(self, name: str) -> ClusterOptions | None:
        """Return how a cluster is reached at the moment; None if it is not."""
        return self._monitor.options(name)

    def partitions(
        self, start: EnumeratorState, end: EnumeratorState, late: DeferredBounds | None = None
    ) -> list[ReaderPartition]:
        """Return what the tasks of the batch from `start` to `end` read: a function of the two (law S11).

        Only credentials and other client settings come from the options and the metadata of today, which is read if
        that was not done yet; if that fails, the options are enough. The servers of clusters are those in `end`.

        Args:
            late: bounds that the tasks look up anew.
        """
        check_schemas(end.settings, self._options)
        if not self._metadata.answers:
            try:
                self._metadata.refresh(end, patient=False)
            except MetadataError as error:
                log.warning("this batch is read with what options and checkpoint say: %s", line_of(error))
        if not end.readers:
            end = deal(start, end, self._options, self._metadata.clusters, self._readers_default)
        plan = plan_batch(start, end)
        for sentence in told_plan(plan):
            log.info(sentence)
        settings = end.settings
        tasks = plan_tasks(plan, tasks_min=settings.tasks_min, offsets_max=settings.task_offsets_max)
        tasks = carry(tasks, late, end) if late is not None else tasks
        read = sorted({part.split.cluster for task in tasks for part in task.ranges})
        return input_partitions(
            tasks,
            end,
            {name: self._reached(end.clusters[name]) for name in read},
            self._options.reading,
            late=late,
            start=start,
            registries=self._registries([end.clusters[name] for name in read]),
        )

    @property
    def sizes(self) -> RecordSizes:
        """What is to take what tasks tell of the bytes that they have read, for limits in bytes."""
        return self._ends.sizes

    def kept(self, revision: int) -> None:
        """Spark has kept the state of `revision` for good: no batch that begins before it is planned again."""
        self._durable = max(self._durable, revision)

    def close(self) -> None:
        """Drop all connections."""
        self._monitor.close()
        self._metadata.close()

    def _open(self, start: EnumeratorState, repeated: Sequence[Batch]) -> EnumeratorState:
        """Open a batch at `start`. The session goes on if `start` is the result of the last plan.

        Otherwise the process is new, or Spark went back to an older offset: then a session begins.
        """
        if start is not self._given and start != self._given:
            self._session = Session()
            self._feed.begin()
            self._notices.begin()
            self._ends.begin()
            # Spark begins with an offset that it has kept for good.
            self._durable = start.revision
        # States are compared without their sessions; this `start` may have an older one.
        state = replace(start, session=self._session)
        events: list[Event] = []
        if not state.session.assigned:
            # First of all, so that the options of today decide how long positions are retained.
            check_schemas(state.settings, self._options)
            events.append(settings_changed(self._options, state.settings, self._metadata.clusters))
        ranges = tuple(part for batch in repeated for part in batch_ranges(*batch))
        events.append(BatchOpened(self._durable, self._monitor.polls, ranges))
        now_ms = self._passed_ms()
        events += [TimePassed(now_ms), ParallelismChanged(self._readers.of(state, now_ms))]
        for event in events:
            state = self._feed.tell(state, event)
        return state

    def _look(
        self, state: EnumeratorState, *, fix_ends: bool, since: Mapping[str, int]
    ) -> tuple[EnumeratorState, bool]:
        """Poll all clusters. Return the state after that, and whether another poll may give another result."""
        fresh = not state.begun
        patient = fix_ends or fresh
        self._metadata.refresh(state, patient=patient)
        self._monitor.want(self._metadata.clusters)
        discover = self._discovers(state.session, fix_ends=fix_ends)
        self._answers = self._poll(state, state.session, patient=patient, discover=discover, since=since)
        bear = self._options.allow_unreachable and fix_ends and (self._batch or not fresh)
        self._notices.check(self._answers, fresh=fresh, complete=fix_ends, bear=bear)
        state = self._feed.take(state, self._answers, self._notices.left_out, patient=patient)
        state = self._register(state)
        return state, self._unsure.is_unsure(state, self._answers, last=fix_ends)

    def _look_back(
        self, state: EnumeratorState, *, fix_ends: bool, since: Mapping[str, int]
    ) -> tuple[EnumeratorState, bool]:
        """With the ends fixed, poll only to find out which records the last batch's tasks skipped."""
        again = bool(open_since_ms(state.session))
        if since or again:
            answers = self._poll(state, state.session, patient=False, discover=again, since=since)
            state = self._feed.take_read(state, answers)
        return state, self._unsure.is_unsure_of_read(state.session)

    def _poll(self, state: EnumeratorState, session: Session, **how: Any) -> Mapping[str, PollResult]:
        fresh = () if self._fixed else self._metadata.unseen(state, session)
        return self._monitor.refresh(fresh=fresh, turn=unsure_clusters(session), **how)

    def _write_agenda(self, state: EnumeratorState) -> Agenda:
        dues = (*self._feed.dues(state.session), *self._notices.dues, Due(self._ends.due_s))
        if self._fixed:
            # Clusters are not polled for more records: all that is left is to compare the batch that is read now.
            dues = tuple(one for one in dues if one == Due())
            return Agenda(self._versions(), None, dues, (), ())
        return Agenda(self._versions(), next_due_ms(state), dues, self._feed.late, self._monitor.awaited)

    def _versions(self) -> object:
        return self._monitor.version, self._metadata.answers, self._metadata.notice

    def _discovers(self, session: Session, *, fix_ends: bool = False) -> bool:
        """Whether the next poll has to list all partitions to settle something."""
        due_ms = self._agenda.due_ms if self._agenda is not None else None
        is_due = due_ms is not None and self._passed_ms() >= due_ms
        if self._options.discovery_interval_ms <= 0:
            # Partitions that the one discovery at the start lacked need another one to confirm that.
            missing = (*session.missing_since, *session.read_missing)
            return is_due and any(isinstance(key, SplitId) for key in missing)
        return fix_ends or is_due or bool(session.truncation_observations or session.id_conflicts)

    def _reached(self, cluster: ClusterState) -> ClientSettings:
        return self._metadata.reached(cluster, self._proven(cluster))

    def _proven(self, cluster: ClusterState) -> ClusterOptions | None:
        return self.cluster(cluster.id) or self._monitor.called(cluster.kafka_id)

    def _registries(self, clusters: Sequence[ClusterState]) -> dict[str, RegistrySettings]:
        """The schema registry of each cluster that has one, where tasks ask it."""
        if not self._options.reading.by_writer:
            return {}
        found = {one.id: self._metadata.registry(one, self._proven(one)) for one in clusters}
        return {name: one for name, one in found.items() if one is not None}

    def _register(self, state: EnumeratorState) -> EnumeratorState:
        """Register the readers, which are logical, with the splits that they own in `state`: once in each session, and
        again if there were fewer in between.

        They register when the clusters have been polled, so that one assignment takes in everything that has changed.
        """
        owned: dict[int, dict[SplitId, int]] = {reader: {} for reader in range(state.readers)}
        if all(reader in state.session.registrations for reader in owned):
            return state
        for key, split in state.splits.items():
            if split.owner is not None and split.position is not None:
                owned[split.owner][key] = split.position
        generation = state.generation
        for reader, reported in owned.items():
            if reader not in state.session.registrations:
                epoch = state.session.epochs.get(reader, -1) + 1
                state = self._feed.tell(state, ReaderRegistered(reader, epoch, reported, generation))
        return state
