"""What the simulator says when a law is broken."""

from __future__ import annotations

from evensplit.errors import EvenSplitError


class Broken(Exception):
    """A law does not hold. `law` is its id, `detail` one sentence; raised inside a run, which adds the story."""

    def __init__(self, law: str, detail: str, split: object = None) -> None:
        self.law = law
        self.detail = detail
        self.split = split
        super().__init__(law, detail)


class SimulationFailed(EvenSplitError):
    """A simulated run broke a law; the same seed, events and rules break it again at the same event.

    `law` is the id of a law (S1 .. S16), `liveness`, or `crash` where the code under test raised what it must not;
    `event` counts from 1; `events` is how many the run was to have before its finale, which has further ones; `story`
    has what led to it, a line each, the last line being the last event.
    """

    id = "ES-602"

    def __init__(self, seed: int, law: str, event: int, events: int, detail: str, story: tuple[str, ...]) -> None:
        self.seed = seed
        self.law = law
        self.event = event
        self.events = events
        self.detail = detail
        self.story = story
        super().__init__(seed, law, event, events, detail, story)

    @property
    def where(self) -> str:
        """The seed and the event, and that it was in the finale where it was."""
        finale = f" (in the finale, after {self.events})" if self.event > self.events else ""
        return f"seed {self.seed}, event {self.event}{finale}: law {self.law} is broken"

    @property
    def again(self) -> str:
        """How to see it again: with as many events, since the finale begins after them."""
        return f"again: evensplit simulate --seed {self.seed} --events {self.events}"

    def __str__(self) -> str:
        return "\n".join((f"{self.where}: {self.detail}", *(f"  {line}" for line in self.story), self.again))
