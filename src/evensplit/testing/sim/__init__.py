"""The simulator: one seed is one run of the enumerator in a world of lying clusters, failing readers and dying drivers.

from evensplit.testing.sim import simulate

simulate(seed=7, events=2_000)  # raises SimulationFailed, with the story, for the first law that is broken
"""

from evensplit.errors import SimulationFailed
from evensplit.testing.sim.profile import FAULTS, Profile
from evensplit.testing.sim.rules import Rules
from evensplit.testing.sim.simulation import Report, simulate

__all__ = ["FAULTS", "Profile", "Report", "Rules", "SimulationFailed", "simulate"]
