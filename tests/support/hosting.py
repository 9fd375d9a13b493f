"""A host of the enumerator in memory, as docs/howto/host.md says that one has to be, and what has to hold of it.

Clusters have logs, readers fail at any time, the host dies between any two orders, and a sink has the records that are
safe. It knows the public names of `evensplit.enumerator` only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import evensplit.enumerator as en

INTERVAL_MS = 10


class HostDied(Exception):
    """The host is not there any more; another one begins at the last checkpoint."""


@dataclass(eq=False)
class Process:
    """A reader. `held`: what it has been told to read -> the next offset; without a fence, it is safe only later."""

    number: int
    epoch: int
    alive: bool = True
    registered: bool = False
    held: dict[en.SplitId, int] = field(default_factory=dict)


class Host:
    """Tells the enumerator what happens, and carries out what it orders.

    `fenced`: readers write by themselves, to a sink that knows who may; then one that is given up may go on for a
    while, and what it wrote beyond a position is void when the split is assigned anew. Otherwise what they have read
    becomes safe at a checkpoint, and is kept with the state, at once.
    """

    def __init__(self, settings: en.Settings, readers: int, *, fenced: bool) -> None:
        self.settings, self.readers, self.fenced = settings, readers, fenced
        self.logs: dict[en.SplitId, int] = {}
        self.gone: dict[en.SplitId, int] = {}
        self.begins: dict[en.SplitId, int] = {}
        self.records: dict[en.SplitId, list[int]] = {}
        self.writers: dict[en.SplitId, tuple[int, int, int]] = {}
        self.stops: dict[en.SplitId, int] = {}
        self.processes: dict[int, Process] = {}
        self.given_up: list[Process] = []
        self.kept = ""
        self.epoch = self.now_ms = 0
        self.orders_left: int | None = None
        self.begin()

    def begin(self) -> None:
        """A new host goes on from the checkpoint."""
        self.state = en.decode(json.loads(self.kept)) if self.kept else en.EnumeratorState()
        self.give_up(*self.processes)
        self.holders: dict[en.SplitId, int] = {}
        self.there: dict[int, int] = {}
        self.assigned, self.sound = False, True
        self.asked: set[str] = set()
        self.unresolved: set[en.SplitId] = set()
        self.topics: Mapping[str, tuple[str, ...]] = {}
        settings = en.SettingsChanged(self.settings, discovery_interval_ms=INTERVAL_MS, loss="declare")
        self.tell(settings, en.TimePassed(self.now_ms), en.ParallelismChanged(self.readers))

    def tell(self, *events: en.Event) -> None:
        try:
            for event in events:
                self._tell(event)
        except HostDied:
            self.orders_left = None
            self.begin()

    def _tell(self, event: en.Event, at_once: Callable[[], None] = lambda: None) -> None:
        before, self.sound = self.state, False
        done = en.step(before, event)
        self.state = done.state
        assert en.check(self.state) == ()
        assert en.check_step(before, event, self.state) == ()
        assert en.decode(json.loads(json.dumps(en.encode(self.state)))) == self.state
        for key, split in before.splits.items():
            after = self.state.splits.get(key, split)
            assert split.position is None or (after.position or 0) >= split.position, f"{key} went back"
        at_once()
        self._let_go(event)
        # There may be nothing to assign then.
        self.assigned |= self.state.ready and self.there.keys() >= set(self.state.participants)
        for effect in done.effects:
            self._may_die()
            self._carry_out(effect)
        self._may_die()
        for key in [key for key in self.holders if key not in self.state.splits or self.state.splits[key].finished]:
            del self.holders[key]
        self.sound = True

    def _may_die(self) -> None:
        if self.orders_left is not None:
            self.orders_left -= 1
            if self.orders_left < 0:
                raise HostDied

    def _let_go(self, event: en.Event) -> None:
        """A reader that is not there, or that registers, reads nothing, by whatever orders it had."""
        gone: set[int] = set()
        match event:
            case en.ReaderLost(reader, epoch):
                # What is said of an earlier epoch comes too late.
                gone = {reader} if epoch >= self.there.get(reader, 0) else set()
            case en.ReaderRegistered(reader) | en.ReaderRemoved(reader):
                gone = {reader}
            case en.ParallelismChanged(readers):
                gone = {reader for reader in self.there if reader >= readers}
        self.holders = {key: reader for key, reader in self.holders.items() if reader not in gone}
        self.there = {reader: epoch for reader, epoch in self.there.items() if reader not in gone}
        if isinstance(event, en.ReaderRegistered):
            self.there[event.reader] = event.epoch

    def _carry_out(self, effect: en.Effect) -> None:
        match effect:
            case en.ListPartitions(cluster):
                self.asked.add(cluster)
            case en.ResolveStart(_, splits):
                self.unresolved.update(splits)
            case en.Revoke(split, reader):
                assert self.holders.pop(split, None) == reader, (
                    f"{split} is taken from {reader}, which does not have it"
                )
                self.processes[reader].held.pop(split, None)
                self.writers.pop(split, None)
            case en.Assign():
                self._assign(effect)
            case en.Forget(split):
                # The sink forgets only what no checkpoint has.
                self.keep()
                self.records.pop(split, None)
                self.writers.pop(split, None)
            case en.ReportLoss(fatal=fatal):
                assert not fatal
            case en.SignalNoMoreSplits():
                assert self.settings.bounded
            case _:
                raise AssertionError(effect)

    def _assign(self, order: en.Assign) -> None:
        split, process = order.split, self.processes[order.reader]
        assert self.assigned, "some have not registered"
        assert order.reader in self.there
        assert split not in self.holders, f"{split} is given to {order.reader}, and {self.holders[split]} has it"
        known = self.state.splits[split].position
        assert order.position == known, f"{split} is assigned at {order.position}, and stands at {known}"
        assert order.generation == self.state.generation
        self.holders[split] = order.reader
        if not process.registered:
            # It has ended, and another one has started in its place, which will be told all when it registers.
            return
        written = self.records.setdefault(split, [])
        if self.fenced:
            written[:] = [offset for offset in written if offset < order.position]
        assert written == list(range(self.begins[split], order.position)), f"{split}: {written}, then {order.position}"
        self.writers[split] = (order.reader, process.epoch, order.generation)
        process.held[split] = order.position
        self.stops.pop(split, None)
        if order.stop is not None:
            self.stops[split] = order.stop

    def end(self, split: en.SplitId) -> int:
        """How far a split is to be read."""
        return min(self.logs.get(split, 0), self.stops.get(split, self.logs.get(split, 0)))

    def next(self, split: en.SplitId) -> int:
        """How far it is safe."""
        return self.begins[split] + len(self.records.get(split, ()))

    def read(self, process: Process, most: int) -> None:
        """A reader reads some of each split that it has been told to read."""
        for split in sorted(process.held) if process.alive else ():
            if not self.fenced:
                process.held[split] = max(process.held[split], min(process.held[split] + most, self.end(split)))
            elif self.writers.get(split, ())[:2] == (process.number, process.epoch):
                begin = self.next(split)
                self.records[split].extend(range(begin, min(begin + most, self.end(split))))

    def checkpoint(self, *, keep: bool) -> None:
        """Tell how far it is safe. Without a fence, that, what is safe, and what is kept change together."""
        if not self.state.settled:
            return
        owners = {key: split.owner for key, split in self.state.splits.items() if split.owner is not None}
        if self.fenced:
            by = {key: writer for key, (writer, _, _) in self.writers.items()}
            safe = {key: self.next(key) for key, writer in by.items() if owners.get(key) == writer}
        else:
            live = [one for one in self.processes.values() if one.alive and one.registered]
            safe = {key: end for one in live for key, end in one.held.items() if self.holders.get(key) == one.number}

        def at_once() -> None:
            if not self.fenced:
                for key, end in safe.items():
                    self.records[key].extend(range(self.next(key), end))
                self.keep()

        try:
            self._tell(en.BatchPlanned(safe), at_once)
        except HostDied:
            self.orders_left = None
            self.begin()
        else:
            if keep:
                self.keep()

    def keep(self) -> None:
        self.kept = json.dumps(en.encode(self.state))

    def start(self, number: int) -> None:
        if number < self.readers and not (number in self.processes and self.processes[number].alive):
            self.epoch += 1
            self.processes[number] = Process(number, self.epoch)

    def register(self, number: int, *, reports: bool = True) -> None:
        """A reader has started. What it says that it had is what is safe now, or what the checkpoint says."""
        process = self.processes.get(number)
        if process is None or not process.alive or process.registered:
            return
        process.registered = True
        reported: dict[en.SplitId, int] = {}
        generation: int | None = None
        if reports and self.fenced:
            reported = {key: self.next(key) for key, writer in self.writers.items() if writer[0] == number}
            generation = max((self.writers[key][2] for key in reported), default=None)
        elif reports and self.kept:
            state = en.decode(json.loads(self.kept))
            own = [split for split in state.splits.values() if split.owner == number]
            reported = {split.id: split.position for split in own if split.position is not None}
            generation = state.generation
        self.tell(en.ReaderRegistered(number, process.epoch, reported, generation))

    def lose(self, number: int, *, gives_back: bool) -> None:
        """A reader is taken for dead; with a fence, it need not be."""
        process = self.processes.get(number)
        if process is None or (process.alive and not self.fenced):
            return
        back = {key: self.state.splits[key].position or 0 for key, one in self.holders.items() if one == number}
        self.give_up(number)
        self.tell(en.ReaderLost(number, process.epoch))
        if gives_back and back:
            self.tell(en.SplitsGivenBack(number, {key: at for key, at in back.items() if key in self.state.splits}))

    def give_up(self, *numbers: int) -> None:
        """The host does without these; with a fence, they need not be dead."""
        for number in [one for one in numbers if one in self.processes]:
            process = self.processes.pop(number)
            process.alive = process.alive and self.fenced
            self.given_up.append(process)

    def remove(self, number: int) -> None:
        if number < self.readers:
            self.give_up(number)
            self.tell(en.ReaderRemoved(number))

    def rescale(self, readers: int) -> None:
        self.readers = readers
        self.give_up(*[number for number in self.processes if number >= readers])
        self.tell(en.ParallelismChanged(readers))

    def list(self, topics: Mapping[str, tuple[str, ...]], passed_ms: int, *, complete: bool = True) -> None:
        """The metadata names these topics of these clusters."""
        self.now_ms += passed_ms
        self.topics = topics if complete else {**self.topics, **topics}
        named = tuple(en.ListedCluster(name, (name,), subscription=en.Topics(topics[name])) for name in topics)
        self.tell(en.TimePassed(self.now_ms), en.ClustersListed(named, complete=complete))

    def answer(self, cluster: str) -> None:
        """A cluster says what it has of what is wanted, if this host has asked it."""
        if cluster not in self.asked:
            return
        self.asked.remove(cluster)
        wanted = self.topics.get(cluster, ())
        found = [key for key in sorted(self.logs) if key.cluster == cluster and key.topic in wanted]
        self.tell(en.PartitionsListed(cluster, tuple(en.ListedPartition(*key[1:], "id") for key in found)))

    def fail(self, cluster: str) -> None:
        self.tell(en.ClusterPollFailed(cluster, "no broker answers"))

    def observe(self, cluster: str) -> None:
        ends = {key: end for key, end in self.logs.items() if key.cluster == cluster}
        self.tell(en.LogsObserved(cluster, ends, {key: self.begins[key] for key in ends}))

    def resolve(self) -> None:
        """The starts that were asked for are known; in a bounded read, the ends too, also of what only readers knew."""
        found, self.unresolved = sorted(self.unresolved & self.logs.keys()), set()
        endless = {
            key for key, split in self.state.splits.items() if split.active and split.stop is None and key in self.logs
        }
        stops = {key: self.logs[key] for key in sorted({*found, *endless})} if self.settings.bounded else {}
        self.tell(en.OffsetsResolved({key: self.begins[key] for key in found}, stops))

    def finish(self, process: Process) -> None:
        """A reader says which of its splits it has read to their ends."""
        ends = {
            key: self.next(key)
            for key in sorted(process.held)
            if self.writers.get(key, ())[:2] == (process.number, process.epoch)
            and self.next(key) == self.stops.get(key)
        }
        if ends:
            self.tell(en.SplitsFinished(process.number, process.epoch, ends))
