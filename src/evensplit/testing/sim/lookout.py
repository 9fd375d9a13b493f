"""What a simulated host sees of the logs: where they end and begin, stale now and then, and what a batch skipped."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from evensplit.core.machine.effects import ResolveStart
from evensplit.core.machine.events import LogsObserved, OffsetsResolved, PartitionsListed
from evensplit.core.model import Cause, EpochTable, Loss, Range, SplitId, StartBy
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.profile import Profile
from evensplit.testing.sim.world import Log, World

STALE_MAX = 2
"""So many answers in a row that count can come from a broker that lags behind."""

SILENT_MS_MAX = 300_000
"""After so long a host ends a run in which a topic gives nothing, as `unreachableTimeout` does it."""


class Lookout:
    """The answers of all leaders of one simulation. `answers` counts them."""

    def __init__(self, world: World, profile: Profile, random: Random) -> None:
        self._world = world
        self._profile = profile
        self._random = random
        self._stale: dict[SplitId, int] = {}
        """Split -> how many stale answers its leader gave since one was heard that left nothing open."""
        self._last_stale: dict[SplitId, int] = {}
        """Split -> how many of its last answers are stale, heard or not."""
        self._tables: dict[SplitId, EpochTable] = {}
        self.answers = 0

    def look(self, listed: PartitionsListed, state: EnumeratorState, faults: frozenset[str]) -> LogsObserved:
        """The logs of what was listed, as far as their leaders answer and they are of the listed incarnation."""
        random = self._random
        self.answers += 1
        ends: dict[SplitId, int] = {}
        starts: dict[SplitId, int] = {}
        epochs: dict[SplitId, EpochTable] = {}
        for one in listed.partitions:
            key = SplitId(listed.cluster, one.topic, one.partition)
            split, log = state.splits.get(key), self._world.log(key, one.topic_id)
            if log is None or split is None or split.topic_id != one.topic_id:
                continue
            if self.unanswered(faults):
                continue
            table, ends[key] = self.end(key, log, faults, state)
            # Now and then nobody asks for it. When the faults stop, somebody does: what was skipped must not stay open.
            if random.random() < 0.8 or not faults:
                starts[key] = log.start
            if self._profile.tells_epochs:
                epochs[key] = self._tables[key] = table
        return LogsObserved(listed.cluster, ends, starts, self.answers, epochs)

    def end(self, key: SplitId, log: Log, faults: frozenset[str], state: EnumeratorState) -> tuple[EpochTable, int]:
        """The epochs of a log and where it ends, by a leader that may lag behind, or be a former one."""
        random, table, end = self._random, tuple(reversed(log.epochs)), log.end
        seen = state.session.truncation_observations.get(key)
        # What is true is not always heard.
        told = max(self._stale.get(key, 0), 0 if seen is None else seen.answers)
        stale = told < STALE_MAX and random.random() < 0.3
        if stale and "ends-go-back" in faults:
            end = max(0, log.end - random.randint(1, 9))
        elif stale and "former-leader" in faults and len(table) > 1:
            table, end = table[1:], min(log.end, table[0].start)
        if end < log.end:
            self._stale[key], self._last_stale[key] = self._stale.get(key, 0) + 1, self._last_stale.get(key, 0) + 1
        else:
            self._last_stale[key] = 0
        return (table if self._profile.tells_epochs else ()), end

    def heard(self, event: LogsObserved, before: EnumeratorState, state: EnumeratorState) -> None:
        """The enumerator was told of logs: those of which it doubts nothing in `state` may lag behind anew."""
        if event.answer <= before.session.observed.get(event.cluster, 0):
            return
        for key in event.ends:
            doubted = state.session.doubts(key, state.splits.get(key))
            if key in self._stale and not doubted and key not in state.session.truncation_observations:
                self._stale[key] = self._last_stale[key]

    def is_current(self, key: SplitId, log: Log) -> bool:
        """Whether no other leader began since the log was seen, so that it is the one whose epochs are known."""
        return not self._profile.tells_epochs or self._tables.get(key, ()) == tuple(reversed(log.epochs))

    def starts(self, order: ResolveStart, state: EnumeratorState, faults: frozenset[str]) -> OffsetsResolved | None:
        """Where splits begin, and end in a bounded read, as far as their leaders answer; None if none does."""
        starts: dict[SplitId, int] = {}
        stops: dict[SplitId, int] = {}
        topic_ids: dict[SplitId, str] = {}
        for key in order.splits:
            split = state.splits.get(key)
            if split is None or self.unanswered(faults):
                continue
            log = self._world.log(key, split.topic_id)
            if log is not None:
                latest = order.by is StartBy.STRATEGY and self._profile.latest
                starts[key] = log.end if latest else log.start
                topic_ids[key] = split.topic_id
                if self._profile.bounded and self._random.random() < 0.8:
                    stops[key] = log.end
        return OffsetsResolved(starts, stops, topic_ids) if starts else None

    def late_stops(self, state: EnumeratorState, faults: frozenset[str]) -> OffsetsResolved | None:
        """In a bounded read, where splits end that were begun without an end; None if there is none that answers."""
        stops: dict[SplitId, int] = {}
        topic_ids: dict[SplitId, str] = {}
        for key, split in state.splits.items() if self._profile.bounded else ():
            if split.active and split.position is not None and split.stop is None and not self.unanswered(faults):
                log = self._world.log(key, split.topic_id)
                if log is not None:
                    stops[key], topic_ids[key] = log.end, split.topic_id
        return OffsetsResolved({}, stops, topic_ids) if stops else None

    @staticmethod
    def silent(state: EnumeratorState, now_ms: int) -> str:
        """What has given nothing for too long, since it is listed with a former id; empty where nothing has.

        Two old answers in a row, with nothing between them, are believed, and then the true one is not.
        """
        for (cluster, topic), one in state.session.id_conflicts.items():
            if one.former and now_ms - one.since_ms > SILENT_MS_MAX:
                return f"topic {topic} of {cluster} gives nothing"
        return ""

    def unanswered(self, faults: frozenset[str]) -> bool:
        """Whether a leader does not answer this time."""
        return "partial-offsets" in faults and self._random.random() < 0.2

    def skipped(self, ranges: Iterable[Range], state: EnumeratorState) -> tuple[Loss, ...]:
        """The truth: what of a batch's `ranges` is not there any more while they are read."""
        found: list[Loss] = []
        for part in ranges:
            log = self._world.incarnation(part.split, state.splits[part.split].topic_id)
            if log is None:
                found.append(Loss(part.split, Cause.DELETED, part.start, None, part.size))
            elif log.start > part.start:
                found.append(
                    Loss(part.split, Cause.AGED_OUT, part.start, log.start, min(log.start, part.end) - part.start)
                )
        return tuple(found)

    def confirm(self, loss: Loss, topic_id: str) -> None:
        """Raise `Broken` for a loss in the incarnation `topic_id` that never was. S9"""
        log = self._world.incarnation(loss.split, topic_id)
        if log is None:
            return
        # A position beyond all that the log ever had is of another topic, whose id nobody knew.
        if loss.cause is Cause.TRUNCATED and not log.cut and loss.position <= log.reached:
            raise Broken("S9", f"{loss} is declared, and the log has always had its end", loss.split)
        if loss.cause is Cause.REPLACED and not log.cut:
            raise Broken("S9", f"{loss} is declared, and the log has never been another one", loss.split)
        if loss.cause is Cause.AGED_OUT and not (log.start >= (loss.found or 0) > loss.position):
            raise Broken("S9", f"{loss} is declared, and the log begins at {log.start}", loss.split)
        if loss.cause is Cause.DELETED and loss.found is not None and loss.found > log.reached:
            raise Broken("S9", f"{loss} is declared, and the log never went beyond {log.reached}", loss.split)
