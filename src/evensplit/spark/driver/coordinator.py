"""The driver's side of a source: observes the clusters, tells the core, and does what the core orders."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from evensplit.core.batch.plan import plan_batch, plan_ends
from evensplit.core.batch.plan_summary import told_plan
from evensplit.core.batch.tasks import plan_tasks
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    Event,
    ParallelismChanged,
    ReaderRegistered,
    TimePassed,
)
from evensplit.core.machine.rebalance import nobodys
from evensplit.core.model import ClusterState, SplitId
from evensplit.core.state.codec import same
from evensplit.core.state.observation import Report
from evensplit.core.state.offset_strategies import Bounds, Resolution, Strategy, TopicPartition
from evensplit.core.state.state import EnumeratorState, Session
from evensplit.core.text import counted, some
from evensplit.errors import MetadataError, line_of
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.admin.protocol import ClusterPort
from evensplit.kafka.options.client import ClientSettings
from evensplit.metadata import MetadataService
from evensplit.spark.driver.change_log import say_changes
from evensplit.spark.driver.event_feed import EventFeed, declare, tell
from evensplit.spark.driver.foreign_checkpoint import deal
from evensplit.spark.driver.intent import due_ms, settings_changed
from evensplit.spark.driver.metadata_poller import MetadataPoller, open_metadata
from evensplit.spark.driver.min_offsets import MinOffsetsGate
from evensplit.spark.driver.notices import Notices
from evensplit.spark.driver.skipped_records import SkippedRecords
from evensplit.spark.driver.start_lookup import StartLookup, bounds
from evensplit.spark.driver.stops import stops_that_differ
from evensplit.spark.driver.unsure import Unsure, unsure_of
from evensplit.spark.options.hints import ignored_text
from evensplit.spark.options.parse import ClusterOptions, MetadataOptions, SourceOptions
from evensplit.spark.poll.cluster_monitor import ClusterMonitor
from evensplit.spark.poll.snapshot import ClusterSnapshot, PollResult
from evensplit.spark.task.deferred_bounds import DeferredBounds, carry
from evensplit.spark.task.partition import ReaderPartition, input_partitions

log = logging.getLogger("evensplit")

SIGHTING_INTERVAL_S = 0.5
"""How long to wait for another answer where nobody would look again."""


def connect_client(cluster: ClusterOptions) -> ClusterPort:
    """The real connection to a cluster."""
    return ClusterClient(cluster.id, cluster.settings)


class Coordinator:
    """Plans batches. Lives as long as the driver's process; what must survive it is in the states it returns."""

    def __init__(
        self,
        options: SourceOptions,
        *,
        readers_default: int,
        starting_default: Strategy,
        connect: Callable[[ClusterOptions], ClusterPort] = connect_client,
        opened: Callable[[MetadataOptions], MetadataService] = open_metadata,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        batch: bool = False,
    ) -> None:
        self._options = options
        self._readers_default = readers_default
        self._clock = clock
        self._ahead_s = clock() - monotonic()
        self._batch = batch
        self._given: EnumeratorState | None = None
        self._durable = 0
        self._session = Session()
        self._fleet = MetadataPoller(options, batch=batch, opened=opened, clock=monotonic)
        self._world = ClusterMonitor(options, connect, clock=monotonic)
        self._starts = StartLookup(self._world, starting_default, self._now_ms)
        self._briefing = EventFeed(options, self._fleet, self._world, self._starts, monotonic)
        self._skips = SkippedRecords(skips=not options.fail_on_data_loss)
        self._answers: Mapping[str, PollResult] = {}
        self._health = Notices(self._fleet, self._world, options.unreachable_timeout_ms, monotonic, self._now_ms)
        self._unread = 0
        self._seen: object = None
        self._due_ms: int | None = None
        self._fixed = False
        self._fixing = False
        self._unsure = Unsure(options.discovery_interval_ms, self._world.deadline_ms)
        self._stops: tuple[str, ...] = ()
        self._compared: Sequence[ClusterOptions] | None = None
        self._monotonic = monotonic
        self._minimum = MinOffsetsGate(options.offsets_min, options.trigger_delay_ms, monotonic)
        ignored = sorted({*options.ignored, *(options.ignored_in_batch if batch else ())})
        if ignored:
            log.warning("these options have no meaning here and are ignored: %s", ignored_text(ignored))

    def plan(self, start: EnumeratorState, *, limited: bool, fix_ends: bool = False) -> EnumeratorState:
        """The state at the end of the batch that begins at `start`; `start` itself where nothing has changed.

        An untouched `start` is given a full state with resolved positions, even where there is nothing to read. Where
        losses are declared, a run with `fix_ends` ends with a state by which no batch is left to be looked at.
        `limited`: `maxOffsetsPerTrigger` and `minOffsetsPerTrigger` hold. `fix_ends` (AvailableNow): partitions and
        ends stay those of the first call, and no minimum holds anything back. Raises what `observe` raises.
        """
        state = self.observe(start, fix_ends=fix_ends)
        # Where the options end reading, nothing is read before it is known where that is.
        ending = frozenset(cluster.id for cluster in self._fleet.clusters if cluster.ends_stream)
        unreadable = nobodys(state)
        positions = {
            split.id: split.position
            for split in state.load()
            if split.position is not None
            and (split.stop is not None or split.id.cluster not in ending)
            and split.id not in unreadable
        }
        latest = self._briefing.latest
        stops = {key: split.stop for key, split in state.splits.items() if split.stop is not None}
        if stops:
            latest = {key: min(end, stops.get(key, end)) for key, end in latest.items()}
        held = limited and not fix_ends and self._minimum.holds_back(positions, latest, known=self._world.is_known())
        ends = {} if held else plan_ends(positions, latest, self._options.offsets_max if limited else None)
        state = tell(state, BatchPlanned(ends, self._skips.uncompared(state))).state
        self._session = state.session
        self._due_ms = due_ms(state, self._skips.missing_since)
        # A run that ends leaves behind that all was looked at: the next one cannot tell what went before it was read
        # from what went since.
        if start.begun and same(state, start) and not self._skips.is_news_to(start, last=fix_ends):
            self._given = start
            return start
        self._say(start, state)
        self._given = state
        return state

    def observe(self, start: EnumeratorState, *, fix_ends: bool) -> EnumeratorState:
        """`start` after a look at the clusters: with the splits that are new, their starts and their owners.

        Raises:
            MetadataError: the metadata cannot be read, and there is no state yet; or for too many times.
            SubscriptionError: topics, partitions or offsets that were asked for do not exist, and there is no state
                yet; it lists all problems of all clusters.
            ClusterError: a cluster does not answer, and there is no state yet or the ends are to be fixed; it, or some
                of it, has given nothing for too long; it is not the one that it was, or the same as another one.
            DataLossError: records that were still to be read are gone, and that ends the run.
        """
        self._fixing = fix_ends
        opened = self._open(start)
        if self._fixed:
            return self._register(self._look_back(opened))
        while True:
            fresh = not opened.begun
            patient = fix_ends or fresh
            self._fleet.refresh(opened, patient=patient)
            self._world.want(self._fleet.clusters)
            since = self._skips.asked(self._world.count)
            session, new = opened.session, self._fleet.unseen(opened, opened.session)
            answers = self._world.refresh(
                patient=patient, fresh=new, discover=self._discovers(session), turn=unsure_of(session), since=since
            )
            self._answers, self._seen = answers, self._versions()
            bear = self._options.allow_unreachable and fix_ends and (self._batch or not fresh)
            self._health.check(answers, fresh=fresh, complete=fix_ends, bear=bear)
            state = self._register(self._look_through(opened, answers, patient=patient))
            if not self._unsure.is_unsure(state, answers, last=fix_ends):
                break
            # There is no later look that would correct a stale answer: look again, until it is gone or it is sure.
            time.sleep(SIGHTING_INTERVAL_S)
            opened = tell(state, TimePassed(self._passed_ms())).state
        self._health.say_outages(answers, self._briefing.late)
        if not fix_ends:
            self._health.check_silence(state, answers)
        self._compare_stops(state)
        self._fixed = fix_ends
        return state

    def has_news(self) -> bool:
        """Whether there is anything that the last `plan` has not taken in.

        That is an answer which differs, or the first one since a batch was read, or so much time that what is missing
        is gone, what is gone is forgotten, or a batch has been held back for long enough. Looks at no split.
        """
        if self._fixed:
            return self._skips.pending
        if self._given is None:
            return True
        self._fleet.refresh(self._given, patient=False)
        self._world.want(self._fleet.clusters)
        unsure, new = unsure_of(self._session), self._fleet.unseen(self._given, self._session)
        answers = self._world.refresh(patient=False, fresh=new, discover=self._discovers(self._session), turn=unsure)
        if self._is_due() or self._versions() != self._seen or self._skips.pending or self._skips.has_news(answers):
            return True
        if any(self._briefing.is_behind(name, answers) for name in unsure):
            return True
        if self._briefing.has_news():
            return True
        return self._health.has_news(answers) or self._minimum.has_news() or self._world.look_ups_done()

    @property
    def questions(self) -> int:
        """How many questions the clusters have been asked."""
        return self._world.count

    def rest(self, asked: int) -> bool:
        """See `ClusterMonitor.rest`; false where the clusters are not asked again."""
        return not self._fixed and self._world.rest(asked)

    @property
    def late(self) -> Mapping[str, str]:
        """See `ClusterMonitor.late`: the one thing in the report that changes without a plan."""
        return self._world.late

    def report(self) -> Report:
        """What the last `plan` or `observe` saw, and which clusters are late by now."""
        unreachable = self._health.unreachable
        return Report(
            {split: end for split, end in self._briefing.latest.items() if split.cluster not in unreachable},
            unreachable,
            (*self._health.notices, *self._unsure.notices, *self._stops),
            self._health.left_out,
            {name: self._now_ms() - self._world.away_ms(name) for name in unreachable},
        )

    def ends(self, cluster: ClusterOptions, strategy: Strategy, keys: Sequence[TopicPartition]) -> Resolution | None:
        """Where `strategy` lets a bounded read of `keys` end; None if the cluster did not answer."""
        view = self._answers.get(cluster.id)
        return (
            self._starts.ends(cluster.id, strategy, keys, view, patient=True)
            if isinstance(view, ClusterSnapshot)
            else None
        )

    def bounds(self, cluster: ClusterOptions) -> Mapping[TopicPartition, Bounds]:
        """What the logs of a cluster have, decided and not; nothing if it did not answer."""
        view = self._answers.get(cluster.id)
        return bounds(view, view.latest, undecided=True) if isinstance(view, ClusterSnapshot) else {}

    def clusters(self) -> Sequence[ClusterOptions]:
        """The clusters that are to be read, as the options or the metadata have them."""
        return self._fleet.clusters

    def cluster(self, name: str) -> ClusterOptions | None:
        """How a cluster is reached at the moment."""
        return self._world.options(name)

    def partitions(
        self, start: EnumeratorState, end: EnumeratorState, late: DeferredBounds | None = None
    ) -> list[ReaderPartition]:
        """What the tasks of the batch from `start` to `end` read: a function of the two (law S11), but for credentials.

        Clusters are where `end` says that they are. How they are reached beyond that comes from options and metadata,
        which are read if that was not done yet; where that fails, the options are enough. `late`: the bounds that tasks
        look up anew.
        """
        try:
            self._fleet.refresh(end, patient=False)
        except MetadataError as error:
            log.warning("this batch is read with what options and checkpoint say: %s", line_of(error))
        if not end.readers:
            end = deal(start, end, self._options, self._fleet.clusters, self._readers_default)
        self._skips.add(start, end)
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
            columns=self._options.columns,
            skip_lost=not self._options.fail_on_data_loss,
            batch_bytes_max=self._options.batch_bytes_max,
            null_timestamps=self._options.null_timestamps,
            late=late,
            timeout_ms=self._options.poll_timeout_ms,
            start=start,
        )

    def _reached(self, cluster: ClusterState) -> ClientSettings:
        return self._fleet.reached(cluster, self.cluster(cluster.id) or self._world.called(cluster.kafka_id))

    def kept(self, revision: int) -> None:
        """Spark has kept the state of `revision` for good: no batch that begins before it is planned again."""
        self._durable = max(self._durable, revision)

    def close(self) -> None:
        """Drop all connections."""
        self._world.close()
        self._fleet.close()

    def _say(self, start: EnumeratorState, state: EnumeratorState) -> None:
        """One line in the log for each change."""
        say_changes(start, state, self.report)
        unread = [split.id for split in state.load() if split.owner is None] if self._options.pins else []
        if len(unread) != self._unread:
            self._unread = len(unread)
            log.warning("%s may be read by no reader (option pin): %s", counted(len(unread), "split"), some(unread))

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    def _passed_ms(self) -> int:
        """The time, and where the clock was set back, what it would be: otherwise all that waits would wait for it."""
        self._ahead_s = max(self._ahead_s, self._clock() - self._monotonic())
        return round((self._monotonic() + self._ahead_s) * 1000)

    def _versions(self) -> object:
        return self._world.version, self._fleet.answers, self._fleet.notice

    def _is_due(self) -> bool:
        return self._due_ms is not None and self._passed_ms() >= self._due_ms

    def _discovers(self, session: Session) -> bool:
        """Whether something can be sure only by a look at all that there is."""
        if self._options.discovery_interval_ms <= 0:
            # What the one discovery at the start did not find is confirmed by another one.
            return self._is_due() and any(isinstance(key, SplitId) for key in session.missing_since)
        return self._fixing or self._is_due() or bool(session.sightings or session.doubts)

    def _open(self, start: EnumeratorState) -> EnumeratorState:
        """`start` at the beginning of a batch. The session goes on if `start` is what was given out last.

        Otherwise the process is new, or Spark went back to an older offset: then a session begins.
        """
        if start is not self._given and start != self._given:
            self._session = Session()
            self._briefing.begin()
            self._compared = None
            # Spark begins with what it has kept for good.
            self._durable = start.revision
            self._skips.restore(start)
        # What is compared is the durable part: the object that comes back has the session of back then.
        state = replace(start, session=self._session)
        events: list[Event] = [BatchOpened(self._durable)]
        if not state.session.assigned:
            # Before the time: how long something is kept is for the options of today to say.
            events.append(settings_changed(self._options, state.settings, self._fleet.clusters))
        events.append(TimePassed(self._passed_ms()))
        events.append(ParallelismChanged(self._options.readers or state.readers or self._readers_default))
        for event in events:
            state = tell(state, event).state
        return state

    def _register(self, state: EnumeratorState) -> EnumeratorState:
        """The readers, which are logical, register with what `state` says that they own, once in each session.

        They do so when the clusters have been looked at, so that one assignment takes in everything that has changed.
        """
        owned: dict[int, dict[SplitId, int]] = {reader: {} for reader in range(state.readers)}
        if all(reader in state.session.registrations for reader in owned):
            return state
        for key, split in state.splits.items():
            if split.owner is not None and split.position is not None:
                owned[split.owner][key] = split.position
        generation = state.generation
        for reader, reported in owned.items():
            state = tell(state, ReaderRegistered(reader, reported=reported, generation=generation)).state
        return state

    def _look_through(
        self, state: EnumeratorState, answers: Mapping[str, PollResult], *, patient: bool
    ) -> EnumeratorState:
        state = self._briefing.tell_all(state, answers, self._health.left_out, patient=patient)
        return self._declare_skipped(state, answers)

    def _declare_skipped(self, state: EnumeratorState, answers: Mapping[str, PollResult]) -> EnumeratorState:
        losses = self._skips.losses(answers, state, lambda name: self._briefing.asked_ms(state, name))
        return declare(state, losses)

    def _compare_stops(self, state: EnumeratorState) -> None:
        """Say where splits do not stop as the options say, once for each word of the options."""
        if self._compared is self._fleet.clusters:
            return
        self._compared, before = self._fleet.clusters, self._stops
        self._stops = stops_that_differ(state, self._fleet.clusters)
        for notice in self._stops:
            if notice not in before:
                log.warning(notice)

    def _look_back(self, state: EnumeratorState) -> EnumeratorState:
        """With the ends fixed, a look at the clusters tells only what the last batch's tasks skipped."""
        since = self._skips.asked(self._world.count)
        if not since:
            return state
        answers = self._world.refresh(patient=False, since=since)
        state = self._declare_skipped(state, answers)
        if self._skips.waits(state):
            log.info("something that was read is missing; waiting until that is sure (discoveryInterval)")
        while self._skips.waits(state):
            time.sleep(SIGHTING_INTERVAL_S)
            state = tell(state, TimePassed(self._passed_ms())).state
            answers = self._world.refresh(patient=False, discover=True)
            state = self._declare_skipped(state, answers)
        for name in self._skips.unchecked:
            log.warning("cluster %s does not say whether tasks skipped something of it; their own logs do", name)
        return state
