"""What can happen to the enumerator: facts, in the past tense.

The host observes the world and tells the enumerator; an event never asks for anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evensplit.core.model import ListedPartition, SplitId


@dataclass(frozen=True, slots=True)
class ListedCluster:
    """One cluster of a metadata answer. `starts_by_strategy`: it names starting offsets of its own."""

    id: str
    bootstrap_servers: tuple[str, ...]
    starts_by_strategy: bool = False


@dataclass(frozen=True, slots=True)
class BatchOpened:
    """Spark asked for the next batch: the one before it is committed and will not be planned again."""


@dataclass(frozen=True, slots=True)
class ParallelismChanged:
    """The number of readers is `readers` (at least 1) from now on."""

    readers: int


@dataclass(frozen=True, slots=True)
class ClustersListed:
    """The metadata named these clusters, all that are to be read, each once."""

    clusters: tuple[ListedCluster, ...]


@dataclass(frozen=True, slots=True)
class PartitionsListed:
    """A cluster's metadata answered: these are subscribed partitions of it, each once.

    For a cluster that is still `initial` they are all that there are; later, some may be missing.
    """

    cluster: str
    partitions: tuple[ListedPartition, ...]


@dataclass(frozen=True, slots=True)
class OffsetsResolved:
    """The starts of newly discovered splits are known: split -> offset of its first record to read."""

    starts: Mapping[SplitId, int]


@dataclass(frozen=True, slots=True)
class BatchPlanned:
    """The next batch ends here: split -> end offset (exclusive). Splits that are not named read nothing."""

    ends: Mapping[SplitId, int]


Event = BatchOpened | ParallelismChanged | ClustersListed | PartitionsListed | OffsetsResolved | BatchPlanned
