"""What a query would find if it planned its next batch now: seen by its own coordinator, and written down nowhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evensplit.cli.live.log_ends import connected
from evensplit.core.model import SplitId
from evensplit.core.state.offset_strategies import Latest
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted
from evensplit.explain.changes import told
from evensplit.metadata import ClusterMetadata, Metadata, MetadataService, Stream
from evensplit.spark.driver.change_log import silent_log
from evensplit.spark.driver.coordinator import Coordinator
from evensplit.spark.driver.metadata_poller import MetadataPoller, open_metadata
from evensplit.spark.options.parse import ClusterOptions, SourceOptions
from evensplit.spark.options.per_cluster import BOOTSTRAP, SUBSCRIPTIONS

NAMING = ("clusters", "metadata", BOOTSTRAP, *SUBSCRIPTIONS)
"""The options that say which clusters and topics there are."""

SIGHTINGS_APART_MS = 500
"""How far apart two answers have to be for something missing in both to be gone. A command cannot wait as long as a
query, which waits `discoveryInterval`."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What a look at the clusters found."""

    state: EnumeratorState
    """Where the query stands, with all that is new, in a batch that is open: owners are not decided yet."""
    latest: Mapping[SplitId, int]
    """The ends of the logs that answered."""
    unanswered: tuple[str, ...]
    """The clusters that did not answer."""
    notes: tuple[str, ...]
    """What else one should know, a sentence each."""


def names_clusters(options: Mapping[str, str]) -> bool:
    """Whether `options` say which clusters there are."""
    named = {name.lower() for name in NAMING}
    return any(name.lower() in named for name in options)


def clusters_named(options: SourceOptions) -> tuple[Sequence[ClusterOptions], tuple[str, ...]]:
    """The clusters of the options, or of their metadata now, and the streams that are missing, a sentence each.

    Raises MetadataError.
    """
    poller = MetadataPoller(options)
    try:
        with silent_log():
            poller.refresh(EnumeratorState(), patient=True)
    finally:
        poller.close()
    return poller.clusters, poller.missing


def observe(options: SourceOptions, state: EnumeratorState, readers: int, *, named: bool = True) -> Observation:
    """Look at the clusters as a query does that stands at `state` and has so many readers.

    A cluster that does not answer is as `state` has it. Losses are noted, and do not end anything.

    Args:
        named: `options` name the clusters; otherwise `state` does, and `options` say the rest, such as logins.

    Raises EvenSplitError as `Coordinator.observe` does: with an empty state for all that does not answer or exist.
    """
    # Whatever answers is waited for, and the rest is done without.
    patient = replace(
        options,
        allow_unreachable=True,
        reading=replace(options.reading, fail_on_data_loss=False),
        discovery_interval_ms=SIGHTINGS_APART_MS,
    )
    coordinator = Coordinator(
        patient,
        readers_default=readers,
        starting_default=Latest(),
        connect=lambda cluster: connected(cluster.id, cluster.settings),
        opened=open_metadata if named else lambda _: _KnownClusters(state),
    )
    try:
        with silent_log():
            found = coordinator.observe(state, fix_ends=True)
        report = coordinator.report()
    finally:
        coordinator.close()
    notes = [
        f"{why}; its partitions are those of the checkpoint, and its lag is not known"
        for why in report.unreachable.values()
    ]
    notes.extend(report.notices)
    notes.extend(f"{loss.split}: {told(loss)}" for loss in found.session.undeclared)
    waiting = sum(split.active and split.position is None for split in found.splits.values())
    if waiting:
        notes.append(f"where {counted(waiting, 'partition')} would begin is not known yet")
    unasked = sorted({key.cluster for key in state.splits if not state.clusters[key.cluster].bootstrap_servers})
    if unasked and not named:
        notes.append(f"the checkpoint does not say where {', '.join(unasked)} is, so it was not asked")
    return Observation(found, report.latest, tuple(report.unreachable), tuple(notes))


class _KnownClusters(MetadataService):
    """Names the clusters and topics that a state reads; others there may be as well."""

    def __init__(self, state: EnumeratorState) -> None:
        self._state = state

    def read(self) -> Metadata:
        topics: dict[str, set[str]] = {}
        for split in self._state.load():
            topics.setdefault(split.id.cluster, set()).add(split.id.topic)
        clusters = tuple(
            ClusterMetadata(name, servers, tuple(sorted(topics[name])))
            for name in sorted(topics)
            if (servers := self._state.clusters[name].bootstrap_servers)
        )
        return Metadata((Stream("checkpoint", clusters),), complete=False)

    def close(self) -> None:
        """There is nothing to close."""
