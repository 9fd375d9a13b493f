"""How far the logs reach that the sources of a checkpoint read: asked for in the background, as often as wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic, time
from typing import NamedTuple

from evensplit.checkpoint.stands import Stand
from evensplit.cli.live.connection_options import (
    check_asked,
    check_whose,
    kafka_options,
    of_cluster,
    said_of,
    servers_of,
)
from evensplit.cli.live.known_logs import AnotherCluster, ask_same
from evensplit.cli.live.log_ends import Logs, connected, settings_of
from evensplit.core.import_spark_offsets import Positions, positions_of_state
from evensplit.core.model import SplitId
from evensplit.core.state.observation import Report
from evensplit.errors import ClusterError
from evensplit.explain.batch_rates import EndsLook, growth_of
from evensplit.kafka.admin.protocol import ClusterPort, are_two_clusters
from evensplit.kafka.deadline import in_background
from evensplit.kafka.options.client import ClientSettings
from evensplit.observe.source_view import SplitView, View

Views = Mapping[str, View]

LOOKED_MS = 60_000
"""Over this time, as far as there were looks, it is measured by how much logs grow."""


def stands_of(views: Views) -> list[Stand]:
    """How far each source has come in each cluster."""
    return [
        Stand(source, cluster, of.bootstrap_servers, positions, kafka_id=of.kafka_id)
        for source, view in views.items()
        for cluster, positions in positions_of_state(view.last.end).items()
        for of in [view.last.end.clusters[cluster]]
    ]


class Target(NamedTuple):
    """A cluster to be asked for a source, and how to reach it."""

    source: str
    cluster: str
    servers: str
    settings: ClientSettings
    kafka_id: str
    """As Kafka calls it; empty if that is not known."""


@dataclass(slots=True)
class _Asked:
    target: Target
    client: ClusterPort
    look: Future[tuple[int, Logs]] | None = None
    whose: str = ""
    """The cluster, as Kafka calls it, that `look` asks."""


def _ask(asked: _Asked, positions: Positions) -> tuple[int, Logs]:
    """The logs, and when they were seen, in ms by a clock that is not set."""
    to = asked.target
    logs = ask_same(asked.client, to.cluster, to.kafka_id, positions, to.settings)
    return round(monotonic() * 1000), logs


def _close(asked: _Asked) -> None:
    asked.client.close()
    if asked.look is not None:
        asked.look.add_done_callback(partial(_closed, asked.client))


def _closed(client: ClusterPort, _: Future[tuple[int, Logs]]) -> None:
    client.close()


@dataclass(slots=True)
class LogEnds:
    """The ends of logs. `failures`: source and cluster -> why they are not known at the moment.

    One cluster that does not answer holds up no other, and nobody who polls.
    """

    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    others: set[tuple[str, str]] = field(default_factory=set)
    """Those of `failures` where another Kafka cluster answers."""
    _asked: dict[tuple[str, str], _Asked] = field(default_factory=dict)
    _ends: dict[tuple[str, str], Mapping[SplitId, int]] = field(default_factory=dict)
    _looks: dict[tuple[str, str], list[EndsLook]] = field(default_factory=dict)
    _seen_ms: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def asked(self) -> bool:
        """Whether any cluster is asked."""
        return bool(self._asked)

    def poll(self, views: Views) -> None:
        """Take the answers that have come, and ask anew."""
        for stand in stands_of(views):
            asked = self._asked.get((stand.source, stand.cluster))
            if asked is not None and asked.target.kafka_id != stand.kafka_id:
                self._know(asked, stand.kafka_id)
        self.ask({(stand.source, stand.cluster): stand.positions for stand in stands_of(views)})

    def ask(self, stands: Mapping[tuple[str, str], Positions]) -> None:
        """The same by source and cluster -> the positions beside which the ends are wanted."""
        for key, asked in self._asked.items():
            if asked.look is not None and asked.look.done():
                self._take(key, asked, asked.look)
            if asked.look is None and key in stands:
                asked.whose = asked.target.kafka_id
                asked.look = in_background(partial(_ask, asked, stands[key]), f"evensplit-ends-{key[1]}")

    def finish(self) -> None:
        """Wait for the answers that are still to come. Each is there, or has failed, within the request deadline."""
        under_way = {key: asked.look for key, asked in self._asked.items() if asked.look is not None}
        wait(under_way.values())
        for key, look in under_way.items():
            self._take(key, self._asked[key], look)

    def with_ends(self, source: str, view: View) -> View:
        """The view, with how far the logs reach now in place of what was known when its last batch was planned."""
        latest: dict[SplitId, int] = {}
        for (of, _), ends in self._ends.items():
            if of == source:
                latest.update(ends)
        if not latest:
            return view
        return replace(view, last=replace(view.last, report=replace(view.last.report, latest=latest)))

    def report(self, source: str, view: View) -> Report:
        """The ends that `with_ends` has, and which clusters do not answer."""
        away = {cluster: why for (of, cluster), why in self.failures.items() if of == source}
        others = frozenset(cluster for cluster in away if (source, cluster) in self.others)
        return Report(self.with_ends(source, view).last.report.latest, away, another=others)

    def ends_of(self, source: str, cluster: str) -> tuple[int, Mapping[SplitId, int]] | None:
        """The ends of the logs of a cluster, and when they were seen, by the wall clock; None: they are not known."""
        ends = self._ends.get((source, cluster))
        return None if ends is None else (self._seen_ms[source, cluster], ends)

    def growing(self, source: str) -> dict[str, float]:
        """Cluster -> offsets per second that its logs grow by, of those that have been looked at for long enough."""
        known = {cluster: growth_of(looks) for (of, cluster), looks in self._looks.items() if of == source}
        return {cluster: rate for cluster, rate in known.items() if rate is not None}

    def close(self) -> None:
        """Drop all connections: where a question is under way, also those that it makes until it ends."""
        for asked in self._asked.values():
            _close(asked)

    def add(self, target: Target) -> None:
        """Ask this cluster, too."""
        self._asked[target.source, target.cluster] = _Asked(target, connected(target.cluster, target.settings))

    def aim(self, targets: Sequence[Target]) -> None:
        """Ask these from now on, and no others. Of those that are asked as before, all that is known stays."""
        wanted = {(target.source, target.cluster): target for target in targets}
        for key, asked in list(self._asked.items()):
            target = wanted.get(key)
            if target is not None and asked.target._replace(kafka_id=target.kafka_id) == target:
                del wanted[key]
                continue
            del self._asked[key]
            self._forget(key)
            _close(asked)
        for target in wanted.values():
            self.add(target)

    def _know(self, asked: _Asked, kafka_id: str) -> None:
        """Ask from now on for the cluster that Kafka calls so. What is known of another one is forgotten."""
        key = (asked.target.source, asked.target.cluster)
        if are_two_clusters(asked.target.kafka_id, kafka_id):
            self._forget(key)
        asked.target = asked.target._replace(kafka_id=kafka_id)

    def _forget(self, key: tuple[str, str]) -> None:
        self.failures.pop(key, None)
        self.others.discard(key)
        self._ends.pop(key, None)
        self._looks.pop(key, None)

    def _take(self, key: tuple[str, str], asked: _Asked, look: Future[tuple[int, Logs]]) -> None:
        asked.look = None
        if are_two_clusters(asked.whose, asked.target.kafka_id):
            return
        try:
            at_ms, logs = look.result()
        except ClusterError as error:
            self.failures[key] = error.detail
            (self.others.add if isinstance(error, AnotherCluster) else self.others.discard)(key)
            self._ends.pop(key, None)
        else:
            self.failures.pop(key, None)
            self.others.discard(key)
            self._ends[key] = {SplitId(key[1], *at): end for at, end in logs.ends.items()}
            self._seen_ms[key] = round(time() * 1000) - (round(monotonic() * 1000) - at_ms)
            known = [one for one in self._looks.get(key, ()) if at_ms - one.at_ms <= LOOKED_MS]
            self._looks[key] = [*known, EndsLook(at_ms, len(logs.ends), sum(logs.ends.values()))]


@dataclass(slots=True)
class Asking:
    """Asks clusters for the ends of logs, as `--bootstrap-servers`, `--option`, `--lag` and `--cluster` say (see
    `connection_options.reaching`)."""

    servers: Sequence[str]
    options: Sequence[str]
    lag: bool
    cluster: str | None = None
    """Only this one; None: all."""
    ends: LogEnds = field(default_factory=LogEnds)

    def targets_of(self, views: Views) -> list[Target]:
        """What is to be asked for these sources. Raises click.UsageError for what makes no sense."""
        sources = list(views)
        places, settings = said_of(self.servers, sources, "--bootstrap-servers"), kafka_options(self.options, sources)
        check_asked(self.options, self.servers, lag=self.lag, cluster=self.cluster)
        if not self.lag and not places:
            return []
        stands = of_cluster(stands_of(views), self.cluster)
        check_whose(stands, places, settings, "--cluster")
        found: list[Target] = []
        for stand in stands:
            said = places.get(stand.source)
            at = servers_of(stand, said) if self.lag else said
            if at:
                to = settings_of(at, settings[stand.source])
                found.append(Target(stand.source, stand.cluster, at, to, stand.kafka_id))
        return found


@dataclass(slots=True)
class CheckpointLag(Asking):
    """Asks the clusters of one checkpoint, also those that its query gets later."""

    _places: object = None

    def aim(self, views: Views) -> None:
        """Ask those that the sources have now. Raises click.UsageError for what makes no sense with these; those that
        were asked before still are."""
        places = places_of(views)
        if places != self._places:
            self.ends.aim(self.targets_of(views))
            self._places = places


def places_of(views: Views) -> list[tuple[str, str, Sequence[str], str]]:
    """What the targets of sources depend on: source, cluster, its servers, and what Kafka calls it. It may change."""
    return [
        (source, cluster.id, cluster.bootstrap_servers, cluster.kafka_id)
        for source, view in views.items()
        for cluster in view.last.end.clusters.values()
    ]


def lag_by_cluster(splits: Sequence[SplitView]) -> dict[str, int | None]:
    """Cluster -> the offsets that are to be read there, as far as they are known; None: of no split."""
    found: dict[str, int | None] = {}
    for one in splits:
        before = found.setdefault(one.id.cluster, None)
        if one.lag is not None:
            found[one.id.cluster] = one.lag + (before or 0)
    return found
