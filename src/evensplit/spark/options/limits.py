"""How far a batch goes: the options that say so."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evensplit.core.batch.limits import BatchLimits, Caps, Priority, Scope
from evensplit.core.model import Cluster, Partitions, SplitId, Subscription, Topic, TopicPattern, Topics, matches
from evensplit.core.text import expected_of
from evensplit.spark.options.spec.limits import MAX_BYTES, MAX_OFFSETS, PRIORITY
from evensplit.spark.options.values import RawOptions, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The options that bound a batch, or hold it back."""

    offsets: Caps
    """How many offsets a micro-batch has at most."""

    bytes: Caps
    """How many bytes it has at most."""

    priority: Priority
    """Which clusters and topics come first, where not all can be read."""

    offsets_min: int | None
    """How many offsets a micro-batch waits for; None: for none."""

    trigger_delay_ms: int
    """How long it waits for them."""

    alignment_ms: int | None
    """How far a partition may be ahead of the slowest one; None: as far as it has records."""

    idle_timeout_ms: int
    """How long a partition without new records keeps the others back."""

    away: str
    """One of `alignment.WHEN_AWAY`: whether one that does not answer keeps the others back."""

    @property
    def offsets_max(self) -> int | None:
        """About how many offsets a micro-batch has at most, of all clusters together; None: no such limit."""
        return self.offsets.batch

    @property
    def batch(self) -> BatchLimits:
        """The limits of a micro-batch."""
        return BatchLimits(self.offsets, self.bytes, self.priority)


def scopes_of(limits: Limits) -> Iterator[tuple[str, Scope]]:
    """Every cluster and topic that an option names, with the name of the option."""
    for option, caps in ((MAX_OFFSETS, limits.offsets), (MAX_BYTES, limits.bytes)):
        yield from ((option.name, scope) for scope in caps.of)
    yield from ((PRIORITY.name, scope) for scope in (*limits.priority.order, *limits.priority.weights))


def check_scopes(
    given: RawOptions, limits: Limits, names: Sequence[str] | None, subscriptions: Mapping[str, Subscription]
) -> None:
    """Say of each cluster or topic that an option names that there is none.

    `names`: of all clusters; None: not known yet. `subscriptions`: cluster -> what is read of it, where that is known.
    """
    for option, scope in scopes_of(limits) if names is not None else ():
        cluster = scope.id if isinstance(scope, Cluster) else scope.cluster
        subscription = subscriptions.get(cluster)
        if cluster not in (names or ()):
            meant = _meant(given, option, scope, subscriptions, names or ()) if isinstance(scope, Cluster) else ""
            given.problems.append(
                f"{option} names the cluster {shown(cluster)}, which does not exist; "
                f"{meant or _hint(cluster, names or ())}"
            )
        elif isinstance(scope, Topic) and subscription and not _reads(subscription, scope):
            known = () if isinstance(subscription, TopicPattern) else sorted(_names(subscription))
            given.problems.append(
                f"{option} names the topic {shown(scope.name)} of cluster {shown(cluster)}, which is not read there; "
                f"{_hint(scope.name, known)}"
            )


def _hint(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"expected {expected_of([shown(one) for one in known])}" if known else "leave it out"


def _meant(
    given: RawOptions,
    option: str,
    scope: Cluster,
    subscriptions: Mapping[str, Subscription],
    names: Sequence[str],
) -> str:
    """The question whether a topic is meant, with how it is written; empty: no cluster reads a topic of this name.

    A pattern may match anything, so the name of a cluster that is much like it is meant rather than that.
    """
    reading = [name for name in sorted(subscriptions) if _reads(subscriptions[name], Topic(name, scope.id))]
    listing = [name for name in reading if not isinstance(subscriptions[name], TopicPattern)]
    cluster = next(iter(listing or reading), None)
    if cluster is None or (not listing and difflib.get_close_matches(scope.id, names)):
        return ""
    if option == PRIORITY.name:
        return f"did you mean {shown(f'{cluster}/{scope.id}')}?"
    document = given.document(MAX_BYTES if option == MAX_BYTES.name else MAX_OFFSETS) or {}
    return f"did you mean {json.dumps({cluster: {scope.id: document.get(scope.id)}}, ensure_ascii=False)}?"


def _names(subscription: Topics | Partitions) -> Iterable[str]:
    return subscription.names if isinstance(subscription, Topics) else subscription.by_topic


def _reads(subscription: Subscription, topic: Topic) -> bool:
    if isinstance(subscription, TopicPattern):
        return matches(subscription, SplitId(topic.cluster, topic.name, 0))
    return topic.name in _names(subscription)
