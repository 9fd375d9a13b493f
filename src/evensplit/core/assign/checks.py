"""What can be wrong with the input of an assignment: every offender in one error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from evensplit.core.assign.interning import Eligible, Interned, Reader
from evensplit.core.assign.policies import POLICIES
from evensplit.core.assign.problem import IntArray
from evensplit.core.model import Cluster, SplitId, Topic
from evensplit.errors import AssignmentInputError

T = TypeVar("T")

WEIGHT_SUM_MAX = 1 << 59
"""All weights together have to stay below, so that sums fit into 64 bits."""


def checked_readers(readers: int | Sequence[Reader], eligible: Eligible | None, policy: str) -> tuple[Reader, ...]:
    """The readers, each once; raises AssignmentInputError for them, for `eligible` and for `policy`."""
    if isinstance(readers, str):
        raise AssignmentInputError([f"readers are {readers!r}; expected a number or a sequence of names"])
    names: tuple[Reader, ...] = tuple(range(readers)) if isinstance(readers, int) else tuple(readers)
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
    for name, scopes in (eligible or {}).items():
        if name not in known:
            wrong.append(f"eligible names reader {name!r}, which is not among the readers")
        wrong.extend(_scope_problems(name, scopes))
    if wrong:
        raise AssignmentInputError(wrong)
    return names


def checked_weights(interned: Interned, weight: Mapping[SplitId, int], splits: Sequence[SplitId]) -> IntArray:
    """(splits,) the weights of the splits that somebody may read, in their order."""
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
    own = (weight[split] for split in interned.splits)
    return np.fromiter(own, dtype=np.int64, count=len(interned.splits))


def check_changes(
    added: Collection[SplitId], removed: Collection[SplitId], is_there: Callable[[SplitId], bool]
) -> None:
    """Raise AssignmentInputError for splits that cannot be added, or cannot be removed."""
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
