"""The driver's side of a source: observes the clusters, tells the core, and does what the core orders."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from evensplit.core.codec import same
from evensplit.core.effects import ReportLoss, ResolveStart
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
    ReaderRegistered,
    SettingsChanged,
    TimePassed,
)
from evensplit.core.model import SplitId, StartBy
from evensplit.core.plan import plan_ends
from evensplit.core.report import Report
from evensplit.core.starting import Bounds, Earliest, Strategy, TopicPartition, resolve
from evensplit.core.state import EnumeratorState, Session
from evensplit.core.story import changes
from evensplit.errors import ClusterError, DataLossError, EvenSplitError, SubscriptionError
from evensplit.kafka.client import ClusterClient
from evensplit.kafka.port import ClusterPort
from evensplit.spark.options import ClusterOptions, SourceOptions
from evensplit.spark.world import Answer, View, World

log = logging.getLogger("evensplit")

LOSS_SIGHTINGS_MAX = 3
"""How many answers in a row may show a log without what is unread, until that is loss and not a stale answer."""

SIGHTING_INTERVAL_S = 0.5
"""How long to wait for another answer where nobody would look again."""

DUE_INTERVAL_MS = 1000
"""How often an idle query looks at what is due, and cannot be done because a cluster gives no complete answer."""


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
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._options = options
        self._readers_default = readers_default
        self._starting_default = starting_default
        self._clock = clock
        self._given: EnumeratorState | None = None
        self._session = Session()
        self._answered: dict[str, int] = {}
        self._world = World(options.clusters, connect)
        self._answers: Mapping[str, Answer] = {}
        self._latest: dict[SplitId, int] = {}
        self._ends_seen: dict[SplitId, int] = {}
        self._sightings: dict[SplitId, frozenset[int]] = {}
        self._unreachable: dict[str, str] = {}
        self._notices: frozenset[str] = frozenset()
        self._version = -1
        self._due_ms: int | None = None
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
        positions = {
            key: split.position
            for key, split in state.splits.items()
            if split.position is not None and split.owner is not None
        }
        ends = plan_ends(positions, self._latest, self._options.offsets_max if limited else None)
        state = self._tell(state, BatchPlanned(ends)).state
        self._session = state.session
        self._due_ms = _due_ms(state)
        if start.begun and same(state, start):
            self._given = start
            return start
        for sentence in changes(start, state).sentences():
            log.info(sentence)
        self._given = state
        return state

    def observe(self, start: EnumeratorState, *, fix_ends: bool) -> EnumeratorState:
        """`start` after a look at the clusters: with the splits that are new, their starts and their owners.

        Raises:
            SubscriptionError: topics, partitions or offsets that were asked for do not exist, and there is no state
                yet; it lists all problems of all clusters.
            ClusterError: a cluster does not answer, and there is no state yet or the ends are to be fixed; or it has
                not answered for too long.
            DataLossError: a topic was created anew, or deleted with unread records, or a log ends before its position.
        """
        opened = self._open(start)
        if self._fixed:
            return self._register(opened)
        while True:
            answers = self._world.refresh(patient=fix_ends or not opened.begun)
            self._answers, self._version = answers, self._world.version
            self._check(answers, fresh=not opened.begun, complete=fix_ends)
            state = self._register(self._discover(opened, answers))
            self._watch_losses(state, answers)
            if not (fix_ends and self._sightings):
                break
            # There is no later look that would correct a stale answer: look again, until it is gone or it is loss.
            time.sleep(SIGHTING_INTERVAL_S)
        self._fixed = fix_ends
        return state

    def has_news(self) -> bool:
        """Whether there is anything that the last `plan` has not taken in.

        That is an answer which differs, or so much time that what is missing is gone, or what is gone is forgotten.
        Looks at no split.
        """
        if self._fixed:
            return False
        self._world.refresh(patient=False)
        due = self._due_ms is not None and self._now_ms() >= self._due_ms
        return due or self._world.version != self._version or bool(self._sightings)

    def report(self) -> Report:
        """What the last `plan` or `observe` saw."""
        return Report(dict(self._latest), dict(self._unreachable))

    def bounds(self, cluster: str, keys: Iterable[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """The bounds of the logs of `keys`, as the last `observe` saw them."""
        view = self._answers.get(cluster)
        return bounds(view, keys) if isinstance(view, View) else {}

    def close(self) -> None:
        """Drop all connections."""
        self._world.close()

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    def _open(self, start: EnumeratorState) -> EnumeratorState:
        """`start` at the beginning of a batch. The session goes on if `start` is what was given out last.

        Otherwise the process is new, or Spark went back to an older offset: then a session begins.
        """
        if start is not self._given and start != self._given:
            self._session = Session()
            self._answered = {}
        # What is compared is the durable part: the object that comes back has the session of back then.
        state = replace(start, session=self._session)
        now_ms = max(self._now_ms(), state.session.now_ms or 0)
        events: list[Event] = [BatchOpened(), TimePassed(now_ms)]
        if not state.session.assigned:
            wanted = self._options
            chosen = replace(state.settings, policy=wanted.policy, scope=wanted.scope, rebalance=wanted.rebalance)
            events.append(SettingsChanged(chosen))
        readers = self._options.readers or state.readers or self._readers_default
        events.append(ParallelismChanged(readers))
        for event in events:
            state = self._tell(state, event).state
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
            state = self._tell(state, ReaderRegistered(reader, reported=reported, generation=generation)).state
        return state

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
        """Before the first batch everything must be there; to fix the ends, every cluster must have answered."""
        failed = {name: answer for name, answer in sorted(answers.items()) if isinstance(answer, ClusterError)}
        missing: list[str] = []
        incomplete: list[str] = []
        for name, answer in sorted(answers.items()):
            if isinstance(answer, View):
                missing.extend(f"cluster {name!r}: {sentence}" for sentence in answer.listing.missing)
                incomplete.extend(f"cluster {name!r}: {sentence}" for sentence in answer.listing.incomplete)
        errors = list(failed.values()) if fresh or complete else []
        _raise_all(errors, [*(missing if fresh else []), *(incomplete if fresh or complete else [])])
        for name, error in failed.items():
            if name not in self._unreachable:
                log.warning("cluster %s does not answer; its splits keep their positions: %s", name, error)
        for name in self._unreachable:
            if name not in failed:
                log.warning("cluster %s answers again", name)
        self._unreachable = {name: str(error) for name, error in failed.items()}
        notices = [*missing, *incomplete]
        for notice in notices:
            if notice not in self._notices:
                log.warning("%s; what is known of it keeps its position, and nothing of it is read", notice)
        self._notices = frozenset(notices)

    def _discover(self, state: EnumeratorState, answers: Mapping[str, Answer]) -> EnumeratorState:
        """Tell the core what the clusters answered, and resolve the starts that it asks for."""
        listed = tuple(
            ListedCluster(
                cluster.id, cluster.settings.bootstrap_servers, cluster.starts_by_itself, cluster.subscription
            )
            for cluster in self._options.clusters
        )
        state = self._tell(state, ClustersListed(listed)).state
        self._latest = {}
        starts: dict[SplitId, int] = {}
        problems: list[str] = []
        for name, view in sorted(answers.items()):
            if not isinstance(view, View):
                continue
            self._latest.update((SplitId(name, *key), end) for key, end in view.latest.items())
            bounded = tuple(
                one
                for one in view.listing.partitions
                if (one.topic, one.partition) in view.earliest and (one.topic, one.partition) in view.latest
            )
            # An answer with gaps is not a first discovery, and never says what is not there.
            whole = not view.listing.incomplete and len(bounded) == len(view.listing.partitions)
            if whole or not state.clusters[name].initial:
                # An answer that is looked at again is no second one; only for a first discovery it makes no difference.
                fresh = state.clusters[name].initial or self._answered.get(name) != view.number
                after = self._tell(state, PartitionsListed(name, bounded, complete=whole and fresh))
                self._answered[name] = view.number
                self._check_gone(state, after.state, name)
                state = after.state
                for order in after.effects:
                    if isinstance(order, ResolveStart):
                        starts.update(self._starts(order, view, problems))
        _raise_all([], problems)
        self._ends_seen.update(self._latest)
        return self._tell(state, OffsetsResolved(starts)).state if starts else state

    def _starts(self, order: ResolveStart, view: View, problems: list[str]) -> Mapping[SplitId, int]:
        """Where the splits of `order` start; what the user's strategy cannot give goes to `problems`."""
        options = self._options.cluster(order.cluster)
        strategy: Strategy = Earliest()
        if order.by is StartBy.STRATEGY:
            strategy = (options.starting if options else None) or self._starting_default
        found = resolve(strategy, bounds(view, [(split.topic, split.partition) for split in order.splits]))
        problems.extend(f"cluster {order.cluster!r}, startingOffsets: {problem}" for problem in found.problems)
        return {SplitId(order.cluster, *key): offset for key, offset in found.offsets.items()}

    def _check_gone(self, before: EnumeratorState, after: EnumeratorState, cluster: str) -> None:
        """What an answer of `cluster` has confirmed to be gone, and so is retained, must have been read (law S9).

        What only the options leave out is no loss: the core retains it without asking its cluster.
        """
        missing = [key for key in before.session.missing_since if isinstance(key, SplitId) and key.cluster == cluster]
        for key in sorted(missing):
            split, now = before.splits.get(key), after.splits.get(key)
            if split is None or not split.active or split.position is None or (now is not None and now.active):
                continue
            problem = self._loss(key, split.position, gone=True)
            if problem is not None:
                raise DataLossError(*key, problem)

    def _watch_losses(self, state: EnumeratorState, answers: Mapping[str, Answer]) -> None:
        """What is unread and no longer there was lost, unless a broker that lags behind answered."""
        sightings: dict[SplitId, frozenset[int]] = {}
        listed = {
            SplitId(name, one.topic, one.partition)
            for name, view in answers.items()
            if isinstance(view, View)
            for one in view.listing.partitions
        }
        for key, split in state.splits.items():
            view = answers.get(key.cluster)
            # What is not to be read any more cannot be lost.
            if not isinstance(view, View) or split.position is None or not split.active:
                continue
            gone = key not in listed and not view.listing.incomplete
            problem = self._loss(key, split.position, gone=gone)
            if problem is None:
                continue
            sightings[key] = self._sightings.get(key, frozenset()) | {view.number}
            if len(sightings[key]) >= LOSS_SIGHTINGS_MAX:
                raise DataLossError(*key, problem)
        self._sightings = sightings

    def _loss(self, key: SplitId, position: int, *, gone: bool) -> str | None:
        """Why what is unread of a split is not there any more, by the last answer; None if nothing says so."""
        end = self._latest.get(key)
        if end is not None and end < position:
            return (
                f"its log ends at offset {end}, before the position {position} that was read up to: the topic was "
                "created anew, or records were lost by an unclean leader election. Start with a new checkpoint, from "
                "offsets that exist"
            )
        seen = self._ends_seen.get(key, position)
        if gone and seen > position:
            return (
                f"it was deleted with offsets {position} to {seen - 1} unread. To go on without them, start with a new "
                "checkpoint"
            )
        return None


def _due_ms(state: EnumeratorState) -> int | None:
    """When time alone may change `state`, in ms; None if it cannot.

    Then another complete answer makes something that is missing gone, or something retained has been kept long enough.
    What is due already waits for an answer that does not come, and is tried again after DUE_INTERVAL_MS.
    """
    session, now_ms = state.session, state.session.now_ms or 0
    due = [since + session.discovery_interval_ms for since in session.missing_since.values()]
    removed_at_ms = [
        *(split.removed_at_ms for split in state.splits.values()),
        *(cluster.removed_at_ms for cluster in state.clusters.values()),
    ]
    due.extend(at + state.settings.retention_ms for at in removed_at_ms if at is not None)
    return min((at if at > now_ms else now_ms + DUE_INTERVAL_MS for at in due), default=None)


def bounds(view: View, keys: Iterable[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
    """The bounds of the logs of `keys`, as far as `view` has them."""
    # Retention can overtake an end that was looked up a moment before.
    return {
        key: Bounds(view.earliest[key], max(view.earliest[key], view.latest[key]))
        for key in keys
        if key in view.earliest and key in view.latest
    }


def _raise_all(errors: Sequence[EvenSplitError], problems: Sequence[str]) -> None:
    """Raise what there is: one error as it is, several as one that lists them all."""
    if len(errors) == 1 and not problems:
        raise errors[0]
    if errors or problems:
        raise SubscriptionError([*map(str, errors), *problems])
