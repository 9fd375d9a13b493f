"""Which faults happen when: made from a seed alone, so that a run can be repeated."""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True)
class Kind:
    """What the schedule needs to know of a nemesis."""

    name: str
    resource: str
    """Faults of one do not overlap: `brokers`, `network`, `access`, `topics`, `metadata`, `spark` or `sink`."""
    lasts_s: tuple[float, float] = (3.0, 20.0)
    """The shortest and the longest time between its beginning and its end."""
    ends_driver: bool = False
    """Whether the process of the driver ends by it. Such faults keep to the first part of a run, so that the memory of
    one process can be watched for long."""


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


def make_schedule(seed: int, minutes: float, kinds: Sequence[Kind]) -> tuple[Planned, ...]:
    """The faults of a run of so many minutes, in the order of their beginning.

    Spells of one to three faults of different resources alternate with calms of `CALM_S`. Every nemesis has had its
    turn before one comes again. All faults are over when the time is. The same arguments give the same schedule.
    """
    random = Random(f"{seed}")  # noqa: S311
    end_s, at_s = minutes * 60, FIRST_CALM_S
    planned: list[Planned] = []
    waiting: list[Kind] = []
    while kinds:
        spell_s = random.uniform(*SPELL_S)
        if at_s + spell_s > end_s:
            break
        company = _company(random, waiting, kinds, COMPANY_MAX, driver_may_end=at_s < end_s * 0.4 or minutes < 20)
        for kind in company:
            lasts_s = min(random.uniform(*kind.lasts_s), spell_s)
            begins_s = at_s + random.uniform(0, spell_s - lasts_s)
            planned.append(Planned(0, kind.name, round(begins_s, 2), round(lasts_s, 2), random.randrange(2**32)))
        at_s += spell_s + CALM_S
    planned.sort(key=lambda one: (one.begins_s, one.nemesis))
    return tuple(
        Planned(number, one.nemesis, one.begins_s, one.lasts_s, one.dice) for number, one in enumerate(planned, 1)
    )


def _company(
    random: Random, waiting: list[Kind], kinds: Sequence[Kind], most: int, *, driver_may_end: bool
) -> list[Kind]:
    """One to `most` of those that are waiting for their turn, no two of one resource; they wait no longer."""
    chosen: list[Kind] = []
    for _ in range(random.randint(1, most)):
        taken = {one.resource for one in chosen}

        def fits(kind: Kind, taken: set[str] = taken) -> bool:
            return kind.resource not in taken and (driver_may_end or not kind.ends_driver)

        if not any(map(fits, waiting)):
            again = [kind for kind in kinds if kind not in waiting]
            random.shuffle(again)
            waiting.extend(again)
        found = next(filter(fits, waiting), None)
        if found is None:
            break
        waiting.remove(found)
        chosen.append(found)
    return chosen
