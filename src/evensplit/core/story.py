"""What happened between two states, in terms that can be shown to people: derived, never stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evensplit.core.model import SplitId
from evensplit.core.state import EnumeratorState


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
    """Everything that changed from one state to the next, each in the order of the splits."""

    discoveries: tuple[Discovery, ...]
    moves: tuple[Move, ...]

    def sentences(self) -> tuple[str, ...]:
        """One line for each topic that was discovered and for each split that moved."""
        lines: list[str] = []
        by_topic: dict[tuple[str, str], list[Discovery]] = {}
        for found in self.discoveries:
            by_topic.setdefault(found.split[:2], []).append(found)
        for (cluster, topic), found_here in by_topic.items():
            parts = ", ".join(f"{found.split.partition} → reader {found.owner}" for found in found_here)
            lines.append(f"discovered {cluster}/{topic}: partition {parts}")
        lines.extend(
            f"moved {move.split} from reader {move.source} to reader {move.target}: {move.reason}"
            for move in self.moves
        )
        return tuple(lines)


def changes(before: EnumeratorState, after: EnumeratorState) -> Changes:
    """What was discovered and what moved from `before` to `after`, with the reason for each move."""
    discoveries: list[Discovery] = []
    moves: list[Move] = []
    reason = _reason(before, after)
    for key, split in after.splits.items():
        known = before.splits.get(key)
        if known is None:
            discoveries.append(Discovery(key, split.first if split.first is not None else split.position, split.owner))
        elif known.owner is not None and split.owner is not None and known.owner != split.owner:
            moves.append(Move(key, known.owner, split.owner, reason))
    return Changes(tuple(discoveries), tuple(moves))


def loads(state: EnumeratorState) -> Sequence[int]:
    """How many splits each reader owns, by reader number."""
    counts = [0] * state.readers
    for split in state.splits.values():
        if split.owner is not None:
            counts[split.owner] += 1
    return counts


def _reason(before: EnumeratorState, after: EnumeratorState) -> str:
    if before.readers != after.readers:
        return f"the number of readers went from {before.readers} to {after.readers}"
    added = len(after.splits) - len(before.splits)
    return (
        f"{added} new split{'' if added == 1 else 's'} made the readers uneven" if added else "the readers were uneven"
    )
