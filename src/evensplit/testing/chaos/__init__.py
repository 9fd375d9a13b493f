"""Runs of a job through faults of real brokers, network and Spark: `evensplit chaos`. Here is what a job needs."""

from evensplit.testing.chaos.job.task import Task

__all__ = ["Task"]
