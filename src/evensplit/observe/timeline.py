"""What happened to splits and clusters, a line each: what the model keeps of changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from evensplit.core.model import SplitId
from evensplit.core.text import counted
from evensplit.explain.batch import Explanation
from evensplit.explain.changes import Changes, lost_records

BATCH_HAPPENINGS_MAX = 20
"""One batch adds at most so many of a kind: where thousands of splits move at once, the last one counts the others."""


class Kind(StrEnum):
    """What a happening is."""

    STARTED = "started"
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
    """Something that changed with one batch. `text`: one line that says what and why. `splits`: how many it is about.

    `clusters`: those that it is about, in order.
    """

    batch: int
    at_ms: int | None
    kind: Kind
    text: str
    splits: int
    clusters: tuple[str, ...] = ()


def of_changes(number: int, at_ms: int | None, found: Changes) -> Iterator[TimelineEvent]:
    """What the batch `number`, planned at `at_ms`, changed, the causes before what follows from them."""
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
    """Which clusters do not answer any more, and which do again.

    `before`, `away`: those that did not answer the last time that it was known, and now.
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
"""What becomes of one split and of several, in the order in which it is told."""


def _grouped(found: Changes) -> Iterator[tuple[Kind, list[tuple[list[SplitId], str]]]]:
    """For each kind of which there is anything: the splits of which the same is said, and what else is said of them."""
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
            # Of losses it is said in each case how sure they are.
            before = ("", "") if kind is Kind.LOST else words
            yield kind, [(keys, f"{before[len(keys) > 1]}{text}") for (_, _, text), keys in groups.items()]


def _named(keys: Sequence[SplitId], text: str) -> str:
    """What is said of splits of one topic, with its subject."""
    first = keys[0]
    return f"{first if len(keys) == 1 else f'{len(keys):,} partitions of {first.cluster}/{first.topic}'} {text}"


def _clusters(keys: Sequence[SplitId]) -> tuple[str, ...]:
    return tuple(sorted({key.cluster for key in keys}))


def _shown(ones: Sequence[object]) -> int:
    """How many of them have a line of their own, so that with the one that counts the others there are not too many."""
    return len(ones) if len(ones) <= BATCH_HAPPENINGS_MAX else BATCH_HAPPENINGS_MAX - 1


def _reached(
    explanation: Explanation, before: frozenset[str], away: frozenset[str]
) -> Iterator[tuple[Kind, list[tuple[str, str]]]]:
    """Clusters that do not answer any more, and those that do again; of those that are not read, nothing."""
    read = [one for one in explanation.clusters if one.removed_at_ms is None]
    yield (
        Kind.UNREACHABLE,
        [(one.id, f"does not answer: {one.why}") for one in read if one.id in away and one.id not in before],
    )
    yield Kind.REACHABLE, [(one.id, "answers again") for one in read if one.id in before and one.id not in away]
