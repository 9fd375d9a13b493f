"""What one seed bounds: how much a batch reads, how many splits move in an hour, and how many readers there are.

All of it is chosen apart from the rest of the profile: so a seed without bounds gives the run that it gave before there
were any.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from evensplit.core.batch.limits import BatchLimits
from evensplit.core.model import SplitId
from evensplit.core.state.settings import COUNT, GAIN_PERCENT_DEFAULT, RATE
from evensplit.spark.options.spec.limits import MAX_BYTES, MAX_OFFSETS, PRIORITY
from evensplit.testing.sim.bounds.names import CLUSTERS, TOPICS


def record_bytes(split: SplitId) -> int:
    """The bytes of each record of a split: those of some are much longer than those of others."""
    return (64, 640, 200)[(len(split.topic) + split.partition) % 3]


COUNTED: dict[str, Any] = {
    "balance": COUNT,
    "gain_percent": GAIN_PERCENT_DEFAULT,
    "moves_per_hour": None,
    "capacities": (),
}
"""The fields of `Settings` where loads are counted."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Owners by work."""

    gain_percent: int
    moves_per_hour: int | None
    capacities: tuple[tuple[int, int], ...]
    steady: bool
    """Nothing but work makes splits move."""

    @property
    def settings(self) -> dict[str, Any]:
        """As fields of `Settings`."""
        return {
            "balance": RATE,
            "gain_percent": self.gain_percent,
            "moves_per_hour": self.moves_per_hour,
            "capacities": self.capacities,
        }


@dataclass(frozen=True, slots=True)
class Bounds:
    """The options, as texts, and what they mean. An option that is not given is None."""

    offsets: str | None
    bytes: str | None
    priority: str | None
    rates: Rates | None
    """None: loads are counted."""
    follows_slots: bool
    """The number of readers is that of the session's slots, with hosts that ship."""

    def limits(self, offsets_max: int | None) -> BatchLimits:
        """The limits of a batch; `offsets_max` where none on offsets is given here."""
        offsets = self.offsets if self.offsets is not None else offsets_max
        return BatchLimits(
            MAX_OFFSETS.default if offsets is None else MAX_OFFSETS.type.parse(offsets),
            MAX_BYTES.default if self.bytes is None else MAX_BYTES.type.parse(self.bytes),
            PRIORITY.default if self.priority is None else PRIORITY.type.parse(self.priority),
        )


def bounds(seed: int) -> Bounds:
    """The bounds of `seed`."""
    # Not for secrets: the same seed has to give the same run.
    random = Random(f"bounds of {seed}")  # noqa: S311
    offsets = _amounts(random, (3, 9, 30)) if random.random() < 0.25 else None
    in_bytes = _amounts(random, (900, 4_000, 12_000)) if random.random() < 0.2 else None
    priority = _priority(random) if (offsets or in_bytes) and random.random() < 0.6 else None
    rates = None
    if random.random() < 0.25:
        capacities = tuple((reader, random.choice((1, 2, 5))) for reader in range(4) if random.random() < 0.2)
        rates = Rates(
            random.choice((0, 2, 20)), random.choice((None, 0, 1, 3)), capacities, steady=random.random() < 0.6
        )
    return Bounds(offsets, in_bytes, priority, rates, random.random() < 0.3)


def _amounts(random: Random, sizes: tuple[int, int, int]) -> str:
    """Limits on topics, on clusters and on the batch: none is above the one around it."""
    topic, cluster, batch = sizes
    found: dict[str, Any] = {}
    for name in CLUSTERS:
        if random.random() < 0.5:
            found[name] = {one: topic * random.choice((1, 2)) for one in TOPICS if random.random() < 0.4}
            if not found[name] or random.random() < 0.5:
                found[name]["*"] = cluster
    if not found or random.random() < 0.6:
        found["*"] = batch
    return json.dumps(found)


def _priority(random: Random) -> str:
    """An order, or shares."""
    names = [*CLUSTERS, *(f"{cluster}/{topic}" for cluster in CLUSTERS[:2] for topic in TOPICS)]
    chosen = random.sample(names, random.randint(1, 4))
    if random.random() < 0.5:
        return json.dumps(chosen)
    return json.dumps({**{name: random.choice((1, 2, 7)) for name in chosen}, "*": random.choice((1, 3))})
