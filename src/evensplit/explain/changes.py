"""The changes between two states, as values and in sentences: derived, never stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice, pairwise
from operator import itemgetter
from typing import Any

from evensplit.core.loss_text import describe_loss, extent, verdict
from evensplit.core.machine.events import Event
from evensplit.core.machine.trace import describe
from evensplit.core.model import Loss, Split, SplitId
from evensplit.core.state.edits import Edit, as_told, former_names
from evensplit.core.state.settings import RATE
from evensplit.core.state.state import EnumeratorState, as_named, edits_between, new_losses, renamed_between
from evensplit.core.text import counted
from evensplit.explain.edited import edit_sentence, edits_of

_stands = itemgetter(*map(Split._fields.index, ("topic_id", "owner", "finished", "removed_at_ms")))
"""All of a split but how far it was read."""

PARTITIONS_SHOWN_MAX = 32
"""How many partitions of one topic one line shows, where neighbours count as one: people search logs for them."""

FORGOTTEN = "was forgotten: it was away for longer than positions are kept"

LINES_MAX = 100
"""How many moves, and how many losses, have a line; of the others only their number."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """A new split."""

    split: SplitId
    start: int | None
    """Its first offset; None as long as that is not known."""
    owner: int | None
    """The reader that got it; None: none yet."""


@dataclass(frozen=True, slots=True)
class Move:
    """A split that went from reader `source` to reader `target`, and why."""

    split: SplitId
    source: int
    target: int
    reason: str


@dataclass(frozen=True, slots=True)
class Changes:
    """Everything that changed from one state to the next, each in the order of the splits."""

    discoveries: tuple[Discovery, ...]
    moves: tuple[Move, ...]
    retained: tuple[SplitId, ...] = ()
    """No longer read; their positions are kept."""
    returned: tuple[SplitId, ...] = ()
    """Read again, from where they were."""
    finished: tuple[SplitId, ...] = ()
    """Read to their ends."""
    forgotten: tuple[SplitId, ...] = ()
    """Away for too long; their positions are dropped."""
    recreated: tuple[SplitId, ...] = ()
    """Of a topic that was deleted and created again; read from its beginning."""
    losses: tuple[Loss, ...] = ()
    """Declared lost."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Clusters with a new name: the old and the new one."""
    edits: tuple[Edit, ...] = ()
    """What commands changed in the checkpoint, in their order."""

    def __bool__(self) -> bool:
        return any(getattr(self, one.name) for one in fields(self))

    @property
    def noticed(self) -> tuple[tuple[str, str], ...]:
        """Those of `renamed` that no command has renamed: the query has noticed it."""
        return _noticed(self.renamed, self.edits)

    def sentences(self) -> tuple[str, ...]:
        """The lines for the log; none if nothing changed.

        There is one for the partitions of each topic that came or went, for those that moved between the same two
        readers, and for each loss.
        """
        lines = [*map(edit_sentence, self.edits), *(rename_sentence(*names) for names in self.noticed)]
        for topic, found in _by_topic([(one.split, one) for one in self.discoveries]):
            shown = found if len(found) <= PARTITIONS_SHOWN_MAX else ()
            parts = ", ".join(f"{one.split.partition} → {_reader(one.owner)}" for one in shown)
            what = f"partition {parts}" if parts else _partitions([one.split for one in found])
            lines.append(f"discovered {topic}: {what}")
        for keys, said, why in (
            (self.recreated, "recreated", ": the topic was deleted and created anew; read from its beginning"),
            (self.returned, "returned", ": continues where it stopped"),
            (self.retained, "retained", ": no longer read; positions are kept for a time"),
            (self.finished, "finished", ": read to the end"),
            (self.forgotten, "forgotten", ": away for longer than positions are kept; new if it comes back"),
        ):
            lines.extend(
                f"{said} {topic}: {_partitions(found)}{why}" for topic, found in _by_topic([(key, key) for key in keys])
            )
        lines.extend(self._moved())
        lines.extend(f"{verdict(loss)} {loss.split}: {told(loss)}" for loss in self.losses[:LINES_MAX])
        left = len(self.losses) - LINES_MAX
        return (*lines, f"lost records of {counted(left, 'more partition')}") if left > 0 else tuple(lines)

    def _moved(self) -> list[str]:
        groups: dict[tuple[str, str, int, int, str], list[SplitId]] = {}
        for move in self.moves:
            group = (move.split.cluster, move.split.topic, move.source, move.target, move.reason)
            groups.setdefault(group, []).append(move.split)
        lines: list[str] = []
        left = len(self.moves)
        for (cluster, topic, source, target, reason), keys in islice(groups.items(), LINES_MAX):
            what = str(keys[0]) if len(keys) == 1 else f"{cluster}/{topic}: {_partitions(keys)}"
            lines.append(f"moved {what} from reader {source} to reader {target}: {reason}")
            left -= len(keys)
        return [*lines, f"moved {counted(left, 'more partition')}"] if left else lines


def changes(before: EnumeratorState, after: EnumeratorState) -> Changes:
    """All that changed from `before` to `after`, with the reason of each move."""
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
    gone = [key for key in earlier if key not in after.splits] if kept < len(earlier) else []
    edits = as_told(edits_between(before, after))
    forgotten = tuple(key for key in gone if not any(edit.drops(key) for edit in edits))
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
        edits,
    )


def _renamed(
    before: EnumeratorState, after: EnumeratorState, earlier: Mapping[SplitId, Split]
) -> tuple[tuple[str, str], ...]:
    """The clusters that have new names and whose splits go on; one that was forgotten begins anew."""
    renamed = renamed_between(before, after)
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
    """Tell why `split` is where it is in the last of `states`: a sentence for each of its changes.

    `events`: the event that led from each state to the next, if known; it is named with the change.
    """
    lines: list[str] = []
    for number, (before, after) in enumerate(pairwise(states)):
        said = happened(split, before, after)
        if said:
            cause = f" (after {describe(events[number])})" if number < len(events) else ""
            lines.extend(f"{split} {one}{cause}" for one in said)
    return tuple(lines)


class Step:
    """From one state to the next: what all splits have in common of it is worked out once."""

    def __init__(self, before: EnumeratorState, after: EnumeratorState) -> None:
        self.after = after
        self.names = renamed_between(before, after)
        """Former name of a cluster -> the one that it has in `after`, where that is another one."""
        self.known = as_named(before, after)
        """The splits before, by the names that they have now."""
        self._edits = as_told(edits_between(before, after))
        self._losses = new_losses(before, after)
        self._reason = _reason(before, after)
        self._noticed = {now: was for was, now in _noticed(self.names.items(), self._edits)}

    def happened(self, split: SplitId) -> tuple[str, ...]:
        """The changes of `split`, without its name: "was discovered", "starts at 6"."""
        edited = [text for text, _ in self.edited(split)]
        known, now = self.known.get(split), self.after.splits.get(split)
        said = [] if now is None and edited else _change(known, now, self._reason)
        lost = [lost_records(loss) for loss in self._losses if loss.split == split]
        was = self._noticed.get(split.cluster) if known is not None else None
        named = [] if was is None else [_named(split._replace(cluster=was), split.cluster)]
        return (*named, *lost, *said, *edited)

    def edited(self, split: SplitId) -> tuple[tuple[str, int], ...]:
        """Those of them that commands have made, and when the command was given (ms since 1970)."""
        return edits_of(split, self._edits)


def happened(split: SplitId, before: EnumeratorState, after: EnumeratorState) -> tuple[str, ...]:
    """The changes of `split` from one state to the next, as `Step.happened` says them."""
    return Step(before, after).happened(split)


def rename_sentence(was: str, now: str) -> str:
    """Say that a query has noticed that the cluster `was` is called `now`."""
    return f"cluster {was} is now called {now}: it is the same Kafka cluster, so its positions and owners are kept"


def _named(former: SplitId, now: str) -> str:
    found = f"the query found cluster {former.cluster} under the name {now}, by Kafka's cluster id"
    return f"was called {former} before: {found}"


def _noticed(renamed: Iterable[tuple[str, str]], edits: Sequence[Edit]) -> tuple[tuple[str, str], ...]:
    told_by_edits = former_names(edits)
    return tuple((was, now) for was, now in renamed if told_by_edits.get(was) != now)


def told(loss: Loss) -> str:
    """A loss and its cause, in one line."""
    return f"{describe_loss(loss)}. {extent(loss)}"


def lost_records(loss: Loss) -> str:
    """The same as a predicate of the split: "lost records: …"."""
    return f"{verdict(loss)} records: {told(loss)}"


def loads(state: EnumeratorState) -> Sequence[int]:
    """How many splits each reader owns, by reader number."""
    counts = [0] * state.readers
    for split in state.splits.values():
        if split.owner is not None:
            counts[split.owner] += 1
    return counts


def _change(known: Split | None, split: Split | None, reason: str) -> list[str]:
    """The changes of one split."""
    if split is None:
        return [] if known is None else [FORGOTTEN]
    said: list[str] = []
    anew = known is not None and _is_anew(known, split)
    if known is None:
        said.append("was discovered")
        known = Split(split.id)
    elif anew:
        said.append("was created anew: its topic has another id")
    if split.position is not None and (known.position is None or anew):
        said.append(f"starts at {split.position if split.first is None else split.first}")
    if split.removed_at_ms is not None and known.removed_at_ms is None:
        said.append(f"was retained at {split.position}: it is no longer read")
    if split.removed_at_ms is None and known.removed_at_ms is not None:
        said.append("returned" if known.position is None or anew else f"returned, and continues at {known.position}")
    if split.finished and not known.finished:
        said.append(f"was finished at {split.position}: read to its end")
    elif split.owner is not None and known.owner is None:
        said.append(f"was given to reader {split.owner}")
    elif split.owner is not None and split.owner != known.owner:
        said.append(f"moved from reader {known.owner} to reader {split.owner}: {reason}")
    elif split.owner is None and known.owner is not None and split.removed_at_ms is None and split.position is not None:
        said.append(f"was taken from reader {known.owner}: {reason}")
    return said


def _is_anew(known: Split, split: Split) -> bool:
    """Whether its topic was created again. An id that becomes known says nothing."""
    return bool(known.topic_id) and known.topic_id != split.topic_id


def _reason(before: EnumeratorState, after: EnumeratorState) -> str:
    if before.readers != after.readers:
        return f"the number of readers went from {before.readers} to {after.readers}"
    if before.assigned_readers and before.assigned_readers != after.assigned_readers:
        gone = sorted(set(before.assigned_readers) - set(after.assigned_readers))
        come = sorted(set(after.assigned_readers) - set(before.assigned_readers))
        return "; ".join(
            f"reader{'' if len(ones) == 1 else 's'} {', '.join(map(str, ones))} {what}"
            for ones, what in ((gone, "left"), (come, "came back"))
            if ones
        )
    if before.settings != after.settings:
        return "the settings changed"
    added = sum(split.active for split in after.splits.values()) - sum(split.active for split in before.splits.values())
    if added > 0:
        return f"{counted(added, 'new partition')} made the readers uneven"
    if added < 0:
        return f"{counted(-added, 'partition')} fewer made the readers uneven"
    by_work = after.settings.balance == RATE and after.rate_moves is not None
    return f"the readers were uneven{' by work' if by_work else ''}"


def _by_topic(found: Sequence[tuple[SplitId, Any]]) -> list[tuple[str, list[Any]]]:
    groups: dict[str, list[Any]] = {}
    for key, one in found:
        groups.setdefault(f"{key.cluster}/{key.topic}", []).append(one)
    return list(groups.items())


def _partitions(splits: Sequence[SplitId]) -> str:
    """The numbers of one topic's partitions, ascending, three or more neighbours as one: `partitions 0-2, 7`."""
    runs: list[list[int]] = []
    for partition in (one.partition for one in splits):
        if runs and runs[-1][-1] + 1 == partition:
            runs[-1].append(partition)
        else:
            runs.append([partition])
    shown = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs[:PARTITIONS_SHOWN_MAX]]
    more = f", … {len(splits)} in all" if len(runs) > PARTITIONS_SHOWN_MAX else ""
    return f"partition{'' if len(splits) == 1 else 's'} {', '.join(shown)}{more}"


def _reader(owner: int | None) -> str:
    return "no reader yet" if owner is None else f"reader {owner}"
