"""Planted bugs of checkpoints and batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from evensplit.core.batch.plan import BatchPlan, ReaderPlan, plan_batch
from evensplit.core.batch.shares import Shares, share
from evensplit.core.machine import skipped_records
from evensplit.core.machine.enumerator import Step, step
from evensplit.core.machine.events import BatchOpened, BatchPlanned, Event, ReadLogsPolled
from evensplit.core.state import codec
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.settings import OWNERS
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim import Rules
from evensplit.testing.sim.rules import plan_any_batch
from tests.sim.planting import Planted, by_step, changed, swapped


def pending_forgotten(state: EnumeratorState) -> dict[str, Any]:
    """Only splits that somebody owns are written down."""
    owned = {key: split for key, split in state.splits.items() if split.owner is not None}
    return encode(replace(state, splits=MappingProxyType(owned)))


def unchecked(document: Any) -> EnumeratorState:
    """The checksum fits whatever was read."""
    if not isinstance(document, dict) or "check" not in document:
        return decode(document)
    with swapped("_check", lambda _: document["check"], codec):
        return decode(document)


def one_too_far(*given: Any) -> Shares:
    """The end of a log is taken for the offset of its last record."""
    found = share(*given)
    return found._replace(ends={key: end + 1 for key, end in found.ends.items()})


def firsts_skipped(start: EnumeratorState, end: EnumeratorState) -> BatchPlan:
    """What begins in a batch is read from the next batch on."""
    found = plan_batch(start, end)
    kept = (
        ReaderPlan(plan.reader, tuple(part for part in plan.ranges if part.split in start.splits))
        for plan in found.readers
    )
    return replace(found, readers=tuple(plan for plan in kept if plan.ranges))


def joined_whatever_they_have(start: EnumeratorState, end: EnumeratorState) -> BatchPlan:
    """One reader reads for all others, however much that is, or whether it may."""
    found = plan_any_batch(start, end)
    if len(found.readers) < 2 or found.kind == OWNERS:
        return found
    first, *others = found.readers
    ranges = tuple(sorted(part for plan in found.readers for part in plan.ranges))
    joined = {one.reader: first.reader for one in others}
    return replace(found, readers=(ReaderPlan(first.reader, ranges),), joined=joined)


def joined_by_none(start: EnumeratorState, end: EnumeratorState) -> BatchPlan:
    """Every reader reads what it has, however little."""
    settings = replace(end.settings, reader_offsets_min=1)
    return plan_any_batch(start, replace(end, settings=settings))


def firsts_dropped(state: EnumeratorState, event: Event) -> Step:
    """Where splits began is dropped with the next batch, although no offset of it was written down."""
    done = step(state, event)
    if isinstance(event, BatchOpened):
        begun = (split for split in done.state.splits.values() if split.first is not None)
        return changed(done, *(split._replace(first=None, since=0) for split in begun))
    return done


def losses_dropped(state: EnumeratorState, event: Event) -> Step:
    """What was lost is in the offset of one batch, which nobody wrote down."""
    if isinstance(event, BatchOpened):
        state = replace(state, session=replace(state.session, declared=()))
    return step(state, event)


def read_from_forgotten(state: EnumeratorState, event: Event) -> Step:
    """The state does not say what its batch reads."""
    done = step(state, event)
    if isinstance(event, BatchPlanned):
        return changed(done, *(one._replace(read_from=None) for one in done.state.splits.values()))
    return done


def read_from_kept(state: EnumeratorState, event: Event) -> Step:
    """What a batch does not read is said to have been read by it, as it was by the one before."""
    done = step(state, event)
    if isinstance(event, BatchPlanned):
        kept = {key: split.read_from for key, split in state.splits.items() if split.read_from is not None}
        unread = [one for one in done.state.splits.values() if one.read_from is None and one.id in kept]
        return changed(done, *(one._replace(read_from=kept[one.id]) for one in unread))
    return done


def skips_unnoticed(state: EnumeratorState, event: Event) -> Step:
    """Nobody looks for what tasks skip."""
    return Step(state, ()) if isinstance(event, ReadLogsPolled) else step(state, event)


def skips_of_deleted_unnoticed(state: EnumeratorState, event: Event) -> Step:
    """What is not there at all is not looked at."""
    with swapped("_deleted", lambda *_, **__: (), skipped_records):
        return step(state, event)


def skips_declared_again(state: EnumeratorState, event: Event) -> Step:
    """What was compared is compared again with the next poll."""
    done = step(state, event)
    if isinstance(event, ReadLogsPolled):
        return Step(replace(done.state, session=replace(done.state.session, read=state.session.read)), done.effects)
    return done


BUGS: Mapping[str, Planted] = {
    "pending-forgotten": Planted(
        "the checkpoint lacks what nobody owns", ("S10",), Rules(encode=pending_forgotten), like="FLINK-40469"
    ),
    "unchecked": Planted("a damaged checkpoint is believed", ("S10",), Rules(decode=unchecked), seed=41),
    "one-too-far": Planted("a batch goes beyond the log", ("S12",), Rules(share=one_too_far), seed=1),
    "joined-whatever": Planted(
        "a reader reads for all others", ("S2", "S12", "S15"), Rules(plan_batch=joined_whatever_they_have), seed=1
    ),
    "joined-by-none": Planted("little work is done by many", ("S12",), Rules(plan_batch=joined_by_none), seed=21),
    "firsts-dropped": Planted(
        "a gap in the log hides where splits began",
        ("S15",),
        by_step(firsts_dropped),
        like="evensplit, before: offsets logged with gaps",
        seed=1,
    ),
    "losses-dropped": Planted("a gap in the log hides losses", ("S9",), by_step(losses_dropped), seed=7),
    "read-from-forgotten": Planted(
        "nobody knows what the last batch read", ("S9",), by_step(read_from_forgotten), seed=2
    ),
    "read-from-kept": Planted("what was read earlier is read now", ("S9",), by_step(read_from_kept), seed=2),
    "skips-unnoticed": Planted(
        "nobody looks for what tasks skip",
        ("S9",),
        by_step(skips_unnoticed),
        seed=2,
        like="evensplit, before: skips forgotten over a restart",
    ),
    "skips-declared-again": Planted("skips are declared twice", ("S9",), by_step(skips_declared_again), seed=2),
    "skips-of-deleted": Planted(
        "a deletion under a task is silent", ("S9",), by_step(skips_of_deleted_unnoticed), seed=2
    ),
    "firsts-skipped": Planted(
        "the first range of a split is not read", ("S15",), Rules(plan_batch=firsts_skipped), seed=1
    ),
}
"""Name -> bug."""
