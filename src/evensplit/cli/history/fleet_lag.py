"""The lag of many checkpoints: each cluster is asked once for all of them that read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import click

from evensplit.cli.history.fleet import Followed
from evensplit.cli.live.lags import Asking, Target, places_of, stands_of
from evensplit.core.import_spark_offsets import Positions
from evensplit.core.model import SplitId
from evensplit.core.state.observation import Report
from evensplit.core.text import plain
from evensplit.kafka.options.client import ClientSettings
from evensplit.observe.source_view import Source, View


class LagState(StrEnum):
    """What is known of the lag of a query, so that one that is not known is not taken for one that cannot be."""

    NOT_ASKED = "not-asked"
    """No cluster of it is asked for the ends of its logs."""
    AWAITED = "awaited"
    """Some have been asked, and have not answered yet."""
    ANSWERED = "answered"
    UNREACHABLE = "unreachable"
    """Some do not answer."""
    ANOTHER_CLUSTER = "another-cluster"
    """At the servers of some, another Kafka cluster answers."""


_Key = tuple[str, str]
"""The name under which a cluster is asked, and its id: two checkpoints can have one id for different clusters."""


@dataclass(slots=True)
class FleetLag(Asking):
    """Asks the clusters of many checkpoints, each cluster once."""

    _names: dict[tuple[str, ClientSettings, str], str] = field(default_factory=dict)
    _told_ms: dict[tuple[str, str], int] = field(default_factory=dict)
    _targets: dict[str, tuple[object, Mapping[_Key, _Key]]] = field(default_factory=dict)
    _states: dict[Source, LagState] = field(default_factory=dict)

    def ask(self, ones: Sequence[Followed]) -> None:
        """Take the answers that have come, and ask anew. Waits for nothing."""
        wanted: dict[_Key, dict[tuple[str, int], int]] = {}
        for one in ones:
            for key, positions in self._positions(one):
                wanted.setdefault(key, {}).update(positions)
        self.ends.ask(wanted)

    def targets(self, one: Followed) -> Mapping[_Key, _Key]:
        """Source and cluster -> where its ends are, for the clusters of `one` that are to be asked.

        Raises click.UsageError for what makes no sense.
        """
        state = places_of(one.kept.views)
        known = self._targets.get(one.id)
        if known is not None and known[0] == state:
            return known[1]
        found = {(target.source, target.cluster): self._key(target) for target in self.targets_of(one.kept.views)}
        self._targets[one.id] = (state, found)
        return found

    def tell(self, one: Followed) -> Sequence[str]:
        """Give the views of `one` what is known of their clusters. Return why some of it is not, a sentence each."""
        targets, wrong = self._of(one)
        notes = [f"the lag is not known: {wrong}"] if wrong else []
        for source, view in one.kept.views.items():
            keys = {cluster: key for (of, cluster), key in targets.items() if of == source}
            latest, unreachable, times = self._seen(view, keys)
            others = frozenset(cluster for cluster, key in keys.items() if key in self.ends.others)
            self._states[view.source] = _state(len(keys), len(unreachable), len(others), len(times))
            notes += [f"cluster {cluster}: {why}" for cluster, why in unreachable.items()]
            if latest or unreachable:
                place, last = view.source, view.last
                report = Report(latest, unreachable, another=others)
                at_ms = None
                if times:
                    # What is told of several clusters at once never goes back in time.
                    at_ms = self._told_ms[one.id, source] = max(min(times), self._told_ms.get((one.id, source), 0))
                one.recorder.look(place.query_id, last.run_id, place.number, last.end, report, at_ms)
        one.awaited = any(self.state(view.source) is LagState.AWAITED for view in one.kept.views.values())
        # Several sources can read one cluster.
        return list(dict.fromkeys(notes))

    def state(self, source: Source) -> LagState:
        """What was known of the lag of a query when its views were told of it last."""
        return self._states.get(source, LagState.NOT_ASKED)

    def close(self) -> None:
        """Drop all connections."""
        self.ends.close()

    def _seen(
        self, view: View, keys: Mapping[str, _Key]
    ) -> tuple[Mapping[SplitId, int], Mapping[str, str], Sequence[int]]:
        """The ends of logs that are known, clusters that do not answer with why, and when that was seen."""
        latest: dict[SplitId, int] = {}
        unreachable: dict[str, str] = {}
        times: list[int] = []
        for cluster, key in keys.items():
            seen = self.ends.ends_of(*key)
            if seen is not None:
                times.append(seen[0])
                latest.update((split, seen[1][split]) for split in view.last.end.splits if split in seen[1])
            elif key in self.ends.failures:
                unreachable[cluster] = self.ends.failures[key]
        return latest, unreachable, times

    def _positions(self, one: Followed) -> Iterator[tuple[_Key, Positions]]:
        targets, _ = self._of(one)
        for stand in stands_of(one.kept.views):
            key = targets.get((stand.source, stand.cluster))
            if key is not None:
                yield key, stand.positions

    def _of(self, one: Followed) -> tuple[Mapping[_Key, _Key], str]:
        """The same as `targets`, none if they make no sense, and why they do not; empty if they do."""
        if not one.kept.views:
            return {}, ""
        try:
            return self.targets(one), ""
        except click.UsageError as error:
            return {}, plain(error.message.partition("\n")[0])

    def _key(self, target: Target) -> _Key:
        """Where the ends of a cluster are, which is asked from now on."""
        place = (target.cluster, target.settings, target.kafka_id)
        if place not in self._names:
            self._names[place] = f"{len(self._names)} {target.servers}"
            self.ends.add(target._replace(source=self._names[place]))
        return self._names[place], target.cluster


def _state(asked: int, failed: int, others: int, answered: int) -> LagState:
    """By how many clusters were asked, failed, are others of those that failed, and have answered."""
    if not asked:
        return LagState.NOT_ASKED
    if failed + answered < asked:
        return LagState.AWAITED
    if others:
        return LagState.ANOTHER_CLUSTER
    return LagState.UNREACHABLE if failed else LagState.ANSWERED
