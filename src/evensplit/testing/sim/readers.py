"""Readers that are processes of their own, and the messages between them and the enumerator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from random import Random

from evensplit.core.machine.effects import Assign, Effect, Revoke
from evensplit.core.machine.events import Event, ReaderLost, ReaderRegistered, SplitsFinished, SplitsGivenBack
from evensplit.core.model import SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.oracle.splits import Model

RETRY_EVENTS = 25
"""After so many events a reader that has not been registered sends its report again."""

Older = tuple[int | None, dict[SplitId, int], dict[SplitId, str]]
"""A report of earlier: its generation, the splits with their offsets, and their topic ids."""

Gone = Mapping[SplitId, str | None]
"""Splits that begin anew -> their topic id, if it is one that they had before; None: they are forgotten."""


class Network:
    """Messages under way: each is delivered when the number of events has reached its time, perhaps out of order."""

    def __init__(self, random: Random, faults: frozenset[str]) -> None:
        self._random = random
        self._faults = faults
        self._sent = 0
        self._queue: list[tuple[int, int, Event]] = []

    def send(self, event: Event, now: int, *, reliable: bool = False) -> None:
        """Deliver `event` soon; late, twice or never as far as the faults allow."""
        random, faults = self._random, self._faults
        delay = random.randint(0, 3)
        if not reliable and faults:
            if "lost-message" in faults and random.random() < 0.1:
                return
            if "late-message" in faults and random.random() < 0.15:
                delay += random.randint(5, 60)
            if "duplicate-message" in faults and random.random() < 0.2:
                self._put(event, now + delay + random.randint(0, 20))
        self._put(event, now + delay)

    def put(self, event: Event, due: int) -> None:
        """Deliver `event` at the event number `due`."""
        self._put(event, due)

    def _put(self, event: Event, due: int) -> None:
        self._sent += 1
        heappush(self._queue, (due, self._sent, event))

    def due(self, now: int) -> Event | None:
        """The next message whose time has come."""
        return heappop(self._queue)[2] if self._queue and self._queue[0][0] <= now else None

    def calm(self) -> None:
        """No message is lost, late or doubled from here on."""
        self._faults = frozenset()

    def flush(self) -> Sequence[Event]:
        """Everything that is under way, at once."""
        everything = [event for _, _, event in sorted(self._queue, key=lambda entry: entry[:2])]
        self._queue.clear()
        return everything

    def forget(self, gone: Gone) -> None:
        """What is said about these splits is not delivered: it is of an incarnation that has ended."""
        for number, (due, sent, event) in enumerate(self._queue):
            self._queue[number] = due, sent, without(event, gone)


def without(event: Event, gone: Gone) -> Event:
    """A message without what it says of splits whose incarnation has ended, as far as nobody can see that it did."""
    if isinstance(event, ReaderRegistered):
        kept = {
            key: at
            for key, at in event.reported.items()
            if key not in gone or (gone[key] is not None and event.topic_ids.get(key) != gone[key])
        }
        return event if len(kept) == len(event.reported) else replace(event, reported=kept)
    if isinstance(event, SplitsFinished | SplitsGivenBack):
        return replace(event, splits={key: at for key, at in event.splits.items() if gone.get(key, "") is not None})
    return event


@dataclass(slots=True)
class SimReader:
    """A reader's process. `held`: what it was told to read, and how far the last committed batch read it."""

    index: int
    epoch: int
    up: bool = True
    wake: int = 0
    generation: int | None = None
    held: dict[SplitId, int] = field(default_factory=dict)
    topic_ids: dict[SplitId, str] = field(default_factory=dict)
    older: Older = field(default_factory=lambda: (None, {}, {}))


class Readers:
    """All readers of a session."""

    def __init__(self, random: Random, faults: frozenset[str], network: Network) -> None:
        self._random = random
        self.faults = faults
        self._network = network
        self._epoch = 0
        self.all: dict[int, SimReader] = {}
        self.history: list[Event] = []
        """Messages that were sent, for zombies to send again."""

    def start(
        self, count: int, reports: Mapping[int, Mapping[SplitId, tuple[int, str]]], generation: int | None, now: int
    ) -> None:
        """`count` readers begin, in a session that has just been restored, with what the checkpoint has of readers."""
        old = self.all
        self.all = {}
        for index in range(count):
            reader = self.all[index] = self._new(index, now)
            reader.generation = generation
            if index in old and old[index].held:
                reader.older = old[index].generation, dict(old[index].held), dict(old[index].topic_ids)
        for source in sorted(reports):
            reader = self.all[source % count]
            for key, (offset, topic_id) in reports[source].items():
                reader.held[key], reader.topic_ids[key] = offset, topic_id

    def _new(self, index: int, now: int) -> SimReader:
        self._epoch += 1
        late = self._random.randint(5, 80) if "reader-late" in self.faults and self._random.random() < 0.4 else 0
        return SimReader(index, self._epoch, wake=now + late)

    def resize(self, count: int, now: int) -> None:
        """There are `count` readers from now on."""
        for index in [index for index in self.all if index >= count]:
            del self.all[index]
        for index in range(count):
            if index not in self.all:
                self.all[index] = self._new(index, now)

    def tick(self, state: EnumeratorState, now: int) -> None:
        """Each reader that runs and is not registered says so, again after a while."""
        registrations = state.session.registrations
        for reader in self.all.values():
            if reader.up and reader.wake <= now:
                known = registrations.get(reader.index)
                if known is None or known.epoch != reader.epoch:
                    self._register(reader, now)

    def _register(self, reader: SimReader, now: int) -> None:
        generation, held, ids = reader.generation, reader.held, reader.topic_ids
        if "stale-report" in self.faults and reader.older[1] and self._random.random() < 0.3:
            generation, held, ids = reader.older
        topic_ids = {key: ids[key] for key in held if key in ids}
        location = f"host-{reader.index % 3}"
        event = ReaderRegistered(reader.index, reader.epoch, dict(held), generation, location, topic_ids)
        reader.wake = now + RETRY_EVENTS + (60 if "late-message" in self.faults else 0)
        self._network.send(event, now)
        if len(self.history) < 40:
            self.history.append(event)
        else:
            self.history[reader.epoch % 40] = event

    def follow(self, effects: Sequence[Effect]) -> None:
        """The readers do as they are told."""
        for effect in effects:
            if type(effect) is Assign:
                reader = self.all.get(effect.reader)
                if reader is not None:
                    reader.held[effect.split] = effect.position
                    reader.topic_ids[effect.split] = effect.topic_id
                    reader.generation = effect.generation
            elif type(effect) is Revoke:
                reader = self.all.get(effect.reader)
                if reader is not None:
                    if "stale-report" in self.faults and self._random.random() < 0.5:
                        reader.older = reader.generation, dict(reader.held), dict(reader.topic_ids)
                    reader.held.pop(effect.split, None)

    def committed(self, marks: Mapping[SplitId, int]) -> None:
        """A batch is committed: the readers know how far it read what they hold."""
        for reader in self.all.values():
            if reader.held:
                if "stale-report" in self.faults and self._random.random() < 0.1:
                    reader.older = reader.generation, dict(reader.held), dict(reader.topic_ids)
                for key in reader.held:
                    if key in marks:
                        reader.held[key] = marks[key]

    def forget(self, gone: Gone) -> None:
        """These splits are of an incarnation that has ended."""
        for reader in self.all.values():
            for held, ids in ((reader.held, reader.topic_ids), reader.older[1:]):
                for key, topic_id in gone.items():
                    if topic_id is None or ids.get(key) == topic_id:
                        held.pop(key, None)
        self.history = [without(event, gone) for event in self.history]
        self._network.forget(gone)

    def reports(self, model: Model) -> Mapping[int, Mapping[SplitId, tuple[int, str]]]:
        """The readers' part of a checkpoint: what each has, how far that was read, and the topic ids."""
        return {
            reader.index: {
                key: (model.marks[key], reader.topic_ids[key])
                for key in reader.held
                if model.marks.get(key) is not None and model.known.get(key) == reader.topic_ids.get(key)
            }
            for reader in self.all.values()
        }

    def set_back(self, positions: Mapping[SplitId, int], topic_ids: Mapping[SplitId, str]) -> None:
        """These splits are read from earlier positions on; what was said of them is void."""
        for reader in self.all.values():
            for held in (reader.held, reader.older[1]):
                for key, position in positions.items():
                    if key in held:
                        held[key] = min(held[key], position)
        self.history = [without(event, topic_ids) for event in self.history]
        self._network.forget(topic_ids)

    def act(self, state: EnumeratorState, now: int) -> str:
        """One thing happens to one reader, as far as the faults allow; says what."""
        random = self._random
        if not self.all:
            return ""
        reader = random.choice(list(self.all.values()))
        which = random.random()
        if which < 0.2 and "zombie" in self.faults and self.history:
            self._network.send(random.choice(self.history), now)
            return "a message of an earlier life comes again"
        if which < (0.5 if state.settings.bounded else 0.9) and "reader-crash" in self.faults:
            return self._crash(reader, now) if reader.up else self._return(reader, now)
        if state.settings.bounded and reader.up and reader.held:
            ends = {
                key: split.stop
                for key in list(reader.held)
                if (split := state.splits.get(key)) is not None and split.stop is not None and not split.finished
            }
            if ends:
                topic_ids = {key: reader.topic_ids[key] for key in ends}
                self._network.send(SplitsFinished(reader.index, reader.epoch, ends, topic_ids), now)
        return ""

    def _crash(self, reader: SimReader, now: int) -> str:
        reader.up = False
        lost = ReaderLost(reader.index, reader.epoch)
        self._network.send(lost, now)
        self.history.append(lost)
        if reader.held and self._random.random() < 0.6:
            self._network.send(SplitsGivenBack(reader.index, dict(reader.held)), now)
        return f"reader {reader.index} crashes"

    def _return(self, reader: SimReader, now: int) -> str:
        again = self._new(reader.index, now)
        again.held, again.generation, again.older = reader.held, reader.generation, reader.older
        again.topic_ids = reader.topic_ids
        if self._random.random() < 0.3:
            again.held, again.generation = {}, None
        self.all[reader.index] = again
        return f"reader {reader.index} is back"

    def heal(self, now: int) -> None:
        """Every reader runs."""
        for reader in list(self.all.values()):
            if not reader.up:
                self._return(reader, now)
        for reader in self.all.values():
            reader.wake = now
