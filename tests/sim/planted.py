"""Bugs that other systems had, planted around the real rules: the simulator has to find each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType, ModuleType
from typing import Any

from evensplit.core import assigning, codec
from evensplit.core.assign import Claim
from evensplit.core.codec import decode, encode
from evensplit.core.draft import Draft
from evensplit.core.effects import Assign, ReportLoss, ResolveStart, Revoke
from evensplit.core.enumerator import Step, step
from evensplit.core.events import (
    Event,
    OffsetsResolved,
    PartitionsListed,
    ReaderLost,
    ReaderRegistered,
    SettingsChanged,
    SplitsGivenBack,
)
from evensplit.core.model import Readable, Split, SplitId, StartBy
from evensplit.core.plan import ReaderPlan, plan_batch, plan_ends
from evensplit.core.settings import ALWAYS
from evensplit.core.state import EnumeratorState
from evensplit.testing.sim import Rules

Owners = Mapping[SplitId, int]
SOLVE = assigning._solve
DECIDE = assigning._decide
StepFunction = Callable[[EnumeratorState, Event], Step]


@dataclass(frozen=True)
class Planted:
    """A bug. `laws`: those of which any may be the first that it breaks."""

    says: str
    laws: tuple[str, ...]
    rules: Rules


@contextmanager
def swapped(name: str, other: Callable[..., Any], module: ModuleType = assigning) -> Iterator[None]:
    """A function of a module is another one."""
    real = getattr(module, name)
    setattr(module, name, other)
    try:
        yield
    finally:
        setattr(module, name, real)


def assigning_by(other: Callable[..., Owners]) -> Rules:
    """The real rules, with another assignment."""

    def stepped(state: EnumeratorState, event: Event) -> Step:
        with swapped("_solve", other):
            return step(state, event)

    return Rules(step=stepped)


def changed(done: Step, *splits: Split, keep: Callable[[object], bool] = lambda effect: True) -> Step:
    """`done` with some splits different, and without the effects that are not to be kept."""
    state = replace(done.state, splits=MappingProxyType({**done.state.splits, **{one.id: one for one in splits}}))
    return Step(state, tuple(effect for effect in done.effects if keep(effect)))


# Assignment.


def by_counter(
    splits: Sequence[SplitId],
    readers: Sequence[int],
    previous: Owners | None,
    eligible: Mapping[int, tuple[Readable, ...]],
    policy: str,
) -> Owners:
    """Flink's rule: a new split goes to the number of known splits, modulo the readers; nothing is ever repaired."""
    if eligible:
        return SOLVE(splits, readers, previous, eligible, policy)
    owners = {key: owner for key, owner in (previous or {}).items() if key in splits}
    for key in splits:
        if key not in owners:
            owners[key] = readers[len(owners) % len(readers)]
    return owners


def from_scratch(
    splits: Sequence[SplitId],
    readers: Sequence[int],
    previous: Owners | None,
    eligible: Mapping[int, tuple[Readable, ...]],
    policy: str,
) -> Owners:
    """Even, and as if nobody had owned anything."""
    return SOLVE(splits, readers, None, eligible, "fair")


def first_claim_wins(
    claims: Sequence[Claim], may_own: Callable[[int | str, SplitId], bool]
) -> dict[SplitId, int | str]:
    """A report is believed however old its generation is."""
    owners: dict[SplitId, int | str] = {}
    for claim in reversed(claims):
        for key in claim.splits:
            if may_own(claim.reader, key):
                owners.setdefault(key, claim.reader)
    return owners


def stale_generation(state: EnumeratorState, event: Event) -> Step:
    with swapped("resolve_claims", first_claim_wins):
        return step(state, event)


def before_all_registered(state: EnumeratorState, event: Event) -> Step:
    """The first reader that registers gets everything started."""
    with swapped("_is_ready", lambda draft: bool(draft.session.registrations) and draft.state().settled):
        return step(state, event)


def levelled_at_first(state: EnumeratorState, event: Event) -> Step:
    """Where owners were never dealt, splits that readers report are moved, whatever rebalancing allows."""

    def decided(draft: Draft, previous: Owners) -> None:
        settings = draft.settings
        if not draft.dealt_to:
            draft.settings = replace(settings, rebalance=ALWAYS)
        DECIDE(draft, previous)
        draft.settings = settings

    with swapped("_decide", decided):
        return step(state, event)


def back_by_hash(state: EnumeratorState, event: Event) -> Step:
    """Splits that were given back go where a formula says, which sends them all to one reader."""
    done = step(state, event)
    if isinstance(event, SplitsGivenBack) and done.state.session.assigned:
        owned = [done.state.splits[key] for key in event.splits if key in done.state.splits]
        return changed(done, *(split._replace(owner=0) for split in owned if split.owner))
    return done


def not_revoked(state: EnumeratorState, event: Event) -> Step:
    """A split is given to its new reader, and the old one goes on with it."""
    done = step(state, event)
    return Step(done.state, tuple(effect for effect in done.effects if type(effect) is not Revoke))


def ordered_twice(state: EnumeratorState, event: Event) -> Step:
    """A message that comes twice is obeyed twice."""
    done = step(state, event)
    if isinstance(event, ReaderRegistered) and done.state is not state and not done.effects:
        owned = [split for split in done.state.splits.values() if split.owner == event.reader]
        again = (Assign(one.id, event.reader, one.position or 0, None, done.state.generation) for one in owned)
        return Step(done.state, tuple(again))
    return done


def stale_epoch(state: EnumeratorState, event: Event) -> Step:
    """A reader's failure is believed, whichever life of it failed."""
    if isinstance(event, ReaderLost):
        event = replace(event, epoch=max(event.epoch, state.session.epochs.get(event.reader, 0)))
    return step(state, event)


# Starts and positions.


def resolved_twice(state: EnumeratorState, event: Event) -> Step:
    """A second answer moves a start that nothing has been read from yet."""
    done = step(state, event)
    if isinstance(event, OffsetsResolved):
        known = [state.splits[key] for key in event.starts if key in state.splits]
        unread = [one for one in known if one.position is not None and one.first == one.position and one.active]
        moved = [one._replace(position=event.starts[one.id], first=event.starts[one.id]) for one in unread]
        return changed(
            done, *(done.state.splits[one.id]._replace(position=one.position, first=one.first) for one in moved)
        )
    return done


def resolved_after_restart(state: EnumeratorState, event: Event) -> Step:
    """Where nothing has been read yet, a restart looks the start up again, and "latest" has moved on."""
    done = step(state, event)
    if isinstance(event, SettingsChanged) and state.session.now_ms is None:
        unread = [one for one in done.state.splits.values() if one.position == 0 and one.active]
        return changed(done, *(one._replace(position=None, first=None, owner=None) for one in unread))
    return done


def later_by_strategy(state: EnumeratorState, event: Event) -> Step:
    """A partition that was added later starts where the user wanted to start: its first records are skipped."""
    done = step(state, event)
    asked = (replace(one, by=StartBy.STRATEGY) if isinstance(one, ResolveStart) else one for one in done.effects)
    return Step(done.state, tuple(asked))


def adopted_at_earliest(state: EnumeratorState, event: Event) -> Step:
    """A reported split is taken up, and where its reader stood is not."""
    if isinstance(event, ReaderRegistered):
        event = replace(event, reported={key: at if key in state.splits else 0 for key, at in event.reported.items()})
    return step(state, event)


def retained_without_position(state: EnumeratorState, event: Event) -> Step:
    """What comes back begins again."""
    done = step(state, event)
    back = [
        split
        for key, split in done.state.splits.items()
        if split.active and split.position and key in state.splits and state.splits[key].removed_at_ms is not None
    ]
    return changed(done, *(split._replace(position=0) for split in back)) if back else done


# Discovery.


def pruned_on_partial(state: EnumeratorState, event: Event) -> Step:
    """An answer that says that it lacks something is taken for a complete one."""
    if isinstance(event, PartitionsListed):
        event = replace(event, complete=True)
    return step(state, event)


def ids_joined(state: EnumeratorState, event: Event) -> Step:
    """Splits are told apart by `cluster-topic-partition`, which is the same for a + b-c and for a-b + c."""
    if isinstance(event, PartitionsListed):
        known = {f"{key.cluster}-{key.topic}-{key.partition}": key for key in sorted(state.splits, reverse=True)}
        kept = tuple(
            one
            for one in event.partitions
            if known.get(f"{event.cluster}-{one.topic}-{one.partition}", (event.cluster,))[0] == event.cluster
        )
        event = replace(event, partitions=kept)
    return step(state, event)


def silent_recreation(state: EnumeratorState, event: Event) -> Step:
    """A topic that was created anew goes on at the old offsets, and nobody is told."""
    if isinstance(event, PartitionsListed):
        known = {key: split.topic_id for key, split in state.splits.items() if split.position is not None}
        same = (
            one._replace(topic_id=known.get(SplitId(event.cluster, one.topic, one.partition), one.topic_id))
            for one in event.partitions
        )
        event = replace(event, partitions=tuple(same))
    return step(state, event)


def loss_not_reported(state: EnumeratorState, event: Event) -> Step:
    """The split begins anew, and nobody is told that something was lost."""
    done = step(state, event)
    return Step(done.state, tuple(effect for effect in done.effects if type(effect) is not ReportLoss))


def finished_again(state: EnumeratorState, event: Event) -> Step:
    """A split that was read to its end is found again, and given to a reader."""
    done = step(state, event)
    if isinstance(event, PartitionsListed) and done.state.session.assigned:
        listed = [SplitId(event.cluster, one.topic, one.partition) for one in event.partitions]
        found = [done.state.splits[key] for key in listed if key in done.state.splits]
        return changed(done, *(split._replace(finished=False, owner=0) for split in found if split.finished))
    return done


# Checkpoints and batches.


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


def one_too_far(positions: Owners, latest: Owners, offsets_max: int | None) -> dict[SplitId, int]:
    """The end of a log is taken for the offset of its last record."""
    return {key: end + 1 for key, end in plan_ends(positions, latest, offsets_max).items()}


def firsts_skipped(start: EnumeratorState, end: EnumeratorState) -> tuple[ReaderPlan, ...]:
    """What begins in a batch is read from the next batch on."""
    plans = plan_batch(start, end)
    kept = (
        ReaderPlan(plan.reader, tuple(part for part in plan.ranges if part.split in start.splits)) for plan in plans
    )
    return tuple(plan for plan in kept if plan.ranges)


def by_step(stepped: StepFunction) -> Rules:
    return Rules(step=stepped)


PLANTED: Mapping[str, Planted] = {
    "counter": Planted("Flink: known splits % readers", ("S6",), assigning_by(by_counter)),
    "from-scratch": Planted("every change deals all splits anew", ("S5", "S6"), assigning_by(from_scratch)),
    "stale-generation": Planted("an old report is believed", ("S5", "S6"), by_step(stale_generation)),
    "before-all-registered": Planted("splits go to the first readers", ("S5",), by_step(before_all_registered)),
    "levelled-at-first": Planted("a first assignment moves splits", ("S5",), by_step(levelled_at_first)),
    "back-by-hash": Planted("splits given back collapse", ("S2", "S5", "S6"), by_step(back_by_hash)),
    "not-revoked": Planted("two readers have one split", ("S2",), by_step(not_revoked)),
    "ordered-twice": Planted(
        "a registration that comes twice is obeyed twice", ("S2", "S5", "S13"), by_step(ordered_twice)
    ),
    "stale-epoch": Planted("a message of an earlier life is believed", ("S13",), by_step(stale_epoch)),
    "resolved-twice": Planted("a start moves", ("S3", "S4"), by_step(resolved_twice)),
    "resolved-after-restart": Planted("a start is looked up again", ("S3", "S4"), by_step(resolved_after_restart)),
    "later-by-strategy": Planted("new partitions start by the strategy", ("S4",), by_step(later_by_strategy)),
    "adopted-at-earliest": Planted("a reported position is not used", ("S3",), by_step(adopted_at_earliest)),
    "retained-without-position": Planted("what returns begins again", ("S3",), by_step(retained_without_position)),
    "pruned-on-partial": Planted("a partial answer removes", ("S4", "S7"), by_step(pruned_on_partial)),
    "ids-joined": Planted("a/b-c and a-b/c are one", ("S1",), by_step(ids_joined)),
    "silent-recreation": Planted("a new topic goes on at old offsets", ("S9",), by_step(silent_recreation)),
    "loss-not-reported": Planted("loss is silent", ("S9",), by_step(loss_not_reported)),
    "finished-again": Planted("a finished split is read again", ("S1",), by_step(finished_again)),
    "pending-forgotten": Planted("the checkpoint lacks what nobody owns", ("S10",), Rules(encode=pending_forgotten)),
    "unchecked": Planted("a damaged checkpoint is believed", ("S10",), Rules(decode=unchecked)),
    "one-too-far": Planted("a batch goes beyond the log", ("S12",), Rules(plan_ends=one_too_far)),
    "firsts-skipped": Planted("the first range of a split is not read", ("S15",), Rules(plan_batch=firsts_skipped)),
}
"""Name -> bug."""
