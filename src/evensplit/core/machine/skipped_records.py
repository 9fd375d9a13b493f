"""Records that tasks skipped because they were gone: inferred, since a task has no way to say so (law S9).

`BatchPlanned` notes the ranges that the tasks of the batch read, `BatchOpened` that they have read them, and
`ReadLogsPolled` compares them with what a later poll says is still there. A range that is gone by then may have been
skipped. A record that went after it had been read is counted as well: the two cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from evensplit.core.machine.events import BatchOpened, ReadLogsPolled
from evensplit.core.machine.transaction import Transaction
from evensplit.core.model import Cause, HandedOut, Loss, Range, Split, SplitId
from evensplit.core.state.open_questions import ID_CONFLICT_ANSWERS_MIN, id_conflict_wait_ms
from evensplit.core.state.settings import DECLARE
from evensplit.core.state.state import EnumeratorState, ReadConflict, ReadRanges, TopicName


def note_planned(transaction: Transaction, ranges: Sequence[Range]) -> None:
    """The tasks of the batch that is planned now read `ranges`, and may skip of them what is gone."""
    _note(transaction, ranges, HandedOut.EARLIER, polls=None)


def note_read(transaction: Transaction, event: BatchOpened) -> None:
    """The tasks of the batch before have read: only polls that are sent from now on say whether all was there.

    In a new session, the state says what its last batch read: all up to the position but what a command left out. A
    batch that this process had done again is noted first.
    """
    session = transaction.session
    waiting = {
        name: tuple(one._replace(polls=event.polls) if one.polls is None else one for one in read)
        for name, read in session.read.items()
    }
    if waiting != session.read:
        transaction.tell(read=waiting)
    if session.opened:
        return
    transaction.tell(opened=True)
    if transaction.session.loss == DECLARE:
        again = [part for part in event.repeated if part.split in transaction.splits]
        _note(transaction, again, HandedOut.EARLIER, polls=event.polls)
    left_out = (Range(split, at, to) for edit in transaction.edits for split, at, to in edit.jumps if to > at)
    known: dict[SplitId, list[Range]] = {}
    for part in (*event.repeated, *left_out):
        known.setdefault(part.split, []).append(part)
    restored = [split for split in transaction.splits.values() if split.read_from is not None]
    parts = [part for split in restored for part in _without(split, known.get(split.id, ()))]
    _note(transaction, parts, HandedOut.BEFORE_RESTART, polls=event.polls)


def _note(transaction: Transaction, ranges: Iterable[Range], handed_out: HandedOut, *, polls: int | None) -> None:
    by_cluster: dict[str, list[Range]] = {}
    for part in ranges:
        by_cluster.setdefault(part.split.cluster, []).append(part)
    if not by_cluster:
        return
    read = dict(transaction.session.read)
    for name, parts in by_cluster.items():
        topic_ids = {part.split: transaction.splits[part.split].topic_id for part in parts}
        read[name] = (*read.get(name, ()), ReadRanges(tuple(parts), topic_ids, handed_out, polls))
    transaction.tell(read=read)


def _without(split: Split, known: Iterable[Range]) -> Iterator[Range]:
    """The ranges from `read_from` to the position of `split` that are not `known`."""
    begin, end = split.read_from or 0, split.position or 0
    for part in sorted(known):
        if begin < min(part.start, end):
            yield Range(split.id, begin, min(part.start, end))
        begin = max(begin, part.end)
    if begin < end:
        yield Range(split.id, begin, end)


def read_logs_polled(transaction: Transaction, event: ReadLogsPolled) -> None:
    """Declare the parts of the ranges that had been read before this poll and that are gone.

    A partition that is missing from one poll is not gone yet: that takes a second complete one, a discovery interval
    after the first (see `Transaction.missed`). Without a leader, it is not known what a log still has.
    """
    session, name = transaction.session, event.cluster
    answer, discovery = session.compared.get(name, (0, 0))
    if name not in session.read or event.answer <= answer:
        return
    before = [one for one in session.read[name] if one.is_before(event.answer)]
    if not before:
        return
    doubted = _doubted(transaction, event, before)
    starts = {key: start for key, start in event.starts.items() if key in event.listed and key not in doubted}
    deleted = _deleted(transaction, event, before, complete=bool(event.discovery) and event.discovery != discovery)
    settled = frozenset((*starts, *deleted))
    later: list[ReadRanges] = []
    declared: dict[SplitId, bool] = {}
    for one in session.read[name]:
        if not one.is_before(event.answer):
            later.append(one)
            continue
        sure = [part for part in one.ranges if part.split in settled]
        for loss in skipped(sure, one.topic_ids, event.listed, starts, one.handed_out):
            transaction.lose(loss, never_fatal=True)
            declared[loss.split] = True
        left = tuple(
            part
            for part in one.ranges
            if part.split not in settled and (part.split in event.listed or session.wants(part.split))
        )
        if left:
            later.append(one._replace(ranges=left))
    read = {other: ranges for other, ranges in session.read.items() if other != name}
    open_topics = {part.split[:2] for one in later for part in one.ranges}
    conflicts = transaction.session.read_conflicts
    transaction.tell(
        read={**read, name: tuple(later)} if later else read,
        compared={**session.compared, name: (event.answer, event.discovery or discovery)},
        read_missing={key: at for key, at in transaction.session.read_missing.items() if key not in settled},
        read_conflicts={
            topic: one if topic[0] != name or topic in open_topics else ReadConflict(one.topic_id)
            for topic, one in conflicts.items()
        },
    )
    _keep_open(transaction, declared, later)


def _keep_open(transaction: Transaction, declared: Iterable[SplitId], later: Sequence[ReadRanges]) -> None:
    """Let the state say of splits of which it declares losses that only what is compared `later` is open.

    A host may write it down before the next batch is planned, and another process would declare the same again.
    """
    for key in declared:
        split = transaction.get(key)
        if split is not None and split.read_from is not None:
            ours = [one for one in later if key in one.topic_ids and not is_former(one, key, split)]
            starts = [part.start for one in ours for part in one.ranges if part.split == key]
            transaction.put(split._replace(read_from=min(starts, default=None)))


def _doubted(transaction: Transaction, event: ReadLogsPolled, before: Iterable[ReadRanges]) -> Collection[SplitId]:
    """Return the splits of whose logs this poll may say what holds of another topic; note which topics it names.

    Once a poll has named another id, it takes two in a row, of different brokers and some time apart, until the known
    one counts again: a broker that lags would give the same answer twice. One that lacks the topic ends such a row. A
    log that ends before its position may be that of another topic as well, whose id this broker does not know yet.
    """
    session, asked_ms = transaction.session, transaction.asked_ms(event.asked)
    quiet = not (session.id_conflicts or session.former_topic_ids)
    keys = dict.fromkeys(part.split for one in before for part in one.ranges)
    doubted = {} if quiet else {key: True for key in keys if session.doubts(key, transaction.get(key))}
    # What is to be believed of the ids of these is decided by what discovery finds.
    undecided = {key[:2]: True for key in doubted}
    named: dict[TopicName, bool] = {}
    known_again: dict[SplitId, bool] = {}
    lacked = {key[:2]: True for key in keys}
    for key in keys:
        if key in event.listed:
            lacked.pop(key[:2], None)
    conflicts = {
        topic: one._replace(answers=0) if topic in lacked else one
        for topic, one in session.read_conflicts.items()
        if topic not in undecided
    }
    for key in keys:
        split, listed = transaction.get(key), event.listed.get(key)
        if key in doubted or split is None or not (split.topic_id and listed):
            continue
        if listed != split.topic_id:
            named[key[:2]] = True
            conflicts[key[:2]] = ReadConflict(split.topic_id)
        elif (seen := conflicts.get(key[:2])) is not None and seen.topic_id == split.topic_id:
            known_again[key] = True
    for topic in dict.fromkeys(key[:2] for key in known_again if key[:2] not in named):
        one = conflicts[topic]
        since_ms = asked_ms if one.since_ms is None else one.since_ms
        waited = asked_ms - since_ms >= id_conflict_wait_ms(session)
        answers = one.answers + event.asked.turned
        if answers >= ID_CONFLICT_ANSWERS_MIN and event.asked.turned and waited:
            del conflicts[topic]
        else:
            conflicts[topic] = one._replace(answers=answers, since_ms=since_ms)
    doubted.update((key, True) for key in known_again if key[:2] in conflicts)
    short = session.truncation_observations
    doubted.update((key, True) for key in keys if key in short and key[:2] not in named)
    if conflicts != session.read_conflicts:
        transaction.tell(read_conflicts=conflicts)
    return doubted


def _deleted(
    transaction: Transaction, event: ReadLogsPolled, before: Iterable[ReadRanges], *, complete: bool
) -> Collection[SplitId]:
    """Return the splits that were read and are deleted, as two complete polls say; note those that are missing once."""
    session, name = transaction.session, event.cluster
    read = {part.split for one in before for part in one.ranges}
    lacking = sorted(key for key in read.difference(event.listed) if session.wants(key))
    since = {key: at for key, at in session.read_missing.items() if key.cluster != name or key in lacking}
    deleted: list[SplitId] = []
    if complete:
        deleted, since = transaction.missing_twice(since, lacking, event.asked)
    if since != session.read_missing:
        transaction.tell(read_missing=since)
    return deleted


def settle_recreated(transaction: Transaction) -> None:
    """Declare the ranges that were read of topics which were created anew since: no later poll says more about them."""
    read: dict[str, tuple[ReadRanges, ...]] = {}
    recreated: dict[TopicName, bool] = {}
    for name, noted in transaction.session.read.items():
        left: list[ReadRanges] = []
        for one in noted:
            former = frozenset(
                part.split
                for part in one.ranges
                if one.polls is not None and is_former(one, part.split, transaction.get(part.split))
            )
            recreated.update((part.split[:2], True) for part in one.ranges if part.split in former)
            for part in one.ranges:
                if part.split in former:
                    loss = Loss(part.split, Cause.RECREATED, part.start, None, part.size, one.handed_out)
                    transaction.lose(loss, never_fatal=True)
            parts = tuple(part for part in one.ranges if part.split not in former)
            if parts:
                left.append(one._replace(ranges=parts) if former else one)
        if left:
            read[name] = tuple(left)
    if read != transaction.session.read:
        kept = {part.split for noted in read.values() for one in noted for part in one.ranges}
        missing = {key: at for key, at in transaction.session.read_missing.items() if key in kept}
        conflicts = {key: one for key, one in transaction.session.read_conflicts.items() if key not in recreated}
        transaction.tell(read=read, read_missing=missing, read_conflicts=conflicts)


def is_former(one: ReadRanges, key: SplitId, split: Split | None) -> bool:
    """Whether `key` was read of a topic that was created anew since; `split`: as it is now."""
    return split is not None and bool(one.topic_ids[key]) and split.topic_id not in ("", one.topic_ids[key])


def skipped(
    ranges: Iterable[Range],
    topic_ids: Mapping[SplitId, str],
    listed: Mapping[SplitId, str],
    starts: Mapping[SplitId, int],
    handed_out: HandedOut = HandedOut.EARLIER,
) -> tuple[Loss, ...]:
    """The losses by which `ranges` are not there any more.

    Args:
        topic_ids: the topic ids that the ranges were meant for, empty where there are none.
        listed: the topic id of each split that there is now.
        starts: where the logs begin now; a log that is not in it still has everything.
        handed_out: when the ranges were handed out.
    """
    found: list[Loss] = []
    for part in ranges:
        if part.split not in listed:
            found.append(Loss(part.split, Cause.DELETED, part.start, None, part.size, handed_out))
        elif topic_ids[part.split] and listed[part.split] and listed[part.split] != topic_ids[part.split]:
            found.append(Loss(part.split, Cause.RECREATED, part.start, None, part.size, handed_out))
        elif (start := starts.get(part.split, part.start)) > part.start:
            size = min(start, part.end) - part.start
            found.append(Loss(part.split, Cause.AGED_OUT, part.start, start, size, handed_out))
    return tuple(found)


def uncompared(state: EnumeratorState) -> Mapping[SplitId, int]:
    """Split -> the start of the oldest range of its present incarnation that was read and not compared yet."""
    found: dict[SplitId, int] = {}
    for noted in state.session.read.values():
        for one in noted:
            for part in one.ranges:
                split = state.splits.get(part.split)
                if split is not None and not is_former(one, part.split, split):
                    found[part.split] = min(part.start, found.get(part.split, part.start))
    return found


def is_unsaid(start: EnumeratorState, state: EnumeratorState, *, last: bool) -> bool:
    """Whether `state` tells a later process more about ranges that were read than `start`, which its batch begins at.

    So it does after a batch that was done again with other settings, or over batches that no log has.

    Args:
        last: the run ends, so it also counts when more has been compared than `start` says.
    """
    open_from = uncompared(state)
    for key, begin in open_from.items():
        split = start.splits.get(key)
        if split is None or begin >= (split.position or 0):
            continue
        if split.read_from is None or begin < split.read_from:
            return True
    return last and any(
        split.read_from is not None and split.read_from < open_from.get(key, split.position or 0)
        for key, split in start.splits.items()
    )
