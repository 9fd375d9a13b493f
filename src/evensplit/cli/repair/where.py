"""`--to` of `evensplit rewind`: a time, an age, offsets, a consumer group, a batch; and which offsets that means."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from evensplit.checkpoint.checkpoint import Checkpoint
from evensplit.checkpoint.stands import cluster_of, states_of
from evensplit.cli.live.known_logs import ask_known, created_anew
from evensplit.cli.live.log_ends import Logs, connected
from evensplit.core.json_text import parse_json
from evensplit.core.model import SplitId
from evensplit.core.state.offset_strategies import (
    NO_RECORD,
    Ago,
    AtTime,
    Bounds,
    Committed,
    Earliest,
    Found,
    Latest,
    Strategy,
    TopicPartition,
    lookups,
    resolve,
)
from evensplit.core.state.spark_offsets import parse_positions
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted, expected_of, is_one_offset, offsets_text, short, some
from evensplit.errors import EditRefused
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.options.option import duration_ms
from evensplit.spark.options.start_stop import timestamp_ms
from evensplit.times import time_of

EXPECTED = (
    "expected an age such as 2h, 30m or 1d, a time such as 2025-01-31T12:00:00Z, or in milliseconds since 1970, "
    "planned: and such an age or time (where the first batch that was planned since then began), earliest, "
    "group:NAME (where a consumer group stands), batch:NUMBER (where that batch began), or offsets as "
    '`evensplit offsets` prints them, such as {"orders":{"0":120}}, or file:/path with them'
)
OLDEST_MS = 1_000_000_000_000
"""Of 2001. A smaller number is one of seconds, or a mistake; no Kafka has older records."""
SAID_CHARACTERS_MAX = 200
"""Offsets in a longer text are only counted in the record of the edit: that is part of each later batch's offsets."""
SHOWN_MAX = 5
"""Of more partitions that are to be told something, the rest are counted."""
_LABELLED = re.compile(r"[^\t{]+\t *\{")
"""A line that says of which cluster it is."""
PLANNED = "planned:"
"""Before an age or a time: when batches were planned, and not what records say."""
_BATCH = re.compile(r"batch:([0-9]{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Said:
    """Offsets of one cluster, as they were said. `source`, `cluster`: empty if that was not said."""

    source: str
    cluster: str
    positions: Mapping[TopicPartition, int]

    def is_about(self, source: str, key: SplitId) -> bool:
        """Whether that source and cluster may be meant."""
        return self.source in ("", source) and self.cluster in ("", key.cluster)


@dataclass(frozen=True, slots=True)
class Where:
    """One of the four: what clusters are asked for, offsets, a batch, or a time at which batches were planned."""

    text: str
    strategy: Strategy | None = None
    offsets: tuple[Said, ...] | None = None
    batch: int | None = None
    planned: Ago | AtTime | None = None

    def __str__(self) -> str:
        """As it was said, for the state of the query: many offsets are counted."""
        if self.offsets is None or len(self.text) <= SAID_CHARACTERS_MAX:
            return self.text
        return f"{{offsets of {counted(sum(len(one.positions) for one in self.offsets), 'partition')}}}"


def parse_where(context: click.Context, parameter: click.Parameter, text: str) -> Where:
    """What the text after `--to` means. Raises click.BadParameter."""
    word = text.strip()
    if word.startswith(("{", "file:")):
        return Where(text, offsets=_offsets(word))
    if found := _BATCH.fullmatch(word):
        return Where(text, batch=int(found[1]))
    if word.startswith("batch:"):
        raise click.BadParameter(f"{short(word, 40)!r} names no batch, which has a number of 0 or more; {EXPECTED}")
    if word == "earliest":
        return Where(text, Earliest())
    if word == "group:":
        raise click.BadParameter(f"{word!r} names no consumer group; {EXPECTED}")
    if word.startswith("group:"):
        return Where(text, Committed(word.removeprefix("group:"), Latest()))
    if word.startswith(PLANNED):
        return Where(text, planned=_time(word.removeprefix(PLANNED)))
    return Where(text, _time(word))


def _time(word: str) -> Ago | AtTime:
    """An age or a time. Raises click.BadParameter."""
    age_ms = duration_ms(word.removeprefix("-"))
    if age_ms:
        return Ago(age_ms)
    try:
        at_ms = timestamp_ms(word)
    except ValueError as error:
        raise click.BadParameter(f"{error}; {EXPECTED}") from None
    if at_ms < OLDEST_MS:
        raise click.BadParameter(
            f"{short(word, 40)} is {time_of(at_ms)} UTC; expected milliseconds since 1970, which have 13 digits, or a "
            "time. For all that the logs have, say earliest"
        )
    return AtTime(at_ms, "latest")


def _offsets(word: str) -> tuple[Said, ...]:
    """Offsets in one of the forms that `evensplit offsets` prints."""
    if word.startswith("file:"):
        path = Path(word.removeprefix("file:").replace("///", "/", 1))
        try:
            word = path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise click.BadParameter(f"{path} cannot be read: {error}; expected a file with offsets") from None
    found = _of_lines(word.splitlines()) if _LABELLED.match(word) else _of_document(_json(word, short(word, 60)))
    if not found:
        raise click.BadParameter(
            f"{short(word, 60)} has no offsets; {EXPECTED}. With several clusters: "
            '{"east":{"orders":{"0":120}},"west":{"orders":{"0":7}}}'
        )
    return found


def _json(text: str, where: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise click.BadParameter(f"{where} is not JSON ({error}); {EXPECTED}") from None


def _of_lines(rows: Sequence[str]) -> tuple[Said, ...]:
    """Lines that begin with a cluster, or a source and a cluster, and a tab."""
    found: list[Said] = []
    for number, row in enumerate(rows, start=1):
        name, _, text = row.partition("\t")
        document = _json(text, f"line {number}") if _LABELLED.match(row) else None
        positions = parse_positions(document)
        if positions is None and document != {}:
            raise click.BadParameter(f"line {number} has no offsets: {short(row, 60)}; {EXPECTED}")
        if positions:
            source, _, cluster = name.rpartition("/")
            found.append(Said(source, cluster, positions))
    return tuple(found)


def _of_document(document: Any) -> tuple[Said, ...]:
    """Of one cluster; by cluster; or all that `--format json` prints. Empty: it has another form."""
    positions = parse_positions(document)
    if positions is not None:
        return (Said("", "", positions),)
    if not isinstance(document, dict):
        return ()
    parts = [("", cluster, part) for cluster, part in document.items()]
    if isinstance(document.get("sources"), list):
        rows = [row for row in document["sources"] if isinstance(row, dict) and row.get("positions") != {}]
        parts = [(str(row.get("source", "")), str(row.get("cluster", "")), row.get("positions")) for row in rows]
    found = [(source, cluster, parse_positions(part)) for source, cluster, part in parts]
    if any(of_one is None for _, _, of_one in found):
        return ()
    return tuple(Said(source, cluster, of_one) for source, cluster, of_one in found if of_one)


@dataclass(slots=True)
class OffsetTargets:
    """What offsets are of. `targets`: by source. `left_out`: read, but not by what a command was told to edit."""

    targets: dict[str, dict[SplitId, int]] = field(default_factory=dict)
    left_out: list[SplitId] = field(default_factory=list)


def targets_of_offsets(
    offsets: Sequence[Said], read: Mapping[str, Sequence[SplitId]], wanted: Mapping[str, Sequence[SplitId]]
) -> OffsetTargets:
    """Which partitions `offsets` are of: without a cluster, those of the only one in `wanted` that has such a one.

    Args:
        read: source -> all that it reads.
        wanted: source -> what of that may go back.

    Raises EditRefused for what no source reads, or is in several clusters.
    """
    found = OffsetTargets({source: {} for source in wanted})
    unclear: dict[str, list[str]] = {}
    strange: list[str] = []
    there, editable = _by_name(read), _by_name(wanted)
    clusters = {key.cluster for keys in read.values() for key in keys}
    for said in offsets:
        if said.source and said.source not in read:
            raise EditRefused(f"the offsets name source {said.source}; expected {expected_of(list(read))}")
        for name, at in said.positions.items():
            ones = [one for one in editable.get(name, ()) if said.is_about(*one)]
            if len(of := sorted({key.cluster for _, key in ones})) > 1:
                unclear["{}/{}".format(*name)] = of
            for source, key in ones:
                found.targets[source][key] = at
            others = [key for source, key in there.get(name, ()) if said.is_about(source, key)]
            if not others:
                cluster = said.cluster or (min(clusters) if len(clusters) == 1 else "")
                strange.append("/".join(map(str, (*([cluster] if cluster else ()), *name))))
            elif not ones:
                found.left_out.extend(dict.fromkeys(others))
    if strange:
        raise EditRefused(
            f"the offsets name what the query does not read: {some(strange)}; expected some of its partitions"
        )
    if unclear:
        split, of = next(iter(unclear.items()))
        raise EditRefused(
            f"the offsets name no cluster, and {split} is in several: {', '.join(of)}. Say --only CLUSTER, or give "
            'them as {"CLUSTER":{"TOPIC":{"0":120}}}'
        )
    return found


def _by_name(keys: Mapping[str, Sequence[SplitId]]) -> dict[TopicPartition, list[tuple[str, SplitId]]]:
    """Topic and partition -> the sources that have such a one, and in which cluster."""
    found: dict[TopicPartition, list[tuple[str, SplitId]]] = {}
    for source, ones in keys.items():
        for key in ones:
            found.setdefault((key.topic, key.partition), []).append((source, key))
    return found


def kept_ends(checkpoint: Checkpoint, source: str) -> dict[int, EnumeratorState]:
    """Batch -> where it ends, of those that Spark has kept."""
    states = states_of(checkpoint, source, cluster_of(checkpoint, source))
    return {checkpoint.batches[place].number: state for place, state in states.items()}


def first_planned(checkpoint: Checkpoint, at_ms: int, meant: str, *, edited: bool) -> tuple[int, int]:
    """The first batch that was planned at `at_ms` or later, and when. `edited`: the newest one, no query has planned.

    Raises EditRefused, a sentence that begins with `meant`, where there is none, or Spark may have thrown it away.
    """
    batches = checkpoint.batches[: len(checkpoint.batches) - edited]
    times = {one.number: planned_ms for one in batches if (planned_ms := one.text.planned_ms) is not None}
    if not times:
        raise EditRefused(
            f"{meant}; no batch that Spark has kept has the time at which it was planned, expected it in their files. "
            "Say batch:NUMBER"
        )
    oldest, newest = min(times), max(times)
    found = next((number for number, planned_ms in times.items() if planned_ms >= at_ms), None)
    if found is None:
        raise EditRefused(
            f"{meant}; no batch was planned since then: the newest one is {newest}, of {time_of(times[newest])} UTC; "
            f"expected a time up to that. If that batch was done later than it was planned, say batch:{newest}"
        )
    if found == oldest and found:
        raise EditRefused(
            f"{meant}; the oldest batch that Spark has kept is {found}, of {time_of(times[found])} UTC, and where that "
            f"began is not known; expected a time after that. For what was before, say a time without {PLANNED}, or "
            "offsets"
        )
    return found, times[found]


def moment(strategy: Strategy, now_ms: int) -> int | None:
    """The time that `strategy` means, in ms since 1970; None: it means none."""
    if isinstance(strategy, Ago):
        return max(0, now_ms - strategy.duration_ms)
    return strategy.timestamp_ms if isinstance(strategy, AtTime) else None


@dataclass(slots=True)
class Aim:
    """Where partitions are to go back to."""

    targets: dict[SplitId, int] = field(default_factory=dict)
    stay: dict[SplitId, str] = field(default_factory=dict)
    """Those that stay where they are whatever `targets` would be -> why, a sentence that may be about several."""

    notes: list[str] = field(default_factory=list)
    """What else one should know, a sentence each."""
    meant: str = ""
    """Which time was meant, and what that is of; empty: none was."""
    since: dict[SplitId, str] = field(default_factory=dict)
    """Where records of a time and later ones are, in a sentence."""

    def leave(self, keys: Sequence[SplitId], why: str) -> None:
        """Let `keys` stay where they are."""
        for key in keys:
            self.targets.pop(key, None)
            self.stay[key] = why

    def leave_recreated(self, state: EnumeratorState, logs: Logs, keys: Sequence[SplitId]) -> None:
        """Let those of `keys` stay where they are whose topics were created anew: their positions mean nothing."""
        for key in created_anew(state, logs, keys):
            self.leave(
                [key],
                f"topic {key.cluster}/{key.topic} was created anew, so its partitions stay where they are: the query "
                "begins at its first offset by itself, as failOnDataLoss has it. To go back in the new topic, let it "
                "run one batch first",
            )

    def limit_to_logs(self, state: EnumeratorState, logs: Logs, keys: Sequence[SplitId]) -> None:
        """Let those of `keys` go back no further than their logs begin; they stay if that is not back."""
        limited: list[str] = []
        beyond: dict[SplitId, str] = {}
        for key in keys:
            begin, at = logs.begins.get((key.topic, key.partition), 0), state.splits[key].position or 0
            to = self.targets.get(key, begin)
            if begin > at and to <= begin:
                beyond[key] = (
                    f"{key} stays where it is: its log begins at offset {begin}, so {_are(at, begin)} gone unread, "
                    "which the query says when it starts, as failOnDataLoss has it"
                )
            elif begin == at and to < begin:
                beyond[key] = f"{key} stays where it is: its log begins at offset {begin}, the next one to read"
            elif to < begin:
                self.targets[key] = begin
                limited.append(
                    f"{key}: {_are(to, begin)} not in its log any more, so it goes back to {begin}, where that begins"
                )
        self.notes.extend(limited[:SHOWN_MAX])
        if len(limited) > SHOWN_MAX:
            more = counted(len(limited) - SHOWN_MAX, "partition")
            self.notes.append(f"the same holds for {more} more: as far back as the log reaches")
        rest = f"the same holds for {counted(len(beyond) - SHOWN_MAX, 'partition')} more: the log begins too late"
        for number, (key, why) in enumerate(beyond.items()):
            self.leave([key], why if number < SHOWN_MAX else rest)


def _are(first: int, to: int) -> str:
    return f"{offsets_text((first, to))} {'is' if is_one_offset((first, to)) else 'are'}"


def aim_by_cluster(
    state: EnumeratorState, settings: ClientSettings, strategy: Strategy, wanted: Sequence[SplitId], now_ms: int
) -> Aim:
    """Where `strategy` leads at `now_ms` in the logs of `wanted`, at least one, all of one cluster.

    Those in neither part have no log, as far as leaders answered.

    Raises ClusterError, and EditRefused for another cluster than `state` knows.
    """
    aim, cluster = Aim(), wanted[0].cluster
    client = connected(cluster, settings)
    try:
        logs = ask_known(client, state, wanted, settings)
        aim.leave_recreated(state, logs, wanted)
        keys = [(key.topic, key.partition) for key in wanted if key not in aim.stay]
        bounds = {
            key: Bounds(logs.begins[key], max(logs.begins[key], logs.ends[key]))
            for key in keys
            if key in logs.begins and key in logs.ends
        }
        asked = lookups(strategy, bounds, now_ms)
        found = Found(
            client.list_offsets(asked.times) if asked.times else {},
            {group: client.committed_offsets(group, of) for group, of in asked.groups.items()},
        )
    finally:
        client.close()
    resolved = resolve(strategy, bounds, found)
    aim.targets.update((SplitId(cluster, *key), at) for key, at in resolved.offsets.items())
    # What a group has committed and the log has no more: the place is before that.
    aim.targets.update((SplitId(cluster, *key), at) for key, at in resolved.out_of_range.items())
    if isinstance(strategy, Committed):
        without = [SplitId(cluster, *key) for key in bounds if key not in found.committed[strategy.group]]
        if without:
            aim.leave(
                without,
                f"group {strategy.group!r} has no committed offsets for {some([*map(str, without)])}: expected a group "
                "that has read them",
            )
    for key, first in found.times.items():
        split, end = SplitId(cluster, *key), bounds[key].end
        there = "no record since then" if first == NO_RECORD else f"its first record since then at offset {first}"
        aim.since[split] = (
            f"{split} has {there}: its log ends at offset {end}, and {state.splits[split].position} is the next one to "
            "read"
        )
    aim.limit_to_logs(state, logs, list(aim.targets))
    return aim
