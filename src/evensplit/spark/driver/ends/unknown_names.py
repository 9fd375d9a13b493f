"""Clusters and topics that limits are for, and that there are none of."""

from __future__ import annotations

import logging

from evensplit.core.batch.limits import Scope, named
from evensplit.core.model import Cluster, Topic
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import some
from evensplit.spark.options.limits import Limits, scopes_of

log = logging.getLogger("evensplit")


class UnknownNames:
    """Looks for names in the options that nothing has.

    They may be right later, when the metadata lists them, or the topic is made: so they are no error.
    """

    def __init__(self, limits: Limits) -> None:
        self._wanted = tuple(dict.fromkeys(scopes_of(limits)))
        self._unknown: tuple[tuple[str, Scope], ...] = ()
        self.notices: tuple[str, ...] = ()
        """A sentence for each option with such names."""

    def look(self, state: EnumeratorState) -> None:
        """Look in `state`, and log what has become unknown."""
        if not self._wanted:
            return
        known: set[Scope] = {Cluster(name) for name, one in state.clusters.items() if one.removed_at_ms is None}
        known.update(Topic(*name) for name in {key[:2] for key, split in state.splits.items() if split.active})
        unknown = tuple(one for one in self._wanted if one[1] not in known)
        if unknown == self._unknown:
            return
        self._unknown = unknown
        by_option: dict[str, list[str]] = {}
        for option, scope in unknown:
            by_option.setdefault(option, []).append(named(scope))
        self.notices = tuple(
            f"{option} names {some(names)}, of which nothing is read" for option, names in by_option.items()
        )
        for notice in self.notices:
            log.warning("%s", notice)
