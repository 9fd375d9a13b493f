"""What a metric and a sample are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CLUSTERS_MAX = 100
"""How many clusters of a source, or of a sink, have series of their own: the first ones, for good. The others are
summed up."""

OTHERS = "others"
"""The label of clusters, and of readers, that are summed up."""

Kind = Literal["counter", "gauge"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, with its labels in their order."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str

    @property
    def by_partition(self) -> bool:
        """Whether it has a series for each partition. Such metrics are exported only if they are asked for."""
        return "partition" in self.labels


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of the metric `name`, with the values of its labels in their order."""

    name: str
    labels: tuple[str, ...]
    value: float
