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
    """A simulated run broke a law; the same seed and rules break it again at the same event.

    `law` is the id of a law (S1 .. S16), `liveness`, or `crash` where the code under test raised what it must not;
    `event` counts from 1; `story` has what led to it, a line each, the last line being the last event.
    """

    def __init__(self, seed: int, law: str, event: int, detail: str, story: tuple[str, ...]) -> None:
        self.seed = seed
        self.law = law
        self.event = event
        self.detail = detail
        self.story = story
        super().__init__(seed, law, event, detail, story)

    def __str__(self) -> str:
        head = f"seed {self.seed}, event {self.event}: law {self.law} is broken: {self.detail}"
        again = f"again: evensplit simulate --seed {self.seed} --events {self.event}"
        return "\n".join((head, *(f"  {line}" for line in self.story), again))
