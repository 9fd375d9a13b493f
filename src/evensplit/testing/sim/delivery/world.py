"""Time, actors that may stop at any step, and a network that loses requests and answers; all by one seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Any, NamedTuple

from evensplit.testing.sim.failure import Broken

STEPS_MAX = 200_000
"""So many events one run has at most: what needs more turns in a circle."""

REQUEST_TIMEOUT_MS = 1_000
PAUSE_MAX_MS = 90_000
LATE_MAX_MS = 40_000
AWAY_PAUSE_MS = 30_000
"""For so long after an outage of a cluster there is no other one: each request might begin one."""

FAULTS = {
    "request lost": "a request does not arrive",
    "answer lost": "a request has its effect, and its answer does not arrive",
    "request late": "a request arrives when its sender has given it up",
    "killed": "a process is killed before a request is sent",
    "killed after": "a process is killed when a request is sent",
    "paused": "a process stops, and goes on much later",
}


class Call(NamedTuple):
    """A request: what it says, to which cluster, and its effect there."""

    cluster: str
    says: str
    effect: Callable[[], Any]


class Sleep(NamedTuple):
    """Nothing is done for so long."""

    ms: int


class _Lost:
    """No answer came in time."""

    def __repr__(self) -> str:
        return "no answer"


LOST = _Lost()

Steps = Generator[Call | Sleep, Any, Any]


class Failed(Exception):
    """What an actor gives up with."""


@dataclass(eq=False)
class Actor:
    """A process, or a task in one. `ended` is called with what it returns or raises, and with None if it is killed."""

    name: str
    kind: str
    steps: Steps
    ended: Callable[[Any], None]
    alive: bool = True
    paused: bool = False
    calls: int = 0


@dataclass
class World:
    """Everything happens in here, one event after the other."""

    random: Random
    rates: Mapping[str, float]
    """How likely each fault is at each request."""

    script: dict[tuple[str, int], str] = field(default_factory=dict)
    """Faults at certain requests: by the actor's kind, and the number of the request among all of that kind."""

    def __post_init__(self) -> None:
        self.now_ms = 1_000_000
        self.calm = False
        self.trace: list[str] = []
        self.happened: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.actors: list[Actor] = []
        self.away_until_ms: dict[str, int] = {}
        self.steps = 0
        self.sent_ms = 0
        """When the request was sent that has its effect now."""
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0

    def note(self, text: str) -> None:
        """A line of the trace."""
        self.trace.append(f"{self.now_ms / 1000:.3f} s: {text}")

    def after(self, delay_ms: int, event: Callable[[], None]) -> None:
        """Let `event` happen then."""
        self._number += 1
        heappush(self._queue, (self.now_ms + delay_ms, self._number, event))

    def run(self, until: Callable[[], bool], at_most_ms: int) -> bool:
        """Let things happen until that is so; False if it is not so in time."""
        end_ms = self.now_ms + at_most_ms
        while not until():
            if not self._queue or self._queue[0][0] > end_ms:
                self.now_ms = end_ms
                return until()
            self.now_ms, _, event = heappop(self._queue)
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise Broken("D6", f"{STEPS_MAX} steps, and no end")
            event()
        return True

    def start(self, name: str, kind: str, steps: Steps, ended: Callable[[Any], None]) -> Actor:
        """A new actor, which begins soon."""
        actor = Actor(name, kind, steps, ended)
        self.actors.append(actor)
        self.after(self.random.randint(0, 3), lambda: self._go_on(actor, None))
        return actor

    def kill(self, actor: Actor) -> None:
        """It does nothing any more; what it has sent is under way."""
        if actor.alive:
            self.note(f"{actor.name} is killed")
            self._end(actor, None)
            actor.steps.close()

    def _end(self, actor: Actor, result: Any) -> None:
        actor.alive = False
        self.actors.remove(actor)
        actor.ended(result)

    def _go_on(self, actor: Actor, answer: Any) -> None:
        if not actor.alive:
            return
        actor.paused = False
        try:
            wanted = actor.steps.send(answer)
        except StopIteration as stop:
            self._end(actor, stop.value)
        except Failed as failed:
            self.note(f"{actor.name} fails: {failed}")
            self._end(actor, failed)
        else:
            if isinstance(wanted, Sleep):
                self.after(wanted.ms, lambda: self._go_on(actor, None))
            else:
                self._send(actor, wanted)

    def _fault(self, actor: Actor, call: Call) -> str:
        if self.calm:
            return ""
        number = self.sent[actor.kind]
        self.sent[actor.kind] += 1
        if self.script:
            return self.script.get((actor.kind, number), "")
        until_ms = self.away_until_ms.get(call.cluster, 0)
        if until_ms > self.now_ms:
            return "request lost"
        drawn = self.random.random()
        if drawn < self.rates.get("away", 0.0) and until_ms + AWAY_PAUSE_MS < self.now_ms:
            self.away_until_ms[call.cluster] = self.now_ms + self.random.choice((3_000, 15_000, 40_000))
            self.note(f"nobody can reach cluster {call.cluster}")
            return self.random.choice(("request lost", "answer lost"))
        drawn = self.random.random()
        for name in FAULTS:
            drawn -= self.rates.get(name, 0.0)
            if drawn < 0:
                return name
        return ""

    def _send(self, actor: Actor, call: Call) -> None:
        fault = self._fault(actor, call)
        if fault:
            self.happened[fault] += 1
            self.note(f"{actor.name}, {call.says}: {fault}")
        delay_ms, sent_ms = self.random.randint(1, 8), self.now_ms
        if fault == "killed":
            self.kill(actor)
        elif fault == "request lost":
            self.after(REQUEST_TIMEOUT_MS, lambda: self._go_on(actor, LOST))
        elif fault == "request late":
            late_ms = self.random.randint(REQUEST_TIMEOUT_MS, self.random.choice((2_000, 8_000, LATE_MAX_MS)))
            self.after(late_ms, lambda: self._arrive(actor, call, fault, sent_ms))
            self.after(REQUEST_TIMEOUT_MS, lambda: self._go_on(actor, LOST))
        elif fault == "answer lost":
            self.after(delay_ms, lambda: self._arrive(actor, call, fault, sent_ms))
            self.after(REQUEST_TIMEOUT_MS, lambda: self._go_on(actor, LOST))
        else:
            self.after(delay_ms, lambda: self._arrive(actor, call, fault, sent_ms))
            if fault == "killed after":
                self.kill(actor)

    def _arrive(self, actor: Actor, call: Call, fault: str, sent_ms: int) -> None:
        self.sent_ms = sent_ms
        answer = call.effect()
        self.note(f"{actor.name}, {call.says}{' (late)' * (fault == 'request late')}: {answer}")
        if fault in ("", "paused"):
            delay_ms = self.random.randint(1, 8)
            if fault:
                actor.paused = True
                delay_ms = self.random.choice((3_000, 15_000, PAUSE_MAX_MS))
            self.after(delay_ms, lambda: self._go_on(actor, answer))
