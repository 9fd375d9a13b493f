"""One run: the pure enumerator in a simulated world, all chosen by one seed, every event followed by the laws."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from evensplit.core.machine.effects import Effect, Forget, ListPartitions, RefuseCluster, ReportLoss, ResolveStart
from evensplit.core.machine.enumerator import Step
from evensplit.core.machine.events import Event, LogsObserved
from evensplit.core.model import Cause, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import SimulationFailed, TransitionError
from evensplit.spark.driver.change_log import silent_log
from evensplit.testing.sim.driver import Driver
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.finale import finish
from evensplit.testing.sim.impossible import impossible_events
from evensplit.testing.sim.oracle.laws import Laws, check_harmless, is_stale
from evensplit.testing.sim.oracle.splits import Model
from evensplit.testing.sim.profile import Profile, profile
from evensplit.testing.sim.readers import Network, Readers
from evensplit.testing.sim.rules import Rules
from evensplit.testing.sim.simulated import DriverDied
from evensplit.testing.sim.stream.host import StreamHost
from evensplit.testing.sim.world import World

STORY_EVENTS = 25
"""How many of the last events a story has."""


_BACK = (Cause.TRUNCATED, Cause.REPLACED)
"""Losses after which reading goes on before the position."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one run did. `events` counts those of the finale too. `digest` depends on the arguments alone (law S14)."""

    seed: int
    events: int
    digest: int
    kinds: dict[str, int]
    profile: Profile
    batches: int
    sessions: int
    largest: int
    checks: dict[str, int]
    edits: dict[str, int]
    """Command -> how often it was carried out or, with `refused` after its name, refused."""


def simulate(seed: int, events: int = 2_000, rules: Rules | None = None) -> Report:
    """Run one seed for `events` events, then without faults until everything is read.

    Raises SimulationFailed for the first law that does not hold.
    """
    # What the host would log is in the trace.
    with silent_log():
        return Simulation(seed, rules or Rules()).run(events)


class Simulation:
    """The state of one run."""

    def __init__(self, seed: int, rules: Rules) -> None:
        self.seed = seed
        self.rules = rules
        # Not for secrets: the same seed has to give the same run.
        self.random = Random(seed)  # noqa: S311
        self.profile = profile(seed, self.random)
        self.faults = self.profile.faults
        self.world = World(self.profile, self.random)
        self.model = Model()
        self.laws = Laws(self.model)
        self.state = EnumeratorState()
        self.network = Network(self.random, self.faults)
        self.answers = Network(self.random, frozenset())
        self.readers = Readers(self.random, self.faults, self.network)
        self.events = 0
        self.digest = 0
        self.batches = 0
        self.sessions = 0
        self.largest = 0
        self._late = 0
        self._held: tuple[Effect, ...] = ()
        self._kinds: Counter[type] = Counter()
        self._trace: list[tuple[Event | str, tuple[Effect, ...]]] = []
        self.driver: Driver | StreamHost = (StreamHost if self.profile.logical else Driver)(
            self, self.profile, self.random
        )
        self._process: Iterator[None] = iter(())

    # Running.

    def run(self, events: int) -> Report:
        """See `simulate`."""
        try:
            self._start()
            while self.events < events:
                self._act()
            finish(self)
        except Broken as broken:
            raise self._failed(broken, events) from broken
        names = {kind.__name__: count for kind, count in self._kinds.items()}
        checks = {
            "S1 S3 S4 S7 S8 S9 S15 of every split": self.laws.checked["splits"],
            "S2 S13 of every order": self.laws.checked["orders"],
            "S5 S6 S19 of every owner": self.laws.checked["owners"],
            "S1 S2 S3 S4 S6 S10 of every state": self.laws.checked["states"],
            "S13 of late messages": self._late,
            "S10 S11 S12 S15 to S18 S21 of batches": self.batches,
        }
        return Report(
            self.seed,
            self.events,
            self.digest,
            names,
            self.profile,
            self.batches,
            self.sessions,
            self.largest,
            checks,
            dict(self.driver.operator.counts),
        )

    def _start(self) -> None:
        self.sessions += 1
        self._process = self.driver.run()
        self.advance()

    def advance(self) -> None:
        """The driver goes on to its next point; when it dies, it is started again."""
        try:
            next(self._process)
        except DriverDied:
            self._again()

    def _again(self) -> None:
        self.answers.flush()
        self._start()

    def _act(self) -> None:
        random = self.random
        which = random.random()
        if which < 0.5:
            self.advance()
        elif which < 0.63:
            self.world.produce()
        elif which < 0.68:
            if what := self.world.act(self.faults):
                self.note(what)
        elif which < 0.8 and not self.profile.logical:
            if what := self.readers.act(self.state, self.events):
                self.note(what)
        elif which < 0.82 and "impossible-event" in self.faults:
            self._impossible()
        self.deliver()

    def deliver(self) -> None:
        """Messages whose time has come arrive."""
        try:
            if not isinstance(self.driver, Driver):
                return
            while (event := self.answers.due(self.events)) is not None:
                self.driver.tell(event)
            self.readers.tick(self.state, self.events)
            while (event := self.network.due(self.events)) is not None:
                self.feed(event)
        except DriverDied:
            self._again()

    def deliver_all(self) -> None:
        """Everything that is under way arrives, and every reader registers."""
        try:
            if not isinstance(self.driver, Driver):
                return
            for event in self.answers.flush():
                self.driver.tell(event)
            for event in self.network.flush():
                self.feed(event)
            for reader in self.readers.all.values():
                reader.wake = 0
            self.readers.tick(self.state, self.events)
            for event in self.network.flush():
                self.feed(event)
        except DriverDied:
            self._again()

    def look(self) -> None:
        """The driver looks at every cluster, and everything that it asks is answered."""
        try:
            self.driver.look()
        except DriverDied:
            self._again()

    def restored(self, state: EnumeratorState, model: Model) -> None:
        """A process begins with `state`."""
        self.state, self.model, self._held = state, model, ()
        self.laws.restored(model)
        self.note("a session begins")

    def note(self, what: str) -> None:
        """Something happened that the enumerator is not told."""
        self._trace.append((what, ()))

    def seal(self, text: str) -> None:
        """An offset was made: it becomes part of the digest."""
        self.digest = zlib.crc32(text.encode(), self.digest)
        self.batches += 1

    # One event.

    def feed(self, event: Event, *, hold: bool = False) -> None:
        """Tell the enumerator, check every law, and carry out what it orders, or `hold` it until `release`."""
        effects = self.step(self.state, event).effects
        if effects and hold:
            self._held += effects
        elif effects:
            self._carry_out(effects)

    def step(self, before: EnumeratorState, event: Event) -> Step:
        """What the rules make of `event` in the state `before`, with every law checked."""
        self.events += 1
        kind = type(event)
        self._kinds[kind] += 1
        self._trace.append((event, ()))
        try:
            step = self.rules.step(before, event)
        except TransitionError as error:
            raise Broken("crash", f"{kind.__name__} was refused: {error}") from error
        except Exception as error:
            raise Broken("crash", f"{kind.__name__} raised {error!r}") from error
        effects = step.effects
        if effects:
            self._trace[-1] = (event, effects)
        if is_stale(event, before):
            self._late += 1
            self.model.expect_nothing()
            check_harmless(event, before, step)
        else:
            self.model.observe(event, before, effects)
        self.laws.check(event, before, step)
        for effect in effects:
            if type(effect) is ReportLoss and effect.split in before.splits:
                self.driver.lookout.confirm(effect.loss, before.splits[effect.split].topic_id)
        self.state = step.state
        if isinstance(event, LogsObserved):
            self.driver.lookout.heard(event, before, step.state)
        if isinstance(self.driver, StreamHost):
            self.driver.owed.told(event, before, step.state)
        self.largest = max(self.largest, len(step.state.splits))
        self.digest = zlib.crc32(b"%s%d" % (kind.__name__.encode(), len(effects)), self.digest)
        if effects:
            self.digest = zlib.crc32(repr(effects).encode(), self.digest)
        return step

    def release(self) -> None:
        """Carry out what was held back until the state was written down."""
        effects, self._held = self._held, ()
        self._carry_out(effects)

    def _carry_out(self, effects: tuple[Effect, ...]) -> None:
        gone: dict[SplitId, str | None] = {}
        back: dict[SplitId, int] = {}
        for effect in effects:
            if type(effect) is Forget:
                gone[effect.split] = None
            elif type(effect) is ReportLoss and not effect.fatal:
                split = self.state.splits.get(effect.split)
                if split is not None and effect.loss.cause is Cause.RECREATED:
                    gone[effect.split] = split.topic_id
                elif split is not None and effect.loss.cause in _BACK and split.position is not None:
                    back[effect.split] = split.position
        if back:
            self.readers.set_back(back, {key: self.state.splits[key].topic_id for key in back})
        if gone:
            self.readers.forget(gone)
        self.readers.follow(effects)
        for effect in effects:
            if type(effect) is ListPartitions or type(effect) is ResolveStart:
                assert isinstance(self.driver, Driver)
                self.driver.todo.append(effect)
            elif type(effect) is RefuseCluster:
                self.note("the run ends: " + self.world.correct(effect.cluster, self.state.clusters))
                raise DriverDied
            elif type(effect) is ReportLoss and effect.fatal:
                self.note("the run ends because of a loss; it is started again, with the loss to be declared")
                self.driver.loss = "declare"
                raise DriverDied

    def _impossible(self) -> None:
        event = self.random.choice(impossible_events(self.state))
        try:
            self.rules.step(self.state, event)
        except TransitionError:
            self.events += 1
            return
        except Exception as error:
            raise Broken("crash", f"the impossible {event} raised {error!r}") from error
        raise Broken("crash", f"an impossible event was taken: {event}")

    # A failure.

    def _failed(self, broken: Broken, events: int) -> SimulationFailed:
        key = broken.split
        lines: list[str] = []
        recent = len(self._trace) - STORY_EVENTS
        number = 0
        for place, (event, effects) in enumerate(self._trace):
            number += not isinstance(event, str)
            told = event if isinstance(event, str) else f"{event!r}"
            if place >= recent or (key is not None and any(repr(key) in f"{one!r}" for one in (event, *effects))):
                lines.append(told if isinstance(event, str) else f"{number}. {told}")
                lines.extend(f"    -> {effect!r}" for effect in effects if key is None or repr(key) in repr(effect))
        return SimulationFailed(self.seed, broken.law, self.events, events, broken.detail, tuple(lines[-60:]))
