"""Edits of a checkpoint: what commands such as `evensplit rewind` make of the state at the end of the last batch.

Spark repeats a batch that is planned and not done, and plans the next one from where the last one ended. So an edit
goes into a batch that is not done: into the last one, or, if that is done, into one after it that reads nothing else.
The query does that batch first when it starts. Batches before it stay as they are, and so do their numbers, by which
sinks know what they have already.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, zip_longest
from operator import attrgetter

from evensplit.core.batch.plan import batch_ranges, beginnings, offsets_by_split
from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import BatchOpened, BatchPlanned
from evensplit.core.machine.transaction import Transaction
from evensplit.core.model import (
    Cluster,
    Range,
    Readable,
    Split,
    SplitId,
    Topic,
    held_called,
    scopes,
    split_called,
    topic_names,
)
from evensplit.core.state.edits import Edit, Jump, former_names, readable_called, scope_text
from evensplit.core.state.state import EnumeratorState, Session, edits_between
from evensplit.core.state.validation import COUNT_MAX
from evensplit.core.suggest import meant
from evensplit.core.text import some
from evensplit.errors import EditRefused

NAMED_MAX = 5
RANGES_MAX = 100
"""So many ranges of one partition can be skipped at once: each is an edit of its own in the state of the query."""
LATER = "let the query do it first, and skip then"
SKIP = "skip"


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """The batch that an edit goes into: it is planned, perhaps by an earlier edit, and not done."""

    start: EnumeratorState
    """Where it begins."""
    end: EnumeratorState
    """Where it ends."""
    is_new: bool
    """No file has it yet: the last batch is done, and this is the one after it."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a command was told, for the history of the checkpoint."""

    command: str
    said: str
    at_ms: int

    def edit(
        self, jumps: Iterable[Jump] = (), dropped: tuple[Readable, ...] = (), renamed: tuple[tuple[str, str], ...] = ()
    ) -> Edit:
        """The edit with what it came to."""
        return Edit(self.command, self.said, self.at_ms, tuple(sorted(jumps)), dropped, renamed)


def open_batch(start: EnumeratorState, end: EnumeratorState, *, done: bool) -> OpenBatch:
    """The batch that an edit goes into, where `start` to `end` is the last batch of a checkpoint, and `done` or not.

    A state that was made of the positions of another source has no readers yet: the query deals its batch out.

    Raises EditRefused for a query that has not planned a batch.
    """
    if not end.begun:
        raise EditRefused("the query has planned no batch yet, so there is nothing to edit. Let it run one batch first")
    idle = bool(end.edits) and not edits_between(start, end)
    if not done and not idle:
        return OpenBatch(start, end, False)
    # One that reads nothing of this source ends with the edits of a batch before it, which are not made again.
    after = end
    for event in (BatchOpened(), BatchPlanned({})):
        after = step(after, event).state
    return OpenBatch(end, replace(after, session=Session()), done)


def rewind(batch: OpenBatch, targets: Mapping[SplitId, int], told: Told) -> EnumeratorState:
    """The end of `batch`, so that the batches after it read each split from its offset in `targets` on.

    The batch itself reads what it was to read: a sink may have that already. Splits that are not beyond their targets
    stay where they are, and so does what is not read any more.

    Raises EditRefused if no split goes back.
    """
    change = Transaction(batch.end)
    jumps: list[Jump] = []
    for key in sorted(targets):
        split, target = batch.end.splits.get(key), targets[key]
        if split is None or not may_go_back(batch.end, split) or (split.position or 0) <= target:
            continue
        _check_offset(key, target)
        jumps.append(Jump(key, split.position or 0, target))
        begin = split.read_from if split.read_from is not None and split.read_from < target else None
        change.put(split._replace(position=target, epoch=None, read_from=begin, finished=False))
    if not jumps:
        raise EditRefused(
            f"nothing goes back: {_stands(batch.end, sorted(targets))}; expected at least one partition that is beyond "
            "the place to rewind to"
        )
    change.reached_ms = None
    return _edited(batch, change, told.edit(jumps))


def skip(batch: OpenBatch, ranges: Iterable[Range], told: Told) -> EnumeratorState:
    """The end of `batch`, so that the offsets in `ranges` are never read.

    What is before one of them and unread is read by the batch itself, which ends behind the last one of each split. An
    edit has one jump of each split at most, so there are as many edits as one split has ranges, all of one command.

    Raises EditRefused for a split that is not read, offsets that were read already, and more than RANGES_MAX ranges.
    """
    change, read = Transaction(batch.end), offsets_by_split(batch_ranges(batch.start, batch.end))
    wanted = {
        split: [Jump(*one) for one in of] for split, of in groupby(_joined(batch, ranges), key=attrgetter("split"))
    }
    begins = beginnings(batch.start, batch.end, wanted)
    for split, jumps in wanted.items():
        found = batch.end.splits[split]
        if len(jumps) > RANGES_MAX:
            raise EditRefused(
                f"partition {split}: {len(jumps):,} ranges are to be skipped at once; expected {RANGES_MAX} at most, "
                "since each is kept in the state of the query. Skip the first ones, let the query do that, and skip "
                "the next ones then; or join ranges, with what is between them"
            )
        if found.position is None or not (found.active or (found.finished and split in read)):
            raise EditRefused(
                f"partition {split} is {found.lifecycle}: nothing is read of it, so there is nothing to skip"
            )
        position = found.position
        begin = min(begins[split], position)
        for jump in jumps:
            _check_skip(batch, found, jump, begin, position)
            position = max(position, jump.to)
        change.put(found._replace(position=position, epoch=found.epoch if position == found.position else None))
    rounds = zip_longest(*wanted.values())
    after = _edited(batch, change, *(told.edit(one for one in ones if one is not None) for ones in rounds))
    _check_once(batch, after, wanted)
    return after


def _joined(batch: OpenBatch, ranges: Iterable[Range]) -> list[Range]:
    """The same offsets, ascending, in as few ranges as there can be. Raises EditRefused for what is no range."""
    found: list[Range] = []
    for one in sorted(ranges):
        split, first, to = one
        known(batch.end, split)
        _check_offset(split, first)
        _check_offset(split, to)
        if to <= first:
            raise EditRefused(
                f"partition {split}: expected a first offset at or before the last one; found {first} and {to - 1}"
            )
        if found and found[-1].split == split and first <= found[-1].end:
            found[-1] = found[-1]._replace(end=max(found[-1].end, to))
        else:
            found.append(one)
    return found


def _check_skip(batch: OpenBatch, found: Split, jump: Jump, begin: int, position: int) -> None:
    """Raise EditRefused if a range cannot be left out.

    Args:
        begin: where the batch begins.
        position: where it ends, with the ranges before.
    """
    split, first, to = jump
    if first < begin:
        raise EditRefused(
            f"partition {split}: offset {first} was read by an earlier batch, so the sink has it; expected offsets "
            f"from {begin} on, which is the next one to be read"
        )
    if not batch.is_new and first > position:
        beyond = f", and what is left out goes on to {position - 1}" if position != found.position else ""
        raise EditRefused(
            f"partition {split}: the batch that is not done ends at offset {found.position}{beyond}. It would have "
            f"to read what is unread before offset {first}, and a sink that has had it already would not take more. "
            f"{_cure(batch, split, first)}"
        )
    if found.stop is not None and to > found.stop:
        raise EditRefused(f"partition {split} ends at offset {found.stop}; expected a last offset before that")


def _cure(batch: OpenBatch, split: SplitId, first: int) -> str:
    """What to do where a range begins, at `first`, after the end of the batch that is not done."""
    edits, known = batch.end.edits, batch.start.splits.get(split)
    back = next((edit for edit in reversed(edits) if _goes_back(edit, split)), None)
    # What earlier batches have read could not be skipped any more once the way back is taken back.
    if back is not None and (known is None or first >= (known.position or 0)):
        return f"Take `{back.line}` back with `evensplit undo`, skip, and go back then"
    if edits and edits[-1].command == SKIP:
        return (
            f"If the batch is there only by `{edits[-1].line}`, take that back with `evensplit undo`, and give both "
            f"ranges to one `evensplit skip`. Otherwise, {LATER}"
        )
    return f"{LATER[0].upper()}{LATER[1:]}"


def drop(batch: OpenBatch, scope: Readable, told: Told) -> EnumeratorState:
    """The end of `batch` without what is in `scope`: its positions are forgotten, and the batch reads nothing of it.

    Raises EditRefused for what is not known, and if nothing would be left.
    """
    gone = [split for key, split in batch.end.splits.items() if scope in scopes(key)]
    if not is_known(batch.end, scope):
        raise EditRefused(f"there is no {scope_text(scope)} in the checkpoint{_instead(batch.end, scope, topics=True)}")
    change = Transaction(batch.end)
    for split in gone:
        change.drop(split)
    if isinstance(scope, Cluster):
        del change.clusters[scope.id]
    if not change.splits:
        raise EditRefused(
            f"without {scope_text(scope)}, no partition is left; expected something that the query goes on with. To "
            "read it anew, go back with `evensplit rewind --to earliest`, or start the query with another checkpoint"
        )
    earlier = tuple(edit.without(scope) for edit in batch.end.edits)
    return _edited(batch, change, told.edit(dropped=(scope,)), earlier=earlier)


def rename_cluster(batch: OpenBatch, before: str, after: str, told: Told) -> EnumeratorState:
    """The end of `batch`, where the cluster `before` is called `after`. Owners and positions stay.

    Raises EditRefused for a cluster that is not known, and a name that is taken.
    """
    end = batch.end
    if before not in end.clusters:
        raise EditRefused(f"there is no cluster {before} in the checkpoint{_instead(end, Cluster(before))}")
    if after in end.clusters:
        raise EditRefused(
            f"there is a cluster {after} in the checkpoint already; expected a new name. If its positions are not "
            f"wanted any more, drop it first"
        )
    former = former_names(end.edits)
    if after in former.values() or (after in batch.start.clusters and former.get(after) != before):
        raise EditRefused(
            f"cluster {after} is still there where the batch begins; let the query run once first, so that its name is "
            "free"
        )
    change = Transaction(end)
    change.clusters[after] = replace(change.clusters.pop(before), id=after)
    for key, split in end.splits.items():
        if key.cluster == before:
            change.drop(split)
            change.put(split._replace(id=key._replace(cluster=after)))
    names = {before: after}
    change.eligible = {
        reader: tuple(readable_called(one, names) for one in readable) for reader, readable in end.eligible.items()
    }
    change.losses = [loss._replace(split=split_called(loss.split, names)) for loss in end.losses]
    change.held = tuple(sorted(held_called(one, names) for one in end.held))
    earlier = tuple(edit.called(names) for edit in end.edits)
    return _edited(batch, change, told.edit(renamed=((before, after),)), earlier=earlier)


def note(batch: OpenBatch, told: Told) -> EnumeratorState:
    """The end of `batch` with an edit that changes nothing, as in a copy that a second query goes on from."""
    return _edited(batch, Transaction(batch.end), told.edit())


def may_go_back(state: EnumeratorState, split: Split) -> bool:
    """Whether a split is read or, having been read to its end, would be: not if it, or its cluster, is removed."""
    is_away = split.removed_at_ms is not None or state.clusters[split.id.cluster].removed_at_ms is not None
    return split.position is not None and not is_away


def is_known(state: EnumeratorState, scope: Readable) -> bool:
    """Whether there is anything in `scope`."""
    if isinstance(scope, SplitId):
        return scope in state.splits
    return (isinstance(scope, Cluster) and scope.id in state.clusters) or any(
        scope in scopes(key) for key in state.splits
    )


def known(state: EnumeratorState, key: SplitId) -> Split:
    """The split `key`. Raises EditRefused, with what there is, if it is not known."""
    split = state.splits.get(key)
    if split is None:
        raise EditRefused(f"there is no partition {key} in the checkpoint{_instead(state, key)}")
    return split


def _edited(
    batch: OpenBatch, change: Transaction, *edits: Edit, earlier: tuple[Edit, ...] | None = None
) -> EnumeratorState:
    """The state that `change` makes; an edit moves no split to another reader, so owners do not count as changed."""
    before = batch.end.edits if earlier is None else earlier
    return replace(change.state(), generation=batch.end.generation, session=batch.end.session, edits=(*before, *edits))


def _check_offset(key: SplitId, offset: int) -> None:
    if not 0 <= offset <= COUNT_MAX:
        raise EditRefused(f"partition {key}: {offset} is not an offset; expected a number from 0 to {COUNT_MAX}")


def _goes_back(edit: Edit, split: SplitId) -> bool:
    jump = edit.jump_of(split)
    return jump is not None and jump.to < jump.at


def _check_once(batch: OpenBatch, after: EnumeratorState, splits: Container[SplitId]) -> None:
    """Raise EditRefused if the batch would read an offset of one of `splits` twice."""
    for one, other in pairwise(batch_ranges(batch.start, after)):
        split = one.split
        if split == other.split and split in splits and other.start < one.end:
            raise EditRefused(
                f"partition {split}: the batch reads offset {other.start} already, before it goes back; let the query "
                "run once first, and skip then"
            )


def _stands(state: EnumeratorState, keys: Sequence[SplitId]) -> str:
    said = [
        f"{key} is at {split.position}" if (split := state.splits.get(key)) is not None else f"{key} is not known"
        for key in keys
    ]
    return some(said, NAMED_MAX) or "no partition is meant"


def _instead(state: EnumeratorState, scope: Readable, *, topics: bool = False) -> str:
    """What there is instead of `scope`, as the end of a sentence. `topics`: they could have been meant by a cluster."""
    if isinstance(scope, Cluster):
        there = list(state.clusters)
        if topics:
            there += topic_names(state.splits)
    elif isinstance(scope, Topic):
        there = topic_names(state.splits)
    else:
        there = [str(key) for key in state.splits if key[:2] == scope[:2]] or [str(key) for key in state.splits]
    question = meant(scope_text(scope), there)
    return f"; it has {some(there, NAMED_MAX) or 'none'}{f'; {question}' if question else ''}"
