"""Events of splits and clusters, a line each: all that the model keeps of past changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from evensplit.core.model import SplitId
from evensplit.core.text import counted
from evensplit.explain.batch import Explanation
from evensplit.explain.changes import Changes, lost_records, rename_sentence
from evensplit.explain.edited import edit_sentence

BATCH_HAPPENINGS_MAX = 20
"""The most events of a kind that one batch adds. If thousands of splits move at once, the last one counts the rest."""


class Kind(StrEnum):
    """The kind of an event."""

    STARTED = "started"
    EDITED = "edited"
    RENAMED = "renamed"
    DISCOVERED = "discovered"
    MOVED = "moved"
    RETAINED = "retained"
    RETURNED = "returned"
    FINISHED = "finished"
    FORGOTTEN = "forgotten"
    RECREATED = "recreated"
    LOST = "lost"
    UNREACHABLE = "unreachable"
    REACHABLE = "reachable"


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """One change that came with a batch."""

    batch: int
    at_ms: int | None
    """When the batch was planned or, of an edit, when that was made; None: not known."""
    kind: Kind
    text: str
    """The change and its reason, in one line."""
    splits: int
    """How many splits it is about."""
    clusters: tuple[str, ...] = ()
    """The clusters that it is about, in order."""


def of_changes(number: int, at_ms: int | None, found: Changes) -> Iterator[TimelineEvent]:
    """The events of the batch `number`, planned at `at_ms`, causes before effects."""
    for edit in found.edits:
        keys = [jump.split for jump in edit.jumps]
        yield TimelineEvent(number, edit.at_ms, Kind.EDITED, edit_sentence(edit), len(keys), _clusters(keys))
    for was, now in found.noticed[: _shown(found.noticed)]:
        yield TimelineEvent(number, at_ms, Kind.RENAMED, rename_sentence(was, now), 0, (now,))
    if left := sorted(now for _, now in found.noticed[_shown(found.noticed) :]):
        yield TimelineEvent(number, at_ms, Kind.RENAMED, f"{len(left)} more clusters have new names", 0, tuple(left))
    for kind, groups in _grouped(found):
        for keys, text in groups[: _shown(groups)]:
            yield TimelineEvent(number, at_ms, kind, _named(keys, text), len(keys), _clusters(keys))
        more = [key for keys, _ in groups[_shown(groups) :] for key in keys]
        if more:
            text = f"{counted(len(more), 'more partition')} {_SAID[kind][len(more) > 1]}"
            yield TimelineEvent(number, at_ms, kind, text, len(more), _clusters(more))


def of_clusters(
    number: int, at_ms: int | None, explanation: Explanation, before: frozenset[str], away: frozenset[str]
) -> Iterator[TimelineEvent]:
    """The clusters that no longer answer, and those that answer again.

    `before`, `away`: those that did not answer when that was last known, and now.
    """
    for kind, ones in _reached(explanation, before, away):
        for name, text in ones[: _shown(ones)]:
            yield TimelineEvent(number, at_ms, kind, f"cluster {name} {text}", 0, (name,))
        left = [name for name, _ in ones[_shown(ones) :]]
        if left:
            what = "do not answer" if kind is Kind.UNREACHABLE else "answer again"
            yield TimelineEvent(number, at_ms, kind, f"{len(left)} more clusters {what}", 0, tuple(sorted(left)))


_SAID = {
    Kind.RECREATED: ("was created anew", "were created anew"),
    Kind.LOST: ("lost records", "lost records"),
    Kind.DISCOVERED: ("was discovered", "were discovered"),
    Kind.RETURNED: ("returned, and continues where it stopped", "returned, and continue where they stopped"),
    Kind.RETAINED: ("is no longer read; its position is kept", "are no longer read; their positions are kept"),
    Kind.FINISHED: ("was read to its end", "were read to their ends"),
    Kind.FORGOTTEN: ("was away for too long and is forgotten", "were away for too long and are forgotten"),
    Kind.MOVED: ("moved", "moved"),
}
"""The predicate for one partition and for several, in the order of the events."""


def _grouped(found: Changes) -> Iterator[tuple[Kind, list[tuple[list[SplitId], str]]]]:
    """For each kind that occurred: groups of splits with the same text, and that text."""
    said: dict[Kind, Iterable[tuple[SplitId, str]]] = {
        Kind.RECREATED: ((key, "") for key in found.recreated),
        Kind.LOST: ((loss.split, lost_records(loss)) for loss in found.losses),
        Kind.DISCOVERED: ((one.split, "") for one in found.discoveries),
        Kind.RETURNED: ((key, "") for key in found.returned),
        Kind.RETAINED: ((key, "") for key in found.retained),
        Kind.FINISHED: ((key, "") for key in found.finished),
        Kind.FORGOTTEN: ((key, "") for key in found.forgotten),
        Kind.MOVED: (
            (move.split, f" from reader {move.source} to reader {move.target}: {move.reason}") for move in found.moves
        ),
    }
    for kind, words in _SAID.items():
        groups: dict[tuple[str, str, str], list[SplitId]] = {}
        for key, text in said[kind]:
            groups.setdefault((key.cluster, key.topic, text), []).append(key)
        if groups:
            # Each loss says itself how certain it is.
            before = ("", "") if kind is Kind.LOST else words
            yield kind, [(keys, f"{before[len(keys) > 1]}{text}") for (_, _, text), keys in groups.items()]


def _named(keys: Sequence[SplitId], text: str) -> str:
    """The text with its subject: one partition, or several of one topic."""
    first = keys[0]
    return f"{first if len(keys) == 1 else f'{len(keys):,} partitions of {first.cluster}/{first.topic}'} {text}"


def _clusters(keys: Sequence[SplitId]) -> tuple[str, ...]:
    return tuple(sorted({key.cluster for key in keys}))


def _shown(ones: Sequence[object]) -> int:
    """How many have a line of their own, so that one more line can count the rest."""
    return len(ones) if len(ones) <= BATCH_HAPPENINGS_MAX else BATCH_HAPPENINGS_MAX - 1


def _reached(
    explanation: Explanation, before: frozenset[str], away: frozenset[str]
) -> Iterator[tuple[Kind, list[tuple[str, str]]]]:
    """The same as groups, for clusters that are read."""
    read = [one for one in explanation.clusters if one.removed_at_ms is None]
    yield (
        Kind.UNREACHABLE,
        [
            (one.id, f"{'is another one' if one.another else 'does not answer'}: {one.why}")
            for one in read
            if one.id in away and one.id not in before
        ],
    )
    yield Kind.REACHABLE, [(one.id, "answers again") for one in read if one.id in before and one.id not in away]
