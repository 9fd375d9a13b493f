"""What can be wrong with the input of an assignment: every offender in one error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TypeVar

import numpy as np

from evensplit.core.assign.solver.problem import IntArray
from evensplit.core.assign.terms import Base, Eligible, Reader
from evensplit.core.model import Cluster, SplitId, Topic
from evensplit.core.policies import POLICIES
from evensplit.errors import AssignmentInputError

T = TypeVar("T")

PARTITION_MAX = (1 << 31) - 1
"""Kafka's partition numbers have 32 bits with a sign."""

WEIGHT_SUM_MAX = 1 << 59
"""All weights together have to stay below, so that sums fit into 64 bits."""


def checked_readers(readers: int | Sequence[Reader], eligible: Eligible, policy: str) -> tuple[Reader, ...]:
    """The readers, each once; raises AssignmentInputError for them, for `eligible` and for `policy`."""
    if isinstance(readers, str | bool) or not isinstance(readers, int | Sequence):
        raise AssignmentInputError([f"readers are {readers!r}; expected a number or a sequence of names"])
    names: tuple[Reader, ...] = tuple(range(readers)) if isinstance(readers, int) else tuple(readers)
    odd = [name for name in names if isinstance(name, bool) or not isinstance(name, int | str)]
    if odd:
        raise AssignmentInputError([f"reader {name!r} is neither a number nor a name" for name in odd])
    wrong: list[str] = []
    if policy not in POLICIES:
        wrong.append(f"policy is {policy!r}; expected one of {', '.join(POLICIES)}")
    if not names:
        found = readers if isinstance(readers, int) else "an empty sequence"
        wrong.append(f"readers are {found}; expected at least one reader")
    if len({isinstance(name, int) for name in names}) > 1:
        wrong.append("readers are numbers and texts; expected one of the two for all of them")
    wrong.extend(f"reader {name!r} was given twice; expected each reader once" for name in _repeated(names))
    known = frozenset(names)
    for name, scopes in eligible.items():
        if name not in known:
            wrong.append(f"eligible names reader {name!r}, which is not among the readers")
        wrong.extend(_scope_problems(name, scopes))
    if wrong:
        raise AssignmentInputError(wrong)
    return names


def checked_weights(
    splits: Sequence[SplitId], weight: Mapping[SplitId, int], assignable: Sequence[SplitId]
) -> IntArray:
    """(assignable,) the weights of those of `splits` that somebody may read; every one of `splits` must have one."""
    wrong: list[str] = []
    for split in splits:
        found: object = weight.get(split)
        if found is None:
            wrong.append(f"split {split} has no weight; expected one for every split")
        elif isinstance(found, bool) or not isinstance(found, int | np.integer) or found < 1:
            wrong.append(f"split {split} has weight {found!r}; expected a whole number of at least 1")
    if not wrong and sum(weight[split] for split in splits) >= WEIGHT_SUM_MAX:
        wrong.append(f"the weights sum up to {WEIGHT_SUM_MAX} or more; expected a smaller unit")
    if wrong:
        raise AssignmentInputError(wrong)
    return np.array([weight[split] for split in assignable], dtype=np.int64)


def check_base(base: Base, readers: Collection[Reader]) -> None:
    """Raise AssignmentInputError for amounts that cannot be, and for readers that are not there."""
    if not base:
        return
    known = frozenset(readers)
    wrong = [f"base names reader {name!r}, which is not among the readers" for name in base if name not in known]
    for name, found in base.items():
        amount: object = found
        if isinstance(amount, bool) or not isinstance(amount, int | np.integer) or not 0 <= amount <= WEIGHT_SUM_MAX:
            wrong.append(f"base of reader {name!r} is {amount!r}; expected a whole number of splits, at least 0")
    if wrong:
        raise AssignmentInputError(wrong)


def check_shapes(splits: object, **given: object) -> None:
    """Raise AssignmentInputError for splits that are no sequence, and for what is neither a mapping nor None."""
    wrong = []
    if isinstance(splits, str) or not isinstance(splits, Sequence):
        wrong.append(f"splits are {type(splits).__name__}; expected a list or another sequence of SplitId")
    wrong += [
        f"{name} is {value!r}; expected a mapping, or None"
        for name, value in given.items()
        if value is not None and not isinstance(value, Mapping)
    ]
    if wrong:
        raise AssignmentInputError(wrong)


def taken_apart(splits: Sequence[SplitId]) -> tuple[list[str], list[str], list[int]]:
    """The clusters, topics and partitions of `splits`; raises AssignmentInputError for those that are no ids."""
    # There are few types, so this is quick for a million; which ones are wrong is only looked for if some are.
    if set(map(type, splits)) <= {SplitId}:
        clusters, topics = list(map(itemgetter(0), splits)), list(map(itemgetter(1), splits))
        partitions = list(map(itemgetter(2), splits))
        if (
            {*map(type, clusters), *map(type, topics)} <= {str}
            and set(map(type, partitions)) <= {int}
            and 0 <= min(partitions, default=0) <= max(partitions, default=0) <= PARTITION_MAX
        ):
            return clusters, topics, partitions
    expected = f"expected SplitId(cluster, topic, partition): two names and a number from 0 to {PARTITION_MAX}"
    raise AssignmentInputError([f"{split!r} is no split; {expected}" for split in splits if not _is_split_id(split)])


def _is_split_id(split: object) -> bool:
    """Whether `split` names a partition that there can be."""
    if not isinstance(split, SplitId):
        return False
    cluster, topic, partition = tuple[object, ...](split)
    names = isinstance(cluster, str) and isinstance(topic, str)
    return names and type(partition) is int and 0 <= partition <= PARTITION_MAX


def check_changes(
    added: Collection[SplitId], removed: Collection[SplitId], is_there: Callable[[SplitId], bool]
) -> None:
    """Raise AssignmentInputError for splits that cannot be added, or cannot be removed."""
    taken_apart([*added, *removed])
    wrong = [f"split {split} was to be added, but is there already" for split in added if is_there(split)]
    wrong += [f"split {split} was to be removed, but is not there" for split in removed if not is_there(split)]
    for what, splits in (("added", added), ("removed", removed)):
        wrong += [f"split {split} was to be {what} twice; expected each split once" for split in _repeated(splits)]
    if wrong:
        raise AssignmentInputError(wrong)


def _scope_problems(name: Reader, scopes: object) -> Iterable[str]:
    expected = "expected Cluster(id), Topic(cluster, name) or SplitId(cluster, topic, partition)"
    if isinstance(scopes, str | Cluster | Topic | SplitId) or not isinstance(scopes, Collection):
        return [f"eligible of reader {name!r} is {scopes!r}; expected a collection: {expected} each"]
    return [
        f"eligible of reader {name!r} holds {scope!r}; {expected}"
        for scope in scopes
        if not isinstance(scope, Cluster | Topic | SplitId)
    ]


def _repeated(items: Iterable[T]) -> list[T]:
    """What occurs more than once, in the order in which it first does."""
    return [item for item, times in Counter(items).items() if times > 1]
