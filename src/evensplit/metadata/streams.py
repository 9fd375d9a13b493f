"""Metadata: streams, the clusters that each is on, and the topics there.

Everything here is immutable and compares by value. Values of `properties` may be secrets: they are in no repr.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """One cluster of one stream.

    - `bootstrap_servers`: `host:port` each, at least one.
    - `topics`: names, ascending, each once.
    - `properties`: client settings under Kafka's names, without `kafka.`; never the bootstrap servers.
    - `starting_offsets`, `ending_offsets`: as they were written, a text or a JSON object; None: not said.
    - `where`: where it was said, for messages; it does not count when clusters are compared.
    """

    id: str
    bootstrap_servers: tuple[str, ...]
    topics: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    starting_offsets: Any = None
    ending_offsets: Any = None
    where: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream: topics on one or more clusters, read as one thing.

    `starting_offsets`, `ending_offsets`: of all its clusters that say nothing themselves. `where`: as for a cluster.
    """

    id: str
    clusters: tuple[ClusterMetadata, ...]
    starting_offsets: Any = None
    ending_offsets: Any = None
    where: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Metadata:
    """One answer of a service. `complete`: streams, clusters and topics that are not in it do not exist."""

    streams: tuple[Stream, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Selection:
    """What is to be read of an answer.

    - `clusters`: ascending by id, each once, with the topics of all chosen streams. Where chosen streams want different
      offsets of one cluster, its `starting_offsets` and `ending_offsets` are a mapping from each topic that it is said
      for to what is said; None in there is a topic whose stream says nothing.
    - `missing`: the streams that were asked for by name and that the answer does not have, ascending.
    """

    clusters: tuple[ClusterMetadata, ...]
    missing: tuple[str, ...] = ()


class MetadataService(Protocol):
    """Where streams, clusters and topics come from.

    A service is used by one thread at a time, and it may be asked anew after any error.
    """

    def read(self) -> Metadata:
        """What there is now.

        Raises MetadataError, or anything else: every Exception is a failed answer, and the last good one stands.
        """
        ...

    def close(self) -> None:
        """Give up what the service holds. Nothing is read afterwards."""
        ...
