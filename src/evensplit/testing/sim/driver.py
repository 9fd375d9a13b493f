"""A host whose readers are processes: it runs batches, dies at any point of one, and starts from its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from evensplit.core.batch.limits import BatchLimits, full_sizes
from evensplit.core.machine.effects import Effect, ListPartitions, ResolveStart
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClusterPollFailed,
    ClustersListed,
    Event,
    ListedCluster,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderRemoved,
    ReadLogsPolled,
    RecordsLost,
    SettingsChanged,
    TimePassed,
)
from evensplit.core.model import Cause, Loss, SplitId, StartBy, Topics
from evensplit.core.state.codec import same
from evensplit.core.state.settings import DECLARE
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.driver.ends.record_sizes import RecordSizes
from evensplit.testing.sim.bounds.limits import check_all_read, check_held, check_true_bytes, check_within, told_of
from evensplit.testing.sim.bounds.names import TOPICS
from evensplit.testing.sim.checkpoints import Entry, dump
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.oracle.plan_laws import check_ends
from evensplit.testing.sim.oracle.splits import Model
from evensplit.testing.sim.profile import Profile
from evensplit.testing.sim.simulated import DriverDied, Host, Simulated

JUMP_MS = 40 * 60_000
"""How far a jump of the clock goes: longer than the shorter retention times."""


class Driver(Host):
    """A host whose readers are processes of their own."""

    def __init__(self, simulation: Simulated, profile: Profile, random: Random) -> None:
        super().__init__(simulation, profile, random)
        if profile.restricted:
            self._restrict(profile.readers_max)
        self.now_ms = 1_000_000
        self.todo: list[Effect] = []
        self._port = 9092
        self._lean = False
        self._told: SettingsChanged | None = None
        self._told_sizes = RecordSizes()

    # One process.

    def _restore(self) -> None:
        sim, random, faults, entries = self._sim, self._random, self.faults, self.checkpoints.entries
        self.todo, self._lean, self._told, self._told_sizes = [], False, None, RecordSizes()
        # What only the process that died knew to be lost, its readers have not heard of either.
        undeclared = bool(sim.model.undeclared)
        reset = self._go_back() or undeclared
        # What readers report is part of a checkpoint, too, and an edit leaves nothing of it.
        reset = self._edit() or reset
        if reset:
            sim.network.flush()
            sim.readers.history.clear()
        self.checkpoints.restored()
        entry = self.checkpoints.last
        if entry is None:
            sim.restored(EnumeratorState(), Model())
        else:
            self._damage()
            if not entry.committed:
                self.checkpoints.replay(entry, entries[-2] if len(entries) > 1 else None)
                self._commit(entry, again=True)
            if "lean-checkpoint" in faults and random.random() < 0.4:
                entry = self._without_some(entry)
            sim.restored(self.checkpoints.read(entry.text), entry.model.copy())
        if "rescale" in faults and random.random() < 0.4:
            self.readers = random.randint(1, self._profile.readers_max)
        self._tell_settings()
        self._resize()
        reports = entry.reports if entry is not None else {}
        sim.readers.start(self.readers, reports, None if entry is None else entry.state.generation, sim.events)
        if reset or self._lean:
            for reader in sim.readers.all.values():
                reader.older = None, {}, {}

    def _without_some(self, entry: Entry) -> Entry:
        """A checkpoint that lacks splits which readers report: they are to be adopted where their readers stand."""
        lean, said = self.checkpoints.lean(entry, self._random)
        for what in said:
            self._sim.note(what)
        if lean is not entry:
            self._lean = True
        return lean

    def _tell_settings(self) -> None:
        told = SettingsChanged(
            self.settings, self.eligible, self._profile.discovery, self._profile.interval_ms, self.loss
        )
        if told != self._told:
            self._told = told
            self._sim.feed(told)

    def _resize(self) -> None:
        self._sim.feed(ParallelismChanged(self.readers))
        self._sim.readers.resize(self.readers, self._sim.events)

    # One batch.

    def _batch(self) -> Iterator[None]:
        sim, random = self._sim, self._random
        self._is_stopped()
        self._time()
        self._change()
        yield
        if self.faults and random.random() < 0.04:
            self._save()
        if not (self._lean and not sim.state.session.assigned) and (random.random() < 0.5 or not sim.state.settled):
            self.refresh()
        self.answer()
        yield
        self.answer()
        late = self.lookout.late_stops(sim.state, self.faults)
        if late is not None:
            sim.feed(late)
        entry = self._plan()
        if entry is None:
            return
        self._dies("after writing the offset log")
        yield
        self.answer()
        self._dies("after some of the tasks")
        self._commit(entry)
        self._dies("after writing the commit log")

    def _time(self) -> None:
        self.now_ms += 1 if self.frozen else self._random.choice((10, 1_000, 10_000, 40_000))
        if "clock-jump" in self.faults and self._random.random() < 0.02:
            self.now_ms += JUMP_MS
            self._sim.note("the clock jumps forward")
        self._sim.feed(TimePassed(self.now_ms))
        silent = self.lookout.silent(self._sim.state, self.now_ms)
        if silent:
            self._sim.note(f"the run ends: {silent}; it is started again")
            raise DriverDied

    def _change(self) -> None:
        """What the user or the cluster manager changes while the driver runs."""
        random, faults, sim = self._random, self.faults, self._sim
        if "rescale" in faults and random.random() < 0.05:
            self.readers = random.randint(1, self._profile.readers_max)
            self._resize()
        if "settings-change" in faults and random.random() < 0.02:
            self._change_settings()
            if self._profile.restricted:
                self._restrict(self._profile.readers_max)
            self._tell_settings()
        if "reader-removed" in faults and self.readers > 1 and random.random() < 0.03:
            index = random.randrange(self.readers)
            gone = sim.readers.all.get(index)
            if gone is not None and index not in sim.model.removed and len(sim.model.removed) < self.readers - 1:
                gone.up = False
                sim.feed(ReaderRemoved(index))

    def look(self) -> None:
        """Look at every cluster, and carry out everything that the enumerator asks."""
        self.refresh()
        self.answer()

    def refresh(self) -> None:
        """Ask the metadata which clusters there are."""
        world = self._sim.world
        if "bootstrap-change" in self.faults and self._random.random() < 0.1:
            self._port += 1
        names = tuple(name for name in TOPICS if name != world.narrowed)
        subscription = Topics(names) if world.narrowed or "narrowing" in self._profile.faults else None
        listed = tuple(
            ListedCluster(cluster.id, (f"{cluster.id}:{self._port}",), cluster.id == "b-c", subscription)
            for cluster in world.listed_clusters()
        )
        self._sim.feed(ClustersListed(listed, confirmed=False))

    def answer(self) -> None:
        """Carry out what the enumerator asked for. Answers come at once, or as late as the faults have it."""
        sim, random = self._sim, self._random
        for _ in range(64):
            if not self.todo:
                return
            asked, self.todo = self.todo, []
            for order in asked:
                event = self._listing(order.cluster) if isinstance(order, ListPartitions) else None
                if isinstance(order, ResolveStart):
                    event = self.lookout.starts(order, sim.state, self.faults)
                if event is None:
                    continue
                if "slow-answer" not in self.faults or random.random() < 0.6:
                    self._tell_lost(order, event)
                    self.tell(event)
                elif random.random() < 0.8:
                    for _ in range(random.choice((1, 1, 2))):
                        sim.answers.put(event, sim.events + random.randint(1, 40))
        raise Broken("liveness", f"the enumerator asks again and again: {self.todo[0]}")

    def _tell_lost(self, order: Effect, event: Event) -> None:
        """A user who named offset 0 as the start, and declares losses, is told what a log does not have any more."""
        by_offset = isinstance(order, ResolveStart) and order.by is StartBy.STRATEGY and not self._profile.latest
        if not (by_offset and isinstance(event, OffsetsResolved) and self.loss == DECLARE):
            return
        losses = tuple(Loss(key, Cause.OUT_OF_RANGE, 0, start, start) for key, start in event.starts.items() if start)
        if losses:
            self._sim.feed(RecordsLost(losses))

    def tell(self, event: Event) -> None:
        """A cluster's answer has come; with a listing, its logs are looked at, and perhaps once more."""
        sim = self._sim
        sim.feed(event)
        if isinstance(event, PartitionsListed) and not sim.model.void:
            observed = self.lookout.look(event, sim.state, self.faults)
            for _ in range(1 if self._random.random() < 0.8 else 2):
                sim.feed(observed)
            listed = {SplitId(event.cluster, one.topic, one.partition): one.topic_id for one in event.partitions}
            discovery = event.answer if event.complete else 0
            sim.feed(ReadLogsPolled(event.cluster, listed, observed.starts, observed.answer, discovery))

    def _listing(self, name: str) -> Event | None:
        cluster = self._sim.world.clusters[name]
        if not cluster.reachable:
            return ClusterPollFailed(name, "no broker answered")
        listed, complete = self._sim.world.answer(cluster, faults=self.faults)
        partitions = tuple(one for one in listed if one.topic != self._sim.world.narrowed)
        self.lookout.answers += 1
        return PartitionsListed(name, partitions, complete, cluster.kafka_id, answer=self.lookout.answers)

    def _plan(self) -> Entry | None:
        """Plan the next batch and log it, unless nothing has changed."""
        sim, state = self._sim, self._sim.state
        if not (state.settled and state.session.assigned):
            return None
        positions: dict[SplitId, int] = {}
        latest: dict[SplitId, int] = {}
        for split in state.load():
            key = split.id
            if split.owner is not None and split.position is not None:
                positions[key] = split.position
                log = sim.world.log(key, split.topic_id)
                if log is not None and self.lookout.is_current(key, log) and not self.lookout.unanswered(self.faults):
                    end = log.end if split.stop is None else min(log.end, split.stop)
                    back = "ends-go-back" in self.faults and self._random.random() < 0.2
                    latest[key] = max(0, end - self._random.randint(1, 9)) if back else end
        limits = BatchLimits() if self.still else self._profile.bounds.limits(self._profile.offsets_max)
        measured = self._told_sizes.measured
        sizes = full_sizes(self._told_sizes.of(state, positions, measured)) if limits.bytes else {}
        found = sim.rules.share(positions, latest, limits, sizes)
        ends = found.ends
        check_ends(ends, positions, latest, limits.offsets.batch)
        check_within(ends, positions, limits, sizes)
        check_true_bytes(ends, positions, limits, told_of(state, positions, measured))
        check_all_read(ends, positions, latest)
        check_held(found.held, ends, positions, latest, limits, sizes)
        sim.feed(BatchOpened(None, self.lookout.answers))
        sim.feed(BatchPlanned(ends, held=found.held, measured=measured), hold=True)
        self._told_sizes.forget()
        entry = self._write()
        sim.release()
        return entry

    def _save(self) -> None:
        """A checkpoint between two batches, perhaps before the readers have registered or anything was discovered."""
        entry = self._write()
        if entry is not None:
            self._sim.note("a checkpoint is made")
            self._commit(entry)

    def _write(self) -> Entry | None:
        """Write the state down, unless nothing has changed."""
        sim, last = self._sim, self.checkpoints.planned
        if last is not None and same(sim.state, last.state):
            return None
        text = dump(sim.rules.encode(sim.state))
        self._dies("before writing the offset log")
        sim.seal(text)
        reports = sim.readers.reports(sim.model)
        return self.checkpoints.write(sim.state, text, sim.model, reports)

    def _commit(self, entry: Entry, *, again: bool = False) -> None:
        """The tasks of a batch are done, if what they miss is declared; another process may do it `again`."""
        ranges = entry.again if again else entry.ranges
        skipped = self.lookout.skipped(ranges, entry.state)
        if skipped and self.loss != DECLARE:
            self._sim.note("a task misses records, and the run ends; it is started again, with losses to be declared")
            self.loss = DECLARE
            raise DriverDied
        self.checkpoints.done(entry, ranges, again=again)
        self._tell_sizes(ranges, self._told_sizes)
        self._sim.readers.committed(entry.model.marks)
        self._expire(entry)
