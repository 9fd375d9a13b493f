"""What happened between two states, in terms that can be shown to people: derived, never stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice, pairwise
from typing import Any

from evensplit.core.events import Event
from evensplit.core.model import Split, SplitId
from evensplit.core.state import EnumeratorState

SHOWN_MAX = 3
"""How many of several things are shown in one line; of the others only how many there are."""


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
    `forgotten`: positions not kept any longer.
    """

    discoveries: tuple[Discovery, ...]
    moves: tuple[Move, ...]
    retained: tuple[SplitId, ...] = ()
    returned: tuple[SplitId, ...] = ()
    finished: tuple[SplitId, ...] = ()
    forgotten: tuple[SplitId, ...] = ()

    def sentences(self) -> tuple[str, ...]:
        """One line for each topic of which splits were discovered or went, and for each split that moved."""
        lines: list[str] = []
        for topic, found in _by_topic([(one.split, one) for one in self.discoveries]):
            parts = ", ".join(f"{one.split.partition} → {_reader(one.owner)}" for one in found)
            lines.append(f"discovered {topic}: partition {parts}")
        for keys, said, why in (
            (self.returned, "returned", ": goes on where it was"),
            (self.retained, "retained", ": not to be read any more; positions are kept for a time"),
            (self.finished, "finished", ": read to the end"),
            (self.forgotten, "forgotten", ": away for longer than positions are kept; new if seen again"),
        ):
            lines.extend(
                f"{said} {topic}: partition {', '.join(str(key.partition) for key in found)}{why}"
                for topic, found in _by_topic([(key, key) for key in keys])
            )
        lines.extend(
            f"moved {move.split} from reader {move.source} to reader {move.target}: {move.reason}"
            for move in self.moves
        )
        return tuple(lines)


def changes(before: EnumeratorState, after: EnumeratorState) -> Changes:
    """What was discovered, what moved (with the reason), came and went from `before` to `after`."""
    discoveries: list[Discovery] = []
    moves: list[Move] = []
    retained: list[SplitId] = []
    returned: list[SplitId] = []
    finished: list[SplitId] = []
    reason = _reason(before, after)
    for key, split in after.splits.items():
        known = before.splits.get(key)
        if known is None:
            discoveries.append(Discovery(key, split.first if split.first is not None else split.position, split.owner))
        elif known.owner is not None and split.owner is not None and known.owner != split.owner:
            moves.append(Move(key, known.owner, split.owner, reason))
        was_retained = known is not None and known.removed_at_ms is not None
        if split.finished and not (known and known.finished):
            finished.append(key)
        elif split.removed_at_ms is not None and not was_retained:
            retained.append(key)
        elif split.removed_at_ms is None and was_retained:
            returned.append(key)
    forgotten = tuple(key for key in before.splits if key not in after.splits)
    return Changes(tuple(discoveries), tuple(moves), tuple(retained), tuple(returned), tuple(finished), forgotten)


def why(split: SplitId, states: Sequence[EnumeratorState], events: Sequence[Event] = ()) -> tuple[str, ...]:
    """Why `split` is where it is in the last of `states`: a sentence for each change of it from state to state.

    `events`: what led from each state to the next, if known; it is then said with each change.
    """
    lines: list[str] = []
    for number, (before, after) in enumerate(pairwise(states)):
        said = _change(before.splits.get(split), after.splits.get(split), _reason(before, after))
        if said:
            cause = f" (after {describe(events[number])})" if number < len(events) else ""
            lines.extend(f"{split} {one}{cause}" for one in said)
    return tuple(lines)


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
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in told if value not in ((), {}, "", None))
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
        f"{state.readers} readers, {len(session.registrations)} of them registered"
        f"{' and assigned to' if session.assigned else ''}, generation {state.generation}; clusters "
        f"{_shown(tuple(state.clusters))}; {len(state.splits)} splits"
        + "".join(f", {counts[name]} {name}" for name in sorted(counts))
        + ("" if state.begun else "; no batch yet")
        + "".join(f"; {what} {_shown(value)}" for what, value in known if value)
    )


def _change(known: Split | None, split: Split | None, reason: str) -> list[str]:
    """What became of one split."""
    if split is None:
        return [] if known is None else ["was forgotten: it was away for longer than positions are kept"]
    said: list[str] = []
    if known is None:
        said.append("was discovered")
        known = Split(split.id)
    elif known.topic_id and known.topic_id != split.topic_id:
        said.append("was created anew: another topic id")
    if known.position is None and split.position is not None:
        said.append(f"starts at {split.position}")
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


def _reason(before: EnumeratorState, after: EnumeratorState) -> str:
    if before.readers != after.readers:
        return f"the number of readers went from {before.readers} to {after.readers}"
    if before.dealt_to and before.dealt_to != after.dealt_to:
        gone = sorted(set(before.dealt_to) - set(after.dealt_to))
        come = sorted(set(after.dealt_to) - set(before.dealt_to))
        return "; ".join(
            f"reader{'' if len(ones) == 1 else 's'} {', '.join(map(str, ones))} {what}"
            for ones, what in ((gone, "went"), (come, "came back"))
            if ones
        )
    if before.settings != after.settings:
        return "the settings changed"
    added = sum(split.active for split in after.splits.values()) - sum(split.active for split in before.splits.values())
    if added > 0:
        return f"{added} new split{'' if added == 1 else 's'} made the readers uneven"
    if added < 0:
        return f"{-added} split{'' if added == -1 else 's'} fewer made the readers uneven"
    return "the readers were uneven"


def _by_topic(found: Sequence[tuple[SplitId, Any]]) -> list[tuple[str, list[Any]]]:
    groups: dict[str, list[Any]] = {}
    for key, one in found:
        groups.setdefault(f"{key.cluster}/{key.topic}", []).append(one)
    return list(groups.items())


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
