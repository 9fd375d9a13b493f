"""What the parts of a simulation see of it, and what its two kinds of hosts share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import Protocol

from evensplit.core.machine.enumerator import Step
from evensplit.core.machine.events import Event
from evensplit.core.model import Cluster, Range, Readable, SplitId, Topic
from evensplit.core.policies import BY_RATE
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.driver.ends.record_sizes import RecordSizes
from evensplit.spark.task.telling import Sized
from evensplit.testing.sim.bounds.chosen import COUNTED, record_bytes
from evensplit.testing.sim.bounds.names import CLUSTERS, TOPICS
from evensplit.testing.sim.checkpoints import Checkpoints, Entry
from evensplit.testing.sim.edits.operator import Operator
from evensplit.testing.sim.lookout import Lookout
from evensplit.testing.sim.oracle.splits import Model
from evensplit.testing.sim.profile import Profile
from evensplit.testing.sim.readers import Network, Readers
from evensplit.testing.sim.rules import Rules
from evensplit.testing.sim.world import World


class DriverDied(Exception):
    """The driver's process is gone, and with it everything that is not in the checkpoint."""


class Simulated(Protocol):
    """One run. See `Simulation`."""

    seed: int
    rules: Rules
    profile: Profile
    faults: frozenset[str]
    world: World
    model: Model
    state: EnumeratorState
    network: Network
    answers: Network
    readers: Readers
    events: int
    sessions: int

    @property
    def driver(self) -> Host:
        """The host of the enumerator."""
        ...

    def advance(self) -> None:
        """See `Simulation.advance`."""
        ...

    def deliver_all(self) -> None:
        """See `Simulation.deliver_all`."""
        ...

    def look(self) -> None:
        """See `Simulation.look`."""
        ...

    def restored(self, state: EnumeratorState, model: Model) -> None:
        """See `Simulation.restored`."""
        ...

    def note(self, what: str) -> None:
        """See `Simulation.note`."""
        ...

    def seal(self, text: str) -> None:
        """See `Simulation.seal`."""
        ...

    def feed(self, event: Event, *, hold: bool = False) -> None:
        """See `Simulation.feed`."""
        ...

    def step(self, before: EnumeratorState, event: Event) -> Step:
        """See `Simulation.step`."""
        ...

    def release(self) -> None:
        """See `Simulation.release`."""
        ...


class Host:
    """One query over one checkpoint: runs batches, dies at any point of one, and starts from its checkpoint."""

    def __init__(self, simulation: Simulated, profile: Profile, random: Random) -> None:
        self._sim = simulation
        self._profile = profile
        self._random = random
        self.checkpoints = Checkpoints(simulation.rules)
        self.faults = profile.faults
        self.readers = profile.readers
        self.settings = profile.settings
        self.loss = profile.loss
        self.eligible: Mapping[int, tuple[Readable, ...]] = MappingProxyType({})
        self.still = False
        """Batches have no limit any more."""
        self.frozen = False
        """Hardly any time passes."""
        self.lookout = Lookout(simulation.world, profile, random)
        self.operator = Operator(simulation.seed, simulation.rules, simulation.world, self.checkpoints, simulation.note)

    def run(self) -> Iterator[None]:
        """One process: restore, then batch after batch. It ends by `DriverDied` only.

        Between two yields nothing else happens; at each, anything may.
        """
        self._restore()
        yield
        while True:
            yield from self._batch()

    def look(self) -> None:
        """Look at every cluster."""
        raise NotImplementedError

    def _restore(self) -> None:
        raise NotImplementedError

    def _batch(self) -> Iterator[None]:
        raise NotImplementedError

    def _dies(self, point: str) -> None:
        if "driver-crash" in self.faults and self._random.random() < 0.05:
            self._sim.note(f"the driver dies {point}")
            raise DriverDied

    def _go_back(self) -> bool:
        """Perhaps restore an older checkpoint; whether that was done."""
        entries, random = self.checkpoints.entries, self._random
        if "older-checkpoint" not in self.faults or len(entries) <= 2 or random.random() >= 0.3:
            return False
        del entries[-random.randint(1, len(entries) - 2) :]
        self._sim.note("an older checkpoint is restored, and its output with it")
        return True

    def _edit(self) -> bool:
        """Perhaps the checkpoint is edited, as no process is on it; whether that was done."""
        return self._profile.edited and not self.still and self.operator.visit()

    def _is_stopped(self) -> None:
        """Perhaps an operator stops the query, and edits its checkpoint then."""
        if self._profile.edited and not self.still and self.operator.stops():
            self._sim.note("the query is stopped")
            raise DriverDied

    def _damage(self) -> None:
        """Perhaps damage the checkpoint, and restore it from a copy."""
        if "damaged-checkpoint" in self.faults and self._random.random() < 0.5:
            how = self.checkpoints.damaged(self._random)
            self._sim.note(f"the checkpoint was damaged ({how}), and restored from a copy")

    def _change_settings(self) -> None:
        """The user wants other owners."""
        random, rates = self._random, self._profile.bounds.rates
        self.settings = replace(
            self.settings,
            rebalance=random.choice(("always", "on-rescale", "never")),
            policy=random.choice(("balanced", "balanced", "sticky", "fair", "hash", "round-robin", "global")),
            scope=random.choice(("global", "per-cluster")),
        )
        by_work = rates is not None and self.settings.policy in BY_RATE
        self.settings = replace(self.settings, **(rates.settings if rates is not None and by_work else COUNTED))

    def _restrict(self, readers: int) -> None:
        """The user says what some of `readers` may read."""
        random = self._random
        eligible: dict[int, tuple[Readable, ...]] = {}
        for index in range(readers):
            if random.random() < 0.5:
                name = random.choice(CLUSTERS[: self._profile.clusters])
                pins = (Cluster(name), Topic(name, random.choice(TOPICS)), SplitId(name, random.choice(TOPICS), 0))
                eligible[index] = tuple(random.sample(pins, random.randint(0, 2)))
        self.eligible = MappingProxyType(eligible)

    def _tell_sizes(self, ranges: Iterable[Range], sizes: RecordSizes) -> None:
        """Tasks tell how many bytes they have read, unless the message is lost."""
        if self._profile.bounds.bytes is not None and self._sim.events % 5:
            sizes.take(Sized({one.split: (one.size, one.size * record_bytes(one.split)) for one in ranges}))

    def _expire(self, entry: Entry) -> None:
        """Perhaps records are deleted that every kept checkpoint has read."""
        if "records-expire" in self.faults and self._random.random() < 0.1:
            # What was rewound has not been read since.
            oldest, marks = self.checkpoints.entries[0].model.marks, entry.model.marks
            read = {key: min(mark, marks.get(key, mark)) for key, mark in oldest.items()}
            self._sim.world.expire(read, entry.model.known)
