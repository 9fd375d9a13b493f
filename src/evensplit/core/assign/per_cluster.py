"""Each cluster balanced on its own, against all readers: the extra seats go round from one cluster to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

from evensplit.core.assign.assignment import Assignment, assign, owners
from evensplit.core.assign.input_errors import check_shapes, checked_readers, taken_apart
from evensplit.core.assign.interning import has_others
from evensplit.core.assign.terms import Eligible, Reader, Scope
from evensplit.core.model import SplitId, scopes
from evensplit.core.policies import BALANCED, STICKY

R = TypeVar("R", bound=Reader)


def by_cluster(
    splits: Sequence[SplitId],
    readers: int | Sequence[Reader],
    *,
    previous: Mapping[SplitId, Reader] | None = None,
    eligible: Mapping[R, Collection[Scope]] | None = None,
    policy: str = BALANCED,
    rescaled: bool | None = None,
) -> dict[SplitId, Reader]:
    """The owners where each cluster is balanced on its own; arguments and errors are those of `assign`.

    Each cluster's owners are what `assign` gives for that cluster alone, as even and with as few moves, with the splits
    that the readers have of other clusters as `base`: those of the clusters that were dealt before, in the order of
    their ids, and, if the policy looks at the past, those that the readers have of the others and may still read.
    So neither the order of splits nor, for the exact policies, that of readers matters, and repeating it with its own
    result as `previous` changes nothing.

    Without previous owners, and where every reader may read everything, an exact policy makes the loads over all
    clusters differ by at most one. For suppose that all of them are m or m + 1 before a cluster of q * readers + e
    splits (e < readers) is dealt. Everybody gets q, and the e seats go to readers at m first. If there are enough of
    those, all loads are m + q or m + q + 1 then; else nobody is at m + q any more, nobody at m + 1 got two, and all
    loads are m + q + 1 or m + q + 2. With previous owners, moves come first, and it may be more: two clusters with the
    same seats taken stay as they are. So it may with restricted readers.

    `hash`, `round-robin` and `global` look at no loads: each cluster is dealt as if it were the only one.
    """

    turns = _Turns(splits, readers, previous, eligible, policy, rescaled)
    found: dict[SplitId, Reader] = {}
    for own, base in turns:
        made = owners(
            own, readers, previous=turns.previous, eligible=eligible, policy=policy, base=base, rescaled=turns.rescaled
        )
        base.update(made.values())
        found.update(made)
    return found


def assign_by_cluster(
    splits: Sequence[SplitId],
    readers: int | Sequence[Reader],
    *,
    previous: Mapping[SplitId, Reader] | None = None,
    eligible: Mapping[R, Collection[Scope]] | None = None,
    policy: str = BALANCED,
    rescaled: bool | None = None,
) -> dict[str, Assignment]:
    """Cluster -> the owners that `by_cluster` gives for it, with the proof; in the order of the clusters' ids."""
    turns = _Turns(splits, readers, previous, eligible, policy, rescaled)
    found: dict[str, Assignment] = {}
    for own, base in turns:
        made = found[own[0].cluster] = assign(
            own,
            readers,
            previous=turns.previous,
            eligible=eligible,
            policy=policy,
            base=dict(base),
            rescaled=turns.rescaled,
        )
        base.update(made.owner.values())
    return found


class _Turns:
    """The splits of each cluster in turn, and what the readers have of the others; the result is to be added to it."""

    def __init__(
        self,
        splits: Sequence[SplitId],
        readers: int | Sequence[Reader],
        previous: Mapping[SplitId, Reader] | None,
        eligible: Mapping[R, Collection[Scope]] | None,
        policy: str,
        rescaled: bool | None,
    ) -> None:
        check_shapes(splits, previous=previous, eligible=eligible)
        able = cast(Eligible, eligible or {})
        there = checked_readers(readers, able, policy)
        taken_apart(splits)
        self.previous = previous or {}
        self.rescaled = has_others(self.previous, there) if rescaled is None else rescaled
        self._groups: dict[str, list[SplitId]] = {}
        for split in splits:
            self._groups.setdefault(split.cluster, []).append(split)
        self._held: dict[str, Counter[Reader]] = {}
        if policy in (BALANCED, STICKY) and self.previous:
            may_read = {reader: frozenset(able[reader]) if reader in able else None for reader in there}
            self._held = {cluster: self._kept(own, may_read) for cluster, own in self._groups.items()}

    def __iter__(self) -> Iterator[tuple[list[SplitId], Counter[Reader]]]:
        base: Counter[Reader] = Counter()
        for held in self._held.values():
            base.update(held)
        for cluster in sorted(self._groups):
            base.subtract(self._held.get(cluster, {}))
            yield self._groups[cluster], base

    def _kept(self, splits: Iterable[SplitId], may_read: Mapping[Reader, frozenset[Scope] | None]) -> Counter[Reader]:
        """How many of `splits` each reader has that it could keep."""
        kept: Counter[Reader] = Counter()
        for split in splits:
            owner = self.previous.get(split)
            if owner is None or owner not in may_read:
                continue
            own = may_read[owner]
            if own is None or not own.isdisjoint(scopes(split)):
                kept[owner] += 1
        return kept
