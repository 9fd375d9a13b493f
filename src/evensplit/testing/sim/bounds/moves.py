"""S19: what holds of owners by work: how many splits move in an hour, and that moves are worth it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evensplit.core.model import SplitId
from evensplit.core.policies import BALANCED
from evensplit.core.state.rates import weights
from evensplit.core.state.settings import PER_CLUSTER, RATE
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.oracle.known import Known

Owners = Mapping[SplitId, int]

HOUR_MS = 3_600_000


def follow_balance(model: Known, before: EnumeratorState, after: EnumeratorState) -> None:
    """Take in what loads are by: where they are counted, nothing is known of moves any more."""
    if after.settings.balance != RATE:
        model.moved = None
    elif model.moved is None and before.rate_moves is None and after.rate_moves is not None:
        model.moved = ()


def goes_by_work(model: Known, after: EnumeratorState) -> bool:
    """Whether owners are decided by work: it was so before, or there are capacities, or half of the rates are known."""
    if after.settings.balance != RATE:
        return False
    load = tuple(after.load())
    rated = sum(split.rate > 0 for split in load)
    return model.moved is not None or bool(after.settings.capacities) or 2 * rated >= max(1, len(load))


def check_moves(
    model: Known,
    owners: Owners,
    valid: Owners,
    readers: Sequence[int],
    after: EnumeratorState,
    *,
    levels: bool,
    dealt: bool,
) -> None:
    """Raise `Broken` if splits moved that must not, or too many, or for nothing; note those that moved.

    Args:
        owners: of all that is to be read.
        valid: those before, as far as they may keep what they had.
        levels: the settings allow moves for more even loads now.
        dealt: the number of readers has changed, or it is the first time: then as many move as that takes.
    """
    settings = after.settings
    moved = [key for key in valid if owners.get(key) != valid[key]]
    if moved and not (levels and settings.policy == BALANCED):
        what = f"rebalance is {settings.rebalance}, and the policy {settings.policy}"
        raise Broken("S5", f"{moved[0]} moved from reader {valid[moved[0]]}; {what}", moved[0])
    if not moved or dealt:
        return
    now_ms, most = after.session.now_ms or 0, settings.moves_per_hour
    if most is None:
        most = -(-len(tuple(after.load())) // 100)
    lately = tuple((at_ms, count) for at_ms, count in model.moved or () if abs(now_ms - at_ms) < HOUR_MS)
    count = len(moved) + sum(count for _, count in lately)
    if count > most:
        raise Broken("S19", f"{count} splits moved within an hour, {len(moved)} of them now; expected {most} at most")
    model.moved = (*lately, (now_ms, len(moved)))
    if owners.keys() != valid.keys():
        # What is placed raises loads, whatever moves.
        return
    per_cluster = settings.scope == PER_CLUSTER
    for cluster in dict.fromkeys(key.cluster for key in moved) if per_cluster else (None,):
        _check_gain(cluster, owners, valid, readers, after)


def _check_gain(
    cluster: str | None, owners: Owners, valid: Owners, readers: Sequence[int], after: EnumeratorState
) -> None:
    """Of the readers that gave or got something, the highest load is lower than it was, by more than the gain."""
    weight = weights(tuple(after.load()))
    of = [key for key in owners if cluster in (None, key.cluster)]
    room = {reader: dict(after.settings.capacities).get(reader, 1) for reader in readers}
    touched = {reader for key in of if owners[key] != valid[key] for reader in (owners[key], valid[key])}

    def highest(by: Owners) -> float:
        return max(sum(weight[key] for key in of if by[key] == reader) / room[reader] for reader in sorted(touched))

    least = after.settings.gain_percent / 100 * sum(weight[key] for key in of) / sum(room.values())
    was, now = highest(valid), highest(owners)
    if was - now < least * (1 - 1e-9) or now >= was:
        raise Broken("S19", f"splits moved, and the highest load went from {was:.1f} to {now:.1f}; gain: {least:.1f}")
