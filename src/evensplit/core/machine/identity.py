"""Whether a cluster or a topic is the one that is meant: by the ids that Kafka gives to both, not by names alone.

Clusters are renamed and addresses lead elsewhere; topics are deleted and created anew. And brokers that lag name ids
that were right once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from evensplit.core.machine.effects import RefuseCluster
from evensplit.core.machine.events import PartitionsListed
from evensplit.core.machine.transaction import Transaction
from evensplit.core.model import ClusterState, ListedPartition, SplitId, split_called
from evensplit.core.state.open_questions import ID_CONFLICT_ANSWERS_MIN, id_conflict_wait_ms
from evensplit.core.state.state import IdConflict, ReadRanges, TopicName, by_names, recency

Value = TypeVar("Value")

FORMER_MAX = 8
"""How many former ids of one topic are kept."""


def recognised(transaction: Transaction, cluster: ClusterState, kafka_id: str) -> bool:
    """Whether `cluster`, whose Kafka id is `kafka_id`, is the one that is meant. From now on it is known by that id.

    A cluster that is known by another name, which is not listed any more, goes on under its new name with its positions
    and owners. Two names for one cluster at once are refused.
    """
    if cluster.kafka_id and cluster.kafka_id != kafka_id:
        transaction.effects.append(
            RefuseCluster(
                cluster.id,
                f"it is another cluster than before: expected Kafka's cluster id {cluster.kafka_id}, found {kafka_id}. "
                "Its positions mean nothing there: correct the bootstrap servers, or give the new one an id of its own",
            )
        )
        return False
    twins = [one for one in transaction.clusters.values() if one.id != cluster.id and one.kafka_id == kafka_id]
    listed = transaction.session.listed or ()
    named = [one.id for one in twins if one.id in listed]
    if named:
        transaction.effects.append(
            RefuseCluster(
                cluster.id,
                f"it is the Kafka cluster ({kafka_id}) that is known as {named[0]!r}, which is listed as well, so "
                f"records could be read twice: name it once, with all of its topics; if {named[0]!r} is to be another "
                "cluster from now on, give that one an id of its own",
            )
        )
        return False
    if twins and is_new(transaction, cluster):
        _rename(transaction, max(twins, key=recency), cluster)
    elif any(one.removed_at_ms is None for one in twins):
        # Its other name is not listed any more, and is about to be removed. Until then this poll does not count.
        return False
    if not transaction.clusters[cluster.id].kafka_id:
        transaction.clusters[cluster.id] = replace(transaction.clusters[cluster.id], kafka_id=kafka_id)
        transaction.tell(identified={**transaction.session.identified, cluster.id: transaction.before.revision + 1})
    return True


def is_new(transaction: Transaction, cluster: ClusterState) -> bool:
    """Whether only the name of a cluster is known, so that it may turn out to be another one, renamed."""
    if cluster.kafka_id or cluster.discovered:
        return False
    return not any(key.cluster == cluster.id for key in transaction.splits)


def _rename(transaction: Transaction, before: ClusterState, after: ClusterState) -> None:
    """Move all that is known of the cluster `before` to the name of `after`."""
    transaction.clusters[after.id] = replace(
        before,
        id=after.id,
        bootstrap_servers=after.bootstrap_servers,
        removed_at_ms=None,
    )
    del transaction.clusters[before.id]
    names = {before.id: after.id}
    transaction.renamed.update(names)
    identified = transaction.session.identified.get(before.id)
    for key, split in [(key, split) for key, split in transaction.splits.items() if key.cluster == before.id]:
        renamed = split_called(key, names)
        # Splits that were removed with the cluster's old name return; those that were removed before do not.
        back = split.removed_at_ms is not None and split.removed_at_ms == before.removed_at_ms and not split.settled
        transaction.drop(split)
        split = split._replace(id=renamed, removed_at_ms=None if back else split.removed_at_ms)
        began_later = split.first is not None and identified is not None and split.since >= identified
        if identified is not None and split.position is not None and not began_later:
            # States before `identified` know the cluster by its old name and without Kafka's id of it, so the position
            # could not be found in them. In those since then it is, and what was read in a gap is read from there.
            begun = transaction.started(split, split.position)
            split = begun._replace(epoch=split.epoch, read_from=split.read_from, since=identified)
        transaction.put(split)
        if split.active and not transaction.session.wants(renamed):
            transaction.retain(split)
    session = transaction.session
    transaction.tell(
        listings=_without(session.listings, before.id),
        listed_polls=_without(session.listed_polls, before.id),
        ends={**_without(session.ends, before.id), after.id: by_names(session.ends.get(before.id, {}), names)},
        leader_epochs=_without(session.leader_epochs, before.id),
        former_leaders=_without(session.former_leaders, before.id),
        missing_since={key: since for key, since in session.missing_since.items() if not _is_of(key, before.id)},
        truncation_observations={
            key: seen for key, seen in session.truncation_observations.items() if key.cluster != before.id
        },
        previous_owners=by_names(session.previous_owners, names),
        former_topic_ids={_topic(key, before.id, after.id): ids for key, ids in session.former_topic_ids.items()},
        id_conflicts={key: one for key, one in session.id_conflicts.items() if key[0] != before.id},
        leaving=tuple(name for name in session.leaving if name != before.id),
        unreachable=_without(session.unreachable, before.id),
        read=_renamed_read(session.read, before.id, after.id),
        compared=_without(session.compared, before.id),
        observed=_without(session.observed, before.id),
        discoveries=_without(session.discoveries, before.id),
        read_missing={key: at for key, at in session.read_missing.items() if key.cluster != before.id},
        read_conflicts={key: one for key, one in session.read_conflicts.items() if key[0] != before.id},
    )


def _renamed_read(
    read: Mapping[str, tuple[ReadRanges, ...]], before: str, after: str
) -> Mapping[str, tuple[ReadRanges, ...]]:
    if before not in read:
        return read
    names = {before: after}
    return {**_without(read, before), after: (*read.get(after, ()), *(one.called(names) for one in read[before]))}


def _without(of: Mapping[str, Value], cluster: str) -> dict[str, Value]:
    return {name: value for name, value in of.items() if name != cluster}


def _topic(key: TopicName, before: str, after: str) -> TopicName:
    return (after, key[1]) if key[0] == before else key


def _is_of(key: SplitId | str, cluster: str) -> bool:
    return (key if isinstance(key, str) else key.cluster) == cluster


def find_id_conflicts(
    transaction: Transaction, event: PartitionsListed, other: Sequence[tuple[SplitId, ListedPartition]]
) -> Collection[str]:
    """Return the topics that a listing names by an id which does not count, or not yet.

    A topic with a new id was created anew, or a broker lags and names an id that it had before. So a new id takes a
    second poll, and brokers that agree; and an id that was replaced never counts again in this session. Until then, all
    that is listed of such a topic is ignored.

    Args:
        other: the partitions that are listed otherwise than they are known.
    """
    session, cluster = transaction.session, event.cluster
    named = {one.topic: one.topic_id for one in event.partitions} if event.seen else {}
    # They are not taken up, so they raise a conflict and never end it.
    only_seen = {one.topic: one.topic_id for one in event.seen if one.topic_id and one.topic not in named}
    former = {topic: ids for (name, topic), ids in session.former_topic_ids.items() if name == cluster}
    # A partition that had no leader when its topic was created anew is still known by the former id.
    listed = event.partitions if former else ()
    lagging = {one.topic: one.topic_id for one in listed if one.topic_id in former.get(one.topic, ())}
    ids = {**only_seen, **lagging, **{one.topic: one.topic_id for _, one in other if one.topic_id}}
    in_doubt = (topic for name, topic in session.id_conflicts if name == cluster)
    known = _ids(transaction, cluster, {*ids, *in_doubt})
    found = {
        topic: topic_id
        for topic, topic_id in ids.items()
        if topic_id not in known.get(topic, (topic_id,)) or topic_id in former.get(topic, ())
    }
    seen_ids = [
        (SplitId(cluster, one.topic, one.partition), one)
        for one in event.seen
        if one.topic_id == named.get(one.topic, one.topic_id)
    ]
    found.update((one.topic, one.topic_id) for key, one in (*other, *seen_ids) if _is_another(transaction, key, one))
    known = {topic: {one: True for one in ids if one != found.get(topic)} for topic, ids in known.items()}
    conflicts = {key: seen for key, seen in session.id_conflicts.items() if key[0] != cluster}
    conflicts.update(_remaining(transaction, event, found, known))
    for topic, topic_id in found.items():
        seen = _seen_again(transaction, event, topic, topic_id)
        waited = event.asked.turned and _has_waited(transaction, event, seen.since_ms)
        enough = waited and seen.answers >= ID_CONFLICT_ANSWERS_MIN
        newer = enough and _count_brokers(event, seen, topic, known.get(topic, ())).is_newer
        if seen.former or topic in only_seen or not newer:
            conflicts[cluster, topic] = seen
        else:
            # Partitions without a leader keep the known id for now; no broker that still names it is believed.
            note_former(transaction, (cluster, topic), known.get(topic, ()))
    if conflicts or session.id_conflicts:
        transaction.tell(id_conflicts={key: conflicts[key] for key in sorted(conflicts)})
    return frozenset(topic for name, topic in conflicts if name == cluster)


def _has_waited(transaction: Transaction, event: PartitionsListed, since_ms: int) -> bool:
    """Whether a poll was sent so long after `since_ms` that brokers which lag had time to follow."""
    return transaction.asked_ms(event.asked) - since_ms >= id_conflict_wait_ms(transaction.session)


def _is_another(transaction: Transaction, key: SplitId, listed: ListedPartition) -> bool:
    """Whether a split that is read is listed with another id than it has, and it is not known which is the newer one.

    Other splits of its topic may have the listed id already: when a topic is created anew with fewer partitions, those
    that the new one has change first.
    """
    split = transaction.get(key)
    if split is None or not split.active or split.position is None or not (split.topic_id and listed.topic_id):
        return False
    return split.topic_id not in (
        listed.topic_id,
        *transaction.session.former_topic_ids.get((key.cluster, key.topic), ()),
    )


class _BrokerCounts(NamedTuple):
    """How many brokers name a topic by a known id, and how many by another one, the last time that each was asked."""

    other: int
    """Brokers that name the other id."""
    known: int
    """Brokers that name a known id."""
    majority: int
    """How many more name the other id than a known one, of the brokers that answered since the conflict began: earlier
    answers may have been right then. 0 if these are fewer than ID_CONFLICT_ANSWERS_MIN."""
    direction: int
    """1, if a broker had named a known id before it named the other one; -1, if one that names a known id had named the
    other one before; 0, if neither is so, or both. A broker may lag, but it only goes forward, unless it has lost its
    metadata: so this counts only where there is no majority."""

    @property
    def is_newer(self) -> bool:
        """Whether the other id is the newer one, if more than one poll names it. Where all brokers agree, it is."""
        return self._balance > 0 or not self.known

    @property
    def is_older(self) -> bool:
        """Whether the known id is the newer one. Where two brokers name two ids, that is not known."""
        return self._balance < 0

    @property
    def _balance(self) -> int:
        """Above 0 for the other id, below 0 for the known one."""
        return self.majority or self.direction or self.other - self.known


def _count_brokers(event: PartitionsListed, seen: IdConflict, topic: str, known: Collection[str]) -> _BrokerCounts:
    """Count which brokers name which id of a topic in conflict."""
    named = {broker: ids for broker, said in event.asked.words.items() if (ids := said.get(topic))}
    others = {broker: ids for broker, ids in named.items() if ids[-1] == seen.topic_id}
    same = {broker: ids for broker, ids in named.items() if ids[-1] in known}
    since = len(seen.heard & others.keys()), len(seen.heard & same.keys())
    majority = since[0] - since[1] if sum(since) >= ID_CONFLICT_ANSWERS_MIN else 0
    forward = any(one in known for ids in others.values() for one in ids)
    back = any(seen.topic_id in ids for ids in same.values())
    return _BrokerCounts(len(others), len(same), majority, forward - back)


def _seen_again(transaction: Transaction, event: PartitionsListed, topic: str, topic_id: str) -> IdConflict:
    """Return the conflict about an id that is not that of the splits, by all polls up to this one."""
    session, key, asked_ms = transaction.session, (event.cluster, topic), transaction.asked_ms(event.asked)
    seen = session.id_conflicts.get(key)
    if seen is None or seen.topic_id != topic_id:
        former = topic_id in session.former_topic_ids.get(key, ())
        return IdConflict(
            topic_id, 1, event.answer, asked_ms, asked_ms, former=former, heard=frozenset((event.asked.broker,))
        )
    seen = _add_broker(seen, event)
    if event.answer <= seen.answer or not event.asked.turned:
        return seen
    since_ms = seen.since_ms if seen.answers else asked_ms
    return seen._replace(answers=seen.answers + 1, answer=event.answer, since_ms=since_ms, denials=0)


def _add_broker(seen: IdConflict, event: PartitionsListed) -> IdConflict:
    return seen._replace(heard=seen.heard | {event.asked.broker})


def _remaining(
    transaction: Transaction, event: PartitionsListed, found: Collection[str], known: Mapping[str, Collection[str]]
) -> dict[TopicName, IdConflict]:
    """Return the conflicts about a cluster's topics that stay, although this poll does not name the other id.

    It may come from a broker that lags.
    """
    left: dict[TopicName, IdConflict] = {}
    named = {one.topic for one in event.partitions}
    for key, seen in transaction.session.id_conflicts.items():
        if key[0] != event.cluster or key[1] in found:
            continue
        if key[1] not in named:
            # A listing without the topic says nothing about its id, unless it is complete: then the topic is gone.
            if not event.complete or any(one.topic == key[1] for one in event.seen):
                left[key] = seen
            continue
        if seen.former:
            continue
        seen = _add_broker(seen, event)
        heard, waited = (
            _count_brokers(event, seen, key[1], known.get(key[1], ())),
            _has_waited(transaction, event, seen.begun_ms),
        )
        if heard.other or heard.known:
            if not heard.is_older or (heard.direction >= 0 and not waited):
                left[key] = seen
            continue
        if event.answer > seen.answer:
            seen = seen._replace(answers=0, answer=event.answer, denials=seen.denials + 1)
        if seen.denials < ID_CONFLICT_ANSWERS_MIN or not waited:
            left[key] = seen
    return left


def note_former(transaction: Transaction, topic: TopicName, topic_ids: Iterable[str]) -> None:
    """Note the ids that a topic had until now."""
    former = transaction.session.former_topic_ids
    ids = former.get(topic, ())
    added = [one for one in topic_ids if one not in ids]
    if added:
        transaction.tell(former_topic_ids={**former, topic: (*ids, *added)[-FORMER_MAX:]})


def _ids(transaction: Transaction, cluster: str, topics: Collection[str]) -> dict[str, dict[str, bool]]:
    """Return topic -> the ids of its splits that are read or, where none is, of those that are retained."""
    read: dict[str, dict[str, bool]] = {}
    retained: dict[str, dict[str, bool]] = {}
    for key, split in transaction.splits.items() if topics else ():
        counts = key.cluster == cluster and split.topic_id and split.position is not None and not split.finished
        if counts and key.topic in topics:
            (read if split.active else retained).setdefault(key.topic, {})[split.topic_id] = True
    return {**retained, **read}
