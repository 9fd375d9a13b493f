"""Clusters of a metadata answer, or of a state where there is none, as options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from evensplit.core.model import Topics
from evensplit.core.state.offset_strategies import ByTopic, Earliest, Latest, Strategy
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import MetadataError, MetadataRefused
from evensplit.kafka.options.local_access import Allowed
from evensplit.metadata import ClusterMetadata, Selection
from evensplit.metadata.checks import limited
from evensplit.spark.options.parse import ClusterOptions, batch_problems, parse_clusters, streaming_problems

Common = Mapping[str, Any]
"""The options outside, as `SourceOptions.common`."""


def clusters_of(
    chosen: Selection, common: Common, source: str, allowed: Allowed, *, batch: bool, begun: bool = False
) -> tuple[ClusterOptions, ...]:
    """The clusters that were chosen from an answer of `source`, with what they leave to the options outside.

    Where some streams of a cluster say where they start, topics of the others start as on a cluster that says nothing:
    as the options outside say, or, if the query has `begun` when the cluster is found, at earliest.

    Raises MetadataRefused if they name what is not `allowed` of this machine, and MetadataError for what is wrong with
    them otherwise, in a batch query or in a stream.
    """
    refused: list[str] = []
    clusters, problems = parse_clusters(common, {one.id: _own(one) for one in chosen.clusters}, allowed, refused)
    if refused:
        raise MetadataRefused(source, limited((*refused, *problems)))
    silent = {one.id: _silent(one) for one in chosen.clusters}
    if any(silent.values()):
        start = Earliest() if begun else _outside(common) or (Earliest() if batch else Latest())
        clusters = tuple(_started(cluster, dict.fromkeys(silent[cluster.id], start)) for cluster in clusters)
    problems = (*problems, *(batch_problems(clusters) if batch else streaming_problems(clusters)))
    if problems:
        raise MetadataError(source, limited(problems))
    return endless(clusters) if batch else clusters


def endless(clusters: Sequence[ClusterOptions]) -> tuple[ClusterOptions, ...]:
    """For a batch query: it ends where its one batch does, so none of its splits has a stop of its own."""
    return tuple(replace(cluster, ends_stream=False) for cluster in clusters)


def clusters_in(state: EnumeratorState, common: Common) -> tuple[ClusterOptions, ...]:
    """The clusters and topics that `state` reads. Servers are those of the checkpoint, all else is from outside."""
    topics: dict[str, dict[str, None]] = {}
    for key, split in state.splits.items():
        if split.removed_at_ms is None:
            topics.setdefault(key.cluster, {})[key.topic] = None
    listed = {
        name: {"kafka.bootstrap.servers": ",".join(cluster.bootstrap_servers), "subscribe": list(topics[name])}
        for name, cluster in state.clusters.items()
        if cluster.removed_at_ms is None and cluster.bootstrap_servers and name in topics
    }
    clusters, problems = parse_clusters(common, listed)
    if problems:
        raise MetadataError("the checkpoint's clusters", problems)
    return clusters


def united(found: Sequence[ClusterOptions], known: Sequence[ClusterOptions]) -> tuple[ClusterOptions, ...]:
    """An answer with gaps over what was `known`: it adds and changes, clusters as well as topics."""
    before = {cluster.id: cluster for cluster in known}
    now = {cluster.id: cluster for cluster in found}
    merged: list[ClusterOptions] = []
    for name in sorted({*before, *now}):
        cluster, earlier = now.get(name, before.get(name)), before.get(name)
        assert cluster is not None
        if (
            earlier is not None
            and isinstance(cluster.subscription, Topics)
            and isinstance(earlier.subscription, Topics)
        ):
            names = tuple(sorted({*cluster.subscription.names, *earlier.subscription.names}))
            cluster = replace(cluster, subscription=Topics(names))
        merged.append(cluster)
    return tuple(merged)


def _own(cluster: ClusterMetadata) -> Mapping[str, Any]:
    """A cluster of the metadata as options of its own. What its streams say nothing about is not among them."""
    own: dict[str, Any] = {f"kafka.{name}": value for name, value in cluster.properties.items()}
    own["kafka.bootstrap.servers"] = ",".join(cluster.bootstrap_servers)
    own["subscribe"] = list(cluster.topics)
    own["startingOffsets"], own["endingOffsets"] = cluster.starting_offsets, cluster.ending_offsets
    if _silent(cluster):
        said = {topic: start for topic, start in cluster.starting_offsets.items() if start is not None}
        # A stream whose offsets name no topic of this cluster: unnamed ones start at earliest.
        own["startingOffsets"] = said or "earliest"
    if isinstance(cluster.ending_offsets, Mapping) and None in cluster.ending_offsets.values():
        endless = [topic for topic, said in cluster.ending_offsets.items() if said is None]
        raise MetadataError(
            cluster.where or f"cluster {cluster.id!r}",
            [f"endingOffsets end some streams of it and not others ({', '.join(endless)}); expected all or none"],
        )
    return {**own, "where": cluster.where}


def _silent(cluster: ClusterMetadata) -> tuple[str, ...]:
    """The topics of streams that do not say where they start, on a cluster where others do."""
    starts = cluster.starting_offsets
    return tuple(topic for topic, said in starts.items() if said is None) if isinstance(starts, Mapping) else ()


def _outside(common: Common) -> Strategy | None:
    """Where a cluster that says nothing itself starts by the options outside; None if they do not say either."""
    any_cluster = {"kafka.bootstrap.servers": "host:9092", "subscribe": "unread"}
    clusters, _ = parse_clusters(common, {"any": any_cluster})
    return clusters[0].starting if clusters else None


def _started(cluster: ClusterOptions, topics: Mapping[str, Strategy]) -> ClusterOptions:
    """`cluster`, where `topics` start so and all else as it says."""
    start = cluster.starting
    if not topics or start is None:
        return cluster
    if isinstance(start, ByTopic):
        return replace(cluster, starting=replace(start, topics={**start.topics, **topics}))
    return replace(cluster, starting=ByTopic(topics, {}, start))
