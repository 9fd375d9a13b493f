"""Records that were to be read and are gone: how that is noticed, and what becomes of the position (law S9).

A loss ends the run, or it is declared: then it is part of the state at the end of the batch, and reading goes on with
what there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evensplit.core.loss_text import CURE, describe_loss, extent
from evensplit.core.machine.effects import ReportLoss
from evensplit.core.machine.events import LogsObserved, RecordsLost
from evensplit.core.machine.log_epochs import is_older, replaced_from
from evensplit.core.machine.transaction import Transaction
from evensplit.core.model import Cause, EpochTable, Loss, Split, SplitId
from evensplit.core.state.settings import FAIL
from evensplit.core.state.state import Session, Sighting

SIGHTINGS_MAX = 3
"""So many answers in a row have to show a log that ends before its position; fewer can come from a stale broker."""

SIGHTING_MS_MIN = 3_000
"""For so long, and for a discovery interval, they have to show it: quick answers are not time."""


def lose(transaction: Transaction, loss: Loss, detail: str = "", *, settled: bool = False) -> bool:
    """Report `loss`; it is written down, and true returned, if reading goes on.

    `detail`: why, if there is more to say than the loss itself has. `settled`: it never ends the run.
    """
    fatal = transaction.session.loss == FAIL and not settled
    sentence = f"{detail or describe_loss(loss)}. {extent(loss)}"
    cure = f". To go on without them, {CURE}" if fatal else ""
    transaction.effects.append(ReportLoss(loss, f"{sentence}{cure}", fatal))
    if not fatal:
        transaction.losses.append(loss)
        transaction.noticed.append(loss)
    return not fatal


def unread(transaction: Transaction, split: Split, cause: Cause) -> Loss | None:
    """What was unread of a split of which nothing is there any more, by the last answer that knew its end.

    None where nothing was: it was read to its end, or never had a start. Of one that is settled, only what
    was seen of it since then can be.
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
    """A split of which nothing is there any more, and `loss` of it has been declared: not a second time."""
    if loss is not None:
        transaction.declared.append(split.id)
    return split._replace(settled=True)


def logs_observed(transaction: Transaction, event: LogsObserved) -> None:
    """Compare the logs with the positions in them, and keep where they end."""
    cluster = transaction.clusters.get(event.cluster)
    if cluster is None or cluster.removed_at_ms is not None:
        # The answer was given before the cluster was removed.
        return
    if event.answer:
        if event.answer <= transaction.session.observed.get(event.cluster, 0):
            return
        transaction.tell(observed={**transaction.session.observed, event.cluster: event.answer})
    seen_epochs = transaction.session.leader_epochs.get(event.cluster, {})
    # Mostly, no leader has changed, and then all logs are what they were.
    compared = event.epochs is not seen_epochs
    event = _believed(transaction, event, compared=compared)
    before = transaction.session.sightings
    behind: list[tuple[Split, int]] = []
    aged: list[tuple[Split, int]] = []
    replaced: list[tuple[Split, int]] = []
    for key, end in event.ends.items():
        split = transaction.get(key)
        if split is None or split.position is None or not split.active:
            continue
        if compared and (at := _replaced_from(split, event.epochs.get(key, ()), seen_epochs.get(key, ()))) is not None:
            replaced.append((split, at))
        elif end < split.position:
            behind.append((split, end))
        elif (start := event.starts.get(key)) is not None and start > split.position:
            aged.append((split, start))
    seen = transaction.session.ends.get(event.cluster, {})
    # A stale broker may say less than was seen before; what was seen of another log does not count.
    reached = {key: max(end, seen.get(key, end)) for key, end in event.ends.items()}
    reached.update((split.id, event.ends[split.id]) for split, _ in replaced)
    transaction.tell(
        ends={**transaction.session.ends, event.cluster: {**seen, **reached}},
        leader_epochs={**transaction.session.leader_epochs, event.cluster: _epochs_of(event, reached, behind)},
    )
    for split, start in aged:
        assert split.position is not None
        count = (start if split.stop is None else min(start, split.stop)) - split.position
        if lose(transaction, Loss(split.id, Cause.AGED_OUT, split.position, start, count)):
            transaction.start(split, start)
    for split, at in replaced:
        assert split.position is not None
        if lose(transaction, Loss(split.id, Cause.REPLACED, split.position, at)):
            transaction.start(split, at)
    if behind or before:
        _sight(transaction, event, behind)


def _epochs_of(
    event: LogsObserved, reached: Mapping[SplitId, int], behind: Sequence[tuple[Split, int]]
) -> Mapping[SplitId, EpochTable]:
    """The epochs of logs that go as far as their positions, and as they ever did; of others, the rest is not known."""
    if not behind and reached == event.ends:
        return event.epochs
    short = {key for key, end in event.ends.items() if end < reached[key]}
    short.update(split.id for split, _ in behind)
    return {key: table for key, table in event.epochs.items() if key not in short}


def _believed(transaction: Transaction, event: LogsObserved, *, compared: bool) -> LogsObserved:
    """The part of an answer that is about the topics that splits are of, and not from leaders of the past."""
    session, splits = transaction.session, transaction.splits
    doubts = session.doubts
    late = session.late.get(event.cluster, ())
    if compared:
        late = tuple(key for key, table in event.epochs.items() if _is_former(splits.get(key), table))
        if late or event.cluster in session.late:
            transaction.tell(late={**session.late, event.cluster: late})
    doubted = [key for key in (*event.ends, *event.epochs) if key[:2] in doubts] if doubts else []
    if not late and not doubted:
        return event
    left_out = frozenset((*late, *doubted))
    ends, starts = ({key: at for key, at in of.items() if key not in left_out} for of in (event.ends, event.starts))
    epochs = {key: table for key, table in event.epochs.items() if key not in left_out}
    return replace(event, ends=ends, starts=starts, epochs=epochs)


def _is_former(split: Split | None, table: EpochTable) -> bool:
    """Whether a leader with this table is from before what was read. Without an id, it may be another topic's."""
    return split is not None and split.epoch is not None and bool(split.topic_id) and is_older(table, split.epoch)


def _replaced_from(split: Split, table: EpochTable, seen: EpochTable) -> int | None:
    # The same table again says nothing new: the log was compared with it when it came.
    if split.epoch is None or split.position is None or table is seen:
        return None
    return replaced_from(table, split.position, split.epoch, seen)


def _sight(transaction: Transaction, event: LogsObserved, behind: Sequence[tuple[Split, int]]) -> None:
    """Note which logs end before their positions; what was seen often enough is lost."""
    before, asked_ms = transaction.session.sightings, transaction.asked_ms(event.asked)
    # A partition whose leader did not answer this time was not seen to be whole either.
    cut: dict[SplitId, int] = {}
    after = {key: seen for key, seen in before.items() if key.cluster != event.cluster or key not in event.ends}
    for split, end in behind:
        assert split.position is not None
        seen = before.get(split.id, Sighting(0, end, -1, asked_ms))
        if seen.answer != event.answer:
            seen = Sighting(seen.answers + 1, min(seen.end, end), event.answer, seen.since_ms)
        enough = seen.answers >= SIGHTINGS_MAX and asked_ms - seen.since_ms >= sighting_ms(transaction.session)
        if not enough or not event.asked.turned:
            after[split.id] = seen
        elif lose(transaction, Loss(split.id, Cause.TRUNCATED, split.position, seen.end)):
            # From there on are records that have never been read.
            transaction.start(split, seen.end)
            cut[split.id] = end
    ends = {**transaction.session.ends[event.cluster], **cut}
    transaction.tell(
        sightings={key: after[key] for key in sorted(after)}, ends={**transaction.session.ends, event.cluster: ends}
    )


def sighting_ms(session: Session) -> int:
    """For how long a log has to be seen to end before its position, until that is believed."""
    return max(session.discovery_interval_ms, SIGHTING_MS_MIN)


def records_lost(transaction: Transaction, event: RecordsLost) -> None:
    """Write down what the host has found; positions are as they are."""
    for loss in event.losses:
        lose(transaction, loss)
