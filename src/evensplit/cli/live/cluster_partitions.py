"""What clusters have now, asked in the way in which a query would reach them, for commands that say what it will do."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import click

from evensplit.cli.assign.whatif import Present
from evensplit.cli.live.log_ends import Logs, ask_logs, connected
from evensplit.cli.usage import watched
from evensplit.core.model import SplitId
from evensplit.core.state.offset_strategies import (
    Bounds,
    Earliest,
    Found,
    Latest,
    Strategy,
    TopicPartition,
    lookups,
    resolve,
)
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted
from evensplit.errors import ClusterError, SubscriptionError
from evensplit.kafka.admin.protocol import ClusterPort
from evensplit.kafka.deadline import in_background
from evensplit.spark.driver.metadata_poller import MetadataPoller
from evensplit.spark.options.parse import ClusterOptions, SourceOptions
from evensplit.spark.options.per_cluster import BOOTSTRAP, SUBSCRIPTIONS

NAMING = ("clusters", "metadata", BOOTSTRAP, *SUBSCRIPTIONS)
"""The options that say which clusters and topics there are."""

NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class Seen:
    """One cluster. `starts`: where its partitions would begin that are new; a partition is missing where none is known.

    `problems`: why, a sentence each.
    """

    options: ClusterOptions
    logs: Logs
    starts: Mapping[TopicPartition, int]
    problems: tuple[str, ...] = ()


def names_clusters(options: Mapping[str, str]) -> bool:
    """Whether `options` say which clusters there are."""
    named = {name.lower() for name in NAMING}
    return any(name.lower() in named for name in options)


def clusters_now(options: SourceOptions, state: EnumeratorState) -> tuple[Sequence[ClusterOptions], tuple[str, ...]]:
    """The clusters of the options, or of their metadata now, and what one should know of them, a sentence each.

    Where the metadata cannot be read, they are those of `state`. Raises MetadataError if that has none.
    """
    fleet = MetadataPoller(options)
    try:
        with _quiet():
            fleet.refresh(state, patient=True)
    finally:
        fleet.close()
    if fleet.notice:
        known = counted(len(fleet.clusters), "cluster")
        return fleet.clusters, (f"{fleet.notice}; going on with {known} as they are in the checkpoint", *fleet.missing)
    return fleet.clusters, fleet.missing


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the lines of a query's log, where nobody has set one up: what they say, the command says itself."""
    log, silent = logging.getLogger("evensplit"), logging.NullHandler()
    log.addHandler(silent)
    try:
        yield
    finally:
        log.removeHandler(silent)


def look_at(clusters: Sequence[ClusterOptions], state: EnumeratorState) -> dict[str, Seen | ClusterError]:
    """Each cluster, all asked at the same time: what it has, or why that is not known. `state`: where the query is."""
    asked = {one.id: in_background(lambda one=one: _look(one, state), f"look-{one.id}") for one in clusters}  # type: ignore[misc]
    found: dict[str, Seen | ClusterError] = {}
    for name in watched("clusters", asked, len(asked)) if len(asked) > 1 else asked:
        try:
            found[name] = asked[name].result()
        except ClusterError as error:
            found[name] = error
    return found


def present_of(
    state: EnumeratorState, seen: Mapping[str, Seen | ClusterError] | None = None, *, notes: Iterable[str] = ()
) -> Present:
    """What there is to be read where a query stands at `state`, with what its clusters have now, if they were asked.

    A cluster that did not answer is as `state` has it, and a note says so; one that was not asked is not there, unless
    nobody was asked at all. Without a state, every cluster has to answer.

    Raises SubscriptionError for what there is not, and ClickException for clusters that do not answer, where the query
    has not begun.
    """
    said = list(notes)
    if seen is None:
        splits = tuple(split.id for split in state.load())
        return Present(splits, _owners(state, splits), state.readers, {}, tuple(said))
    if not state.begun:
        _refuse(seen)
    behind: dict[SplitId, int | None] = {}
    for name, one in seen.items():
        if isinstance(one, ClusterError):
            said.append(f"{one}; its partitions are those of the checkpoint, and its lag is not known")
            behind.update((split.id, None) for split in state.load() if split.id.cluster == name)
            continue
        said.extend(f"cluster {name}: {problem}" for problem in (*one.logs.listing.missing, *one.problems))
        said.extend(f"cluster {name}: {gap}" for gap in one.logs.listing.incomplete)
        behind.update(_behind(name, one, state))
    unanswered = tuple(name for name, one in seen.items() if isinstance(one, ClusterError))
    unread = sum(behind[key] is None for key in behind)
    if unread and not unanswered:
        said.append(f"of {counted(unread, 'split')} the log, or where it would begin, is not known")
    splits = tuple(sorted(behind))
    return Present(splits, _owners(state, splits), state.readers, behind, tuple(said), unanswered)


def _refuse(seen: Mapping[str, Seen | ClusterError]) -> None:
    failed = [one for one in seen.values() if isinstance(one, ClusterError)]
    if failed:
        raise click.ClickException("\n".join((*map(str, failed), *dict.fromkeys(one.reference for one in failed))))
    missing = [
        f"cluster {name!r}: {problem}"
        for name, one in seen.items()
        if isinstance(one, Seen)
        for problem in (*one.logs.listing.missing, *one.problems)
    ]
    if missing:
        raise SubscriptionError(missing)


def _look(options: ClusterOptions, state: EnumeratorState) -> Seen:
    client = connected(options.id, options.settings)
    try:
        logs = ask_logs(client, options.subscription)
        known = options.id in state.clusters and state.clusters[options.id].discovered
        strategy: Strategy = Earliest()
        if not state.begun or (options.starts_by_itself and not known):
            strategy = options.starting or Latest()
        new = [key for key in logs.listing.keys if SplitId(options.id, *key) not in state.splits]
        starts, problems = _starts(client, strategy, logs, new)
    finally:
        client.close()
    return Seen(options, logs, starts, problems)


def _starts(
    client: ClusterPort, strategy: Strategy, logs: Logs, keys: Sequence[TopicPartition]
) -> tuple[Mapping[TopicPartition, int], tuple[str, ...]]:
    """Where `keys` begin by `strategy`, and one sentence for each that cannot."""
    bounds = {
        key: Bounds(logs.begins[key], max(logs.begins[key], logs.ends[key]))
        for key in keys
        if key in logs.begins and key in logs.ends
    }
    wanted = lookups(strategy, bounds, int(time.time() * 1000))
    times = client.list_offsets(wanted.times) if wanted.times else {}
    groups = {group: client.committed_offsets(group, of) for group, of in wanted.groups.items()}
    found = resolve(strategy, bounds, Found(times, groups), logs.listing.keys)
    return found.offsets, found.problems


def _behind(name: str, seen: Seen, state: EnumeratorState) -> dict[SplitId, int | None]:
    """Split -> the offsets that are to be read of what the cluster has; None: not known."""
    found: dict[SplitId, int | None] = {}
    for listed in seen.logs.listing.partitions:
        key, at = SplitId(name, listed.topic, listed.partition), (listed.topic, listed.partition)
        split = state.splits.get(key)
        if split is not None and split.finished:
            continue
        position = None if split is None else split.position
        if split is not None and split.topic_id and listed.topic_id not in ("", split.topic_id):
            # Another topic of the same name: it is read from its beginning.
            position = None
        begin, end = seen.logs.begins.get(at), seen.logs.ends.get(at)
        position = seen.starts.get(at, begin if split is not None else None) if position is None else position
        known = None if position is None or begin is None or end is None else max(0, end - max(position, begin))
        found[key] = known
    if seen.logs.listing.incomplete:
        # What is not listed is not known to be gone.
        for split in state.load():
            if split.id.cluster == name:
                found.setdefault(split.id, None)
    return found


def _owners(state: EnumeratorState, splits: Sequence[SplitId]) -> dict[SplitId, int]:
    known = ((key, state.splits.get(key)) for key in splits)
    return {key: split.owner for key, split in known if split is not None and split.owner is not None}
