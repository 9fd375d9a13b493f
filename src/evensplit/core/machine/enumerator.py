"""The enumerator: `step(state, event) -> Step(state, effects)`.

How to read it
--------------
A state is immutable. `step` looks the event's class up in `TRANSITIONS`, the one table of everything that can happen,
and calls its handler, which writes the event's changes into a `Transaction`. Then `conclude` assigns owners, where that
is due, and adds the orders to the readers, and the transaction becomes the next state. An impossible event raises, and
its transaction is thrown away. There is no other input: time, results of polls, readers and the user's settings
reach the enumerator as events only. The same state and event always give the same step.

    enumerator.py    the table; batches and settings
    discovery.py     clusters, partitions, starts, time
    identity.py      whether a cluster or a topic is the one that is meant
    registration.py  readers
    data_loss.py     records that are gone, and whether a log still is the one that was read
    skipped_records.py  records that tasks skipped because they were gone
    rebalance.py     owners, and the orders that follow
    transaction.py   a state in the making

One run, as a host drives it:

    SettingsChanged     once, and when the user changes them
    ParallelismChanged  when the number of readers differs from the state's
    BatchOpened         owners stay as they are from here on; what is durable by now need not be kept any more
    TimePassed          -> Forget
    ClustersListed      -> ListPartitions for each cluster
    PartitionsListed    -> ResolveStart for what is new, ReportLoss, RefuseCluster    (one per cluster that answered)
    OffsetsResolved     where what is new starts
    LogsObserved        -> ReportLoss                                    (one event per cluster that answered)
    ReadLogsPolled      -> ReportLoss                                    (one event per cluster that was read before)
    ReaderRegistered    once in a run                                                         (one event per reader)
    BatchPlanned        positions advance to the batch's ends; owners are decided, once    -> Revoke, Assign

A host that opens no batches has owners decided with each event that changes something, once all readers have
registered and the first discovery is done. One with readers that are processes, which fail on their own, also tells
`ReaderLost`, `ReaderRemoved`, `SplitsGivenBack` and `SplitsFinished`, and as `BatchPlanned` how far its last completed
checkpoint has come. A host with logical readers, such as Spark's, registers each of them once, with what the restored
state says that they own.

The life of a split (law S1)
----------------------------
Each known split is unassigned, assigned, retained or finished (`Lifecycle`). The table says for each event which of
these changes it can make, and no other ever happens; the diagram in docs/state-machine.md is made from the table.

Where a split starts (FLIP-288)
-------------------------------
A cluster that is listed before the first batch is `initial`: what its first discovery finds starts by the user's
strategy, and stays `initial` itself until its start is known, whatever happens in between. What is found later (another
partition, topic or cluster, after a restart or not) starts at earliest, for it did not exist, or was not wanted, when
the user chose where to start. A later cluster that brings starting offsets of its own is the one exception. A first
discovery that finds nothing is still a discovery: `ClusterState.discovered` tells the two apart.

Who owns a split (FLIP-537)
---------------------------
In each session, nothing is ordered before every reader has registered and every first discovery is done. Then one
global assignment is computed, from the owners in the state and all that the readers reported; the claim of the highest
generation counts. Every split is in the state from the moment that it is heard of, so a checkpoint can be taken at any
time. After that, a report that contradicts the state is ignored; a reader that registers again is told all that it
owns. When owners change after that is up to the settings; a lost reader keeps what it owns.

Removed clusters and splits
---------------------------
One listing can be wrong, so it takes two complete ones, an interval apart, to remove a split. The position of a removed
split is retained for a time, and reading goes on from there if it returns.

Records that were to be read and are gone are a loss, whatever took them. It is no loss if a topic is deleted, or
created anew, that had been read to the end that was seen last. Where that end is not known, it is a loss of unknown
size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from evensplit.core.batch.limits import learned
from evensplit.core.machine.data_loss import epoch_before, logs_observed, records_lost
from evensplit.core.machine.discovery import (
    cluster_unreachable,
    clusters_listed,
    offsets_resolved,
    partitions_listed,
    time_passed,
)
from evensplit.core.machine.effects import Effect
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClusterPollFailed,
    ClustersListed,
    Event,
    LogsObserved,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderLost,
    ReaderRegistered,
    ReaderRemoved,
    ReadLogsPolled,
    RecordsLost,
    SettingsChanged,
    SplitsFinished,
    SplitsGivenBack,
    TimePassed,
)
from evensplit.core.machine.rebalance import conclude
from evensplit.core.machine.registration import (
    parallelism_changed,
    reader_lost,
    reader_registered,
    reader_removed,
    splits_finished,
    splits_given_back,
)
from evensplit.core.machine.skipped_records import note_planned, note_read, read_logs_polled, uncompared
from evensplit.core.machine.trace import describe, summary
from evensplit.core.machine.transaction import Transaction
from evensplit.core.model import Lifecycle, Range, SplitId
from evensplit.core.policies import BALANCED
from evensplit.core.state import rates
from evensplit.core.state.settings import ALWAYS, DECLARE, LOSSES, RATE
from evensplit.core.state.state import EnumeratorState, Session
from evensplit.core.state.validation import COUNT_MAX, wrong_offsets
from evensplit.errors import TransitionError

EVENT_LOG_MAX = 8
"""How many of the last events are kept, for errors."""


@dataclass(frozen=True, slots=True)
class Step:
    """The state after an event, and the orders that follow, to be carried out in this order."""

    state: EnumeratorState
    effects: tuple[Effect, ...] = ()


Change = tuple[Lifecycle | None, Lifecycle | None]
"""Where a split's life was and where it goes; None: the split is not known."""


@dataclass(frozen=True, slots=True)
class Transition:
    """The effect of one kind of event."""

    handle: Callable[[Transaction, Any], None]
    changes: tuple[Change, ...] = ()
    """All changes that it can make in the life of a split."""


def step(state: EnumeratorState, event: Event) -> Step:
    """Return the state after `event`, and the orders that follow.

    Raises TransitionError, leaving the state as it was, for an event that cannot happen in it.
    """
    transaction, line = Transaction(state), describe(event)
    try:
        TRANSITIONS[type(event)].handle(transaction, event)
        transaction.tell(event_log=(*state.session.event_log[1 - EVENT_LOG_MAX :], line))
        transaction.note()
        after = conclude(transaction)
    except TransitionError as error:
        raise TransitionError(error.problem, line, summary(state), state.session.event_log) from None
    return Step(after, tuple(transaction.effects))


def _settings_changed(transaction: Transaction, event: SettingsChanged) -> None:
    problems = list(event.settings.problems())
    if event.loss not in LOSSES:
        problems.append(f"loss is {event.loss!r}; expected one of {', '.join(LOSSES)}")
    if event.discovery_interval_ms < 0:
        problems.append(f"the discovery interval is {event.discovery_interval_ms} ms; expected 0 or more")
    invalid = sorted(reader for reader in event.eligible if reader < 0)
    if invalid:
        problems.append(f"eligible readers are {invalid}; expected numbers of at least 0")
    named = [one for readable in event.eligible.values() for one in readable if isinstance(one, SplitId)]
    problems.extend(f"readers are pinned to {one}; expected partitions from 0" for one in named if one.partition < 0)
    if problems:
        raise TransitionError("; ".join(problems))
    chosen = event.settings, dict(event.eligible)
    transaction.due = chosen != (transaction.settings, transaction.eligible)
    if event.settings.balance != RATE and transaction.settings.balance == RATE:
        transaction.rated_ms = transaction.rate_moves = None
        for split in [one for one in transaction.splits.values() if one.rate]:
            transaction.put(split._replace(rate=0))
        transaction.tell(measures=MappingProxyType({}))
    transaction.settings = event.settings
    transaction.eligible = {reader: event.eligible[reader] for reader in sorted(event.eligible)}
    transaction.tell(
        discovery=event.discovery,
        discovery_interval_ms=event.discovery_interval_ms,
        loss=event.loss,
    )


def _batch_opened(transaction: Transaction, event: BatchOpened) -> None:
    revision, session = transaction.before.revision, transaction.session
    durable = revision if event.durable is None else min(event.durable, revision)
    # Losses since the last batch was planned are declared by the next one.
    declared = tuple((at, loss) for at, loss in session.declared if at > durable)
    transaction.losses = [*(loss for _, loss in declared), *session.undeclared]
    for split in list(transaction.splits.values()):
        if split.first is not None and split.since <= durable:
            transaction.put(split._replace(first=None, since=0))
    identified = {name: since for name, since in session.identified.items() if since > durable}
    transaction.tell(declared=declared, open=True, previous_owners={}, identified=identified)
    note_read(transaction, event)
    # Edits are of the batch before, as the beginnings of splits are.
    transaction.edits = ()


def _batch_planned(transaction: Transaction, event: BatchPlanned) -> None:
    state = transaction.state()
    if not state.settled:
        raise TransitionError(
            "a batch was planned before the first discovery was done; expected a start for every split"
        )
    session, declares = transaction.session, transaction.session.loss == DECLARE
    earlier = uncompared(state)
    read: dict[SplitId, int] = {}
    ranges: list[Range] = []
    for key in sorted(event.ends):
        split, end = transaction.get(key), event.ends[key]
        if split is None or (split.active and split.position is None):
            raise TransitionError(f"a batch was planned for {key}, which has no start yet")
        if not split.active:
            raise TransitionError(f"a batch was planned for {key}, which is {split.lifecycle}: it is not to be read")
        position = split.position or 0
        if end < position:
            raise TransitionError(f"a batch was planned to end at {end} for {key}, which already is at {position}")
        if split.stop is not None and end > split.stop:
            raise TransitionError(f"a batch was planned to end at {end} for {key}, which stops at {split.stop}")
        if end > position:
            read[key] = end - position
            if declares and session.open:
                ranges.append(Range(key, position, end))
            epoch = _last_epoch(session, key, end)
            begin = min(earlier.get(key, end), position if declares else end)
            transaction.put(split._replace(position=end, epoch=epoch, read_from=begin if begin < end else None))
    _check_told(event)
    _note_unread(transaction, earlier, frozenset(read))
    transaction.read = tuple(read)
    if read:
        # A world in which nothing is read stays the same, byte for byte.
        transaction.reached_ms = state.reached_ms if event.reached_ms is None else event.reached_ms
        transaction.held = tuple(sorted(frozenset(event.held)))
        if transaction.settings.balance == RATE:
            _measure(transaction, read)
        for key in sorted(event.measured):
            known = transaction.get(key)
            if known is not None and known.active:
                transaction.put(known._replace(record_bytes=learned(known.record_bytes, *event.measured[key])))
    note_planned(transaction, ranges)
    transaction.revision += 1
    transaction.begun = True
    declared = (*session.declared, *((transaction.revision, loss) for loss in session.undeclared))
    transaction.tell(declared=declared, undeclared=(), open=False)


def _check_told(event: BatchPlanned) -> None:
    """Raise TransitionError for what comes with a batch and could not be kept."""
    wrong = [
        f"{key} has {taken} bytes in {offsets} offsets"
        for key, (offsets, taken) in event.measured.items()
        if offsets < 1 or not 0 <= taken <= COUNT_MAX
    ]
    if event.reached_ms is not None and not 0 <= event.reached_ms <= COUNT_MAX:
        wrong.append(f"{event.reached_ms} ms is the time that is reached")
    wrong.extend(wrong_offsets(event.ends, "ends at"))
    if wrong:
        raise TransitionError(f"a batch was planned where {'; '.join(wrong)}; expected numbers as Kafka has them")


def _measure(transaction: Transaction, sizes: Mapping[SplitId, int]) -> None:
    """Take in what the splits bring with this batch, and see whether owners may change for it."""
    session, settings, now_ms = transaction.session, transaction.settings, transaction.session.now_ms
    if now_ms is None:
        return
    elapsed_ms = 0 if transaction.rated_ms is None else now_ms - transaction.rated_ms
    transaction.rated_ms = now_ms
    if elapsed_ms > 0:
        load = tuple(transaction.state().load())
        found, measures = rates.measured(load, session.measures, sizes, elapsed_ms, session.unreachable)
        for key, rate in found.items():
            transaction.put(transaction.splits[key]._replace(rate=rate))
        transaction.tell(measures=MappingProxyType(measures), moves_tried=0 if found else session.moves_tried)
    if settings.policy != BALANCED or settings.rebalance != ALWAYS:
        return
    load, moves = tuple(transaction.state().load()), transaction.rate_moves
    if moves is None:
        transaction.rates_due = rates.is_known(load)
    else:
        most = rates.moves_max(settings.moves_per_hour, len(load))
        transaction.rates_due = rates.moves_left(moves, most, now_ms) > transaction.session.moves_tried


def _note_unread(transaction: Transaction, uncompared: Mapping[SplitId, int], read: frozenset[SplitId]) -> None:
    """Of splits that this batch does not read, keep what is not compared yet, and their last records' epochs."""
    for key, split in transaction.splits.items():
        if key in read:
            continue
        if split.read_from is None and (split.epoch is not None or not split.active) and key not in uncompared:
            continue
        epoch, begin = split.epoch, uncompared.get(key)
        if epoch is None and split.active and split.position is not None:
            epoch = _last_epoch(transaction.session, key, split.position)
        if begin is not None and (split.position is None or begin >= split.position):
            begin = None
        transaction.put(split._replace(epoch=epoch, read_from=begin))


def _last_epoch(session: Session, key: SplitId, offset: int) -> int | None:
    """The epoch of the last record before `offset`; None where no answer is known of a log that goes so far."""
    cluster = key[0]
    tables = session.leader_epochs.get(cluster)
    table = tables.get(key) if tables else None
    if not table or session.ends[cluster].get(key, -1) < offset:
        return None
    # Usually the offset is in the latest epoch, which is the first entry. Kafka says -1 for one that is not known.
    latest = table[0]
    return latest.epoch if latest.start < offset and latest.epoch >= 0 else epoch_before(table, offset)


_NEW = None
_GONE = None
_UNASSIGNED, _ASSIGNED = Lifecycle.UNASSIGNED, Lifecycle.ASSIGNED
_RETAINED, _FINISHED = Lifecycle.RETAINED, Lifecycle.FINISHED

_GIVEN: tuple[Change, ...] = ((_UNASSIGNED, _ASSIGNED),)
_GIVEN_AND_TAKEN: tuple[Change, ...] = (*_GIVEN, (_ASSIGNED, _UNASSIGNED))
_ADOPTED: tuple[Change, ...] = ((_NEW, _UNASSIGNED), (_NEW, _ASSIGNED), (_NEW, _RETAINED))
_REMOVED: tuple[Change, ...] = (
    (_UNASSIGNED, _RETAINED),
    (_ASSIGNED, _RETAINED),
    (_UNASSIGNED, _GONE),
    (_ASSIGNED, _GONE),
)

_RENAMED: tuple[Change, ...] = (
    (_NEW, _ASSIGNED),
    (_NEW, _RETAINED),
    (_NEW, _FINISHED),
    (_RETAINED, _GONE),
    (_FINISHED, _GONE),
)

TRANSITIONS: Mapping[type, Transition] = MappingProxyType(
    {
        SettingsChanged: Transition(_settings_changed, _GIVEN_AND_TAKEN),
        ParallelismChanged: Transition(parallelism_changed, _GIVEN_AND_TAKEN),
        ReaderRegistered: Transition(
            reader_registered,
            (*_ADOPTED, *_GIVEN_AND_TAKEN, (_UNASSIGNED, _FINISHED), (_ASSIGNED, _FINISHED)),
        ),
        ReaderLost: Transition(reader_lost),
        ReaderRemoved: Transition(reader_removed, _GIVEN_AND_TAKEN),
        SplitsGivenBack: Transition(splits_given_back, (*_ADOPTED, *_GIVEN)),
        SplitsFinished: Transition(splits_finished, ((_ASSIGNED, _FINISHED),)),
        ClustersListed: Transition(
            clusters_listed, (*_REMOVED, (_RETAINED, _GONE), (_FINISHED, _GONE), *_GIVEN_AND_TAKEN)
        ),
        ClusterPollFailed: Transition(cluster_unreachable),
        PartitionsListed: Transition(
            partitions_listed,
            (
                (_NEW, _UNASSIGNED),
                *_REMOVED,
                *_RENAMED,
                (_RETAINED, _UNASSIGNED),
                (_RETAINED, _ASSIGNED),
                (_RETAINED, _FINISHED),
                *_GIVEN_AND_TAKEN,
            ),
        ),
        LogsObserved: Transition(logs_observed, (*_GIVEN_AND_TAKEN, (_UNASSIGNED, _FINISHED), (_ASSIGNED, _FINISHED))),
        ReadLogsPolled: Transition(read_logs_polled),
        RecordsLost: Transition(records_lost),
        OffsetsResolved: Transition(
            offsets_resolved, (*_GIVEN_AND_TAKEN, (_UNASSIGNED, _FINISHED), (_ASSIGNED, _FINISHED))
        ),
        BatchOpened: Transition(_batch_opened),
        BatchPlanned: Transition(_batch_planned, (*_GIVEN_AND_TAKEN, (_ASSIGNED, _FINISHED), (_UNASSIGNED, _FINISHED))),
        TimePassed: Transition(time_passed, ((_RETAINED, _GONE), (_FINISHED, _GONE))),
    }
)
