"""The simulator finds every planted bug, and finds nothing where there is none."""

from __future__ import annotations

import pytest

from evensplit.testing.sim import SimulationFailed, simulate
from tests.sim.planted import PLANTED
from tests.sim.planting import Planted

SEEDS_MAX = 200
EVENTS = 400


@pytest.mark.parametrize("name", PLANTED)
def test_the_simulator_finds_it(name: str) -> None:
    """Within so many seeds, by a law that it is about, and not in the real rules under the same seed."""
    planted = PLANTED[name]
    failed = next(
        found for seed in range(planted.seed, planted.seed + SEEDS_MAX) if (found := failure(seed, planted)) is not None
    )
    print(f"{name}: seed {failed.seed}, event {failed.event}, law {failed.law}: {failed.detail}")
    assert failed.law in planted.laws, str(failed)
    assert failed.story
    simulate(failed.seed, EVENTS)


def failure(seed: int, planted: Planted) -> SimulationFailed | None:
    try:
        with planted.host():
            simulate(seed, EVENTS, planted.rules)
    except SimulationFailed as failed:
        return failed
    return None
