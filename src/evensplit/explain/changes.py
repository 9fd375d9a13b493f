"""What happened between two states, in terms that can be shown to people: derived, never stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice, pairwise
from operator import itemgetter
from typing import Any

from evensplit.core.loss_text import describe_loss, extent, verdict
from evensplit.core.machine.events import NOW, Event
from evensplit.core.model import Loss, Split, SplitId
from evensplit.core.state.state import EnumeratorState, as_named, new_losses, renamed_clusters
from evensplit.core.text import counted

_stands = itemgetter(*map(Split._fields.index, ("topic_id", "owner", "finished", "removed_at_ms")))
"""All of a split but how far it was read."""

SHOWN_MAX = 3
"""How many of several things are shown in one line; of the others only how many there are."""

PARTITIONS_SHOWN_MAX = 32
"""The same for partitions of one topic, where neighbours count as one: it is they that one looks for in a log."""

LINES_MAX = 100
"""So many lines say what moved, and so many what was lost; of the others only how many there are."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """A split that was not there before. `start` is its first offset; None as long as that is not known."""

    split: SplitId
    start: int | None
    owner: int | None


@dataclass(frozen=True, slots=True)
class Move:
    """A split that changed its owner from reader `source` to reader `target`, and why."""

    split: SplitId
    source: int
    target: int
    reason: str


@dataclass(frozen=True, slots=True)
class Changes:
    """Everything that changed from one state to the next, each in the order of the splits.

    `retained`: no longer to be read, positions kept. `returned`: to be read again. `finished`: read to their ends.
    `forgotten`: positions not kept any longer. `recreated`: of a topic that was created anew, read from its beginning.
    `losses`: what was declared lost. `renamed`: clusters with other names than before, each by both of them.
    """

    discoveries: tuple[Discovery, ...]
    moves: tuple[Move, ...]
    retained: tuple[SplitId, ...] = ()
    returned: tuple[SplitId, ...] = ()
    finished: tuple[SplitId, ...] = ()
    forgotten: tuple[SplitId, ...] = ()
    recreated: tuple[SplitId, ...] = ()
    losses: tuple[Loss, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, one.name) for one in fields(self))

    def sentences(self) -> tuple[str, ...]:
        """What is to be logged; empty where nothing changed.

        One line for each topic of which splits came or went, for each two readers between which splits of a topic
        moved, and for each loss.
        """
        lines = [
            f"cluster {was} is called {now} now: it is the same Kafka cluster, so its positions and owners are kept"
            for was, now in self.renamed
        ]
        for topic, found in _by_topic([(one.split, one) for one in self.discoveries]):
            shown = found if len(found) <= PARTITIONS_SHOWN_MAX else ()
            parts = ", ".join(f"{one.split.partition} → {_reader(one.owner)}" for one in shown)
            lines.append(f"discovered {topic}: partition {parts or _numbers([one.split.partition for one in found])}")
        for keys, said, why in (
            (self.recreated, "recreated", ": the topic was created anew; read from its beginning"),
            (self.returned, "returned", ": goes on where it was"),
            (self.retained, "retained", ": not to be read any more; positions are kept for a time"),
            (self.finished, "finished", ": read to the end"),
            (self.forgotten, "forgotten", ": away for longer than positions are kept; new if seen again"),
        ):
            lines.extend(
                f"{said} {topic}: partition {_numbers([key.partition for key in found])}{why}"
                for topic, found in _by_topic([(key, key) for key in keys])
            )
        lines.extend(self._moved())
        lines.extend(f"{verdict(loss)} {loss.split}: {told(loss)}" for loss in self.losses[:LINES_MAX])
        left = len(self.losses) - LINES_MAX
        return (*lines, f"lost records of {counted(left, 'more split')}") if left > 0 else tuple(lines)

    def _moved(self) -> list[str]:
        groups: dict[tuple[str, str, int, int, str], list[SplitId]] = {}
        for move in self.moves:
            group = (move.split.cluster, move.split.topic, move.source, move.target, move.reason)
            groups.setdefault(group, []).append(move.split)
        lines: list[str] = []
        left = len(self.moves)
        for (cluster, topic, source, target, reason), keys in islice(groups.items(), LINES_MAX):
            numbers = _numbers([key.partition for key in keys])
            what = str(keys[0]) if len(keys) == 1 else f"{cluster}/{topic}: partition {numbers}"
            lines.append(f"moved {what} from reader {source} to reader {target}: {reason}")
            left -= len(keys)
        return [*lines, f"moved {counted(left, 'more split')}"] if left else lines


def changes(before: EnumeratorState, after: EnumeratorState) -> Changes:
    """What was discovered, what moved (with the reason), came and went, and what was lost from `before` to `after`."""
    discoveries: list[Discovery] = []
    moves: list[Move] = []
    retained: list[SplitId] = []
    returned: list[SplitId] = []
    finished: list[SplitId] = []
    recreated: list[SplitId] = []
    earlier = as_named(before, after)
    there = zip(after.splits.items(), map(earlier.get, after.splits), strict=True)
    # Of most splits only positions change, and most of those not even that.
    other = [
        (key, split, known)
        for (key, split), known in there
        if known is None or (known is not split and _stands(known) != _stands(split))
    ]
    reason = _reason(before, after) if other else ""
    for key, split, known in other:
        if known is None:
            discoveries.append(Discovery(key, split.first if split.first is not None else split.position, split.owner))
        else:
            if known.owner is not None and split.owner is not None and known.owner != split.owner:
                moves.append(Move(key, known.owner, split.owner, reason))
            if _is_anew(known, split):
                recreated.append(key)
        was_retained = known is not None and known.removed_at_ms is not None
        if split.finished and not (known and known.finished):
            finished.append(key)
        elif split.removed_at_ms is not None and not was_retained:
            retained.append(key)
        elif known is not None and was_retained and split.removed_at_ms is None and not _is_anew(known, split):
            returned.append(key)
    kept = len(after.splits) - len(discoveries)
    forgotten = tuple(key for key in earlier if key not in after.splits) if kept < len(earlier) else ()
    return Changes(
        tuple(discoveries),
        tuple(moves),
        tuple(retained),
        tuple(returned),
        tuple(finished),
        forgotten,
        tuple(recreated),
        new_losses(before, after),
        _renamed(before, after, earlier),
    )


def _renamed(
    before: EnumeratorState, after: EnumeratorState, earlier: Mapping[SplitId, Split]
) -> tuple[tuple[str, str], ...]:
    """The clusters that have other names, and whose splits have gone on; one that was forgotten begins anew."""
    renamed = renamed_clusters(before.clusters, after.clusters)
    if not renamed:
        return ()
    gone_on = {
        key.cluster
        for key, split in after.splits.items()
        if (known := earlier.get(key)) is not None
        and (split.first is None or split.since <= before.revision or split.first == known.position)
    }
    return tuple((was, now) for was, now in renamed.items() if now in gone_on)


def why(split: SplitId, states: Sequence[EnumeratorState], events: Sequence[Event] = ()) -> tuple[str, ...]:
    """Why `split` is where it is in the last of `states`: a sentence for each change of it from state to state.

    `events`: what led from each state to the next, if known; it is then said with each change.
    """
    lines: list[str] = []
    for number, (before, after) in enumerate(pairwise(states)):
        said = happened(split, before, after)
        if said:
            cause = f" (after {describe(events[number])})" if number < len(events) else ""
            lines.extend(f"{split} {one}{cause}" for one in said)
    return tuple(lines)


def happened(split: SplitId, before: EnumeratorState, after: EnumeratorState) -> tuple[str, ...]:
    """What became of `split` from one state to the next, each without its name: "was discovered", "starts at 6"."""
    said = _change(as_named(before, after).get(split), after.splits.get(split), _reason(before, after))
    lost = [lost_records(loss) for loss in new_losses(before, after) if loss.split == split]
    return (*lost, *said)


def told(loss: Loss) -> str:
    """What was lost and why, in one line."""
    return f"{describe_loss(loss)}. {extent(loss)}"


def lost_records(loss: Loss) -> str:
    """The same, said of the split."""
    return f"{verdict(loss)} records: {told(loss)}"


def loads(state: EnumeratorState) -> Sequence[int]:
    """How many splits each reader owns, by reader number."""
    counts = [0] * state.readers
    for split in state.splits.values():
        if split.owner is not None:
            counts[split.owner] += 1
    return counts


def describe(event: Event) -> str:
    """An event in one short line; of long lists, the beginning and how long they are."""
    told = [(one.name, getattr(event, one.name)) for one in fields(event)]
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in told if value not in ((), {}, "", None, NOW))
    return f"{type(event).__name__}({shown})"


def summary(state: EnumeratorState) -> str:
    """A state in one line."""
    counts: dict[str, int] = {}
    for split in state.splits.values():
        counts[split.lifecycle] = counts.get(split.lifecycle, 0) + 1
    session = state.session
    locations = {reader: one.location for reader, one in session.registrations.items() if one.location}
    known = (
        ("waiting for readers", session.lost),
        ("removed readers", session.removed),
        ("unreachable", dict(session.unreachable)),
        ("readers are at", locations),
    )
    return (
        f"{counted(state.readers, 'reader')}, {len(session.registrations):,} of them registered"
        f"{' and assigned to' if session.assigned else ''}, generation {state.generation}; clusters "
        f"{_shown(tuple(state.clusters))}; {counted(len(state.splits), 'split')}"
        + "".join(f", {counts[name]} {name}" for name in sorted(counts))
        + ("" if state.begun else "; no batch yet")
        + "".join(f"; {what} {_shown(value)}" for what, value in known if value)
    )


def _change(known: Split | None, split: Split | None, reason: str) -> list[str]:
    """What became of one split."""
    if split is None:
        return [] if known is None else ["was forgotten: it was away for longer than positions are kept"]
    said: list[str] = []
    anew = known is not None and _is_anew(known, split)
    if known is None:
        said.append("was discovered")
        known = Split(split.id)
    elif anew:
        said.append("was created anew: another topic id")
    if split.position is not None and (known.position is None or anew):
        said.append(f"starts at {split.position if split.first is None else split.first}")
    if split.removed_at_ms is not None and known.removed_at_ms is None:
        said.append(f"was retained at {split.position}: it is not to be read any more")
    if split.removed_at_ms is None and known.removed_at_ms is not None:
        said.append(f"returned, and goes on at {split.position}")
    if split.finished and not known.finished:
        said.append(f"was finished at {split.position}: it is read to its end")
    elif split.owner is not None and known.owner is None:
        said.append(f"was given to reader {split.owner}")
    elif split.owner is not None and split.owner != known.owner:
        said.append(f"moved from reader {known.owner} to reader {split.owner}: {reason}")
    elif split.owner is None and known.owner is not None and split.removed_at_ms is None and split.position is not None:
        said.append(f"was taken from reader {known.owner}: {reason}")
    return said


def _is_anew(known: Split, split: Split) -> bool:
    """Whether it is another incarnation. An id that was not known, and then is, says nothing."""
    return bool(known.topic_id) and known.topic_id != split.topic_id


def _reason(before: EnumeratorState, after: EnumeratorState) -> str:
    if before.readers != after.readers:
        return f"the number of readers went from {before.readers} to {after.readers}"
    if before.assigned_readers and before.assigned_readers != after.assigned_readers:
        gone = sorted(set(before.assigned_readers) - set(after.assigned_readers))
        come = sorted(set(after.assigned_readers) - set(before.assigned_readers))
        return "; ".join(
            f"reader{'' if len(ones) == 1 else 's'} {', '.join(map(str, ones))} {what}"
            for ones, what in ((gone, "went"), (come, "came back"))
            if ones
        )
    if before.settings != after.settings:
        return "the settings changed"
    added = sum(split.active for split in after.splits.values()) - sum(split.active for split in before.splits.values())
    if added > 0:
        return f"{counted(added, 'new split')} made the readers uneven"
    if added < 0:
        return f"{counted(-added, 'split')} fewer made the readers uneven"
    return "the readers were uneven"


def _by_topic(found: Sequence[tuple[SplitId, Any]]) -> list[tuple[str, list[Any]]]:
    groups: dict[str, list[Any]] = {}
    for key, one in found:
        groups.setdefault(f"{key.cluster}/{key.topic}", []).append(one)
    return list(groups.items())


def _numbers(partitions: Sequence[int]) -> str:
    """Ascending partition numbers, three or more neighbours as one: `0-2, 7`."""
    runs: list[list[int]] = []
    for partition in partitions:
        if runs and runs[-1][-1] + 1 == partition:
            runs[-1].append(partition)
        else:
            runs.append([partition])
    shown = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs[:PARTITIONS_SHOWN_MAX]]
    return ", ".join(shown) + (f", … {len(partitions)} in all" if len(runs) > PARTITIONS_SHOWN_MAX else "")


def _reader(owner: int | None) -> str:
    return "nobody yet" if owner is None else f"reader {owner}"


def _shown(value: object) -> str:
    """A value in few words."""
    if isinstance(value, SplitId):
        return str(value)
    if isinstance(value, Mapping):
        parts = [f"{_shown(key)}: {_shown(value[key])}" for key in islice(value, SHOWN_MAX)]
        return f"{{{', '.join(parts)}{_more(len(value))}}}"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"({', '.join(_shown(one) for one in value[:SHOWN_MAX])}{_more(len(value))})"
    return repr(value)


def _more(count: int) -> str:
    return f", … {count} in all" if count > SHOWN_MAX else ""
