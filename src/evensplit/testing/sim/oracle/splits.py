"""The oracle: what has to be known of every split, kept without the enumerator's help.

It follows the events that the enumerator was given, by the laws alone: what was listed, where starts were resolved, how
far batches went. Whether an event counts can depend on the state in which it came; that state has been checked already.
`marks` is the model log: for each split with a start, the offset up to which its records were delivered or are being
delivered, exactly once, within its incarnation (cluster, topic id, partition, since it was last new).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from evensplit.core.machine.effects import Effect, Forget
from evensplit.core.machine.events import (
    Asked,
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    Event,
    LogsObserved,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderLost,
    ReaderRegistered,
    ReaderRemoved,
    ReadLogsPolled,
    RecordsLost,
    SettingsChanged,
    SplitsFinished,
    SplitsGivenBack,
    TimePassed,
)
from evensplit.core.model import Cause, Loss, Split, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.oracle.cluster_names import DONE, is_the_one, renamed_splits
from evensplit.testing.sim.oracle.known import Claims, Known
from evensplit.testing.sim.oracle.log_bounds import observe_logs
from evensplit.testing.sim.oracle.membership import STRATEGY, clusters_listed, is_unwanted, missed


@dataclass(slots=True)
class Model(Known):
    """What is known, and how each event changes it."""

    def copy(self) -> Model:
        """A model of the same checkpoint at the beginning of another session."""
        return Model(
            dict(self.known),
            dict(self.marks),
            dict(self.stops),
            dict(self.clusters),
            dict(self.by_strategy),
            self.assigned_readers,
            dict(self.runs),
            self.begun,
            dict(self.kafka),
            list(self.undeclared),
            self.one_log.copy(),
            dict(self.settled),
            self.moved,
            dict(self.edited),
            dict(self.left_out),
            dict(self.skips),
            interval_ms=self.interval_ms,
        )

    def observe(self, event: Event, before: EnumeratorState, effects: Sequence[Effect]) -> None:
        """Take in an event that came in the state `before`, and what the enumerator declared because of it."""
        kind = type(event)
        self.expect_nothing()
        observer = self._OBSERVERS.get(kind)
        if observer is not None:
            observer(self, event, before)
        self.undeclared += [loss for loss, fatal in self.expected if not fatal]
        for effect in effects:
            if type(effect) is Forget:
                self.forget(effect.split)

    def forget(self, split: SplitId) -> None:
        """The split is not known any more."""
        self.known.pop(split, None)
        self._ended(split)

    def _ended(self, split: SplitId) -> None:
        """What is known of the split does not hold any more, except that there is one."""
        for kept in (self.marks, self.stops, self.by_strategy, self.runs, self.ends, self.short, self.settled):
            kept.pop(split, None)
        self.skips.pop(split, None)
        self.one_log.end(split)

    def _opened(self, event: BatchOpened, before: EnumeratorState) -> None:
        self.read.batch_opened(event, before, self.skips, declares=self.loss == "declare")
        self.skips = {}

    def _polled(self, event: ReadLogsPolled, before: EnumeratorState) -> None:
        def is_wanted(key: SplitId) -> bool:
            return not is_unwanted(self, key)

        def is_doubted(key: SplitId) -> bool:
            return self.is_log_doubted(key, before.splits.get(key))

        asked_ms, known, is_short = self.asked_ms(event.asked), self.known, self.short.__contains__
        for loss in self.read.polled(event, asked_ms, self.interval_ms, is_wanted, is_doubted, is_short, known):
            self.lose(loss, settled=True)

    def _planned(self, event: BatchPlanned, before: EnumeratorState) -> None:
        self.uncompared = self.read.oldest(self.known)
        if self.loss == "declare":
            self.read.planned(event, before)
        self.marks.update(event.ends)
        for key, mark in self.marks.items():
            split = before.splits.get(key)
            if split is not None and (
                event.ends.get(key, split.position) != split.position
                or (split.active and key not in self.one_log.epochs)
            ):
                self.one_log.read_to(key, mark)

    def _time(self, event: TimePassed, *_: object) -> None:
        self.now_ms = event.now_ms

    def _settings(self, event: SettingsChanged, *_: object) -> None:
        self.interval_ms, self.loss = event.discovery_interval_ms, event.loss

    def _removed(self, event: ReaderRemoved, *_: object) -> None:
        self.removed[event.reader] = True
        self.claims.pop(event.reader, None)
        self.registered.pop(event.reader, None)

    def _parallelism(self, event: ParallelismChanged, *_: object) -> None:
        for kept in (self.removed, self.registered, self.claims):
            for reader in [reader for reader in kept if reader >= event.readers]:
                kept.pop(reader)

    def _lost(self, event: ReaderLost, *_: object) -> None:
        self.claims.pop(event.reader, None)
        self.registered.pop(event.reader, None)

    def _resolved(self, event: OffsetsResolved, *_: object) -> None:
        for split, offset in event.starts.items():
            # A start is final: a second answer is not looked at, nor one about another incarnation.
            if split in self.known and split not in self.marks and self.is_of(event.topic_ids, split):
                self.begin(split, offset)
        for split, stop in event.stops.items():
            # So is a stop. One that lies behind what was read, or before the start, leaves nothing to read.
            if split in self.marks and split not in self.stops and self.is_of(event.topic_ids, split):
                self.stops[split] = max(self.marks[split], stop)

    def _finished(self, event: SplitsFinished, before: EnumeratorState) -> None:
        session = before.session
        registration = session.registrations.get(event.reader)
        if registration is None or registration.epoch != event.epoch or not session.assigned:
            return
        for split, offset in event.splits.items():
            known = before.splits.get(split)
            if known is None or not self.is_of(event.topic_ids, split):
                continue
            if known.owner == event.reader and known.position is not None:
                self.marks[split] = max(known.position, offset)

    def _given_back(self, event: SplitsGivenBack, *_: object) -> None:
        for split, offset in event.splits.items():
            self._adopt(split, "", offset)

    def _adopt(self, split: SplitId, topic_id: str, offset: int) -> bool:
        """Whether nobody knew the split. It is taken up where its reader says that it stands."""
        if split in self.known:
            return False
        self.known[split] = topic_id
        self.begin(split, offset)
        self.clusters.setdefault(split.cluster, DONE)
        return True

    def _unread(self, split: SplitId, cause: Cause) -> Loss | None:
        """What was not read of a log that is gone, as far as it had been seen."""
        mark, end = self.marks.get(split), self.ends.get(split)
        if mark is None:
            return None
        if end is None:
            return None if split in self.settled else Loss(split, cause, mark)
        end = min(end, self.stops.get(split, end))
        return Loss(split, cause, mark, end, end - mark) if mark < end else None

    def _listed(self, event: PartitionsListed, before: EnumeratorState) -> None:
        """Whatever is listed is known from now on; what a complete answer lacks begins to be missing."""
        cluster = before.clusters.get(event.cluster)
        if cluster is None or cluster.removed_at_ms is not None or event.answer < self.heard.get(event.cluster, 0):
            return
        self.heard[event.cluster] = event.answer
        if not is_the_one(self, event, before):
            return
        repeated = self._is_repeated(event)
        doubted = dict.fromkeys(self.ids.doubted, True)
        splits = renamed_splits(self, before)
        by_strategy = self.clusters[event.cluster] == STRATEGY
        lags = self.ids.look(event, splits, self.known, self.marks, self.asked_ms(event.asked), self.interval_ms)
        seen: dict[SplitId, bool] = {}
        for listed in event.partitions:
            key = SplitId(event.cluster, listed.topic, listed.partition)
            seen[key] = True
            self.missing.pop(key, None)
            if not self.ids.is_doubted(key):
                self._is_listed(key, listed.topic_id, splits.get(key), by_strategy=by_strategy)
        for other in event.seen:
            self.missing.pop(SplitId(event.cluster, other.topic, other.partition), None)
        if event.complete and not repeated and not lags:
            self.clusters[event.cluster] = DONE
            for key, split in splits.items():
                lacking = key.cluster == event.cluster and key not in seen and not is_unwanted(self, key)
                if lacking and not self.ids.is_doubted(key):
                    self._lacks(key, split, event)
        elif repeated or not before.session.discovery:
            for other in event.seen:
                seen[SplitId(event.cluster, other.topic, other.partition)] = True
            self._lacked_in_doubt(event.cluster, doubted, seen, splits, event.asked)
        for loss in self.read.recreated(self.known):
            self.lose(loss, settled=True)

    def _lacked_in_doubt(
        self,
        cluster: str,
        doubted: Mapping[tuple[str, str], bool],
        seen: Mapping[SplitId, bool],
        splits: Mapping[SplitId, Split],
        asked: Asked,
    ) -> None:
        """What the discovery lacked of a topic was not counted while its id was in doubt, and it is not any more."""
        for key, split in splits.items():
            settled = key[:2] in doubted and not self.ids.is_doubted(key)
            away = split.removed_at_ms is not None or key in seen or is_unwanted(self, key)
            if key.cluster == cluster and settled and not away and key not in self.missing:
                missed(self, key, asked)

    def _is_repeated(self, event: PartitionsListed) -> bool:
        """Whether the same discovery was told before, and the cluster's first one is over."""
        before = self.discoveries.get(event.cluster, 0)
        if event.complete and event.discovery:
            self.discoveries[event.cluster] = event.discovery
        return 0 < event.discovery == before and self.clusters[event.cluster] == DONE

    def _is_listed(self, key: SplitId, topic_id: str, split: Split | None, *, by_strategy: bool) -> None:
        """A split is there, in an incarnation that is to be believed."""
        known = self.known.get(key)
        if split is not None and (split.finished or (split.removed_at_ms is not None and is_unwanted(self, key))):
            return
        if known is None:
            self.known[key] = topic_id
            if by_strategy:
                self.by_strategy[key] = True
        elif topic_id and known != topic_id and (not known or key not in self.marks):
            self.known[key] = topic_id
            if key not in self.marks:
                self.ends.pop(key, None)
        elif topic_id and known != topic_id:
            loss = self._unread(key, Cause.RECREATED)
            if loss is None or self.lose(loss, settled=split is not None and split.removed_at_ms is not None):
                self.ids.note_former(key, known)
                self.known[key] = topic_id
                self._ended(key)
        self.settled.pop(key, None)

    def _lacks(self, key: SplitId, split: Split, event: PartitionsListed) -> None:
        """A complete answer lacks a split: the second one in a row says that it was deleted.

        What is not read any more was deleted where the topic is another one by now.
        """
        missed(self, key, event.asked)
        if split.removed_at_ms is not None and key not in self.settled and self._is_replaced(key, event):
            loss = self._unread(key, Cause.DELETED)
            if loss is not None:
                self.lose(loss, settled=True)
            self._settle(key, loss)
        if not split.active or not self.is_gone(key):
            return
        loss = self._unread(key, Cause.DELETED)
        if loss is None or self.lose(loss):
            self._settle(key, loss)

    def _is_replaced(self, key: SplitId, event: PartitionsListed) -> bool:
        """Whether the topic of a split that is not listed is another one by now."""
        named = [one.topic_id for one in event.partitions if one.topic == key.topic and one.topic_id]
        seen = any((one.topic, one.partition) == key[1:] for one in event.seen)
        return bool(named and self.known[key]) and self.known[key] not in named and not seen

    def _settle(self, key: SplitId, loss: Loss | None) -> None:
        """What was unread of a split is declared once; only what is seen of its log from now on is not."""
        self.settled[key] = True
        if loss is not None:
            self.ends.pop(key, None)

    def _found_lost(self, event: RecordsLost, *_: object) -> None:
        for loss in event.losses:
            self.lose(loss)

    def _registered(self, event: ReaderRegistered, before: EnumeratorState) -> None:
        """A split that nobody knew is adopted where its reader says that it stands; a reader takes part again."""
        if event.reader < before.readers:
            self.removed.pop(event.reader, None)
            self.registered[event.reader] = True
            self.claims[event.reader] = Claims(event.generation, frozenset(event.reported))
        for split, offset in event.reported.items():
            topic_id = event.topic_ids.get(split, "")
            if self._adopt(split, topic_id, offset) or not self.is_of(event.topic_ids, split):
                continue
            known = before.splits[split]
            if event.reader >= before.readers or known.finished:
                continue
            if before.session.assigned and known.owner not in (None, event.reader):
                continue
            # What a reader has read further than the checkpoint says is not read again. Where the start was not looked
            # up yet, it is where the reader was told to begin.
            mark = self.marks.get(split)
            if (split in self.by_strategy or topic_id) if mark is None else offset > mark:
                self.begin(split, offset)

    _OBSERVERS: ClassVar[Mapping[type, Callable[[Model, Any, EnumeratorState], None]]] = MappingProxyType(
        {
            BatchOpened: _opened,
            BatchPlanned: _planned,
            ClustersListed: clusters_listed,
            OffsetsResolved: _resolved,
            ParallelismChanged: _parallelism,
            PartitionsListed: _listed,
            ReaderLost: _lost,
            ReaderRegistered: _registered,
            ReaderRemoved: _removed,
            ReadLogsPolled: _polled,
            LogsObserved: observe_logs,
            RecordsLost: _found_lost,
            SettingsChanged: _settings,
            SplitsFinished: _finished,
            SplitsGivenBack: _given_back,
            TimePassed: _time,
        }
    )
