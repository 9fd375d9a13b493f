"""Errors of `evensplit.testing`: the brokers for tests, the simulator, and runs with faults."""

from __future__ import annotations

from evensplit.errors.base import EvenSplitError


class LocalKafkaError(EvenSplitError):
    """A broker or a schema registry for tests did not start, stop, or do what it was asked."""

    id = "ES-601"
    cause = (
        "The broker or the schema registry for tests did not start or stop: no Java, jars that cannot be downloaded, a "
        "wrong setting, a directory that another broker uses or that cannot be written, or a broker that died."
    )
    cure = "Install or correct what the message names. It ends with the last log lines if there are any."


class SimulationFailed(EvenSplitError):
    """A simulated run broke a law. The same seed, events and rules break it again at the same event."""

    id = "ES-602"
    cause = "`evensplit simulate` found a run that breaks a law: a bug in evensplit."
    cure = "Report it with the seed in the message, which repeats the run."
    seed: int
    law: str
    """The id of the law (S1 to S21); `liveness`; or `crash` if the code under test raised what it must not raise."""

    event: int
    """The number of the event that broke it, from 1."""

    events: int
    """How many events the run was to have. Its finale, which comes after them, has more."""

    detail: str
    """What is wrong, in one sentence."""

    story: tuple[str, ...]
    """What led to it, one line each, the latest at the end."""

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
        """The seed, the event and the law; and the finale, if it happened there."""
        finale = f" (in the finale, after {self.events})" if self.event > self.events else ""
        return f"seed {self.seed}, event {self.event}{finale}: law {self.law} is broken"

    @property
    def again(self) -> str:
        """The command that repeats it, with as many events, since the finale begins after them."""
        return f"again: evensplit simulate --seed {self.seed} --events {self.events}"

    def __str__(self) -> str:
        return "\n".join((f"{self.where}: {self.detail}", *(f"  {line}" for line in self.story), self.again))


class ChaosError(EvenSplitError):
    """A run with faults could not be made, or its history could not be read."""

    id = "ES-603"
    cause = (
        "`evensplit chaos` could not do its work: a part did not start, a job of your own does not keep to the "
        "contract, or a directory holds no history. It says nothing about the job that was tested."
    )
    cure = "Correct what the message names. The logs of all parts are in the directory of the run."
