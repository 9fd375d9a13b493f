"""Planted bugs of who reads what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from evensplit.core.assign import Claim
from evensplit.core.machine import rebalance
from evensplit.core.machine.effects import Assign, Revoke
from evensplit.core.machine.enumerator import Step, step
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    Event,
    ReaderLost,
    ReaderRegistered,
    SplitsGivenBack,
)
from evensplit.core.machine.transaction import Transaction
from evensplit.core.model import Readable, SplitId
from evensplit.core.policies import EXACT
from evensplit.core.state.settings import ALL_CLUSTERS, ALWAYS
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim import Rules
from tests.sim.planting import Owners, Planted, assigning_by, by_step, changed, swapped

SOLVE = rebalance._solve
DECIDE = rebalance._decide


def by_counter(
    splits: Sequence[SplitId],
    readers: Sequence[int],
    previous: Owners | None,
    eligible: Mapping[int, tuple[Readable, ...]],
    policy: str,
    scope: str = ALL_CLUSTERS,
    *,
    rescaled: bool = False,
) -> Owners:
    """Flink's rule: a new split goes to the number of known splits, modulo the readers; nothing is ever repaired."""
    if eligible or policy not in EXACT:
        return SOLVE(splits, readers, previous, eligible, policy, scope, rescaled=rescaled)
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
    scope: str = ALL_CLUSTERS,
    *,
    rescaled: bool = False,
) -> Owners:
    """Even, and as if nobody had owned anything."""
    return SOLVE(splits, readers, None, eligible, "fair" if policy in EXACT else policy, scope, rescaled=rescaled)


def another_policy(asked: str, solved: str, *, scope: str | None = None, restricted: bool | None = None) -> Rules:
    """Owners are decided by policy `solved` where `asked` is wanted: in one scope, or with readers restricted or not.

    Each of the two is as even as the other, as far as it can be.
    """

    def solve(
        splits: Sequence[SplitId],
        readers: Sequence[int],
        previous: Owners | None,
        eligible: Mapping[int, tuple[Readable, ...]],
        policy: str,
        wanted: str = ALL_CLUSTERS,
        *,
        rescaled: bool = False,
    ) -> Owners:
        if policy == asked and scope in (None, wanted) and restricted in (None, bool(eligible)):
            policy = solved
        return SOLVE(splits, readers, previous, eligible, policy, wanted, rescaled=rescaled)

    return assigning_by(solve)


def scope_ignored(
    splits: Sequence[SplitId],
    readers: Sequence[int],
    previous: Owners | None,
    eligible: Mapping[int, tuple[Readable, ...]],
    policy: str,
    *_: object,
    rescaled: bool = False,
) -> Owners:
    """All splits are balanced together, whatever is wanted."""
    return SOLVE(splits, readers, previous, eligible, policy, rescaled=rescaled)


class WithEachEvent:
    """Owners are decided with each event of a batch, each time against those before, and given out at its end."""

    def __init__(self) -> None:
        self._now: EnumeratorState | None = None

    def __call__(self, state: EnumeratorState, event: Event) -> Step:
        """The step of one event; where the owners are by now is kept beside the state."""
        if not state.session.open or self._now is None:
            done = step(state, event)
        elif isinstance(event, BatchPlanned):
            now = {key: split.owner for key, split in self._now.splits.items() if split.owner is not None}
            with swapped("_owned", lambda draft: {key: now[key] for key in draft.splits if key in now}):
                return step(state, event)
        else:
            self._now = step(self._now, event).state
            return step(state, event)
        if isinstance(event, BatchOpened):
            self._now = replace(done.state, session=replace(done.state.session, open=False))
        return done


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
    early = property(lambda known: bool(known.session.registrations) and known.settled)
    with swapped("ready", early, EnumeratorState):
        return step(state, event)


def levelled_at_first(state: EnumeratorState, event: Event) -> Step:
    """Where owners were never dealt, splits that readers report are moved, whatever rebalancing allows."""

    def decided(draft: Transaction, previous: Owners) -> None:
        settings = draft.settings
        if not draft.assigned_readers:
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


def removed_not_revoked(state: EnumeratorState, event: Event) -> Step:
    """Who reads a split is not told when it is removed, and goes on to hold it."""
    done = step(state, event)
    return changed(
        done,
        keep=lambda effect: (
            not isinstance(effect, Revoke)
            or (effect.split in done.state.splits and done.state.splits[effect.split].removed_at_ms is None)
        ),
    )


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


BUGS: Mapping[str, Planted] = {
    "counter": Planted(
        "Flink: known splits % readers",
        ("S6",),
        assigning_by(by_counter),
        seed=2,
        like="Flink's global mode (pull request 223)",
    ),
    "from-scratch": Planted("every change deals all splits anew", ("S5", "S6"), assigning_by(from_scratch), seed=2),
    "with-each-event": Planted(
        "owners follow each event of a batch",
        ("S5", "S6"),
        by_step(WithEachEvent()),
        seed=159,
        like="evensplit, before: owners decided with each event",
    ),
    "balanced-anew": Planted(
        "restricted readers are dealt to anew", ("S6",), another_policy("balanced", "fair", restricted=True), seed=55
    ),
    "balanced-anew-per-cluster": Planted(
        "each cluster is dealt anew", ("S6",), another_policy("balanced", "fair", scope="per-cluster"), seed=3
    ),
    "sticky-moves": Planted("what is valid moves", ("S6",), another_policy("sticky", "balanced"), seed=290),
    "sticky-moves-restricted": Planted(
        "what is valid moves, of restricted readers",
        ("S6",),
        another_policy("sticky", "balanced", restricted=True),
        seed=290,
    ),
    "sticky-moves-per-cluster": Planted(
        "what is valid moves within a cluster",
        ("S6",),
        another_policy("sticky", "balanced", scope="per-cluster"),
        seed=16,
    ),
    "fair-remembers": Planted(
        "a fresh deal looks at the past", ("S6",), another_policy("fair", "balanced", scope="global"), seed=400
    ),
    "fair-remembers-per-cluster": Planted(
        "a fresh deal of clusters looks at the past",
        ("S6",),
        another_policy("fair", "balanced", scope="per-cluster"),
        seed=51,
    ),
    "scope-ignored": Planted("clusters are balanced together", ("S5", "S6"), assigning_by(scope_ignored), seed=89),
    "stale-generation": Planted(
        "an old report is believed", ("S5", "S6"), by_step(stale_generation), seed=100, like="FLINK-40710"
    ),
    "before-all-registered": Planted("splits go to the first readers", ("S5",), by_step(before_all_registered)),
    "levelled-at-first": Planted("a first assignment moves splits", ("S5",), by_step(levelled_at_first), seed=211),
    "back-by-hash": Planted("splits given back collapse", ("S2", "S5", "S6"), by_step(back_by_hash), seed=8),
    "not-revoked": Planted("two readers have one split", ("S2",), by_step(not_revoked), like="FLINK-40710"),
    "removed-not-revoked": Planted(
        "who reads what is removed keeps it", ("S2",), by_step(removed_not_revoked), like="FLINK-39514"
    ),
    "skew-kept": Planted(
        "loads are not levelled after a removal",
        ("S6",),
        another_policy("balanced", "sticky"),
        like="FLINK-39980",
        seed=9,
    ),
    "ordered-twice": Planted(
        "a registration that comes twice is obeyed twice", ("S2", "S5", "S13"), by_step(ordered_twice), seed=3
    ),
    "stale-epoch": Planted("a message of an earlier life is believed", ("S13",), by_step(stale_epoch)),
}
"""Name -> bug."""
