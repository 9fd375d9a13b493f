"""How a bug is planted around the real rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from types import MappingProxyType, ModuleType

from evensplit.core.machine import rebalance
from evensplit.core.machine.enumerator import Step, step
from evensplit.core.machine.events import Event
from evensplit.core.model import Split, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim import Rules

Owners = Mapping[SplitId, int]
StepFunction = Callable[[EnumeratorState, Event], Step]


@dataclass(frozen=True)
class Planted:
    """A bug."""

    says: str
    laws: tuple[str, ...]
    """The laws of which any may be the first that it breaks."""
    rules: Rules
    """The rules with the bug; the real ones where it is in the host."""
    seed: int = 0
    """The seed that finds it: the first one from 0, where that is known."""
    like: str = ""
    """The fault that it stands for, where it was seen elsewhere: an issue of Flink's, a trait of Spark's source, or a
    fault that evensplit once had."""
    host: Callable[[], AbstractContextManager[None]] = nullcontext
    """Puts the bug into the host that ships, for as long as a simulation runs."""


@contextmanager
def swapped(name: str, other: object, module: ModuleType | type = rebalance) -> Iterator[None]:
    """A function of a module, or of a class, is another one."""
    real = getattr(module, name)
    setattr(module, name, other)
    try:
        yield
    finally:
        setattr(module, name, real)


def by_step(stepped: StepFunction) -> Rules:
    """The real rules, with another step."""
    return Rules(step=stepped)


def assigning_by(other: Callable[..., Owners]) -> Rules:
    """The real rules, with another assignment."""

    def stepped(state: EnumeratorState, event: Event) -> Step:
        with swapped("_solve", other):
            return step(state, event)

    return Rules(step=stepped)


def changed(done: Step, *splits: Split, keep: Callable[[object], bool] = lambda effect: True) -> Step:
    """`done` with some splits different, and without the effects that are not to be kept."""
    state = replace(done.state, splits=MappingProxyType({**done.state.splits, **{one.id: one for one in splits}}))
    return Step(state, tuple(effect for effect in done.effects if keep(effect)))
