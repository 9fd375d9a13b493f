"""An enumerator under test: every step is checked against the laws, and orders are carried out by pretend readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from evensplit.core.machine.effects import Assign, Effect, ResolveStart, Revoke
from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    Event,
    ListedCluster,
    LogsObserved,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderRegistered,
    SettingsChanged,
    TimePassed,
)
from evensplit.core.machine.invariants import check, check_step
from evensplit.core.model import ListedPartition, SplitId
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.open_questions import ID_CONFLICT_MS_MAX
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import EnumeratorState, Session
from evensplit.explain.changes import loads

EAST, WEST = ListedCluster("east", ("e:9092",)), ListedCluster("west", ("w:9092",))
ONE, TWO, THREE, FOUR = (SplitId("east", "t", partition) for partition in range(4))
DAY_MS = 24 * 60 * 60 * 1000
INTERVAL_MS = 30_000
"""How far apart two answers have to be that are to remove something."""


def listed(topic: str, count: int, topic_id: str = "id-1") -> tuple[ListedPartition, ...]:
    """Partitions 0 .. count - 1 of a topic."""
    return tuple(ListedPartition(topic, partition, topic_id) for partition in range(count))


def starts(cluster: str, topic: str, count: int, at: int = 0) -> dict[SplitId, int]:
    """Splits 0 .. count - 1 of a topic, each with the offset `at`."""
    return {SplitId(cluster, topic, partition): at for partition in range(count)}


def registered(*readers: int) -> tuple[ReaderRegistered, ...]:
    """Registrations of readers that report nothing."""
    return tuple(ReaderRegistered(reader) for reader in readers)


def twice(answer: PartitionsListed, now_ms: int = 0) -> tuple[Event, ...]:
    """Two brokers say the same, the second of them 2 s after `now_ms`: so a topic is believed to have another id."""
    return replace(answer, answer=1), TimePassed(now_ms + ID_CONFLICT_MS_MAX), replace(answer, answer=2)


def run(*events: Event, state: EnumeratorState | None = None) -> tuple[EnumeratorState, tuple[Effect, ...]]:
    """Feed `events` in turn; the last state, and the effects of the last event. Every step keeps the laws."""
    state = state or EnumeratorState()
    effects: tuple[Effect, ...] = ()
    for event in events:
        after = step(state, event)
        assert check(after.state) == ()
        assert check_step(state, event, after.state) == ()
        state, effects = after.state, after.effects
    return state, effects


class Enumeration:
    """One enumerator with its readers, over any number of sessions.

    `held`: reader -> what it reads, by the orders that it was given: law S2 is checked on it after every event.
    """

    def __init__(self, readers: int, settings: Settings | None = None, **wanted: object) -> None:
        self.state = EnumeratorState()
        self.held: dict[int, dict[SplitId, int]] = {}
        self.effects: tuple[Effect, ...] = ()
        self._epochs = 0
        self._listings = 0
        self.tell(SettingsChanged(settings or Settings(), **wanted), ParallelismChanged(readers))  # type: ignore[arg-type]

    def tell(self, *events: Event) -> tuple[Effect, ...]:
        """Feed `events`; all their effects. Listings without a number are each a later answer."""
        told: list[Effect] = []
        for event in map(self._numbered, events):
            before = self.state.session.registrations
            self.state, effects = run(event, state=self.state)
            for reader, registration in self.state.session.registrations.items():
                if before.get(reader) is not registration:
                    self.held[reader] = {}
                    self._epochs = max(self._epochs, registration.epoch)
            told.extend(effects)
            self._carry_out(effects)
        self.effects = tuple(told)
        return self.effects

    def register(
        self, *readers: int, reports: Mapping[int, Mapping[SplitId, int]] | None = None, generation: int | None = None
    ) -> tuple[Effect, ...]:
        """Readers (by default all) start, with nothing but what they report."""
        told: list[Effect] = []
        for reader in readers or range(self.state.readers):
            self._epochs += 1
            told.extend(self.tell(ReaderRegistered(reader, self._epochs, (reports or {}).get(reader, {}), generation)))
        return tuple(told)

    def epoch(self, reader: int) -> int:
        """The epoch in which a reader is registered."""
        return self.state.session.registrations[reader].epoch

    def discover(self, *clusters: ListedCluster, at: int = 0, **topics: int) -> tuple[Effect, ...]:
        """Every cluster is listed with the same topics, and each start is resolved to `at`."""
        names = [cluster.id for cluster in clusters]
        told = [*self.tell(ClustersListed(clusters))]
        for name in names:
            found = tuple(one for topic, count in topics.items() for one in listed(topic, count, f"id-{topic}"))
            told += self.tell(PartitionsListed(name, found))
        pending = [key for key, split in self.state.splits.items() if split.position is None and split.active]
        if pending:
            told += self.tell(OffsetsResolved(dict.fromkeys(pending, at)))
        return tuple(told)

    def hear_twice(self, answer: PartitionsListed) -> tuple[Effect, ...]:
        """Two brokers say the same, 2 s apart."""
        return self.tell(answer, TimePassed((self.state.session.now_ms or 0) + ID_CONFLICT_MS_MAX), answer)

    def observe(
        self, ends: Mapping[SplitId, int] | None = None, starts: Mapping[SplitId, int] | None = None
    ) -> tuple[Effect, ...]:
        """Every cluster says where its logs end: where they are read up to, or where `ends` says."""
        read = {key: split.position for key, split in self.state.splits.items() if split.position is not None}
        found, begin = {**read, **(ends or {})}, starts or {}
        told: list[Effect] = []
        for name in self.state.clusters:
            own = {key: end for key, end in found.items() if key.cluster == name}
            told += self.tell(LogsObserved(name, own, {key: at for key, at in begin.items() if key.cluster == name}))
        self.effects = tuple(told)
        return self.effects

    def commit(self, ends: Mapping[SplitId, int] | None = None) -> EnumeratorState:
        """A batch ends; what is durable of it, through the codec."""
        self.tell(BatchPlanned(ends or {}))
        return self.checkpoint()

    def checkpoint(self) -> EnumeratorState:
        """What a restart would find."""
        found = decode(encode(self.state))
        assert found == self.state
        assert found.session == Session()
        return found

    def restart(self, checkpoint: EnumeratorState, readers: int | None = None, **wanted: object) -> None:
        """A new process goes on from a checkpoint."""
        self.state, self.held = checkpoint, {}
        self.tell(SettingsChanged(checkpoint.settings, **wanted))  # type: ignore[arg-type]
        if readers is not None:
            self.tell(ParallelismChanged(readers))

    def owners(self) -> dict[str, int | None]:
        """Split -> owner, for the splits that are to be read."""
        return {str(key): split.owner for key, split in self.state.splits.items() if split.active}

    def loads(self) -> list[int]:
        """How many splits each reader owns."""
        return list(loads(self.state))

    def lives(self) -> dict[str, str]:
        """Split -> where it stands."""
        return {str(key): str(split.lifecycle) for key, split in self.state.splits.items()}

    def _numbered(self, event: Event) -> Event:
        if not isinstance(event, PartitionsListed):
            return event
        numbered = event if event.answer else replace(event, answer=self._listings + 1)
        self._listings = max(self._listings, numbered.answer)
        return numbered

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Assign):
                assert effect.reader in self.state.session.registrations
                assert effect.split not in self.held.setdefault(effect.reader, {}), "ordered twice"
                self.held[effect.reader][effect.split] = effect.position
            elif isinstance(effect, Revoke):
                del self.held[effect.reader][effect.split]
        registrations = self.state.session.registrations
        for reader in registrations if self.state.session.assigned else ():
            owned = {key for key, split in self.state.splits.items() if split.owner == reader}
            held = self.held.setdefault(reader, {})
            assert owned <= set(held), "not everything that a reader owns was ordered"
            for key in [key for key in held if key not in owned]:
                assert key not in self.state.splits or self.state.splits[key].finished, "a reader has too much"
                del held[key]


def running(
    count: int = 2, readers: int = 2, settings: Settings | None = None, *, end: int | None = 10, **wanted: object
) -> Enumeration:
    """Everything of one topic is read from offset 10, two batches are done, and it is 1,000 ms. No batch is open.

    `end`: where all logs were seen to end; None: that is not known.
    """
    one = Enumeration(readers, settings, **wanted)
    one.tell(TimePassed(1000))
    one.discover(EAST, at=10, t=count)
    one.register()
    if end is not None:
        one.observe(dict.fromkeys(one.state.splits, end))
    one.tell(BatchPlanned({}), BatchOpened(), BatchPlanned({}))
    return one


def resolved(one: Enumeration) -> list[ResolveStart]:
    return [effect for effect in one.effects if isinstance(effect, ResolveStart)]
