"""Which faults happen when: made from a seed alone, so that a run can be repeated."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random

FIRST_CALM_S = 30.0
"""The job reads undisturbed before the first fault."""

CALM_S = 40.0
"""Between two spells of faults. Longer than a stall may last, so that each spell is judged on its own."""

SPELL_S = (20.0, 45.0)
"""How long faults go on without a calm."""

COMPANY_MAX = 3
"""So many faults begin in one spell at most."""

LONG_MINUTES = 20.0
ENDS_PROCESSES_SHARE = 0.4
"""In this first part of a run that is long, every second spell ends a process of Spark; in the rest, none does."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What the schedule needs to know of a nemesis."""

    name: str
    resource: str
    """Faults of one do not overlap: `brokers`, `network`, `access`, `topics`, `metadata`, `spark` or `sink`."""
    lasts_s: tuple[float, float] = (3.0, 20.0)
    """The shortest and the longest time between its beginning and its end."""
    ends_process: bool = False
    """Whether a process of Spark ends by it, if only because all queries end. Such faults keep to the first part of a
    long run, so that the memory of each process can be watched for long."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault to come."""

    number: int
    nemesis: str
    begins_s: float
    """Since the run began."""
    lasts_s: float
    dice: int
    """The seed of its own choices: which broker, which topic."""


class _Turns:
    """Nemeses in random order, of which each has its turn before one comes again."""

    def __init__(self, random: Random, kinds: Sequence[Kind]) -> None:
        self._random = random
        self._kinds = kinds
        self._waiting: list[Kind] = []

    def next(self, taken: Collection[str] = ()) -> Kind | None:
        """The next one that is not of a resource that is taken; None if all are."""
        if all(kind.resource in taken for kind in self._waiting):
            again = [kind for kind in self._kinds if kind not in self._waiting]
            self._random.shuffle(again)
            self._waiting.extend(again)
        found = next((kind for kind in self._waiting if kind.resource not in taken), None)
        if found is not None:
            self._waiting.remove(found)
        return found


def make_schedule(seed: int, minutes: float, kinds: Sequence[Kind]) -> tuple[Planned, ...]:
    """The faults of a run of so many minutes, in the order of their beginning.

    Spells of one to three faults of different resources alternate with calms of `CALM_S`. Every nemesis has had its
    turn before one comes again; those that end processes, in a long run, have turns of their own in its first part. All
    faults are over when the time is. The same arguments give the same schedule.
    """
    random = Random(f"{seed}")  # noqa: S311
    end_s, at_s = minutes * 60, FIRST_CALM_S
    apart = minutes >= LONG_MINUTES
    ending = _Turns(random, [kind for kind in kinds if kind.ends_process and apart])
    others = _Turns(random, [kind for kind in kinds if not kind.ends_process or not apart])
    planned: list[Planned] = []
    spells = 0
    while kinds:
        spell_s = random.uniform(*SPELL_S)
        if at_s + spell_s > end_s:
            break
        early = at_s < end_s * ENDS_PROCESSES_SHARE and spells % 2 == 0
        for kind in _company(random, ending if early else None, others):
            lasts_s = min(random.uniform(*kind.lasts_s), spell_s)
            begins_s = at_s + random.uniform(0, spell_s - lasts_s)
            planned.append(Planned(0, kind.name, round(begins_s, 2), round(lasts_s, 2), random.randrange(2**32)))
        at_s += spell_s + CALM_S
        spells += 1
    planned.sort(key=lambda one: (one.begins_s, one.nemesis))
    return tuple(
        Planned(number, one.nemesis, one.begins_s, one.lasts_s, one.dice) for number, one in enumerate(planned, 1)
    )


def _company(random: Random, ending: _Turns | None, others: _Turns) -> list[Kind]:
    """One to `COMPANY_MAX` nemeses, no two of one resource; the first one of those that end processes, if there are."""
    chosen: list[Kind] = []
    for number in range(random.randint(1, COMPANY_MAX)):
        taken = {one.resource for one in chosen}
        found = ending.next() if ending is not None and number == 0 else None
        found = found or others.next(taken)
        if found is None:
            break
        chosen.append(found)
    return chosen
