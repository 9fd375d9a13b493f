"""Readers come and go: the splits that they report, that wait for them, and that others take over."""

from __future__ import annotations

from collections.abc import Mapping

from evensplit.core.machine.events import (
    ParallelismChanged,
    ReaderLost,
    ReaderRegistered,
    ReaderRemoved,
    SplitsFinished,
    SplitsGivenBack,
)
from evensplit.core.machine.rebalance import may_read
from evensplit.core.machine.transaction import Transaction
from evensplit.core.model import ClusterState, ListedPartition, Split, SplitId, matches
from evensplit.core.state.state import READERS_MAX, Registration
from evensplit.core.state.validation import EXPECTED_OFFSETS, wrong_offsets
from evensplit.errors import TransitionError


def parallelism_changed(transaction: Transaction, event: ParallelismChanged) -> None:
    """Void owners that do not exist any more; the others keep their splits until owners are decided."""
    if not 1 <= event.readers <= READERS_MAX:
        raise TransitionError(f"the number of readers is {event.readers}; expected 1 to {READERS_MAX}")
    if event.readers == transaction.readers:
        return
    transaction.readers = event.readers
    for reader in [reader for reader in transaction.session.registrations if reader >= event.readers]:
        _depart(transaction, reader)
    transaction.tell(
        lost=tuple(reader for reader in transaction.session.lost if reader < event.readers),
        removed=tuple(reader for reader in transaction.session.removed if reader < event.readers),
    )
    for split in list(transaction.splits.values()):
        if split.owner is not None and split.owner >= event.readers:
            transaction.put(split._replace(owner=None))
    transaction.due = True


def reader_registered(transaction: Transaction, event: ReaderRegistered) -> None:
    """Take in that the reader is there and reads nothing. Splits that it reports are known now, and claimed by it."""
    _check_reader(event.reader, event.epoch)
    _check_offsets(event.reported, "was reported")
    reader, session = event.reader, transaction.session
    if reader < transaction.readers and event.epoch <= session.epochs.get(reader, -1):
        return
    for key in sorted(event.reported):
        split, topic_id = transaction.get(key), event.topic_ids.get(key, "")
        if split is None:
            _adopt(transaction, Split(key, topic_id), event.reported[key])
        elif reader < transaction.readers and (not session.assigned or split.owner in (None, reader)):
            _catch_up(transaction, split, event.reported[key], topic_id)
    if reader >= transaction.readers:
        return
    if reader in session.removed:
        transaction.due = True
    _depart(transaction, reader)
    registration = Registration(event.epoch, event.location, event.generation, dict(event.reported))
    transaction.tell(
        registrations={**transaction.session.registrations, reader: registration},
        epochs={**session.epochs, reader: event.epoch},
        lost=_without(session.lost, reader),
        removed=_without(session.removed, reader),
    )
    transaction.fresh = (reader,)


def reader_lost(transaction: Transaction, event: ReaderLost) -> None:
    """Take in that the reader is expected back: its splits wait for it."""
    _check_reader(event.reader, event.epoch)
    session = transaction.session
    if event.reader >= transaction.readers or event.epoch < session.epochs.get(event.reader, -1):
        return
    if event.reader in session.registrations:
        transaction.tell(lost=tuple(sorted((*session.lost, event.reader))))
    _depart(transaction, event.reader)
    transaction.tell(epochs={**session.epochs, event.reader: event.epoch})


def reader_removed(transaction: Transaction, event: ReaderRemoved) -> None:
    """Take in that the reader is not expected back: others take over its splits."""
    _check_reader(event.reader)
    session = transaction.session
    if event.reader in session.removed:
        return
    _depart(transaction, event.reader)
    transaction.tell(lost=_without(session.lost, event.reader), removed=tuple(sorted((*session.removed, event.reader))))
    transaction.due = True


def splits_given_back(transaction: Transaction, event: SplitsGivenBack) -> None:
    """Let the splits wait for the reader, unless another one owns them by now. Their positions stay as they are."""
    _check_reader(event.reader)
    _check_offsets(event.splits, "was given back")
    counts = event.reader < transaction.readers and event.reader not in transaction.session.removed
    for key in sorted(event.splits):
        split = transaction.get(key)
        if split is None:
            split = _adopt(transaction, Split(key), event.splits[key])
        if not counts or not split.active or split.position is None or split.owner is not None:
            continue
        if may_read(transaction.eligible, event.reader, key):
            transaction.put(split._replace(owner=event.reader))


def splits_finished(transaction: Transaction, event: SplitsFinished) -> None:
    """Finish the splits, if the reader is the one that was told to read them."""
    _check_reader(event.reader, event.epoch)
    _check_offsets(event.splits, "was finished")
    registration = transaction.session.registrations.get(event.reader)
    if registration is None or registration.epoch != event.epoch or not transaction.session.assigned:
        return
    for key in sorted(event.splits):
        split, end = transaction.get(key), event.splits[key]
        if split is None or split.owner != event.reader or split.position is None or end < split.position:
            continue
        if split.is_other(event.topic_ids.get(key, "")):
            continue
        if split.stop is not None and end < split.stop:
            raise TransitionError(f"{key} was finished at {end}; expected its stop at {split.stop}")
        end = end if split.stop is None else split.stop
        transaction.put(split._replace(position=end, finished=True, owner=None, epoch=None, read_from=None))


def _adopt(transaction: Transaction, split: Split, position: int) -> Split:
    """Take up a split that only a reader knew, at its position; retain it at once if it is known not to be wanted."""
    cluster_id = split.id.cluster
    session = transaction.session
    cluster = transaction.clusters.get(cluster_id)
    unlisted = session.listed is not None and cluster_id not in session.listed
    if cluster is None:
        removed_at_ms = transaction.now_ms if unlisted else None
        # A reader has read from it, so its first discovery was done once.
        cluster = ClusterState(cluster_id, (), initial=False, discovered=True, removed_at_ms=removed_at_ms)
        transaction.clusters[cluster_id] = cluster
    subscription, answer = session.subscriptions.get(cluster_id), session.listings.get(cluster_id)
    unwanted = (
        cluster.removed_at_ms is not None
        or (subscription is not None and not matches(subscription, split.id))
        or (answer is not None and not _lists(answer, split.id))
    )
    transaction.present(split.id)
    split = transaction.started(split, position)
    if unwanted:
        transaction.retain(split)
    else:
        transaction.put(split)
    return transaction.get(split.id) or split._replace(removed_at_ms=transaction.now_ms)


def _lists(answer: tuple[ListedPartition, ...], key: SplitId) -> bool:
    return any(one.topic == key.topic and one.partition == key.partition for one in answer)


def _catch_up(transaction: Transaction, split: Split, position: int, topic_id: str) -> None:
    """Begin `split` anew at `position`, where a reader of it was, if that is further than is known."""
    if split.finished or split.is_other(topic_id):
        return
    if split.position is not None:
        if position > split.position:
            transaction.start(split, position)
    elif split.initial or topic_id:
        # Otherwise no reader was ever told to read it, and the report is of an earlier incarnation.
        transaction.start(split, position)


def _depart(transaction: Transaction, reader: int) -> None:
    """Take in that the reader is not there (any more)."""
    if reader not in transaction.session.registrations:
        return
    left: Mapping[int, Registration] = {
        one: registration for one, registration in transaction.session.registrations.items() if one != reader
    }
    transaction.tell(registrations=left, signalled=_without(transaction.session.signalled, reader))


def _without(readers: tuple[int, ...], reader: int) -> tuple[int, ...]:
    return tuple(one for one in readers if one != reader)


def _check_reader(reader: int, epoch: int = 0) -> None:
    if reader < 0 or epoch < 0:
        raise TransitionError(f"the reader is {reader} in epoch {epoch}; expected numbers of at least 0")


def _check_offsets(offsets: Mapping[SplitId, int], what: str) -> None:
    if wrong := wrong_offsets(offsets, f"{what} at"):
        raise TransitionError(f"{'; '.join(wrong)}; {EXPECTED_OFFSETS}")
