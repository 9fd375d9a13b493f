"""Decides which reader owns which split, and orders readers to begin and stop reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evensplit.core import assign
from evensplit.core.assign import Claim, resolve_claims
from evensplit.core.assign.by_rate import by_rate
from evensplit.core.machine.effects import Assign, Effect, Revoke, SignalNoMoreSplits
from evensplit.core.machine.transaction import Transaction
from evensplit.core.model import Readable, Split, SplitId, scopes
from evensplit.core.policies import BALANCED, FAIR, HASH, STICKY
from evensplit.core.state import rates
from evensplit.core.state.settings import ALL_CLUSTERS, ALWAYS, ON_RESCALE, PER_CLUSTER, RATE
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import TransitionError

Owners = Mapping[SplitId, int]


def conclude(transaction: Transaction) -> EnumeratorState:
    """Return the next state, with owners for all splits that are to be read; add the orders that follow.

    While a batch is open, owners stay as they are: when it is planned, they are decided once, by all that is known
    then, with the owners when it was opened as the previous ones. A host that opens no batches has them decided with
    each event. Nothing is ordered before the global assignment of a session, which is computed when every reader has
    registered and every first discovery is done. Laws: S2, S5, S6.
    """
    due = transaction.due or transaction.load_changed or transaction.session.due or transaction.rates_due
    claimed: Owners | None = None
    if transaction.session.open:
        if due != transaction.session.due:
            transaction.tell(due=True)
    elif not transaction.session.assigned:
        if transaction.state().ready:
            claimed = _claimed(transaction)
            transaction.fresh = tuple(sorted(transaction.session.registrations))
            _decide(transaction, claimed)
    elif due:
        _decide(transaction, _owned(transaction))
    _check_read(transaction)
    if transaction.session.assigned:
        after = transaction.state()
        transaction.effects.extend(_orders(transaction, after, claimed))
        _signal(transaction)
    return transaction.state()


def _owned(transaction: Transaction) -> dict[SplitId, int]:
    """Return the owner of each split, or where it has none the one when the batch was opened."""
    splits = transaction.splits
    owners = {key: split.owner for key, split in splits.items() if split.owner is not None}
    return {**{key: owner for key, owner in transaction.session.previous_owners.items() if key in splits}, **owners}


def _check_read(transaction: Transaction) -> None:
    splits = transaction.splits
    for key in transaction.read:
        split = splits[key]
        if split.owner is None and not split.finished:
            raise TransitionError(f"a batch was planned to end at {split.position} for {key}, which no reader may read")


def _claimed(transaction: Transaction) -> Owners:
    """Whose each split is at the start of a session: what the state says and what the readers report, resolved."""
    state = transaction.state()
    by_owner: dict[int, list[SplitId]] = {}
    for key, owner in _owned(transaction).items():
        by_owner.setdefault(owner, []).append(key)
    # The owners are those before this event, which may have begun another generation.
    generation = transaction.before.generation
    claims = [Claim(owner, tuple(sorted(by_owner[owner])), generation) for owner in sorted(by_owner)]
    for reader in sorted(transaction.session.registrations):
        registration = transaction.session.registrations[reader]
        claims.append(Claim(reader, tuple(sorted(registration.reported)), registration.generation))
    participants = frozenset(state.participants)
    eligible = _Eligibility(transaction.eligible)
    load = {split.id: split for split in state.load()}
    found = resolve_claims(
        claims,
        lambda reader, key: reader in participants and key in load and eligible.may_read(int(reader), key),
    )
    return {key: int(reader) for key, reader in found.items()}


def _decide(transaction: Transaction, previous: Owners) -> None:
    """Give every split to be read an owner, as policy, scope and rebalancing say."""
    state = transaction.state()
    settings, readers = state.settings, state.participants
    splits = [split.id for split in state.load()]
    eligible = _Eligibility(transaction.eligible)
    among = frozenset(readers)
    valid = {
        key: owner
        for key in splits
        if (owner := previous.get(key)) is not None and owner in among and eligible.may_read(owner, key)
    }
    rescaled = state.assigned_readers != readers
    level = settings.rebalance == ALWAYS
    if state.assigned_readers:
        level = level or (settings.rebalance == ON_RESCALE and rescaled)
    else:
        # Before the first deal there is no number of readers that could have changed, but readers may report splits.
        level = level or not valid
    owners: dict[SplitId, int] = dict(valid)
    if settings.balance == RATE and _has_weights(state):
        owners = _by_rate(transaction, state, valid, level=level, rescaled=rescaled)
    elif level:
        known: Owners = valid
        if rescaled:
            # Readers that are gone count as well: that is how `global` and `round-robin` see that there are others now.
            gone = {key: owner for key, owner in _owned(transaction).items() if owner not in among}
            known = {**gone, **previous}
        owners = _solve(
            splits, readers, known, transaction.eligible, settings.policy, settings.scope, rescaled=rescaled
        )
    elif len(valid) < len(splits):
        policy = filling(settings.policy)
        owners = _solve(splits, readers, valid, transaction.eligible, policy, settings.scope)
        if policy == HASH:
            owners.update(valid)
    for key in splits:
        split = transaction.splits[key]
        if split.owner != owners.get(key):
            transaction.put(split._replace(owner=owners.get(key)))
    transaction.assigned_readers = readers
    transaction.tell(assigned=True, due=False, previous_owners={})


def _has_weights(state: EnumeratorState) -> bool:
    """Whether there is anything to go by: capacities, or rates, now or before."""
    known = state.rate_moves is not None or bool(state.settings.capacities)
    return known or rates.is_known(tuple(state.load()))


def _by_rate(
    transaction: Transaction, state: EnumeratorState, valid: Owners, *, level: bool, rescaled: bool
) -> dict[SplitId, int]:
    """Decide owners by rates and capacities; what has no reader is placed in any case.

    When that is done for the first time, and when the number of readers has changed, as many splits move as that takes.
    Otherwise only so many move in an hour.
    """
    settings, readers, load = state.settings, state.participants, tuple(state.load())
    dealt = rescaled or state.rate_moves is None
    most = rates.moves_max(settings.moves_per_hour, len(load))
    moves_max: int | None = 0
    if level and settings.policy == BALANCED:
        moves_max = None
        if not dealt:
            # As long as the time is not known, nobody knows which moves are of the last hour.
            timed = transaction.session.now_ms is not None
            moves_max = rates.moves_left(state.rate_moves or (), most, transaction.now_ms) if timed else 0
    if not readers or not load:
        return {}
    found = by_rate(
        [split.id for split in load],
        readers,
        rates.weights(load),
        previous=valid,
        eligible=state.eligible,
        capacity=dict(settings.capacities),
        per_cluster=settings.scope == PER_CLUSTER,
        gain_percent=settings.gain_percent,
        moves_max=moves_max,
    )
    moved = sum(found.owner.get(key) != owner for key, owner in valid.items())
    if dealt and level and rates.is_known(load):
        transaction.rate_moves = state.rate_moves or ()
    elif moved and not dealt:
        transaction.rate_moves = rates.with_moves(state.rate_moves or (), moved, transaction.now_ms)
    # What moved may make another move worth it.
    transaction.tell(moves_tried=most if found.level else 0 if moved else moves_max or 0)
    return dict(found.owner)


def filling(policy: str) -> str:
    """Return the policy that gives splits without an owner one, where all others keep theirs.

    `hash` does not look at owners: a split that has one keeps it, whatever `hash` gives.
    """
    return STICKY if policy in (BALANCED, FAIR) else policy


def _solve(
    splits: Sequence[SplitId],
    readers: Sequence[int],
    previous: Owners | None,
    eligible: Mapping[int, tuple[Readable, ...]],
    policy: str,
    scope: str = ALL_CLUSTERS,
    *,
    rescaled: bool = False,
) -> dict[SplitId, int]:
    """Compute the assignment, without the splits that no reader may read."""
    if not readers or not splits:
        return {}
    there: dict[int, tuple[Readable, ...]] = {reader: eligible[reader] for reader in readers if reader in eligible}
    solve = assign.by_cluster if scope == PER_CLUSTER else assign.owners
    found = solve(splits, readers, previous=previous, eligible=there, policy=policy, rescaled=rescaled)
    return {key: int(owner) for key, owner in found.items()}


def unreadable_splits(state: EnumeratorState) -> frozenset[SplitId]:
    """Return the splits that are to be read and that no reader may read."""
    readers = state.participants
    if any(reader not in state.eligible for reader in readers):
        return frozenset()
    eligible = _Eligibility(state.eligible)
    return frozenset(
        split.id for split in state.load() if not any(eligible.may_read(reader, split.id) for reader in readers)
    )


class _Eligibility:
    """Which reader may read which split; a reader that is not named may read everything."""

    def __init__(self, eligible: Mapping[int, tuple[Readable, ...]]) -> None:
        self._eligible = {reader: frozenset(readable) for reader, readable in eligible.items()}

    def may_read(self, reader: int, key: SplitId) -> bool:
        readable = self._eligible.get(reader)
        return readable is None or any(one in readable for one in scopes(key))


def may_read(eligible: Mapping[int, tuple[Readable, ...]], reader: int, key: SplitId) -> bool:
    """Whether `reader` may read `key`."""
    return _Eligibility(eligible).may_read(reader, key)


def _orders(transaction: Transaction, after: EnumeratorState, claimed: Owners | None) -> list[Effect]:
    """Return the orders to readers: first to stop reading splits, then to begin.

    A reader reads the splits that it owned after the last event, unless it registered with this one: then none. Where a
    split goes on elsewhere than it was read, or has an end now, its reader is to stop, and to begin there.
    """
    earlier, registered = transaction.before.splits, after.session.registrations
    held_by = transaction.before.session.registrations if transaction.before.session.assigned else {}
    fresh = frozenset(transaction.fresh)
    revoked: list[Effect] = []
    assigned: list[Effect] = []
    for key in sorted(transaction.changed):
        known, split = earlier.get(key), transaction.changed[key]
        owner = known.owner if known is not None else None
        elsewhere = known is not None and split is not None and _goes_on_elsewhere(known, split)
        if split is not None and (split.finished or split.owner == owner) and not elsewhere:
            continue
        if owner is not None and owner in held_by and owner in registered and owner not in fresh:
            revoked.append(Revoke(key, owner))
        if split is not None and split.owner in registered and split.owner not in fresh:
            assigned.append(_order(split, owner, after.generation))
    if fresh:
        for key, split in after.splits.items():
            if split.owner in fresh:
                known = earlier.get(key)
                before = claimed.get(key) if claimed is not None else known.owner if known is not None else None
                assigned.append(_order(split, before, after.generation))
    return [*revoked, *assigned]


def _goes_on_elsewhere(known: Split, split: Split) -> bool:
    """Whether its reader has been told another position, or of other records there, or no end."""
    if known.position is None:
        return False
    anew = split.position == split.first and (split.first, split.since) != (known.first, known.since)
    return anew or split.stop != known.stop


def _order(split: Split, previous: int | None, generation: int) -> Assign:
    assert split.owner is not None
    assert split.position is not None
    return Assign(split.id, split.owner, split.position, previous, generation, split.topic_id, split.stop)


def _signal(transaction: Transaction) -> None:
    """Tell readers that there are no more splits to come, if that is so, once in each registration."""
    session = transaction.session
    waiting = [reader for reader in sorted(session.registrations) if reader not in session.signalled]
    if not waiting or (session.discovery and not transaction.settings.bounded):
        return
    to_come = session.listed is None or any(
        cluster.removed_at_ms is None and name not in session.listings for name, cluster in transaction.clusters.items()
    )
    if to_come or any(split.active and split.position is None for split in transaction.splits.values()):
        return
    transaction.effects.extend(SignalNoMoreSplits(reader) for reader in waiting)
    transaction.tell(signalled=tuple(sorted((*session.signalled, *waiting))))
