"""Which clusters are to be read: those of the options, or those that a metadata service lists at the moment."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, NamedTuple

from evensplit.core.model import ClusterState, Topics
from evensplit.core.state.offset_strategies import ByTopic, Earliest, Latest, Strategy
from evensplit.core.state.state import EnumeratorState, Session
from evensplit.core.text import counted, short
from evensplit.errors import MetadataError, MetadataRefused, line_of
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.options.local_access import Allowed
from evensplit.metadata import ClusterMetadata, MetadataService, Selection, hidden, open_service, select, shown_location
from evensplit.metadata.checks import limited
from evensplit.registry.settings import RegistrySettings
from evensplit.spark.options.parse import (
    ClusterOptions,
    MetadataOptions,
    SourceOptions,
    batch_problems,
    parse_clusters,
    streaming_problems,
)
from evensplit.spark.poll.scheduler import Scheduler

log = logging.getLogger("evensplit")


ASK_AGAIN_S = 30.0
"""Where discovery is off one listing is enough. So long, in s, after an attempt that failed the next one is made."""

PROBLEM_CHARACTERS_MAX = 2_000
"""The longest text about one problem with a listing."""

TIMEOUT_GRACE_S = 0.5
"""So long, in s, after its own deadline a service may still raise its error."""


class Answered(NamedTuple):
    """A listing of the metadata service, parsed."""

    clusters: tuple[ClusterOptions, ...]
    """For a query that begins with them."""
    later: tuple[ClusterOptions, ...]
    """For a query that has begun before."""
    complete: bool
    """These are all clusters."""
    missing: tuple[str, ...]
    """Ids of streams that do not exist."""


def open_metadata(options: MetadataOptions) -> MetadataService:
    """Open the service that the options name."""
    return open_service(
        options.location,
        token_env=options.token_env,
        token_file=options.token_file,
        timeout_s=options.timeout_ms / 1000,
        options=options.options,
    )


class MetadataPoller:
    """Polls the metadata service, if there is one, and keeps the clusters that are to be read."""

    def __init__(
        self,
        options: SourceOptions,
        *,
        batch: bool = False,
        opened: Callable[[MetadataOptions], MetadataService] = open_metadata,
        scheduler: Scheduler | None = None,
    ) -> None:
        self._options = options
        self._batch = batch
        self._opened = opened
        self._scheduler = scheduler or Scheduler()
        self._source = shown_location(options.metadata.location) if options.metadata else ""
        self._service: MetadataService | None = None
        self._asked: Future[Answered] | None = None
        self._asked_at: float | None = None
        self._began_at = 0.0
        self._failures = 0
        self.confirmed = options.metadata is None or options.discovery_interval_ms <= 0
        """The listing cannot be wrong, since it is the user's own options, or the only one that there will be."""
        self.complete = options.metadata is None
        """The last listing has all clusters."""
        self.clusters: Sequence[ClusterOptions] = endless(options.clusters) if batch else options.clusters
        """Those of the last valid listing, ascending by id. The same object as long as they are the same."""
        self.answers = int(options.metadata is None)
        """How many valid listings there were."""
        self.notice = ""
        """Why the last attempt failed; empty if it did not."""
        self.missing: tuple[str, ...] = ()
        """Streams that were asked for and do not exist, a sentence each."""

    def refresh(self, state: EnumeratorState, *, patient: bool) -> None:
        """Poll the service in the background, when that is due; take its listing, when it has come.

        With `patient`, a poll that is under way is waited for, and the first one always is. One that takes longer than
        `metadataTimeout` has failed. After a failure the last listing stays in use; if this process had none yet, the
        clusters and topics of `state`.

        Raises:
            MetadataError: there is no listing and no state, or more attempts in a row have failed than are allowed.
        """
        metadata = self._options.metadata
        if metadata is None:
            return
        now = self._scheduler.monotonic()
        due = self._is_due(now)
        if due and self._asked is None:
            self._asked = self._scheduler.start(lambda: self._read(metadata), "evensplit-metadata")
            self._asked_at = self._began_at = now
        elif self._asked and due and now - self._began_at >= metadata.timeout_ms / 1000 and not self._asked.done():
            # It hangs, and so would another poll. Each interval of that is a failure of its own.
            self._asked_at = now
            self._failed(TimeoutError(), metadata, state)
        if self._asked is None:
            return
        if patient or not self._has_clusters:
            self._scheduler.wait((self._asked,), metadata.timeout_ms / 1000 + TIMEOUT_GRACE_S)
        if self._asked.done():
            asked, self._asked = self._asked, None
            self._take(asked, metadata, state)
        elif patient or not self._has_clusters:
            self._failed(TimeoutError(), metadata, state)

    def unseen(self, state: EnumeratorState, session: Session) -> Sequence[str]:
        """The clusters of which no listing was taken in yet: partitions of their first one existed before."""
        if not state.begun:
            return [cluster.id for cluster in self.clusters]
        known = {name for name, cluster in state.clusters.items() if cluster.discovered}
        # One that is not complete counts, too: a complete one may never come.
        known.update(session.listed_polls)
        return [cluster.id for cluster in self.clusters if cluster.id not in known]

    def reached(self, cluster: ClusterState, proven: ClusterOptions | None = None) -> ClientSettings:
        """Return how a cluster of a checkpoint is reached: at its servers there, with the settings of today.

        A cluster that is not listed by its name may be listed by another one: then a bootstrap server is the same.
        Servers that were added since are used as well.

        Args:
            proven: the settings that lead to it by now, if any do.

        Raises:
            MetadataError: it is not listed, and with the options for all clusters alone it might be read with less
                isolation or security than before.
        """
        now = proven or self._listed(cluster)
        settings = self._outside(cluster) if now is None else now.settings
        servers = dict.fromkeys((*cluster.bootstrap_servers, *settings.bootstrap_servers))
        return replace(settings, bootstrap_servers=tuple(servers))

    def registry(self, cluster: ClusterState, proven: ClusterOptions | None = None) -> RegistrySettings | None:
        """Return the schema registry of a cluster of a checkpoint, found as for `reached`; None if it has none.

        Raises:
            MetadataError: it is not listed, and others have registries of their own, so its registry is not known.
        """
        now, outside = proven or self._listed(cluster), self._options.registry
        if now is None and any(one.registry != outside for one in self.clusters):
            problem = (
                "no cluster that is listed now has its name or one of its bootstrap servers, and others have a "
                "schema.registry.url of their own, so the registry of this one is not known. Start the query with the "
                "options from before, and change them when it has finished the batch"
            )
            raise MetadataError(f"cluster {cluster.id!r} of the checkpoint", [problem])
        return outside if now is None else now.registry

    def _listed(self, cluster: ClusterState) -> ClusterOptions | None:
        known = frozenset(cluster.bootstrap_servers)
        named = next((one for one in self.clusters if one.id == cluster.id), None)
        return named or next((one for one in self.clusters if known.intersection(one.settings.bootstrap_servers)), None)

    def _outside(self, cluster: ClusterState) -> ClientSettings:
        """Return how a cluster is reached by the options for all clusters alone."""
        own = {"kafka.bootstrap.servers": ",".join(cluster.bootstrap_servers), "subscribe": "unread"}
        alone, problems = parse_clusters(self._options.common, {cluster.id: own})
        if not problems and any(_guards(one.settings) != _guards(alone[0].settings) for one in self.clusters):
            problems = (
                f"a batch that was planned before reads it at {', '.join(cluster.bootstrap_servers)}, and no cluster "
                "that is listed now has its name or one of these servers. Others have an isolation level or security "
                "settings of their own, so those of this one are not known. Start the query with the options or the "
                "metadata from before, and change them when it has finished the batch",
            )
        if problems:
            raise MetadataError(f"cluster {cluster.id!r} of the checkpoint", problems)
        return alone[0].settings

    def close(self) -> None:
        """Close the service."""
        if self._service is not None:
            self._service.close()

    def _is_due(self, now: float) -> bool:
        if self._asked_at is None:
            return True
        interval_s = self._options.discovery_interval_ms / 1000
        if interval_s <= 0:
            return not self.answers and now - self._asked_at >= ASK_AGAIN_S
        return now - self._asked_at >= interval_s

    @property
    def _has_clusters(self) -> bool:
        return bool(self.answers or self.clusters)

    def _read(self, metadata: MetadataOptions) -> Answered:
        if self._service is None:
            self._service = self._opened(metadata)
        answer = self._service.read()
        chosen = select(answer, metadata.streams, metadata.streams_pattern)
        clusters, later = (
            clusters_of(chosen, self._options.common, self._source, metadata.allowed, batch=self._batch, begun=begun)
            for begun in (False, True)
        )
        return Answered(clusters, later, answer.complete, chosen.missing)

    def _take(self, asked: Future[Answered], metadata: MetadataOptions, state: EnumeratorState) -> None:
        error = asked.exception()
        if error is None:
            if self.notice:
                log.warning("the metadata at %s can be read again", self._source)
            answered = asked.result()
            found = answered.later if state.begun else answered.clusters
            if not answered.complete:
                known = self.clusters if self.answers else clusters_in(state, self._options.common)
                found = united(found, known)
            self._failures, self.notice, self.complete = 0, "", answered.complete
            self.missing = tuple(f"stream {name!r} is not in the metadata" for name in answered.missing)
            self.answers += 1
            # Unchanged clusters stay the same object, so that they need not be compared.
            if found != self.clusters:
                self.clusters = found
        elif isinstance(error, Exception):
            self._failed(error, metadata, state)
        else:
            raise error

    def _failed(self, error: Exception, metadata: MetadataOptions, state: EnumeratorState) -> None:
        problems: tuple[str, ...] = (f"{type(error).__name__}: {error}",)
        if isinstance(error, TimeoutError) and not error.args:
            problems = (f"it has not answered within {metadata.timeout_ms} ms (metadataTimeout)",)
        source = self._source
        if isinstance(error, MetadataError):
            source, problems = error.source, error.problems
        # A class of the user's own may put secrets into its texts. The cause of the error would repeat them.
        values = metadata.options
        kind = MetadataRefused if isinstance(error, MetadataRefused) else MetadataError
        # One line for each problem.
        said = [short(hidden(problem, values), PROBLEM_CHARACTERS_MAX) for problem in problems]
        failure = kind(short(hidden(source, values), PROBLEM_CHARACTERS_MAX), said)
        self._failures += 1
        if not self._has_clusters:
            if not state.begun:
                raise failure
            self.clusters = clusters_in(state, self._options.common)
        if self._failures > metadata.failures_max:
            most = f"{self._failures} attempts in a row failed, {metadata.failures_max} may (metadataFailureThreshold)"
            raise kind(failure.source, (most, *failure.problems))
        if str(failure) != self.notice:
            log.warning(
                "the metadata at %s cannot be used; going on with %s as before: %s",
                self._source,
                counted(len(self.clusters), "cluster"),
                line_of(failure),
            )
        self.notice = str(failure)


def _guards(settings: ClientSettings) -> object:
    """The settings that keep uncommitted records from being read, and records from being read by others."""
    return settings.read_committed, settings.security


Common = Mapping[str, Any]
"""The options for all clusters, as `SourceOptions.common`."""


def clusters_of(
    chosen: Selection, common: Common, source: str, allowed: Allowed, *, batch: bool, begun: bool = False
) -> tuple[ClusterOptions, ...]:
    """Return the clusters that were selected from a listing of `source`, completed by the options for all clusters.

    Where some streams of a cluster have starting offsets, topics of its other streams start by the options for all
    clusters or, if the query has `begun` when the cluster is found, at earliest.

    Raises:
        MetadataRefused: they name something of this machine that is not `allowed`.
        MetadataError: they are invalid otherwise, in a batch query or in a stream.
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
    """Return the clusters for a batch query: it ends with its one batch, so its splits have no stops of their own."""
    return tuple(replace(cluster, ends_stream=False) for cluster in clusters)


def clusters_in(state: EnumeratorState, common: Common) -> tuple[ClusterOptions, ...]:
    """Return the clusters and topics that `state` reads, at its servers, with the options for all clusters."""
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
    """Merge an incomplete listing into the `known` clusters: it adds and changes clusters and topics."""
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
    """Return a cluster of the metadata as options of its own, as far as its streams have them."""
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
    """Return the topics of streams without starting offsets, on a cluster where others have some."""
    starts = cluster.starting_offsets
    return tuple(topic for topic, said in starts.items() if said is None) if isinstance(starts, Mapping) else ()


def _outside(common: Common) -> Strategy | None:
    """Return the starting strategy of the options for all clusters; None if they have none."""
    any_cluster = {"kafka.bootstrap.servers": "host:9092", "subscribe": "unread"}
    clusters, _ = parse_clusters(common, {"any": any_cluster})
    return clusters[0].starting if clusters else None


def _started(cluster: ClusterOptions, topics: Mapping[str, Strategy]) -> ClusterOptions:
    """Return `cluster` with these starting strategies of `topics`; other topics keep theirs."""
    start = cluster.starting
    if not topics or start is None:
        return cluster
    if isinstance(start, ByTopic):
        return replace(cluster, starting=replace(start, topics={**start.topics, **topics}))
    return replace(cluster, starting=ByTopic(topics, {}, start))
