"""The simulator of the executor's side: the shipped reader over a network, brokers and a clock that are simulated.

from evensplit.testing.sim.fetch import simulate_fetch

simulate_fetch(seed=7)  # raises FetchSimulationFailed, with the story, for the first law that is broken
"""

from evensplit.testing.sim.fetch.cluster import FAULTS
from evensplit.testing.sim.fetch.simulation import FetchReport, FetchSimulationFailed, simulate_fetch

__all__ = ["FAULTS", "FetchReport", "FetchSimulationFailed", "simulate_fetch"]
