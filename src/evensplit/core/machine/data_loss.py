"""Records that were to be read and are gone: how that is noticed, and where reading goes on (law S9).

A loss ends the run, or it is declared: then it is part of the state at the end of the batch, and reading goes on with
the records that there are.

Leader epochs tell whether a log still is the one that was read (KIP-101, KIP-320). Every leader of a partition has an
epoch of its own, each a later one than those before, and records keep that of the leader that wrote them. So they
ascend with the offsets. Where a broker leads that did not have all records, which takes an unclean election, the log
goes on from where it ends there, with a later epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from evensplit.core.machine.events import LogsObserved, RecordsLost
from evensplit.core.machine.transaction import Transaction
from evensplit.core.model import Cause, EpochTable, Loss, Split, SplitId
from evensplit.core.state.open_questions import truncation_wait_ms
from evensplit.core.state.state import TruncationObservation
from evensplit.core.state.validation import EXPECTED_OFFSETS, wrong_offsets
from evensplit.errors import TransitionError

TRUNCATION_POLLS_MIN = 3
"""A log is truncated if so many polls in a row find its end before the position; fewer can come from a stale broker."""


def unread(transaction: Transaction, split: Split, cause: Cause) -> Loss | None:
    """Return the loss of the unread records of a split that is gone, by the last end of its log that was seen.

    None where there is no loss: it was read to its end, or never had a start. Of a split that is settled, only records
    that were seen since then can be lost.
    """
    if split.position is None:
        return None
    end = transaction.session.ends.get(split.id.cluster, {}).get(split.id)
    if end is not None and split.stop is not None:
        end = min(end, split.stop)
    if end is None:
        return None if split.settled else Loss(split.id, cause, split.position)
    return Loss(split.id, cause, split.position, end, end - split.position) if end > split.position else None


def settle(transaction: Transaction, split: Split, loss: Loss | None) -> Split:
    """Return a split that is gone, and whose unread records (`loss`) are declared: they are not a second time."""
    if loss is not None:
        transaction.declared.append(split.id)
    return split._replace(settled=True)


def logs_observed(transaction: Transaction, event: LogsObserved) -> None:
    """Compare the logs with the positions in them, and note where they end."""
    cluster = transaction.clusters.get(event.cluster)
    if cluster is None or cluster.removed_at_ms is not None:
        # The poll was answered before the cluster was removed.
        return
    if event.answer:
        if event.answer <= transaction.session.observed.get(event.cluster, 0):
            return
        transaction.tell(observed={**transaction.session.observed, event.cluster: event.answer})
    seen_epochs = transaction.session.leader_epochs.get(event.cluster, {})
    if wrong := [*wrong_offsets(event.starts, "begins at"), *wrong_offsets(event.ends, "ends at")]:
        raise TransitionError(f"{'; '.join(wrong)}; {EXPECTED_OFFSETS}")
    # Mostly no leader has changed, and then all logs are the same.
    compared = event.epochs is not seen_epochs
    event = _without_stale(transaction, event, compared=compared)
    before = transaction.session.truncation_observations
    short: list[tuple[Split, int]] = []
    aged: list[tuple[Split, int]] = []
    replaced: list[tuple[Split, int]] = []
    away: list[SplitId] = []
    unknown: list[SplitId] = []
    for key, end in event.ends.items():
        split = transaction.get(key)
        if split is None:
            # It may become known as a partition of another topic.
            unknown.append(key)
            continue
        if split.removed_at_ms is not None:
            away.append(key)
        if split.position is None or not split.active:
            continue
        if compared and (at := _replaced_from(split, event.epochs.get(key, ()), seen_epochs.get(key, ()))) is not None:
            replaced.append((split, at))
        elif end < split.position:
            short.append((split, end))
        elif (start := event.starts.get(key)) is not None and start > split.position:
            aged.append((split, start))
    if unknown:
        event = _without(event, frozenset(unknown))
    seen = transaction.session.ends.get(event.cluster, {})
    # A stale broker may name an end before the one that was seen. The end of a replaced log does not count.
    reached = {key: max(end, seen.get(key, end)) for key, end in event.ends.items()}
    reached.update((split.id, event.ends[split.id]) for split, _ in replaced)
    not_compared = (*away, *(split.id for split, _ in short))
    transaction.tell(
        ends={**transaction.session.ends, event.cluster: {**seen, **reached}},
        leader_epochs={**transaction.session.leader_epochs, event.cluster: _epochs_of(event, reached, not_compared)},
    )
    for split, start in aged:
        assert split.position is not None
        count = (start if split.stop is None else min(start, split.stop)) - split.position
        if transaction.lose(Loss(split.id, Cause.AGED_OUT, split.position, start, count)):
            transaction.start(split, start)
    for split, at in replaced:
        assert split.position is not None
        if transaction.lose(Loss(split.id, Cause.REPLACED, split.position, at)):
            transaction.start(split, at)
    if short or before:
        _observe_truncations(transaction, event, short)


def _epochs_of(
    event: LogsObserved, reached: Mapping[SplitId, int], not_compared: Sequence[SplitId]
) -> Mapping[SplitId, EpochTable]:
    """Return the epochs of logs that reach their positions, and every end that was seen; others lack some of theirs.

    Those of splits that are away are left out, too: they were not compared, and the log may be another one by now.
    """
    if not not_compared and reached == event.ends:
        return event.epochs
    left_out = {key for key, end in event.ends.items() if end < reached[key]}.union(not_compared)
    return {key: table for key, table in event.epochs.items() if key not in left_out}


def _without_stale(transaction: Transaction, event: LogsObserved, *, compared: bool) -> LogsObserved:
    """Return the poll without partitions that may be those of another topic, or that a former leader answers for."""
    session, splits = transaction.session, transaction.splits
    late = session.former_leaders.get(event.cluster, ())
    if compared:
        late = tuple(key for key, table in event.epochs.items() if _is_former(splits.get(key), table))
        if late or event.cluster in session.former_leaders:
            transaction.tell(former_leaders={**session.former_leaders, event.cluster: late})
    doubted: list[SplitId] = []
    if session.id_conflicts or session.former_topic_ids:
        doubted = [key for key in (*event.ends, *event.epochs) if session.doubts(key, splits.get(key))]
    if not late and not doubted:
        return event
    return _without(event, frozenset((*late, *doubted)))


def _without(event: LogsObserved, left_out: Collection[SplitId]) -> LogsObserved:
    ends, starts = ({key: at for key, at in of.items() if key not in left_out} for of in (event.ends, event.starts))
    epochs = {key: table for key, table in event.epochs.items() if key not in left_out}
    return replace(event, ends=ends, starts=starts, epochs=epochs)


def _is_former(split: Split | None, table: EpochTable) -> bool:
    """Whether a leader with this table is from before the last record read; false where topics have no ids."""
    return split is not None and split.epoch is not None and bool(split.topic_id) and is_older(table, split.epoch)


def _replaced_from(split: Split, table: EpochTable, seen: EpochTable) -> int | None:
    # The same table was compared with the log when it came.
    if split.epoch is None or split.position is None or table is seen:
        return None
    return replaced_from(table, split.position, split.epoch, seen)


def _observe_truncations(transaction: Transaction, event: LogsObserved, short: Sequence[tuple[Split, int]]) -> None:
    """Note which logs end before their positions; those that did so often enough are truncated."""
    before, asked_ms = transaction.session.truncation_observations, transaction.asked_ms(event.asked)
    # A partition whose leader did not answer this time keeps its observation.
    cut: dict[SplitId, int] = {}
    after = {key: seen for key, seen in before.items() if key.cluster != event.cluster or key not in event.ends}
    for split, end in short:
        assert split.position is not None
        seen = before.get(split.id, TruncationObservation(0, end, asked_ms))
        seen = TruncationObservation(seen.answers + 1, min(seen.end, end), seen.since_ms)
        enough = seen.answers >= TRUNCATION_POLLS_MIN and asked_ms - seen.since_ms >= truncation_wait_ms(
            transaction.session
        )
        if not enough or not event.asked.turned:
            after[split.id] = seen
        elif transaction.lose(Loss(split.id, Cause.TRUNCATED, split.position, seen.end)):
            # From there on, the log has records that were never read.
            transaction.start(split, seen.end)
            cut[split.id] = end
    ends = {**transaction.session.ends[event.cluster], **cut}
    transaction.tell(
        truncation_observations={key: after[key] for key in sorted(after)},
        ends={**transaction.session.ends, event.cluster: ends},
    )


def records_lost(transaction: Transaction, event: RecordsLost) -> None:
    """Declare what the driver has found; positions stay as they are."""
    for loss in event.losses:
        numbers = (loss.position, loss.found or 0, loss.offsets_max or 0)
        if wrong := [one for number in numbers for one in wrong_offsets({loss.split: number}, "was lost with")]:
            raise TransitionError(f"{'; '.join(wrong)}; {EXPECTED_OFFSETS}")
        transaction.lose(loss)


def epoch_before(table: EpochTable, offset: int) -> int | None:
    """Return the epoch of the last record before `offset` in a log with these epochs; None where it is not known."""
    for entry in table:
        if entry.start < offset:
            # Kafka says -1 for one that is not known.
            return entry.epoch if entry.epoch >= 0 else None
    return None


def is_older(table: EpochTable, epoch: int) -> bool:
    """Whether `table` is from a leader before `epoch`, which cannot have the records of `epoch`."""
    return bool(table) and table[0].epoch < epoch


def replaced_from(table: EpochTable, position: int, epoch: int, seen: EpochTable = ()) -> int | None:
    """Return the offset from which on a log is another one than that which was read; None if it is the same.

    It is at most `position`. If not all epochs of the log that was read are known, records before it may differ too.

    Args:
        table: the epochs of the log as it is now.
        position: the log was read up to there.
        epoch: of the last record before `position`.
        seen: the epochs of the log that was read, as far as they are known.
    """
    if not table or is_older(table, epoch):
        return None
    read = [one for one in seen if one.epoch <= epoch]
    known = {epoch, *(one.epoch for one in read)}
    oldest, end = min(known), position
    for entry in table:
        if entry.epoch in known or entry.epoch < oldest:
            # Up to the end of this epoch, in whichever of the two logs it ends earlier, they are one.
            end = min([end, *(one.start for one in read if one.epoch > entry.epoch)])
            return end if end < position or entry.epoch < epoch else None
        end = min(end, entry.start)
    return end if end < position else None
