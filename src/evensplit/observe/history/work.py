"""The work of one batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evensplit.explain.batch_rates import ClusterPart


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one batch, and how it was shared out."""

    batch: int
    at_ms: int | None
    """When it was planned; None: not known."""
    duration_ms: int | None
    """How long Spark took for all of it; None: not known."""
    rows: int | None
    """How many records Spark was given; None: not known."""
    offsets: Mapping[int, int]
    """Reader -> the offsets that it had to go through, ascending by reader; 0 for readers without work."""
    bound: int
    """The least that the busiest reader can have with this kind of plan."""
    lag: int | None
    """Offsets left to read after it, by the ends that were known when it was planned; None: no end was known."""
    run_id: str = ""
    """The run of the query, as in `Batch`."""
    held: tuple[str, ...] = ()
    """The limits that kept it from reading all that there was; ascending."""
    parts: Mapping[str, ClusterPart] = field(default_factory=dict)
    """Cluster -> what of it was read, and is left; of those that are read."""
    largest: int = 0
    """The offsets of the split with the most."""

    @property
    def offsets_sum(self) -> int:
        """The offsets of the batch."""
        return sum(self.offsets.values())

    @property
    def busiest(self) -> int:
        """The offsets of the reader with the most."""
        return max(self.offsets.values(), default=0)

    @property
    def least_busy(self) -> int:
        """The offsets of the reader with the fewest."""
        return min(self.offsets.values(), default=0)

    @property
    def share(self) -> float:
        """The level line: the offsets of each reader if all had the same."""
        return self.offsets_sum / len(self.offsets) if self.offsets else 0.0
