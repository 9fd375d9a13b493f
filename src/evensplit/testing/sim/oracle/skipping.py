"""What tasks have really skipped, and whether it is declared in the end (S9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from evensplit.core.machine.events import Event, ReadLogsPolled
from evensplit.core.model import Loss, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.world import World


class Owed:
    """Records that tasks have skipped, as far as no logged offset declares them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._losses: list[Loss] = []
        self._declared: dict[Loss, tuple[Loss, ...]] = {}
        """Loss -> those that were declared when it was skipped."""
        self._kafka_ids: dict[str, str] = {}
        """Cluster -> what Kafka calls it, as the enumerator has it, or had it."""

    def restored(self, losses: Iterable[Loss], declared: Iterable[Loss] = ()) -> None:
        """A process begins with a checkpoint by which these were owed, and which declares others."""
        self._losses, self._declared = [], {}
        self.skipped(losses, declared)

    def skipped(self, losses: Iterable[Loss], declared: Iterable[Loss] = ()) -> None:
        """Tasks have skipped these. Their batch had `declared` others before."""
        known = tuple(declared)
        for loss in losses:
            self._losses.append(loss)
            self._declared[loss] = known

    def logged(self, declared: Iterable[Loss]) -> tuple[Loss, ...]:
        """An offset was logged that declares these; returns what is owed after it.

        It may declare more, since a record that went after it had been read cannot be told from one that went before.
        """
        known = tuple(declared)
        self._losses = [loss for loss in self._losses if not any(self._covers(one, loss) for one in known)]
        return tuple(self._losses)

    def told(self, event: Event, before: EnumeratorState, state: EnumeratorState) -> None:
        """`state` is that after `event`, which came in `before`. A cluster that is not known any more owes nothing, nor
        do topics that are neither wanted nor there or kept, nor what a broker that lags says to be there (see ADR 29).
        """
        self._kafka_ids.update((name, one.kafka_id) for name, one in state.clusters.items())
        self._losses = [
            loss
            for loss in self._losses
            if (name := self._name(loss, state)) is not None
            and not _is_forgotten(loss.split._replace(cluster=name), before, state)
            and not (isinstance(event, ReadLogsPolled) and _is_left(loss, name, event, state))
            and not (isinstance(event, ReadLogsPolled) and self._is_denied(loss, name, event, before, state))
        ]

    def _is_denied(
        self, loss: Loss, name: str, event: ReadLogsPolled, before: EnumeratorState, state: EnumeratorState
    ) -> bool:
        """Whether a poll has settled a loss that names the id of a topic that is not there any more.

        Nothing tells it from a true one, if no other poll has named another id and the new log reaches far enough. That
        it may settle the loss is for the laws to say.
        """
        key = loss.split._replace(cluster=name)
        topic_id, now, split = event.listed.get(key, ""), self._world.log(key), before.splits.get(key)
        if name != event.cluster or not topic_id or self._world.incarnation(loss.split, topic_id) is not None:
            return False
        if now is None or split is None or now.end < (split.position or 0):
            return False
        return _is_open(loss, name, before) and not _is_open(loss, name, state)

    def _name(self, loss: Loss, state: EnumeratorState) -> str | None:
        """What the enumerator calls the cluster of `loss` by now; None if it does not know it any more."""
        name = loss.split.cluster
        if name in state.clusters:
            return name
        # What is at its address may have become another cluster before it got another name.
        kafka_id = self._kafka_ids.get(name)
        return next((name for name, one in state.clusters.items() if kafka_id and one.kafka_id == kafka_id), None)

    def unpaid(self, state: EnumeratorState) -> str:
        """What a host that looks at all clusters still has to declare, in a sentence; empty if that is nothing.

        What `state` declares is in the next offset that is logged, though there may be no further batch.
        """
        for loss in self._losses:
            name = self._name(loss, state)
            later = Counter(state.losses) - Counter(self._declared.get(loss, ()))
            if any(self._covers(one, loss) for one in later):
                continue
            if name is None or state.clusters[name].removed_at_ms is not None:
                continue
            if state.session.wants(loss.split._replace(cluster=name)):
                return f"tasks have skipped {loss}, and it was never declared"
        return ""

    def _covers(self, declared: Loss, loss: Loss) -> bool:
        split, other = declared.split, loss.split
        if self._world.name(split.cluster) != self._world.name(other.cluster) or split[1:] != other[1:]:
            return False
        if declared.position > loss.position:
            return False
        size, least = declared.offsets_max, loss.position + (loss.offsets_max or 0) - declared.position
        return size is None or size >= least


def _is_open(loss: Loss, name: str, state: EnumeratorState) -> bool:
    """Whether `state` still has to compare what was skipped."""
    key = loss.split._replace(cluster=name)
    parts = (part for one in state.session.read.get(name, ()) for part in one.ranges)
    return any(part.split == key and part.start <= loss.position < part.end for part in parts)


def _is_forgotten(key: SplitId, before: EnumeratorState, state: EnumeratorState) -> bool:
    """Whether a split that is gone, or not wanted, is not kept any longer."""
    split = before.splits.get(key)
    if split is None or key in state.splits:
        return False
    return split.removed_at_ms is not None or not state.session.wants(key)


def _is_left(loss: Loss, name: str, event: ReadLogsPolled, state: EnumeratorState) -> bool:
    key = loss.split._replace(cluster=name)
    return name == event.cluster and key not in event.listed and not state.session.wants(key)
