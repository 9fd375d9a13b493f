"""What would change when a query with other options, or another version, goes on from a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from evensplit.cli.doctor.checkpoint import Kept
from evensplit.cli.doctor.findings import Doubt, Finding, Status, Step, Wrong, taken
from evensplit.cli.live.next_batch import Observation, clusters_named, observe
from evensplit.core.loss_text import verdict
from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import BatchOpened, BatchPlanned, Event, ParallelismChanged, ReaderRegistered
from evensplit.core.model import SplitId, Topics, matches, topic_names
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted, some
from evensplit.errors import DataLossError, EvenSplitError
from evensplit.explain.changes import Changes, changes, told
from evensplit.spark.driver.event_feed import check_schemas, settings_changed
from evensplit.spark.options.parse import SourceOptions
from evensplit.spark.options.per_cluster import ClusterOptions
from evensplit.spark.options.spec.all import KEPT
from evensplit.spark.options.spec.query import CAPACITY, PIN, READERS

WHERE = "start of the query"
SHOWN_MAX = 5

_KEEP = "nothing, if that is meant; {} keeps it as it is"
_MEANT = "nothing, if that is meant"


@dataclass(frozen=True, slots=True)
class Given:
    """The options of the query, as far as they were said."""

    said: Mapping[str, str]
    """As they were given."""
    options: SourceOptions
    """Parsed."""
    clusters: bool
    """They name the clusters."""
    topics: bool
    """They name the topics, too: these are all options of the query, and what is left out has its default. Otherwise
    what is left out is as in the checkpoint."""


class StartLook:
    """What the options would change in what `kept` has.

    `after` is the state of the next batch if it read nothing, as far as that is known after `findings` were taken.
    """

    def __init__(self, kept: Kept, given: Given) -> None:
        self._state = kept.state
        self._given = given
        self._said = frozenset(name.lower() for name in given.said)
        self._clusters: Sequence[ClusterOptions] = given.options.clusters
        self.after = kept.state

    def findings(self) -> Iterator[Finding]:
        """Each step, as it is taken. Brokers are asked in the last ones, if the options name clusters and topics."""
        differ = [*self._settings_that_differ()]
        yield from differ
        if not differ:
            yield Finding(WHERE, "options", Status.OK, "those that a checkpoint keeps are as they are in it")
        schemas = taken(
            WHERE,
            Step(
                "schemas",
                self._schemas,
                "give the former schema and format, or say that another one is meant: acceptSchema",
            ),
        )
        yield schemas
        if self._given.clusters:
            yield taken(WHERE, Step("clusters", self._clusters_named, "check the option metadata, and what it names"))
        if self._given.topics:
            yield taken(WHERE, Step("topics", self._topics, _MEANT))
            yield taken(WHERE, Step("starting offsets", self._starts, _MEANT))
        if schemas.status is Status.FAILED:
            yield Finding(WHERE, "partitions", Status.SKIPPED, "not looked at, since schemas failed")
        elif self._given.topics:
            yield from self._observed()
        else:
            yield self._owners(None)

    def _takes(self, option: str) -> bool:
        return self._given.topics or option.lower() in self._said

    @property
    def _settings(self) -> Settings:
        """Those that the query would have."""
        options, now = self._given.options.settings, self._state.settings
        fields = {field: getattr(options, field) for field, option in KEPT.items() if self._takes(option.name)}
        if self._takes(CAPACITY.name):
            fields["capacities"] = options.capacities
        return replace(now, **fields)

    def _settings_that_differ(self) -> Iterator[Finding]:
        now, then = self._state.settings, self._settings
        for field, option in KEPT.items():
            yield from _differs(option.name, getattr(now, field), getattr(then, field), option.type.written)
        yield from _differs(CAPACITY.name, now.capacities, then.capacities, _written_capacities)
        yield from _differs(READERS.name, self._state.readers, self._readers, str)
        if self._takes(PIN.name) and dict(self._given.options.pins) != dict(self._state.eligible):
            one, other = (counted(len(pins), "reader") for pins in (self._state.eligible, self._given.options.pins))
            found = f"other readers may read other partitions: {other} with pins, and {one} in the checkpoint"
            yield Finding(WHERE, PIN.name, Status.WARNING, found, _KEEP.format("the former value"))

    @property
    def _readers(self) -> int:
        # With `auto` the number follows the session, from that of the checkpoint on.
        return self._given.options.readers or self._state.readers or _processors()

    def _schemas(self) -> str:
        if not self._given.topics:
            return "as in the checkpoint, since the options are not all there"
        check_schemas(self._state.settings, self._given.options)
        if not self._given.options.schemas_known:
            return "not compared: a registry has them, which was not asked"
        return "keys and values are decoded as in the checkpoint"

    def _clusters_named(self) -> str:
        if self._given.options.metadata is not None:
            self._clusters = clusters_named(self._given.options)[0]
        named = {cluster.id: cluster for cluster in self._clusters}
        known = {name: one for name, one in self._state.clusters.items() if one.removed_at_ms is None}
        missing, new = [name for name in known if name not in named], [name for name in named if name not in known]
        if not missing and not new:
            return f"{counted(len(named), 'cluster')}, as in the checkpoint"
        parts: list[str] = []
        for name in missing:
            count = sum(split.active for key, split in self._state.splits.items() if key.cluster == name)
            parts.append(
                f"{name} is not named any more: its {counted(count, 'partition')} would be retained, {self._retained()}"
            )
        for name in new:
            back = self._state.clusters.get(name)
            begins = named[name].starting_option if named[name].starts_by_itself else ""
            parts.append(
                f"{name} is named again: it would go on where it stopped"
                if back is not None
                else f"{name} is new, and would be read from {begins or 'the start of its logs'}"
            )
        if missing and new:
            parts.append("one that has a new name is known by Kafka's cluster id when it answers, and goes on")
        raise Doubt("; ".join(parts), "check the names of the clusters, and nothing, if that is meant")

    def _retained(self) -> str:
        ms = self._settings.retention_ms
        if not ms:
            return "and forgotten at once (removedRetention=0)"
        return f"and their positions kept for {KEPT['retention_ms'].type.written(ms)} (removedRetention)"

    def _topics(self) -> str:
        gone: list[SplitId] = []
        new: list[str] = []
        for cluster in self._clusters:
            mine = [split for key, split in self._state.splits.items() if key.cluster == cluster.id and split.active]
            gone.extend(split.id for split in mine if not matches(cluster.subscription, split.id))
            if isinstance(cluster.subscription, Topics) and cluster.id in self._state.clusters:
                there = {key.topic for key in self._state.splits if key.cluster == cluster.id}
                new.extend(f"{cluster.id}/{name}" for name in cluster.subscription.names if name not in there)
        parts: list[str] = []
        if gone:
            names = topic_names(gone)
            parts.append(
                f"{counted(len(gone), 'partition')} of {some(names, SHOWN_MAX)} would not be subscribed any more: "
                f"retained, {self._retained()}"
            )
        if new and self._state.begun:
            parts.append(f"{some(new, SHOWN_MAX)} would be new, and read from the start of the logs")
        if parts:
            raise Doubt("; ".join(parts), "check subscribe, subscribePattern or assign, and nothing, if that is meant")
        return "all that the checkpoint reads is subscribed"

    def _starts(self) -> str:
        said = sorted({cluster.starting_option for cluster in self._clusters if cluster.starting_option})
        positions = sum(split.position is not None for split in self._state.splits.values())
        if not said or not self._state.begun:
            return f"{counted(positions, 'partition')} would go on at their positions in the checkpoint"
        raise Doubt(
            f"{' and '.join(said)} would change nothing: the checkpoint has positions of "
            f"{counted(positions, 'partition')}, and what is found later is read from the start of its logs",
            "nothing, if the query is to go on; to begin elsewhere: evensplit rewind, or a new checkpoint",
        )

    def _observed(self) -> Iterator[Finding]:
        """What the clusters have by now."""
        try:
            seen = observe(self._given.options, self._state, self._readers)
        except EvenSplitError as error:
            yield Finding(
                WHERE, "partitions", Status.FAILED, f"the query would end at its start: {error}", error.cure, error.id
            )
            return
        for name in seen.unanswered:
            yield Finding(
                WHERE, "partitions", Status.SKIPPED, f"not looked for in cluster {name}, which does not answer"
            )
        if len(seen.unanswered) < len(self._clusters):
            found = changes(self._state, seen.state)
            yield taken(WHERE, Step("partitions", partial(_partitions, found, seen), _MEANT))
        if seen.state.session.undeclared:
            yield taken(WHERE, Step("losses", partial(self._losses, seen), ""))
        yield self._owners(seen.state)

    def _losses(self, seen: Observation) -> str:
        losses = seen.state.session.undeclared
        said = "; ".join(f"{verdict(one)} {one.split}: {told(one)}" for one in losses[:SHOWN_MAX])
        said = f"records that are to be read are gone, {counted(len(losses), 'loss', 'losses')}: {said}"
        if self._given.options.reading.fail_on_data_loss:
            raise Wrong(
                f"{said}. The query would end",
                "failOnDataLoss=false reads on, and says what was lost",
                DataLossError.id,
            )
        raise Doubt(said, "nothing, if the loss is known: the first batch declares it")

    def _owners(self, found: EnumeratorState | None) -> Finding:
        """Which partitions would change their readers."""
        after = self._next(found)
        if after is None:
            return Finding(WHERE, "owners", Status.SKIPPED, "not decided before every start is known")
        self.after = after
        moves = changes(self._state, after).moves
        load = sum(1 for _ in after.load())
        if not moves:
            return Finding(WHERE, "owners", Status.OK, f"none of {counted(load, 'partition')} would change its reader")
        shown = some([f"{one.split} from {one.source} to {one.target}" for one in moves], SHOWN_MAX)
        return Finding(
            WHERE,
            "owners",
            Status.WARNING,
            f"{len(moves):,} of {counted(load, 'partition')} would change {'its' if len(moves) == 1 else 'their'} "
            f"reader, since {moves[0].reason}: {shown}",
            "nothing: no record is read twice for it; evensplit plan shows all of it",
        )

    def _next(self, found: EnumeratorState | None) -> EnumeratorState | None:
        """The state after a batch that reads nothing; None if none can be planned yet."""
        state = self._state if found is None else found
        events: list[Event] = []
        if found is None:
            pins = self._given.options.pins if self._takes(PIN.name) else self._state.eligible
            options = replace(self._given.options, settings=self._settings, pins=pins)
            events += [BatchOpened(), settings_changed(options, state.settings, ())]
        events.append(ParallelismChanged(self._readers))
        there = state.session.registrations
        events += [ReaderRegistered(reader) for reader in range(self._readers) if reader not in there]
        for event in events:
            state = step(state, event).state
        return step(state, BatchPlanned({})).state if state.settled else None


def _partitions(found: Changes, seen: Observation) -> str:
    """What the clusters have that the checkpoint does not."""
    parts = [
        f"cluster {was} is called {now} now, and goes on: it has the same Kafka cluster id"
        for was, now in found.renamed
    ]
    if found.discoveries:
        names = topic_names(one.split for one in found.discoveries)
        behind = sum(seen.latest.get(one.split, one.start or 0) - (one.start or 0) for one in found.discoveries)
        starts = [f"{one.split} from {one.start}" for one in found.discoveries if one.start is not None]
        parts.append(
            f"{counted(len(names), 'topic')} with {counted(len(found.discoveries), 'new partition')} would be found, "
            f"and {counted(behind, 'offset')} of them be read: {some(starts or names, SHOWN_MAX)}"
        )
    for keys, said in (
        (found.returned, "would go on where {} stopped"),
        (found.recreated, "would be read from the start, since the topic was created anew"),
        (found.retained, "would be retained"),
        (found.forgotten, "would be forgotten: away for longer than removedRetention"),
    ):
        if keys:
            it = "it" if len(keys) == 1 else "they"
            parts.append(f"{counted(len(keys), 'partition')} {said.format(it)}: {some(keys, SHOWN_MAX)}")
    if parts:
        raise Doubt("; ".join(parts), _MEANT)
    who = "those that answer" if seen.unanswered else "the clusters"
    return f"{who} have the partitions of the checkpoint, and no others"


def _differs(name: str, now: Any, then: Any, written: Any) -> Iterator[Finding]:
    if now != then:
        one, other = ("none" if value in (None, ()) else written(value) for value in (now, then))
        yield Finding(
            WHERE, name, Status.WARNING, f"{other}, and {one} in the checkpoint", _KEEP.format(f"{name}={one}")
        )


def _written_capacities(value: Sequence[tuple[int, int]]) -> str:
    return some([f"{reader}: {capacity}" for reader, capacity in value], SHOWN_MAX)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
