"""The types of options that limit a batch: amounts, also by cluster and topic; names in order, or with weights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evensplit.core.batch.limits import Caps, Priority, Scope, named
from evensplit.core.json_text import parse_json
from evensplit.core.model import Cluster, Topic
from evensplit.core.text import some
from evensplit.kafka.options.option import LONG_MAX, ValueType, beyond_long, is_name
from evensplit.spark.options.values import TOPIC, is_whole, shown

ALL = "*"
"""All of a level, beside the names of its parts."""

NAMES_MAX = 1_000
"""How many clusters and topics a limit, or a priority, may name."""

WEIGHT_MAX = 1_000_000

_DIGITS = re.compile(r"[0-9]{1,19}", re.ASCII)
_BYTES = re.compile(r"([0-9]{1,19})\s*(?:([kmgtp]?)(i?b)?)?", re.ASCII | re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


@dataclass(frozen=True, slots=True)
class Amounts(ValueType):
    """An amount of which a batch has no more, or JSON of amounts by cluster and topic; as Caps."""

    in_bytes: bool = False
    kind = "limit"

    @property
    def expected(self) -> str:
        if self.in_bytes:
            one = "a number of bytes, 1 or more, with or without a unit, such as 512m"
            return one + ', or JSON of them by cluster and topic, such as {"eu": {"orders": "64m"}, "*": "512m"}'
        one = "a whole number, 1 or more"
        return one + ', or JSON of them by cluster and topic, such as {"eu": {"orders": 5000}, "*": 100000}'

    def parse(self, value: object) -> Caps:
        if isinstance(value, str) and value.strip().startswith("{"):
            value = parse_json(value, strict=True)
        if not isinstance(value, dict):
            return Caps(self._amount(value))
        batch: int | None = None
        of: dict[Scope, int] = {}
        wrong: list[str] = []
        for name, inner in value.items():
            if name == ALL:
                batch = self._named(inner, shown(ALL), wrong)
            elif not _is_cluster(name):
                wrong.append(f"{shown(name)} cannot be a cluster")
            elif isinstance(inner, dict):
                self._topics(name, inner, of, wrong)
            else:
                self._put(of, Cluster(name), inner, wrong)
        if not (wrong or of or batch):
            wrong.append("it has no limit")
        if len(of) > NAMES_MAX:
            wrong.append(f"it names {len(of)} clusters and topics; expected {NAMES_MAX} at most")
        wrong.extend(_above(batch, of, value))
        if wrong:
            raise ValueError(some(wrong))
        return Caps(batch, of)

    def written(self, value: Caps) -> str:
        return str(value.batch)

    def _topics(self, cluster: str, inner: Mapping[str, Any], of: dict[Scope, int], wrong: list[str]) -> None:
        if not inner:
            wrong.append(f"cluster {shown(cluster)} has no limit")
        for name, amount in inner.items():
            if name == ALL:
                self._put(of, Cluster(cluster), amount, wrong)
            elif TOPIC.fullmatch(name):
                self._put(of, Topic(cluster, name), amount, wrong)
            else:
                wrong.append(f"{shown(name)} of cluster {shown(cluster)} cannot be a topic")

    def _put(self, of: dict[Scope, int], scope: Scope, amount: object, wrong: list[str]) -> None:
        found = self._named(amount, shown(named(scope)), wrong)
        if found is not None:
            of[scope] = found

    def _named(self, amount: object, name: str, wrong: list[str]) -> int | None:
        try:
            return self._amount(amount)
        except ValueError:
            wrong.append(f"that of {name} is {shown(amount)}")
            return None

    def _amount(self, value: object) -> int:
        text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
        if self.in_bytes:
            match = _BYTES.fullmatch(text)
            found = int(match[1]) * 1024 ** _POWERS[(match[2] or "").lower()] if match else 0
        else:
            found = int(text) if _DIGITS.fullmatch(text) else 0
        if not 1 <= found <= LONG_MAX:
            raise ValueError(f"the highest is {LONG_MAX}" if found else beyond_long(text))
        return found


@dataclass(frozen=True, slots=True)
class Ranking(ValueType):
    """Clusters and topics in order, or with weights; as Priority."""

    kind = "priority"

    @property
    def expected(self) -> str:
        return (
            'a JSON list of clusters and topics in the order in which they are read, such as ["eu/orders", "us"], or a '
            f'JSON object with their weights from 1 to {WEIGHT_MAX}, such as {{"eu": 3, "us/clicks": 2, "*": 1}}'
        )

    def parse(self, value: object) -> Priority:
        found = parse_json(value, strict=True) if isinstance(value, str) else value
        if not isinstance(found, list | dict) or not found:
            raise ValueError
        if len(found) > NAMES_MAX:
            raise ValueError(f"it names {len(found)} clusters and topics; expected {NAMES_MAX} at most")
        return _order(found) if isinstance(found, list) else _weights(found)

    def written(self, value: Priority) -> str:
        return str(value)


def _order(names: list[Any]) -> Priority:
    scopes, wrong = _scopes(names)
    wrong += [f"{shown(named(one))} is in it twice" for one in dict.fromkeys(scopes) if scopes.count(one) > 1]
    if wrong:
        raise ValueError(some(wrong))
    return Priority(order=tuple(scopes))


def _weights(weights: dict[str, Any]) -> Priority:
    scopes, wrong = _scopes([name for name in weights if name != ALL])
    wrong += [
        f"that of {shown(name)} is {shown(one)}" for name, one in weights.items() if not is_whole(one, 1, WEIGHT_MAX)
    ]
    if not scopes and not wrong:
        wrong.append("it names neither a cluster nor a topic")
    if wrong:
        raise ValueError(some(wrong))
    return Priority(weights={one: weights[named(one)] for one in scopes}, others_weight=weights.get(ALL, 1))


def _scopes(names: list[Any]) -> tuple[list[Scope], list[str]]:
    """What the names stand for, and a clause about each that stands for nothing."""
    scopes: list[Scope] = []
    wrong: list[str] = []
    for name in names:
        cluster, slash, topic = name.partition("/") if isinstance(name, str) else ("", "", "")
        if _is_cluster(cluster) and cluster != ALL and (not slash or TOPIC.fullmatch(topic)):
            scopes.append(Topic(cluster, topic) if slash else Cluster(cluster))
        else:
            wrong.append(f"{shown(name)} is neither a cluster nor cluster/topic")
    return scopes, wrong


def _is_cluster(name: str) -> bool:
    return is_name(name) and "/" not in name


def _above(batch: int | None, of: Mapping[Scope, int], given: Mapping[str, Any]) -> list[str]:
    """A clause about each limit that the one of the whole makes useless, with the amounts as they were given."""
    found: list[str] = []
    for scope, cap in of.items():
        whole = of.get(Cluster(scope.cluster)) if isinstance(scope, Topic) else None
        for most, all_, what in (
            (whole, Cluster(scope.cluster) if isinstance(scope, Topic) else scope, "its cluster as a whole"),
            (batch, None, "the batch"),
        ):
            if most is not None and cap > most:
                found.append(
                    f"that of {shown(named(scope))} is {_written(given, scope)}, which is higher than the "
                    f"{_written(given, all_)} of {what} ({shown(ALL)})"
                )
                break
    return found


def _written(given: Mapping[str, Any], scope: Scope | None) -> str:
    """The amount of a cluster, a topic or, with None, the batch, as it was given."""
    if scope is None:
        return str(given[ALL]).strip()
    inner = given[scope.id if isinstance(scope, Cluster) else scope.cluster]
    if isinstance(inner, dict):
        inner = inner[ALL if isinstance(scope, Cluster) else scope.name]
    return str(inner).strip()
