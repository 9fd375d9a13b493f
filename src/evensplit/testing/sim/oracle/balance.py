"""Who owns what, against the rules: S5 (when an owner may change) and S6 (how even, with how few moves).

Owners are compared with those at the opening of the batch, or before the event where a host opens none. What moved is
the least that the policy needs: for `balanced`, the fewest moves between the most even owners; for `sticky`, nothing
that was valid; for `fair`, which ignores the past, whatever a fresh deal takes. Per cluster, each for itself. Loads and
moves are compared with the closed form where every reader may read everything, and with a certified assignment where
not; and `core.evenness` has to say the same of the two states. What holds of owners by work is in `bounds.moves`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from evensplit.core.assign import assign, assign_by_cluster
from evensplit.core.machine.events import BatchOpened, Event, ParallelismChanged, SplitsGivenBack
from evensplit.core.model import Cluster, Readable, SplitId, Topic
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.evenness import evenness
from evensplit.testing.sim.bounds.moves import check_moves, follow_balance, goes_by_work
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.oracle.splits import Model

Owners = dict[SplitId, int]


def moves_least(loads: Sequence[int], total: int) -> int:
    """The least number of moves from `loads`, the splits that readers have, to an even assignment of `total` splits."""
    quota, extra = divmod(total, len(loads))
    return sum(max(0, load - quota) for load in loads) - min(extra, sum(load > quota for load in loads))


def filled(loads: Sequence[int], added: int) -> list[int]:
    """The most even loads, ascending, that `added` more splits can lead to when nothing moves."""
    levels = sorted(loads)
    for _ in range(added):
        levels[0] += 1
        levels.sort()
    return levels


def hash_owner(split: SplitId, readers: Sequence[int]) -> int:
    """Flink's rule: Java's `String.hashCode` of the topic gives the first reader, the partition counts on from it."""
    code = 0
    for unit in split.topic.encode("utf-16-be")[1::2]:
        code = (code * 31 + unit) & 0xFFFFFFFF
    start = ((code * 31) & 0x7FFFFFFF) % len(readers)
    return readers[(start + split.partition) % len(readers)]


class Evenness:
    """Checks the owners of one session."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._opening: EnumeratorState | None = None
        self._had: Owners = {}
        """Whose splits were when the batch was opened, or until the number of their readers was gone."""

    def check(self, event: Event, before: EnumeratorState, after: EnumeratorState) -> None:
        """Raise `Broken` if the owners of `after` are not what its policy makes of those of `before`."""
        model = self._model
        self._follow(event, before, after)
        dealt = model.moved is None
        follow_balance(model, before, after)
        if after.session.open:
            self._unchanged(event, before, after)
            return
        if not after.session.assigned:
            return
        readers = [reader for reader in range(after.readers) if reader not in model.removed]
        if not before.session.assigned and any(reader not in model.registered for reader in readers):
            raise Broken("S5", "splits were assigned before every reader had registered")
        active = [
            key
            for key, split in after.splits.items()
            if split.position is not None and not split.finished and split.removed_at_ms is None
        ]
        first = not before.session.assigned
        owned = {**self._had, **owners_of(before, model.renamed)}
        self._had = {}
        previous = self._claimed(before, after, owned) if first else {key: owned[key] for key in active if key in owned}
        if type(event) is SplitsGivenBack:
            # What nobody else has waits for the reader that gave it back.
            for key in event.splits:
                previous.setdefault(key, event.reader)
        # Where owners were never dealt, there is no number of readers that could have changed.
        rescaled = bool(model.assigned_readers) and tuple(readers) != model.assigned_readers
        rebalance = after.settings.rebalance
        levels = rebalance == "always" or (rebalance == "on-rescale" and rescaled)
        dealt = dealt or tuple(readers) != model.assigned_readers
        anew = not model.assigned_readers
        model.assigned_readers = tuple(readers)
        owners = {key: owner for key in active if (owner := after.splits[key].owner) is not None}
        eligible = after.eligible
        if not readers:
            return
        valid = {
            key: owner
            for key in active
            if (owner := previous.get(key)) is not None and owner in readers and may_read(eligible, owner, key)
        }
        self._everyone(active, owners, readers, after)
        if goes_by_work(model, after):
            levels = levels or (anew and not valid)
            check_moves(model, owners, valid, readers, after, levels=levels, dealt=dealt)
            return
        if levels:
            self._promised(active, owners, readers, after)
        if levels and not first and type(event) is not SplitsGivenBack and after.generation != before.generation:
            self._proven(self._opening if before.session.open and self._opening is not None else before, after)
        if after.settings.scope == "per-cluster":
            for cluster in {key.cluster: True for key in active}:
                own = [key for key in active if key.cluster == cluster]
                self._group(own, owners, valid, readers, after, levels=levels)
        else:
            self._group(active, owners, valid, readers, after, levels=levels)

    def _follow(self, event: Event, before: EnumeratorState, after: EnumeratorState) -> None:
        """Keep whose splits were, by the names that clusters have now."""
        if type(event) is BatchOpened:
            self._opening, self._had = after, owners_of(after)
        elif type(event) is ParallelismChanged:
            # Should the number be there again before anybody else has them, they are still its own.
            gone = {key: owner for key, owner in owners_of(before).items() if owner >= after.readers}
            self._had = {**gone, **self._had}
        renamed = self._model.renamed
        if renamed is not None:
            self._had = {
                key._replace(cluster=renamed[1]) if key.cluster == renamed[0] else key: owner
                for key, owner in self._had.items()
            }

    def _unchanged(self, event: Event, before: EnumeratorState, after: EnumeratorState) -> None:
        """S5: while a batch is open, splits lose owners, since they are gone, and none is given another one.

        What nobody has waits for the reader that gave it back.
        """
        earlier = owners_of(before, self._model.renamed)
        for key, owner in owners_of(after).items():
            if type(event) is SplitsGivenBack and key in event.splits and key not in earlier and owner == event.reader:
                continue
            if earlier.get(key) not in (None, owner) or (key not in earlier and key in before.splits):
                raise Broken("S5", f"{key} was given to reader {owner} before the batch was planned", key)

    def _claimed(self, before: EnumeratorState, after: EnumeratorState, owned: Owners) -> Owners:
        """Whose each split is before the first assignment: the highest generation's, nobody's if two share it."""
        removed, eligible = self._model.removed, after.eligible
        claims: list[tuple[int, int, Iterable[SplitId]]] = [
            (before.generation, owner, (key,)) for key, owner in owned.items()
        ]
        for reader, claim in self._model.claims.items():
            claims.append((-1 if claim.generation is None else claim.generation, reader, claim.splits))
        best: dict[SplitId, tuple[int, int | None]] = {}
        for generation, reader, splits in claims:
            if reader >= after.readers or reader in removed:
                continue
            for key in splits:
                found = best.get(key)
                if not may_read(eligible, reader, key):
                    continue
                if found is None or found[0] < generation:
                    best[key] = generation, reader
                elif found[0] == generation and found[1] != reader:
                    best[key] = generation, None
        return {key: owner for key, (_, owner) in best.items() if owner is not None}

    def _everyone(self, active: list[SplitId], owners: Owners, readers: list[int], after: EnumeratorState) -> None:
        eligible = after.eligible
        for key in active:
            owner = owners.get(key)
            if owner is None:
                if any(may_read(eligible, reader, key) for reader in readers):
                    raise Broken("S1", f"{key} has no owner, and there are readers for it", key)
            elif owner not in readers:
                raise Broken("S5", f"{key} belongs to reader {owner}, which was removed", key)
            elif not may_read(eligible, owner, key):
                raise Broken("S6", f"{key} belongs to reader {owner}, which may not read it", key)

    def _promised(self, active: list[SplitId], owners: Owners, readers: list[int], after: EnumeratorState) -> None:
        """S6: `fair` ignores the past, so its owners are those of a fresh deal, and what moves is what that takes."""
        if after.settings.policy != "fair" or not active:
            return
        may = able(after, readers)
        if after.settings.scope == "per-cluster":
            dealt = assign_by_cluster(active, readers, eligible=may, policy="fair")
            fresh = {key: owner for one in dealt.values() for key, owner in one.owner.items()}
        else:
            fresh = {**assign(active, readers, eligible=may, policy="fair").owner}
        for key in active:
            if owners.get(key) != fresh.get(key):
                raise Broken(
                    "S6", f"{key} belongs to reader {owners.get(key)}; in a fresh deal it is {fresh.get(key)}'s", key
                )

    def _proven(self, opening: EnumeratorState, after: EnumeratorState) -> None:
        """S6: the core's own proof, from the two states alone, says the same."""
        for one in evenness(opening, after) if after.settings.policy == "balanced" else ():
            proof = one.certificate
            if proof is not None and (not proof.even or (proof.moved_bound is not None and not proof.fewest_moves)):
                raise Broken("S6", f"between the opening of the batch and its end: {one.statement()}")

    def _group(
        self,
        splits: list[SplitId],
        owners: Owners,
        valid: Owners,
        readers: list[int],
        after: EnumeratorState,
        *,
        levels: bool,
    ) -> None:
        """What moved among `splits`, the ones of one cluster or all, and how even they are now."""
        settings = after.settings
        policy, eligible = settings.policy, after.eligible
        moved = [key for key in splits if key in valid and owners.get(key) != valid[key]]
        own = {key: valid[key] for key in splits if key in valid}
        if not levels and own:
            if moved:
                raise Broken("S5", f"{moved[0]} changed its owner; rebalance is {settings.rebalance}", moved[0])
            if policy in ("balanced", "sticky", "fair"):
                self._sticky(splits, owners, own, readers, after)
        elif policy == "hash" and not eligible:
            for key in splits:
                if owners[key] != hash_owner(key, readers):
                    raise Broken("S6", f"{key} belongs to reader {owners[key]}, by hash to another", key)
        elif policy == "sticky":
            self._sticky(splits, owners, own, readers, after)
        elif policy == "balanced" and eligible:
            self._certified(splits, owners, own, readers, after)
        elif policy in ("balanced", "fair") and not eligible:
            loads = loads_of(splits, owners, readers)
            if max(loads) - min(loads) > 1:
                raise Broken("S6", f"loads are {loads}; they differ by more than one")
            least = moves_least(loads_of(list(own), own, readers), len(splits))
            if policy == "balanced" and len(moved) != least:
                raise Broken("S6", f"{len(moved)} splits moved ({moved[0] if moved else ''}); {least} are enough")

    def _sticky(
        self, splits: list[SplitId], owners: Owners, valid: Owners, readers: list[int], after: EnumeratorState
    ) -> None:
        """Nothing valid moves, and the others go where that makes loads as even as it allows."""
        for key in splits:
            if key in valid and owners.get(key) != valid[key]:
                raise Broken("S6", f"{key} moved from reader {valid[key]}, and nothing may move", key)
        if after.eligible:
            self._certified(splits, owners, valid, readers, after, policy="sticky")
            return
        best = filled(loads_of(list(valid), valid, readers), len(splits) - len(valid))
        loads = sorted(loads_of(splits, owners, readers))
        if loads != best:
            raise Broken("S6", f"loads are {loads}; {best} is possible without a move")

    def _certified(
        self,
        splits: list[SplitId],
        owners: Owners,
        valid: Owners,
        readers: list[int],
        after: EnumeratorState,
        *,
        policy: str = "balanced",
    ) -> None:
        best = assign(splits, readers, previous={**valid}, eligible=able(after, readers), policy=policy)
        if not best.verify():
            raise Broken("S6", f"the certificate does not hold: {best.problems()[0]}")
        loads = sorted(loads_of(splits, owners, readers))
        if loads != sorted(best.loads.values()):
            raise Broken("S6", f"loads are {loads}; {sorted(best.loads.values())} is the optimum")
        moved = sum(key in valid and owners.get(key) != valid[key] for key in splits)
        if moved != best.moved:
            raise Broken("S6", f"{moved} splits moved; {best.moved} are enough")


def able(state: EnumeratorState, readers: Sequence[int]) -> dict[int, tuple[Readable, ...]]:
    """What those of `readers` may read that may not read everything."""
    return {reader: readable for reader, readable in state.eligible.items() if reader in readers}


def owners_of(state: EnumeratorState, renamed: tuple[str, str] | None = None) -> Owners:
    """Whose each split is; `renamed`: by the second name of a cluster instead of the first."""
    was, now = renamed or ("", "")
    return {
        key._replace(cluster=now) if renamed is not None and key.cluster == was else key: split.owner
        for key, split in state.splits.items()
        if split.owner is not None
    }


def loads_of(splits: Sequence[SplitId], owners: Mapping[SplitId, int], readers: Sequence[int]) -> list[int]:
    """How many of `splits` each of `readers` owns."""
    counts = dict.fromkeys(readers, 0)
    for key in splits:
        if key in owners:
            counts[owners[key]] += 1
    return list(counts.values())


def may_read(eligible: Mapping[int, tuple[Readable, ...]], reader: int, split: SplitId) -> bool:
    """Whether `reader` may read `split`; one that `eligible` does not name may read everything."""
    if reader not in eligible:
        return True
    for what in eligible[reader]:
        if what == split:
            return True
        if isinstance(what, Cluster) and what.id == split.cluster:
            return True
        if isinstance(what, Topic) and (what.cluster, what.name) == (split.cluster, split.topic):
            return True
    return False
