"""A simulated driver of Spark around what ships: its stream reader, coordinator and pollers, over one checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

from pyspark.sql.streaming.datasource import ReadAllAvailable

from evensplit.core.batch.limits import BatchLimits, Caps
from evensplit.core.batch.plan import ReaderPlan
from evensplit.core.machine.effects import RefuseCluster, ReportLoss
from evensplit.core.machine.enumerator import Step
from evensplit.core.machine.events import BatchPlanned, Event, ParallelismChanged
from evensplit.core.machine.rebalance import unreadable_splits
from evensplit.core.model import Loss, Split
from evensplit.core.state.offset_strategies import Earliest, Latest
from evensplit.core.state.settings import RATE
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterError, DataLossError, MetadataError, SubscriptionError
from evensplit.spark.driver.coordinator import Coordinator
from evensplit.spark.options.parse import ClusterOptions, SourceOptions, parse_options
from evensplit.spark.stream_reader import EvenSplitStreamReader
from evensplit.testing.sim.bounds.limits import check_all_read, check_held, check_true_bytes, check_within, told_of
from evensplit.testing.sim.bounds.slots import FEWER_AFTER_MS, SessionSlots
from evensplit.testing.sim.checkpoints import Entry, dump
from evensplit.testing.sim.driver import JUMP_MS
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.oracle.plan_laws import check_joined
from evensplit.testing.sim.oracle.skipping import Owed
from evensplit.testing.sim.oracle.splits import Model
from evensplit.testing.sim.profile import Profile
from evensplit.testing.sim.simulated import DriverDied, Host, Simulated
from evensplit.testing.sim.stream.port import SimPort, SimService
from evensplit.testing.sim.stream.scheduler import SimScheduler
from evensplit.testing.sim.world import record_ms

Result = TypeVar("Result")

_ENDS_THE_QUERY = (ClusterError, DataLossError, MetadataError, SubscriptionError)


class StreamHost(Host):
    """Spark's driver around what ships; its readers are tasks."""

    def __init__(self, simulation: Simulated, profile: Profile, random: Random) -> None:
        super().__init__(simulation, profile, random)
        self.owed = Owed(simulation.world)
        self._scheduler = SimScheduler(random, self._happen, lambda: "slow-answer" in self.faults)
        self._slots = SessionSlots()
        """What the session answers, in runs in which the number of readers follows `readers`, its slots."""
        self._service = SimService(simulation.world, profile, random, lambda: self.faults, lambda: simulation.state)
        self._reader = self._begin_reader()
        self._at: dict[str, Any] = {}
        self._logged_in = 0

    # What happens while the driver waits.

    def _happen(self) -> None:
        if self.faults and self._random.random() < 0.02 and (what := self._sim.world.act(self.faults)):
            self._sim.note(f"meanwhile, {what}")

    def look(self) -> None:
        """Time passes in which the clusters are polled."""
        self._scheduler.sleep(0.5 if self.frozen else 40.0)

    def outlast(self) -> None:
        """So much time passes that nothing removed is kept any longer, even if the clock was set back since."""
        kept, now_ms = self._sim.state, self._scheduler.now_ms()
        removed = [split.removed_at_ms or 0 for split in kept.splits.values()]
        removed += [cluster.removed_at_ms or 0 for cluster in kept.clusters.values()]
        ahead_ms = max((now_ms, *removed)) - now_ms
        self._scheduler.sleep(max((ahead_ms + self.settings.retention_ms) / 1000, FEWER_AFTER_MS / 1000) + 1)

    # One process.

    def _restore(self) -> None:
        sim, random, faults, entries = self._sim, self._random, self.faults, self.checkpoints.entries
        self._go_back()
        self._edit()
        self._change_options()
        self._reader = self._begin_reader()
        if "available-now" in faults and random.random() < 0.3:
            sim.note("the query reads what there is, and ends")
            self._call(self._reader.prepareForTriggerAvailableNow)
        self.checkpoints.restored()
        entry = self.checkpoints.last
        if entry is None:
            sim.restored(EnumeratorState(), Model())
            self._at = {}
            self.owed.restored(())
            return
        self._damage()
        self._at = json.loads(entry.text)
        sim.restored(self.checkpoints.read(entry.text), entry.model.copy())
        self.owed.restored(entry.owed, entry.state.losses)
        if not entry.committed:
            before = json.loads(entries[-2].text) if len(entries) > 1 else {}
            self._read(before, entry, again=True)

    def _begin_reader(self) -> EvenSplitStreamReader:
        options = self._options()
        self._limits, self._reads_all = options.limits.batch, False
        self._slots.begin()

        def coordinate(options: SourceOptions, readers_default: int) -> Coordinator:
            self._coordinator = Coordinator(
                options,
                readers_default=readers_default,
                slots=self._ask_slots if self._profile.bounds.follows_slots else None,
                starting_default=Latest() if self._profile.latest else Earliest(),
                connect=self._connect,
                opened=lambda _: self._service,
                scheduler=self._scheduler,
                advance=self._advance,
            )
            return self._coordinator

        # What tasks tell is not received over a connection, but taken when they are done.
        return EvenSplitStreamReader(options, 1, coordinate, receive=lambda *_: None)

    def _connect(self, cluster: ClusterOptions) -> SimPort:
        # A topic that is never looked at again has its one id, so a broker that lags behind cannot be found out.
        never = frozenset(() if self._profile.discovery else ("stale-answer",))
        return SimPort(cluster.id, self._sim.world, self.lookout, lambda: self.faults - never, lambda: self._sim.state)

    def _ask_slots(self) -> int | None:
        """How many tasks the session runs at once; now and then nobody answers, or there is no executor."""
        silent = bool(self.faults) and self._random.random() < 0.1
        return self._slots.answer(self._random.choice((None, 0)) if silent else self.readers)

    def _options(self) -> SourceOptions:
        profile, settings = self._profile, self.settings
        limits, by_work = profile.bounds, settings.balance == RATE
        offsets = profile.offsets_max if limits.offsets is None else limits.offsets
        capacities = {one: of for one, of in settings.capacities if limits.follows_slots or one < self.readers}
        given = {
            "metadata": "simulated.json",
            "readers": "auto" if limits.follows_slots else str(self.readers),
            "policy": settings.policy,
            "assignScope": settings.scope,
            "rebalance": settings.rebalance,
            "plan": settings.plan,
            "readerOffsetsMin": settings.reader_offsets_min,
            "minPartitions": settings.tasks_min,
            "maxRecordsPerPartition": settings.task_offsets_max,
            "balance": settings.balance,
            "rebalanceGain": settings.gain_percent if by_work else None,
            "rebalanceMovesPerHour": settings.moves_per_hour if by_work else None,
            "capacity": json.dumps(capacities) if capacities else None,
            "maxOffsetsPerTrigger": None if self.still else offsets,
            "maxBytesPerTrigger": None if self.still else limits.bytes,
            "priority": None if self.still else limits.priority,
            "alignment": profile.alignment_ms and f"{profile.alignment_ms} ms",
            "idleTimeout": profile.alignment_ms and "20s",
            "alignmentAway": profile.alignment_ms and profile.away,
            "removedRetention": f"{settings.retention_ms} ms",
            "discoveryInterval": f"{max(profile.interval_ms, 1) if profile.discovery else 0} ms",
            "failOnDataLoss": str(self.loss == "fail").lower(),
            "stop": "latest" if profile.bounded else None,
        }
        parsed = parse_options({name: str(value) for name, value in given.items() if value is not None})
        return replace(parsed, pins=self.eligible)

    def _change_options(self) -> None:
        """The user starts the query with other options."""
        random = self._random
        if "rescale" in self.faults and random.random() < 0.4:
            self.readers = random.randint(1, self._profile.readers_max)
        if "settings-change" in self.faults and random.random() < 0.3:
            self._change_settings()
        if self._profile.restricted and not self.still and random.random() < 0.5:
            self._restrict(self.readers)

    def _call(self, asked: Callable[..., Result], *given: object) -> Result:
        """What the reader says; an error that ends a query ends it, and any other one is a fault."""
        try:
            return asked(*given)
        except _ENDS_THE_QUERY as error:
            self._sim.note(f"the query ends: {error}")
            raise DriverDied from error
        except (Broken, DriverDied):
            raise
        except Exception as error:
            raise Broken("crash", f"{asked.__name__} raised {error!r}") from error

    def _advance(self, state: EnumeratorState, event: Event) -> Step:
        """The step of the enumerator, with every law checked."""
        sim = self._sim
        if type(event) is BatchPlanned:
            self._check_ends(state, event)
            self._check_limits(state, event)
        elif type(event) is ParallelismChanged and self._profile.bounds.follows_slots:
            self._slots.check(state.readers, event.readers, state.session.now_ms or 0)
        step = sim.step(state, event)
        for effect in step.effects:
            if type(effect) is RefuseCluster:
                sim.note(sim.world.correct(effect.cluster, step.state.clusters))
            elif type(effect) is ReportLoss and effect.fatal:
                sim.note("the query is started again, with losses to be declared")
                self.loss = "declare"
        return step

    def _check_ends(self, state: EnumeratorState, event: BatchPlanned) -> None:
        """S12, S17: no batch goes further than its logs ever did, or than alignment allows."""
        for key, end in event.ends.items():
            log = self._sim.world.incarnation(key, state.splits[key].topic_id)
            if log is not None and end > max(log.reached, state.splits[key].position or 0):
                raise Broken("S12", f"{key} is to be read to {end}; its log never went beyond {log.reached}", key)
            ahead_ms, position = self._profile.alignment_ms, state.splits[key].position or 0
            if ahead_ms is None or event.reached_ms is None or log is None:
                continue
            # Of a log that lost its tail since its end was seen, it says that all of it is older. Of one that lost its
            # beginning, nothing is read up to there.
            if max(position, log.start) < end <= log.end:
                newest_ms, most_ms = record_ms(key, end - 1), event.reached_ms + ahead_ms
                if newest_ms >= most_ms:
                    raise Broken("S17", f"{key} is to be read to {newest_ms} ms; expected less than {most_ms} ms", key)

    def _check_limits(self, state: EnumeratorState, event: BatchPlanned) -> None:
        """S18: batches keep within their limits, read something of each split, and say what held them back."""
        limits = BatchLimits() if self._reads_all else self._limits
        stopping = self._profile.bounded
        positions = {
            split.id: split.position
            for split in state.load()
            if split.position is not None and not (stopping and split.stop is None)
        }
        sizes = self._coordinator.sizes.of(state, positions, event.measured) if limits.bytes else {}
        # Offsets that have gone since the log was seen are no work.
        logs = {key: self._sim.world.incarnation(key, state.splits[key].topic_id) for key in positions}
        there = {key: max(at, 0 if (log := logs[key]) is None else log.start) for key, at in positions.items()}
        told = told_of(state, positions, event.measured)
        # What is not told yet counts as the clusters say that logs are long.
        by_told = limits if all(told.values()) else replace(limits, bytes=Caps())
        check_within(event.ends, there, by_told, sizes)
        check_true_bytes(event.ends, there, limits, told)
        seen = self._coordinator.report()
        unreadable = unreadable_splits(state)
        if self._profile.alignment_ms is not None or seen.unreachable:
            return
        latest = {
            key: end if (stop := state.splits[key].stop) is None else min(end, stop)
            for key, end in seen.latest.items()
            if key in positions and key not in unreadable
        }
        check_all_read(event.ends, positions, latest)
        if by_told.bytes == limits.bytes:
            check_held(event.held, event.ends, positions, latest, limits, sizes)

    # One batch.

    def _batch(self) -> Iterator[None]:
        random = self._random
        self._is_stopped()
        if self.still and self._limits and self._profile.alignment_ms is not None:
            # Without alignment, Spark asks for everything; with it, only other options do.
            self._sim.note("the query is started again, without limits")
            raise DriverDied
        self._scheduler.sleep(0.2 if self.frozen else random.choice((0.01, 1.0, 10.0, 40.0)))
        if "clock-jump" in self.faults and random.random() < 0.02:
            self._scheduler.wall_ahead_s += random.choice((JUMP_MS / 1000, -JUMP_MS / 1000))
            self._sim.note("the clock jumps")
        if self._profile.bounds.follows_slots and "rescale" in self.faults and random.random() < 0.1:
            self.readers = random.randint(1, self._profile.readers_max)
            self._sim.note(f"the session has {self.readers} slots")
        yield
        start, reader, events = self._at, self._reader, self._sim.events
        self._reads_all = self.still and self._profile.alignment_ms is None
        limit = ReadAllAvailable() if self._reads_all else reader.getDefaultReadLimit()
        end = self._call(reader.latestOffset, start, limit)
        self._call(reader.reportLatestOffset)
        if self._sim.events == events:
            # The enumerator was told nothing, and may never be again: so a run ends all the same.
            self._sim.events += 1
        if end == start:
            if reader.batches.is_available_now:
                self._sim.note("the query has read what there was")
                raise DriverDied
            return
        self._dies("before writing the offset log")
        text = dump(end)
        self._sim.seal(text)
        before, logged = self.checkpoints.last, self._is_logged()
        entry = self.checkpoints.write(self._sim.state, text, self._sim.model, {}, logged=logged)
        if logged:
            entry.owed = self.owed.logged(self._sim.state.losses)
            if before is not None:
                self._call(reader.commit, json.loads(before.text))
        self._dies("after writing the offset log")
        yield
        self._read(start, entry, again=False)
        self._at = json.loads(text)
        self._dies("after writing the commit log")

    def _is_logged(self) -> bool:
        """Whether the offset that comes is written down; the first one of a process is, as Spark does it."""
        if "log-gaps" not in self.faults:
            return True
        first = self.checkpoints.planned is self.checkpoints.last and self._logged_in != self._sim.sessions
        self._logged_in = self._sim.sessions
        return first or self._random.random() < 0.4

    def _read(self, start: dict[str, Any], entry: Entry, *, again: bool) -> None:
        """The tasks of a batch read what they are to read or, where losses are declared, what of it is there. S11, S15

        `again`: another process had planned it.
        """
        expected = entry.again if again else entry.ranges
        end = json.loads(entry.text)
        plans = self._planned(start, end)
        check_joined([part for one in plans for part in one.ranges], expected)
        if self._planned(start, end) != plans:
            raise Broken("S11", "a batch that is planned twice is planned in two ways")
        self._dies("after some of the tasks")
        skipped = self.lookout.skipped(expected, entry.state)
        if skipped and self.loss == "fail":
            self._sim.note("a task misses records, and the query ends; it is started again, with losses to be declared")
            self.loss = "declare"
            raise DriverDied
        self.checkpoints.done(entry, (part for one in plans for part in one.ranges), again=again)
        if self._limits.bytes:
            self._tell_sizes(expected, self._coordinator.sizes)
        self.owed.skipped(skipped, entry.state.losses)
        # What was planned when nothing could be skipped, and skipped when it was done again, is in no state.
        entry.owed = (*entry.owed, *(one for one in skipped if _is_kept(entry.state.splits[one.split], one)))
        self._expire(entry)

    def _planned(self, start: dict[str, Any], end: dict[str, Any]) -> list[ReaderPlan]:
        return [ReaderPlan(one.reader, one.ranges) for one in self._call(self._reader.partitions, start, end)]  # type: ignore[attr-defined]


def _is_kept(split: Split, loss: Loss) -> bool:
    """Whether a state says that a batch has read what was skipped."""
    return split.read_from is not None and split.read_from <= loss.position
