"""What the parts of a simulation see of it, and it of its host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from evensplit.core.machine.enumerator import Step
from evensplit.core.machine.events import Event
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.checkpoints import Checkpoints
from evensplit.testing.sim.lookout import Lookout
from evensplit.testing.sim.oracle.splits import Model
from evensplit.testing.sim.profile import Profile
from evensplit.testing.sim.readers import Network, Readers
from evensplit.testing.sim.rules import Rules
from evensplit.testing.sim.world import World


class DriverDied(Exception):
    """The driver's process is gone, and with it everything that is not in the checkpoint."""


class Host(Protocol):
    """One query over one checkpoint."""

    checkpoints: Checkpoints
    faults: frozenset[str]
    loss: str
    lookout: Lookout
    still: bool
    """Batches have no limit any more."""
    frozen: bool
    """Hardly any time passes."""

    def run(self) -> Iterator[None]:
        """One process of it; it ends by `DriverDied` only."""
        ...

    def look(self) -> None:
        """Every cluster is looked at."""
        ...


class Simulated(Protocol):
    """One run. See `Simulation`."""

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
        """What is simulated around the enumerator."""
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
