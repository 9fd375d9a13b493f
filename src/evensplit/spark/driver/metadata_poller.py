"""Which clusters are to be read: those of the options, or what a metadata service says at the moment."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import NamedTuple

from evensplit.core.model import ClusterState
from evensplit.core.state.state import EnumeratorState, Session
from evensplit.core.text import counted, short
from evensplit.errors import MetadataError, MetadataRefused, line_of
from evensplit.kafka.options.client import ClientSettings
from evensplit.metadata import MetadataService, hidden, open_service, select, shown_location
from evensplit.spark.driver.fleet_clusters import clusters_in, clusters_of, endless, united
from evensplit.spark.options.parse import ClusterOptions, MetadataOptions, SourceOptions, parse_clusters
from evensplit.spark.poll.scheduler import Scheduler

log = logging.getLogger("evensplit")


ASK_AGAIN_S = 30.0
"""Where nothing is discovered one answer is enough; so long after an attempt that failed the next one is made."""

PROBLEM_CHARACTERS_MAX = 2_000
"""So much is told of one thing that is wrong with an answer."""

TIMEOUT_GRACE_S = 0.5
"""So long after its own deadline a service may still say what went wrong."""


class Answered(NamedTuple):
    """An answer, understood. `complete`: it is all that there is. `missing`: ids of streams that do not exist.

    `clusters`: as they are for a query that begins with them; `later`: for one that has begun before.
    """

    clusters: tuple[ClusterOptions, ...]
    later: tuple[ClusterOptions, ...]
    complete: bool
    missing: tuple[str, ...]


def open_metadata(options: MetadataOptions) -> MetadataService:
    """The service that the options name."""
    return open_service(
        options.location,
        token_env=options.token_env,
        token_file=options.token_file,
        timeout_s=options.timeout_ms / 1000,
        options=options.options,
    )


class MetadataPoller:
    """The clusters that are to be read, as far as is known.

    `clusters`: by the last answer that could be used, ascending by id. `answers`: how many usable ones there were;
    `complete`: the last one says all that there is; `confirmed`: and it cannot be wrong, since it is the user's own
    options, or the only one that there will be. `notice`: why the last attempt failed; empty if it did not. `missing`:
    streams that were asked for and do not exist.
    """

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
        self.complete = options.metadata is None
        self.clusters: Sequence[ClusterOptions] = endless(options.clusters) if batch else options.clusters
        self.answers = int(options.metadata is None)
        self.notice = ""
        self.missing: tuple[str, ...] = ()

    def refresh(self, state: EnumeratorState, *, patient: bool) -> None:
        """Ask the service again in the background, when that is due; take its answer, when it has come.

        With `patient`, a question that is under way is waited for, and the first one always is. One that takes longer
        than `metadataTimeout` has failed. When an attempt fails, the last answer stands; where there was none yet in
        this process, the clusters and topics of `state` do.

        Raises:
            MetadataError: there is no answer and no state, or more attempts in a row have failed than are allowed.
        """
        metadata = self._options.metadata
        if metadata is None:
            return
        now = self._scheduler.monotonic()
        due = self._is_due(now)
        if due and self._asked is None:
            self._asked = self._scheduler.start(lambda: self._read(metadata), "evensplit-metadata")
            self._asked_at = self._began_at = now
        elif due and now - self._began_at >= metadata.timeout_ms / 1000 and not self._is_answered:
            # It hangs: another question would hang beside it. Each interval of that is a failure of its own.
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
        """The clusters that nobody has seen yet: what is found of them first is what was there before."""
        if not state.begun:
            return [cluster.id for cluster in self.clusters]
        known = {name for name, cluster in state.clusters.items() if cluster.discovered}
        # Of one that never gives all, a later answer is as good as those about any other.
        known.update(session.heard)
        return [cluster.id for cluster in self.clusters if cluster.id not in known]

    def reached(self, cluster: ClusterState, proven: ClusterOptions | None = None) -> ClientSettings:
        """How a cluster of a checkpoint is reached: where that says, and as options and metadata say now.

        `proven`: as it is reached by now, if it is. One that is not listed under its name may be under another: then a
        bootstrap server is the same. Servers that have been added since are tried as well: those of back then may be
        gone by now.

        Raises:
            MetadataError: it is not listed, and with the options outside alone it might be read with less isolation or
                security than before.
        """
        known = frozenset(cluster.bootstrap_servers)
        now = proven or next((one for one in self.clusters if one.id == cluster.id), None)
        now = now or next((one for one in self.clusters if known.intersection(one.settings.bootstrap_servers)), None)
        settings = self._outside(cluster) if now is None else now.settings
        servers = dict.fromkeys((*cluster.bootstrap_servers, *settings.bootstrap_servers))
        return replace(settings, bootstrap_servers=tuple(servers))

    def _outside(self, cluster: ClusterState) -> ClientSettings:
        """How a cluster is reached by the options outside alone."""
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
        """Let go of the service."""
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
    def _is_answered(self) -> bool:
        return self._asked is not None and self._asked.done()

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
            # An unchanged answer stays the same object, so that nobody has to compare it.
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
        # A class of the user's own may write anything. What caused the error would repeat it, and is left out.
        values = metadata.options
        kind = MetadataRefused if isinstance(error, MetadataRefused) else MetadataError
        # Nor may it write more than one line for each thing.
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
    """What keeps records from being read by mistake, or by others."""
    return settings.read_committed, settings.security
