"""What the options say, as the core is told; and when it wants to be told again that time has passed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from evensplit.core.machine.data_loss import sighting_ms
from evensplit.core.machine.events import ClustersListed, ListedCluster, SettingsChanged
from evensplit.core.state.settings import DECLARE, DISCOVERY_INTERVAL_MS_DEFAULT, FAIL, Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.driver.metadata_poller import MetadataPoller
from evensplit.spark.options.parse import ClusterOptions, SourceOptions

DUE_INTERVAL_MS = 1000
"""How often an idle query looks at what is due, and cannot be done because a cluster gives no complete answer."""


def settings_changed(options: SourceOptions, settings: Settings, clusters: Iterable[ClusterOptions]) -> SettingsChanged:
    """What the user wants now, where `settings` is what holds so far and `clusters` are those to be read."""
    interval_ms = options.discovery_interval_ms
    return SettingsChanged(
        replace(
            settings,
            policy=options.policy,
            scope=options.scope,
            rebalance=options.rebalance,
            plan=options.plan,
            tasks_min=options.tasks_min,
            task_offsets_max=options.task_offsets_max,
            retention_ms=options.retention_ms,
            bounded=settings.bounded or any(cluster.ends_stream for cluster in clusters),
        ),
        eligible=options.pins,
        discovery=interval_ms > 0,
        discovery_interval_ms=interval_ms if interval_ms > 0 else DISCOVERY_INTERVAL_MS_DEFAULT,
        loss=FAIL if options.fail_on_data_loss else DECLARE,
    )


def clusters_listed(
    fleet: MetadataPoller,
    state: EnumeratorState,
    reached: Callable[[str], ClusterOptions | None],
    left_out: Collection[str],
    *,
    again: bool,
) -> ClustersListed:
    """The clusters of `fleet`, without those that are `left_out`: one of them may be a known one, renamed.

    Servers that have not led to a cluster yet are not written down where `state` has some. `again`: the answer has been
    told before, and only how clusters are `reached` is another.
    """
    listed: list[ListedCluster] = []
    for cluster in fleet.clusters:
        if cluster.id in left_out:
            continue
        proven, known = reached(cluster.id), state.clusters.get(cluster.id)
        servers = (proven or cluster).settings.bootstrap_servers
        if proven is None and known is not None and known.bootstrap_servers:
            servers = known.bootstrap_servers
        listed.append(ListedCluster(cluster.id, servers, cluster.starts_by_itself, cluster.subscription))
    return ClustersListed(tuple(listed), confirmed=fleet.confirmed, complete=fleet.complete and not (again or left_out))


def due_ms(state: EnumeratorState, missing_since: Collection[int]) -> int | None:
    """When time alone may change `state`, in ms; None if it cannot.

    Then another complete answer makes something that is missing gone, another look at a log that ends before its
    position makes that a loss, or something retained has been kept long enough.
    `missing_since`: since when other things are missing that such an answer makes gone. What is due already waits for
    an answer that does not come, and is tried again after DUE_INTERVAL_MS.
    """
    session, now_ms = state.session, state.session.now_ms or 0
    due = [since + session.discovery_interval_ms for since in (*session.missing_since.values(), *missing_since)]
    due.extend(seen.since_ms + sighting_ms(session) for seen in session.sightings.values())
    removed_at_ms = [
        *(split.removed_at_ms for split in state.splits.values()),
        *(cluster.removed_at_ms for cluster in state.clusters.values()),
    ]
    due.extend(at + state.settings.retention_ms for at in removed_at_ms if at is not None)
    return min((at if at > now_ms else now_ms + DUE_INTERVAL_MS for at in due), default=None)
