"""What a metric and a sample are, and by which names queries go in them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from evensplit.observe.source_view import Source

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


class Names:
    """The label `query` of each query: chosen at the first call, and the same while the query runs.

    So no series breaks off when another query of the same name starts or ends. Safe for several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._labels: dict[str, str] = {}

    def of(self, sources: Iterable[Source]) -> Mapping[str, str]:
        """Query id -> label, for `sources`: those of all running queries. Other queries are forgotten."""
        running = {one.query_id: one.name or one.query_id for one in sources}
        with self._lock:
            self._labels = {query: label for query, label in self._labels.items() if query in running}
            taken = set(self._labels.values())
            for query, name in running.items():
                if query not in self._labels:
                    label = query if name in taken else name
                    while label in taken:
                        label += "_"
                    taken.add(label)
                    self._labels[query] = label
            return dict(self._labels)
