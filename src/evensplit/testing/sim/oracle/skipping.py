"""What tasks have really skipped, and whether it is declared in the end (S9)."""

from __future__ import annotations

from collections.abc import Iterable

from evensplit.core.machine.events import Event, ReadLogsPolled
from evensplit.core.model import Loss
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.world import World


class Owed:
    """Records that tasks have skipped, as far as no logged offset declares them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._losses: list[Loss] = []

    def restored(self, losses: Iterable[Loss]) -> None:
        """A process begins with a checkpoint by which these were owed."""
        self._losses = list(losses)

    def skipped(self, losses: Iterable[Loss]) -> None:
        """Tasks have skipped these."""
        self._losses.extend(losses)

    def logged(self, declared: Iterable[Loss]) -> tuple[Loss, ...]:
        """An offset was logged that declares these; returns what is owed after it.

        It may declare more, since a record that went after it had been read cannot be told from one that went before.
        """
        known = tuple(declared)
        self._losses = [loss for loss in self._losses if not any(self._covers(one, loss) for one in known)]
        return tuple(self._losses)

    def told(self, event: Event, state: EnumeratorState) -> None:
        """`state` is that after `event`: a cluster that is not known any more owes nothing, nor do topics that are
        neither wanted nor there.
        """
        self._losses = [
            loss
            for loss in self._losses
            if {loss.split.cluster, self._world.name(loss.split.cluster)} & state.clusters.keys()
            and not (isinstance(event, ReadLogsPolled) and self._is_left(loss, event, state))
        ]

    def _is_left(self, loss: Loss, event: ReadLogsPolled, state: EnumeratorState) -> bool:
        key = loss.split._replace(cluster=self._world.name(loss.split.cluster))
        return key.cluster == event.cluster and key not in event.listed and not state.session.wants(key)

    def unpaid(self, state: EnumeratorState) -> str:
        """What a host that looks at all clusters still has to declare, in a sentence; empty if that is nothing."""
        for loss in self._losses:
            name = self._world.name(loss.split.cluster)
            cluster = state.clusters.get(name)
            wanted = state.session.wants(loss.split._replace(cluster=name))
            if cluster is not None and cluster.removed_at_ms is None and wanted:
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
