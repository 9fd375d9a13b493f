"""Discovery: which clusters and partitions there are, where they start, and which of them are gone."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from evensplit.core.machine.data_loss import settle, unread
from evensplit.core.machine.effects import ListPartitions, ResolveStart
from evensplit.core.machine.events import (
    ClusterPollFailed,
    ClustersListed,
    OffsetsResolved,
    PartitionsListed,
    TimePassed,
)
from evensplit.core.machine.identity import find_id_conflicts, is_new, note_former, recognised
from evensplit.core.machine.skipped_records import settle_recreated
from evensplit.core.machine.transaction import Transaction
from evensplit.core.model import (
    Cause,
    ClusterState,
    ListedPartition,
    Split,
    SplitId,
    StartBy,
    Subscription,
    TopicPattern,
    matches,
)
from evensplit.core.state.state import ReadConflict
from evensplit.core.state.validation import COUNT_MAX, EXPECTED_OFFSETS, PARTITION_MAX, wrong_offsets
from evensplit.errors import TransitionError


def clusters_listed(transaction: Transaction, event: ClustersListed) -> None:
    """Ask every listed cluster for its partitions; retain the clusters and topics that are gone, when that is sure."""
    ids = sorted(listed.id for listed in event.clusters)
    twice = sorted({name for name, following in pairwise(ids) if name == following})
    if twice:
        raise TransitionError(f"clusters were listed twice: {', '.join(twice)}; expected each id once")
    for listed in event.clusters:
        if isinstance(listed.subscription, TopicPattern):
            _check_pattern(listed.id, listed.subscription)
    complete = event.complete and not (event.answer and event.answer == transaction.session.metadata_poll)
    sure = event.confirmed and complete and not transaction.session.listed_all
    for listed in event.clusters:
        known = transaction.clusters.get(listed.id)
        discovered = known is not None and known.discovered
        initial = listed.starts_by_strategy or (known.initial if known else not transaction.begun)
        # Once discovered, `initial` makes no difference; a fixed value keeps equal states equal.
        transaction.clusters[listed.id] = ClusterState(
            listed.id,
            listed.bootstrap_servers,
            initial and not discovered,
            discovered,
            kafka_id=known.kafka_id if known else "",
        )
    transaction.present(*ids)
    named = tuple(sorted({*transaction.session.named, *ids}))
    subscriptions = {one.id: one.subscription for one in event.clusters if one.subscription is not None}
    missing = [key for key in transaction.session.missing_since if isinstance(key, SplitId)]
    wanted = [transaction.session.wants(key) for key in missing]
    if not complete:
        ids = sorted({*ids, *(transaction.session.listed or ())})
        subscriptions = {**transaction.session.subscriptions, **subscriptions}
    leaving = tuple(name for name in transaction.session.leaving if name not in ids)
    transaction.tell(
        named=named,
        listed=tuple(ids),
        listed_all=complete or transaction.session.listed_all,
        subscriptions=subscriptions,
        leaving=leaving,
        metadata_poll=event.answer,
    )
    # A partition is gone when it is missing twice, or not subscribed to twice; one of each is not enough.
    transaction.present(
        *(key for key, before in zip(missing, wanted, strict=True) if transaction.session.wants(key) != before)
    )
    if complete:
        _remove_unlisted(transaction, sure=sure)
    transaction.effects.extend(ListPartitions(name) for name in sorted(one.id for one in event.clusters))


def _remove_unlisted(transaction: Transaction, *, sure: bool) -> None:
    """Remove the clusters that are not listed, and splits that are not subscribed to; unless `sure`, in two steps."""
    listed = transaction.session.listed or ()
    left_out = [
        name
        for name in sorted(transaction.clusters)
        if name not in listed and transaction.clusters[name].removed_at_ms is None
    ]
    leaving = transaction.session.leaving
    gone = left_out if sure else transaction.missed([name for name in left_out if name not in leaving])
    transaction.tell(leaving=tuple(sorted({*leaving, *gone})))
    _remove_leaving(transaction)
    unwanted = _unwanted(transaction, transaction.session.subscriptions)
    for key in unwanted if sure else transaction.missed(unwanted):
        transaction.retain(transaction.splits[key])


def _remove_leaving(transaction: Transaction) -> None:
    """Remove the clusters that are to go, unless one of those that are listed may turn out to be them, renamed."""
    listed = transaction.session.listed or ()
    heard = transaction.session.listed_polls
    unknown = any(is_new(transaction, transaction.clusters[name]) and name not in heard for name in listed)
    kept: list[str] = []
    for name in transaction.session.leaving:
        if unknown and transaction.clusters[name].kafka_id:
            kept.append(name)
        else:
            _remove_cluster(transaction, transaction.clusters[name])
    if len(kept) < len(transaction.session.leaving):
        transaction.tell(leaving=tuple(kept))


def _check_pattern(cluster: str, pattern: TopicPattern) -> None:
    try:
        re.compile(pattern.regex)
    except re.error as error:
        raise TransitionError(
            f"cluster {cluster!r} was listed with the pattern {pattern.regex!r}: {error}; expected a regular expression"
        ) from error


def _unwanted(transaction: Transaction, subscriptions: Mapping[str, Subscription]) -> list[SplitId]:
    return [
        key
        for key, split in transaction.splits.items()
        if split.active and key.cluster in subscriptions and not matches(subscriptions[key.cluster], key)
    ]


def _remove_cluster(transaction: Transaction, cluster: ClusterState) -> None:
    transaction.clusters[cluster.id] = replace(cluster, removed_at_ms=transaction.now_ms)
    session = transaction.session
    if session.id_conflicts or session.former_leaders or session.read_conflicts:
        transaction.tell(
            id_conflicts={key: one for key, one in session.id_conflicts.items() if key[0] != cluster.id},
            former_leaders={name: keys for name, keys in session.former_leaders.items() if name != cluster.id},
            read_conflicts={
                key: ReadConflict(one.topic_id) if key[0] == cluster.id else one
                for key, one in session.read_conflicts.items()
            },
        )
    for split in [split for key, split in transaction.splits.items() if key.cluster == cluster.id and split.active]:
        transaction.retain(split)
    if transaction.settings.retention_ms == 0:
        _forget_cluster(transaction, cluster.id)


def _forget_cluster(transaction: Transaction, name: str) -> None:
    for split in [split for key, split in transaction.splits.items() if key.cluster == name]:
        transaction.forget(split)
    del transaction.clusters[name]
    session = transaction.session
    transaction.tell(
        listings={one: answer for one, answer in session.listings.items() if one != name},
        listed_polls={one: answer for one, answer in session.listed_polls.items() if one != name},
        ends={one: ends for one, ends in session.ends.items() if one != name},
        read={one: read for one, read in session.read.items() if one != name},
        read_missing={key: at for key, at in session.read_missing.items() if key.cluster != name},
        read_conflicts={key: one for key, one in session.read_conflicts.items() if key[0] != name},
    )


def cluster_unreachable(transaction: Transaction, event: ClusterPollFailed) -> None:
    """Note the failure. It says nothing about which partitions there are (law S7)."""
    if _is_known(transaction, event.cluster):
        transaction.tell(unreachable={**transaction.session.unreachable, event.cluster: event.detail})


def partitions_listed(transaction: Transaction, event: PartitionsListed) -> None:
    """Take up new and returned splits, report losses, and note what a complete listing lacks."""
    wrong = [f"{one.topic}/{one.partition}" for one in event.partitions if not 0 <= one.partition <= PARTITION_MAX]
    if wrong:
        raise TransitionError(
            f"partitions were listed as {', '.join(wrong)}; expected numbers of at least 0 and at most {PARTITION_MAX}"
        )
    if not _is_known(transaction, event.cluster):
        return
    if transaction.clusters[event.cluster].removed_at_ms is not None:
        # The poll was answered before the cluster was removed.
        return
    if event.answer < transaction.session.listed_polls.get(event.cluster, 0):
        # The listing of a later poll was told before this one.
        return
    transaction.tell(listed_polls={**transaction.session.listed_polls, event.cluster: event.answer})
    if event.kafka_id and not recognised(transaction, transaction.clusters[event.cluster], event.kafka_id):
        return
    repeated = _is_repeated(transaction, event)
    if repeated:
        event = replace(event, complete=False)
    cluster = transaction.clusters[event.cluster]
    pending: dict[SplitId, StartBy] = {}
    keys = [SplitId(event.cluster, one.topic, one.partition) for one in event.partitions]
    other = [
        (key, one)
        for key, one in zip(keys, event.partitions, strict=True)
        if (known := transaction.get(key)) is None
        or not known.active
        or known.position is None
        or known.topic_id != one.topic_id
    ]
    doubted = [topic for name, topic in transaction.session.id_conflicts if name == event.cluster]
    in_conflict = find_id_conflicts(transaction, event, other)
    for key, one in other:
        if one.topic in in_conflict:
            continue
        found = _seen(transaction, key, one, initial=cluster.initial)
        if found is not None and found.active and found.position is None:
            pending[key] = StartBy.STRATEGY if found.initial else StartBy.EARLIEST
    transaction.present(*keys, *(SplitId(event.cluster, one.topic, one.partition) for one in event.seen))
    transaction.tell(
        unreachable={name: detail for name, detail in transaction.session.unreachable.items() if name != event.cluster}
    )
    # A broker that names a former id lags, and does not know all partitions.
    former = any(transaction.session.id_conflicts[event.cluster, topic].former for topic in in_conflict)
    if event.complete and not former:
        _take_complete(transaction, event, keys)
    elif repeated or not transaction.session.discovery:
        _note_lacking(transaction, event, keys, [topic for topic in doubted if topic not in in_conflict])
    _remove_leaving(transaction)
    settle_recreated(transaction)
    for by in StartBy:
        asked = tuple(sorted(key for key, how in pending.items() if how is by))
        if asked:
            transaction.effects.append(ResolveStart(event.cluster, asked, by))


def _is_repeated(transaction: Transaction, event: PartitionsListed) -> bool:
    """Whether an earlier event told the same discovery, and that was not the first one of its cluster."""
    before, session = transaction.session.discoveries.get(event.cluster), transaction.session
    if event.complete and event.discovery:
        transaction.tell(discoveries={**session.discoveries, event.cluster: event.discovery})
    return bool(event.discovery) and event.discovery == before and transaction.clusters[event.cluster].discovered


def _take_complete(transaction: Transaction, event: PartitionsListed, keys: Sequence[SplitId]) -> None:
    """Note the splits that a complete listing lacks; those that an earlier one lacked as well are gone."""
    transaction.clusters[event.cluster] = replace(transaction.clusters[event.cluster], initial=False, discovered=True)
    transaction.tell(listings={**transaction.session.listings, event.cluster: event.partitions})
    lacking = _lacking(transaction, event, keys)
    for key in transaction.missed([split.id for split in lacking if split.active], event.asked):
        loss = unread(transaction, transaction.splits[key], Cause.DELETED)
        if loss is None or transaction.lose(loss):
            transaction.retain(settle(transaction, transaction.splits[key], loss))
    _settle_replaced(transaction, event, [split for split in lacking if not split.active])


def _note_lacking(
    transaction: Transaction, event: PartitionsListed, keys: Sequence[SplitId], topics: Collection[str]
) -> None:
    """Note the splits of `topics` that a listing lacks, whose ids were in doubt until now.

    Nothing was noted of them by its discovery, and without `Session.discovery` another one is made only if something is
    missing.
    """
    there = (*keys, *(SplitId(event.cluster, one.topic, one.partition) for one in event.seen))
    lacking = [split.id for split in _lacking(transaction, event, there) if split.active and split.id.topic in topics]
    if lacking:
        since = dict.fromkeys(lacking, transaction.asked_ms(event.asked))
        transaction.tell(missing_since={**since, **transaction.session.missing_since})


def _lacking(transaction: Transaction, event: PartitionsListed, keys: Sequence[SplitId]) -> list[Split]:
    listed = frozenset(keys)
    return [
        split
        for key, split in transaction.splits.items()
        if key.cluster == event.cluster
        and not (split.finished or split.settled)
        and key not in listed
        and transaction.session.wants(key)
        # The partitions of another incarnation say nothing about those of this one.
        and key[:2] not in transaction.session.id_conflicts
    ]


def _settle_replaced(transaction: Transaction, event: PartitionsListed, retained: Sequence[Split]) -> None:
    """Declare the unread records of `retained` splits that a listing lacks, if it has another topic of the name.

    They cannot come back, and had been given up before, so that never ends a run.
    """
    if not retained:
        return
    topic_ids = {one.topic: one.topic_id for one in event.partitions}
    seen = frozenset((one.topic, one.partition) for one in event.seen)
    for split in retained:
        topic_id = topic_ids.get(split.id.topic, "")
        if not split.is_other(topic_id) or split.id[1:] in seen:
            continue
        loss = unread(transaction, split, Cause.DELETED)
        if loss is not None:
            transaction.lose(loss, never_fatal=True)
        transaction.put(settle(transaction, split, loss))


def _seen(transaction: Transaction, key: SplitId, one: ListedPartition, *, initial: bool) -> Split | None:
    """Take up a listed split: new, unchanged, returned, or another incarnation. Return it as it is then."""
    known = transaction.get(key)
    if known is None:
        transaction.put(Split(key, one.topic_id, initial=initial))
        return transaction.get(key)
    if known.finished:
        return known
    if known.removed_at_ms is not None and not transaction.session.wants(key):
        return known
    if known.is_other(one.topic_id) and known.position is not None:
        return _recreated(transaction, known, one.topic_id)
    # The brokers tell topic ids since an upgrade, or nothing was read of the topic that had the other id.
    topic_id = one.topic_id or known.topic_id
    if topic_id != known.topic_id and known.position is None:
        transaction.ended.append(key)
    if known.removed_at_ms is not None or topic_id != known.topic_id:
        transaction.put(known._replace(topic_id=topic_id, removed_at_ms=None, settled=False))
    return transaction.get(key)


def _recreated(transaction: Transaction, known: Split, topic_id: str) -> Split | None:
    """Begin a split of another incarnation anew, unless the loss of the unread records of the earlier one is fatal."""
    loss = unread(transaction, known, Cause.RECREATED)
    if loss is not None:
        said = (
            f"the topic was deleted and created anew: expected topic id {known.topic_id}, found {topic_id}. The new "
            "one is read from its beginning"
        )
        # A split that had been removed before was given up, or settled, then.
        if not transaction.lose(loss, said, never_fatal=known.removed_at_ms is not None):
            return known
    note_former(transaction, known.id[:2], (known.topic_id,))
    transaction.ended.append(known.id)
    transaction.put(Split(known.id, topic_id))
    return transaction.get(known.id)


def offsets_resolved(transaction: Transaction, event: OffsetsResolved) -> None:
    """Note starts and stops. They are final: a second result, late or looked up twice, changes nothing."""
    wrong = [
        f"the {what} of {one}"
        for what, offsets in (("start", event.starts), ("stop", event.stops))
        for one in wrong_offsets(offsets, "was resolved to")
    ]
    if wrong:
        raise TransitionError(f"{'; '.join(wrong)}; {EXPECTED_OFFSETS}")
    for key in sorted({*event.starts, *event.stops}):
        split = transaction.get(key)
        if split is None:
            if key.cluster not in transaction.clusters and key.cluster not in transaction.session.named:
                raise TransitionError(f"a start was resolved for {key}, which has not been discovered")
            continue
        topic_id = event.topic_ids.get(key, "")
        if split.finished or split.is_other(topic_id):
            continue
        start, stop = event.starts.get(key), event.stops.get(key)
        if start is not None and split.position is None:
            split = transaction.started(split, start)
        if stop is not None and split.stop is None:
            split = split._replace(stop=stop)
        transaction.put(split)


def time_passed(transaction: Transaction, event: TimePassed) -> None:
    """Forget clusters and splits that have been removed for longer than the retention."""
    before = transaction.session.now_ms
    if event.now_ms < (before or 0):
        raise TransitionError(f"the time is {event.now_ms} ms; it was {before or 0} ms before, and never goes back")
    if event.now_ms > COUNT_MAX:
        raise TransitionError(f"the time is {event.now_ms} ms; expected at most {COUNT_MAX}")
    transaction.tell(now_ms=event.now_ms)
    retention_ms = transaction.settings.retention_ms
    for split in [split for split in transaction.splits.values() if split.removed_at_ms is not None]:
        if split.removed_at_ms == 0:
            transaction.put(split._replace(removed_at_ms=event.now_ms))
        elif split.removed_at_ms is not None and event.now_ms - split.removed_at_ms >= retention_ms:
            transaction.forget(split)
    for name, cluster in sorted(transaction.clusters.items()):
        if cluster.removed_at_ms == 0:
            transaction.clusters[name] = replace(cluster, removed_at_ms=event.now_ms)
        elif cluster.removed_at_ms is not None and event.now_ms - cluster.removed_at_ms >= retention_ms:
            _forget_cluster(transaction, name)


def _is_known(transaction: Transaction, cluster: str) -> bool:
    """Whether there is such a cluster; false if there was one, and the event is late."""
    if cluster in transaction.clusters:
        return True
    if cluster in transaction.session.named:
        return False
    named = ", ".join(sorted(transaction.clusters)) or "none"
    raise TransitionError(f"cluster {cluster!r} answered, but the metadata names only: {named}")
