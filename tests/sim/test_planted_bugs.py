"""The simulator finds every planted bug, and finds nothing where there is none."""

from __future__ import annotations

import pytest

from evensplit.testing.sim import SimulationFailed, simulate
from tests.sim.planted import PLANTED
from tests.sim.planted_fetches import PLANTED_FETCHES, PlantedFetch
from tests.sim.planting import Planted

EVENTS = 400


@pytest.mark.parametrize("name", PLANTED)
def test_the_simulator_finds_it(name: str) -> None:
    """With the seed that is noted, by a law that it is about, and not in the real rules under the same seed."""
    planted = PLANTED[name]
    failed = failure(planted.seed, planted)
    assert failed is not None, "noted is another seed"
    print(f"{name}: seed {failed.seed}, event {failed.event}, law {failed.law}: {failed.detail}")
    assert failed.law in planted.laws, str(failed)
    assert failed.story
    simulate(failed.seed, EVENTS)


def test_every_bug_is_found_within_500_seeds() -> None:
    bugs: tuple[Planted | PlantedFetch, ...] = (*PLANTED.values(), *PLANTED_FETCHES.values())
    assert len(bugs) >= 40
    assert max(planted.seed for planted in bugs) < 500


def failure(seed: int, planted: Planted) -> SimulationFailed | None:
    try:
        with planted.host():
            simulate(seed, EVENTS, planted.rules)
    except SimulationFailed as failed:
        return failed
    return None
