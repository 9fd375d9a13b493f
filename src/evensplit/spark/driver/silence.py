"""Silent partitions: the cluster answers, and their ends are not known. After a while that is an error."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.state.state import EnumeratorState, IdConflict
from evensplit.core.text import counted
from evensplit.errors import ClusterError
from evensplit.spark.driver.agenda import Due
from evensplit.spark.poll.cluster_monitor import ClusterMonitor
from evensplit.spark.poll.snapshot import ClusterSnapshot, PollResult

log = logging.getLogger("evensplit")

SAY_INTERVAL_S = 60.0
"""How often, in s, the log names silent partitions until they are an error."""

SHOWN_MAX = 3

WHOLE_TOPIC = -1
"""Stands for all partitions of a topic of which none is known."""


@dataclass(slots=True)
class _Cluster:
    """The silent partitions of one cluster."""

    poll: int
    """The number of the last poll that was taken in."""
    since: dict[TopicPartition, float] = field(default_factory=dict)
    """Partition -> the value of `ClusterMonitor.heard_s` when it was first found silent."""


class Silence:
    """Raises an error for partitions that are silent for `unreachableTimeout`; with 0, for the request deadline.

    A partition is silent if it is to be read, or listed, and its cluster answers without its end, or with an id of its
    topic that is not believed; a topic, if it is to be read and cannot be listed. Removed ones do not count unless they
    are listed. Of a time between two polls, GAP_SHARE of the limit counts at most.

    Where all ends are known, a poll costs a comparison of sizes.
    """

    def __init__(self, monitor: ClusterMonitor, monotonic: Callable[[], float]) -> None:
        self._monitor = monitor
        self._monotonic = monotonic
        self._silent: dict[str, _Cluster] = {}
        self._said_s = 0.0

    def look(self, state: EnumeratorState, answers: Mapping[str, PollResult]) -> None:
        """Take in the results of all clusters, which `state` has been told.

        Raises:
            ClusterError: a partition has been silent for too long; it names all silent ones.
        """
        views = {name: answer for name, answer in sorted(answers.items()) if isinstance(answer, ClusterSnapshot)}
        lacking = _lacking(state, views)
        for name in [name for name in self._silent if name not in answers or (name in views and name not in lacking)]:
            del self._silent[name]
        if not lacking:
            return
        if not self._silent:
            self._said_s = self._monotonic()
        for name, keys in lacking.items():
            before = self._silent[name].since if name in self._silent else {}
            heard_s = self._monitor.heard_s(name)
            self._silent[name] = _Cluster(views[name].number, {key: before.get(key, heard_s) for key in keys})
        over = any(self._left_s(name) <= 0 for name in lacking)
        if not over and self._monotonic() - self._said_s < SAY_INTERVAL_S:
            return
        sentences = {name: self._sentence(name, views[name], _doubted(state, name)) for name in lacking}
        if over:
            raise _error(sentences)
        self._said_s = self._monotonic()
        log.warning("; ".join(f"cluster {name!r}: {sentence}" for name, sentence in sentences.items()))

    @property
    def dues(self) -> Iterable[Due]:
        """When another poll may make an error of a silent partition, or a line in the log is due."""
        now_s, say_s = self._monotonic(), self._said_s + SAY_INTERVAL_S
        return (Due(min(say_s, now_s + self._left_s(name)), name, one.poll) for name, one in self._silent.items())

    def _longest_s(self, name: str) -> float:
        return self._monitor.heard_s(name) - min(self._silent[name].since.values())

    def _left_s(self, name: str) -> float:
        return self._monitor.limit_s(name) - self._longest_s(name)

    def _sentence(self, name: str, view: ClusterSnapshot, doubted: Mapping[str, IdConflict]) -> str:
        """Name the silent partitions, for how long they are silent, and why."""
        one = self._silent[name]
        keys = sorted(one.since, key=lambda key: (one.since[key], key))
        shown = "; ".join(map(_shown, keys[:SHOWN_MAX]))
        more = f"; and {len(keys) - SHOWN_MAX:,} more" if len(keys) > SHOWN_MAX else ""
        up_to = "up to " if len(set(one.since.values())) > 1 else ""
        by = "" if self._monitor.limits_silence else "kafka.request.timeout.ms, "
        return (
            f"no offsets of {shown}{more} for {up_to}{self._longest_s(name):.0f} s; "
            f"{self._monitor.limit_s(name):g} s are allowed ({by}unreachableTimeout): {_reason(keys, view, doubted)}"
        )


def _lacking(state: EnumeratorState, views: Mapping[str, ClusterSnapshot]) -> Mapping[str, Collection[TopicPartition]]:
    """Find the silent partitions of each cluster that answers."""
    gaps = [
        view for view in views.values() if view.listing.incomplete or len(view.latest) < len(view.listing.partitions)
    ]
    session, known = state.session, sum(len(view.latest) for view in views.values())
    doubts, late = session.id_conflicts, frozenset(chain.from_iterable(session.former_leaders.values()))
    if known == len(state.splits) and not (gaps or doubts or late or session.former_topic_ids):
        return {}
    found: defaultdict[str, set[TopicPartition]] = defaultdict(set)
    finished: set[tuple[str, str, int]] = set()
    topics: set[tuple[str, str]] = set()
    # Partitions that a complete listing lacked are removed, when another one confirms that.
    missing = session.missing_since if session.discovery else {}
    for key, split in state.splits.items():
        view = views.get(key.cluster)
        if view is None or split.removed_at_ms is not None:
            continue
        topics.add(key[:2])
        if split.finished:
            finished.add(key)
        elif (
            session.doubts(key, split)
            or key in late
            or ((key.topic, key.partition) not in view.latest and not (view.whole and key in missing))
        ):
            found[key.cluster].add((key.topic, key.partition))
    for name, view in views.items():
        if len(view.latest) < len(view.listing.partitions):
            listed = [key for key in view.listing.keys if key not in view.latest and (name, *key) not in finished]
            found[name].update(listed)
        if doubts:
            # Nothing is taken up of such a topic, so it may have no split that is to be read.
            listed = [key for key in view.listing.keys if (name, key[0]) in doubts and (name, *key) not in finished]
            found[name].update(listed)
        whole = [(topic, WHOLE_TOPIC) for topic in view.listing.unlisted if (name, topic) not in topics]
        found[name].update(whole)
    return {name: keys for name, keys in found.items() if keys}


def _doubted(state: EnumeratorState, name: str) -> Mapping[str, IdConflict]:
    return {topic: seen for (cluster, topic), seen in state.session.id_conflicts.items() if cluster == name}


def _reason(keys: Collection[TopicPartition], view: ClusterSnapshot, doubted: Mapping[str, IdConflict]) -> str:
    """Say why `keys` are silent, in clauses.

    Args:
        doubted: topic -> another id than is known, which is not believed.
    """
    said = dict(zip(view.listing.unlisted, view.listing.incomplete, strict=True))
    topics = sorted({topic for topic, _ in keys})
    reasons = [said[topic] for topic in topics if topic in said]
    if len(reasons) > SHOWN_MAX:
        reasons[SHOWN_MAX:] = [f"and {counted(len(reasons) - SHOWN_MAX, 'more topic')} like that"]
    reasons.extend(_unbelieved(topic, doubted[topic]) for topic in topics if topic in doubted)
    listed = frozenset(key for key in view.listing.keys if key[0] not in doubted)
    if not listed.isdisjoint(keys):
        reasons.append(
            "its partitions without an end have no leader, or one that gives no offsets: see whether their brokers "
            "run and are in sync (kafka-topics.sh --describe --unavailable-partitions)"
        )
    if any(key[0] not in said and key[0] not in doubted and key not in listed for key in keys):
        reasons.append("the metadata of the cluster does not have all of them; see whether the topic was deleted")
    return "; ".join(reasons)


def _unbelieved(topic: str, seen: IdConflict) -> str:
    said = f"a broker says that topic {topic!r} has the id {seen.topic_id}"
    if seen.former:
        return (
            f"{said}, which it had before brokers named another one: if it is right, a new start of the query reads it"
        )
    return f"{said}, which is another one than is read, and no other broker confirms it: see which of them lags"


def _error(sentences: Mapping[str, str]) -> ClusterError:
    (name, first), *others = sentences.items()
    also = "".join(f". Also cluster {other!r}: {sentence}" for other, sentence in others)
    return ClusterError(
        name,
        f"{first}{also}. All positions are in the checkpoint: mend that, or take it out of the subscription, and start "
        "the query again",
    )


def _shown(key: TopicPartition) -> str:
    topic, partition = key
    return f"topic {topic!r}" if partition == WHOLE_TOPIC else f"topic {topic!r}, partition {partition}"
