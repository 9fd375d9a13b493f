"""The simulator of delivery: the shipped protocol over simulated coordinators of transactions, and a simulated Spark.

from evensplit.testing.sim.delivery import simulate_delivery

simulate_delivery(seed=7)  # raises DeliverySimulationFailed, with the story, for the first law that is broken
"""

from evensplit.testing.sim.delivery.simulation import DeliveryReport, DeliverySimulationFailed, simulate_delivery

__all__ = ["DeliveryReport", "DeliverySimulationFailed", "simulate_delivery"]
