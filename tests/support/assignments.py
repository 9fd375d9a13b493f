"""Assignment problems, random ones too, and what is known of them without the code under test."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx

from evensplit.core.assign import Assignment, assign, owners
from evensplit.core.assign.terms import Reader, Scope
from evensplit.core.model import Cluster, SplitId, Topic


def partitions(topic: str, count: int, cluster: str = "c") -> list[SplitId]:
    """Splits 0 .. count - 1 of a topic."""
    return [SplitId(cluster, topic, partition) for partition in range(count)]


def held_by(result: Assignment, reader: Reader) -> str:
    """The splits of a reader, as `t-0 t-1`."""
    return " ".join(f"{split.topic}-{split.partition}" for split, owner in result.owner.items() if owner == reader)


@dataclass(frozen=True)
class Instance:
    """The arguments of `assign`."""

    splits: tuple[SplitId, ...]
    readers: tuple[Reader, ...]
    previous: Mapping[SplitId, Reader]
    eligible: Mapping[Reader, frozenset[Scope]]
    weight: Mapping[SplitId, int] | None = None

    def assign(self, policy: str = "balanced", **changed: Any) -> Assignment:
        """The answer, with some of what is asked changed."""
        given = {
            "previous": self.previous,
            "eligible": self.eligible,
            "weight": self.weight,
            "splits": self.splits,
            "readers": self.readers,
            **changed,
        }
        return assign(given.pop("splits"), given.pop("readers"), policy=policy, **given)

    def may_read(self, reader: Reader, split: SplitId) -> bool:
        """The rule as it is told to users, scope by scope."""
        if reader not in self.eligible:
            return True
        return bool({Cluster(split.cluster), Topic(split.cluster, split.topic), split} & self.eligible[reader])

    def able(self, split: SplitId) -> list[Reader]:
        """The readers that may read `split`."""
        return [reader for reader in self.readers if self.may_read(reader, split)]

    def kept_by(self, split: SplitId) -> Reader | None:
        """The previous owner of `split`, if it could keep it."""
        owner = self.previous.get(split)
        return owner if owner in self.able(split) else None

    def shuffled(self, rng: random.Random) -> Instance:
        """The same in another order."""
        return replace(
            self,
            splits=tuple(rng.sample(self.splits, len(self.splits))),
            readers=tuple(rng.sample(self.readers, len(self.readers))),
            previous=dict(rng.sample(list(self.previous.items()), len(self.previous))),
            eligible=dict(rng.sample(list(self.eligible.items()), len(self.eligible))),
        )


def squares(loads: Iterator[int] | Sequence[int]) -> int:
    """The sum of the squares."""
    return sum(load * load for load in loads)


def loads_of(instance: Instance, owner: Mapping[SplitId, Reader]) -> dict[Reader, int]:
    """The load of each reader, counted one split at a time."""
    loads = dict.fromkeys(instance.readers, 0)
    for split, reader in owner.items():
        loads[reader] += 1 if instance.weight is None else instance.weight[split]
    return loads


def moves_of(instance: Instance, owner: Mapping[SplitId, Reader]) -> int:
    """How many splits left a reader that could have kept them."""
    return sum(instance.kept_by(split) not in (None, reader) for split, reader in owner.items())


def optimum(instance: Instance, *, policy: str = "balanced") -> tuple[int, int]:
    """The least sum of squared loads, and the fewest moves for it: by network simplex, with a node for each split."""
    return optimum_beside(instance, {}, policy=policy)[:2]


def optimum_beside(instance: Instance, base: Mapping[Reader, int], *, policy: str = "balanced") -> tuple[int, int, int]:
    """As `optimum`, and the least sum of each split's reader's base that is possible with both.

    A reader's places cost 1, 3, 5, … (the differences of squares) in units that outweigh all moves together, and a move
    outweighs what all readers have elsewhere.
    """
    may: dict[SplitId, list[Reader]] = {}
    for split in instance.splits:
        stays = instance.kept_by(split)
        may[split] = [stays] if policy == "sticky" and stays is not None else instance.able(split)
    readable = [split for split in instance.splits if may[split]]
    if not readable:
        return 0, 0, 0
    move = len(readable) * max(base.values(), default=0) + 1
    unit = (len(readable) + 1) * move
    graph = nx.DiGraph()
    graph.add_node("sink", demand=len(readable))
    for split in readable:
        graph.add_node(split, demand=-1)
        stays = None if policy == "fair" else instance.kept_by(split)
        for reader in may[split]:
            moves = int(stays not in (None, reader))
            graph.add_edge(split, ("reader", reader), capacity=1, weight=moves * move)
    for reader, most in Counter(reader for split in readable for reader in may[split]).items():
        for place in range(1, most + 1):
            graph.add_edge(("reader", reader), (reader, place), capacity=1, weight=base.get(reader, 0))
            graph.add_edge((reader, place), "sink", capacity=1, weight=(2 * place - 1) * unit)
    squared, rest = divmod(int(nx.network_simplex(graph)[0]), unit)
    return squared, *divmod(rest, move)


def least_largest_load(instance: Instance, *, policy: str = "balanced") -> int:
    """The least largest load with weights, by trying everything."""
    able = []
    for split in instance.splits:
        stays = instance.kept_by(split)
        able.append([stays] if policy == "sticky" and stays is not None else instance.able(split))
    readable = [split for split, readers in zip(instance.splits, able, strict=True) if readers]
    choices = itertools.product(*(readers for readers in able if readers))
    return min(max(loads_of(instance, dict(zip(readable, choice, strict=True))).values()) for choice in choices)


def random_instance(rng: random.Random, *, splits_max: int = 36, readers_max: int = 9) -> Instance:
    """One of several kinds of problem, from free to hopeless, with a past that is partly void."""
    kind = rng.choice(["free", "overlap", "overlap", "classes", "chain", "singles"])
    readers: tuple[Reader, ...] = tuple(range(rng.randint(1, readers_max)))
    if rng.random() < 0.5:
        readers = tuple(f"r{number}" for number in readers)
    splits = _splits(rng, rng.randint(0, splits_max))
    scopes: list[Scope] = [Cluster(split.cluster) for split in splits]
    scopes += [Topic(split.cluster, split.topic) for split in splits]
    scopes = [*sorted(set(scopes), key=str), Cluster("gone"), Topic("c0", "gone"), SplitId("gone", "t", 0)]
    make: Callable[[int], frozenset[Scope] | None] = {
        "free": lambda _: None,
        "overlap": lambda _: frozenset(rng.sample(scopes, rng.randint(0, min(5, len(scopes))))),
        "classes": lambda place: frozenset(scopes[at] for at in range(len(scopes)) if (at - place) % 4 < 2),
        "chain": lambda place: frozenset({scopes[place % len(scopes)], scopes[(place + 1) % len(scopes)]}),
        "singles": lambda _: frozenset(
            [*rng.sample(splits, rng.randint(0, len(splits))), *rng.sample(scopes, rng.randint(0, 2))]
        ),
    }[kind]
    eligible: dict[Reader, frozenset[Scope]] = {}
    for place, reader in enumerate(readers):
        own = make(place)
        # A reader that is absent may read everything, which relieves all others: only now and then.
        if own is not None and rng.random() < 0.9:
            eligible[reader] = own
    return Instance(splits, readers, _previous(rng, splits, readers, eligible), eligible)


def _splits(rng: random.Random, count: int) -> tuple[SplitId, ...]:
    clusters, topics = rng.randint(1, 3), rng.randint(1, 5)
    ids = [
        SplitId(f"c{cluster}", f"t{topic}", partition)
        for cluster in range(clusters)
        for topic in range(topics)
        for partition in range(12)
    ]
    return tuple(rng.sample(ids, min(count, len(ids))))


def _previous(
    rng: random.Random,
    splits: Sequence[SplitId],
    readers: Sequence[Reader],
    eligible: Mapping[Reader, frozenset[Scope]],
) -> dict[SplitId, Reader]:
    """None at all, everything piled on few readers, or anything; some owners are gone, some may not read theirs."""
    kind = rng.choice(["none", "piled", "random", "random", "valid"])
    if kind == "none":
        return {}
    known = Instance(tuple(splits), tuple(readers), {}, eligible)
    owners: list[Reader] = [*readers, "gone" if isinstance(readers[0], str) else len(readers) + 3]
    if kind == "piled":
        owners = rng.sample(owners, min(2, len(owners)))
    previous: dict[SplitId, Reader] = {SplitId("c0", "not any more", 0): readers[0]}
    for split in splits:
        among = (known.able(split) or owners) if kind == "valid" else owners
        if rng.random() < 0.85:
            previous[split] = rng.choice(among)
    return previous


def balance(splits: Sequence[SplitId], readers: int, previous: Mapping[SplitId, int]) -> dict[SplitId, int]:
    """The owners by the policy `balanced`, for readers by number that may read everything."""
    return {split: int(reader) for split, reader in owners(splits, readers, previous=previous).items()}


def moves(before: Mapping[SplitId, int], after: Mapping[SplitId, int], readers: int) -> int:
    """How many splits left a reader by number that is still there."""
    return sum(before[split] != owner and before[split] < readers for split, owner in after.items() if split in before)
