"""States made from given owners, and the evenness that is proven of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evensplit.core.model import ClusterState, Split, SplitId
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.evenness import Evenness


def state_of(
    readers: int, owners: Mapping[str, int | None], settings: Settings | None = None, generation: int = 1
) -> EnumeratorState:
    """`a0`: 1 means that partition 0 of topic a of cluster c, at offset 5, where it began, is with reader 1.

    `d_a0`: the same of cluster d.
    """
    found: list[Split] = []
    for name, owner in owners.items():
        cluster, _, rest = name.rpartition("_")
        found.append(Split(SplitId(cluster or "c", rest[0], int(rest[1:])), "id", 5, 5, owner))
    splits = {split.id: split for split in sorted(found)}
    clusters = {key.cluster: ClusterState(key.cluster, ("host:1",), False, True) for key in splits}
    return EnumeratorState(readers, clusters, splits, settings or Settings(), generation, True, tuple(range(readers)))


def state(
    readers: int, settings: Settings | None = None, *, generation: int = 1, **owners: int | None
) -> EnumeratorState:
    """The same, with the owners as keywords."""
    return state_of(readers, owners, settings, generation)


def with_splits(one: EnumeratorState, **fields: object) -> EnumeratorState:
    """The state with the same changed in all of its splits."""
    splits: Mapping[SplitId, Split] = {key: split._replace(**fields) for key, split in one.splits.items()}  # type: ignore[arg-type]
    return replace(one, splits=splits)


def only(found: tuple[Evenness, ...]) -> Evenness:
    (one,) = found
    return one
