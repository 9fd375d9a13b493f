"""The options of `format("evensplit")`: what they mean, and every wrong one at once.

Names are those of Spark's own Kafka source where there is one, and case does not matter, as anywhere in Spark
(which hands option names over in lower case). Inside `clusters` every cluster has options of its own, under the
same names; what a cluster leaves out, it takes from the options outside.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evensplit.core.assign.policies import BALANCED, POLICIES
from evensplit.core.model import Partitions, Subscription, TopicPattern, Topics
from evensplit.core.settings import ALL_CLUSTERS, ALWAYS, REBALANCES, SCOPES
from evensplit.core.starting import EARLIEST, LATEST, Earliest, Latest, Specific, Strategy
from evensplit.errors import OptionError
from evensplit.kafka.settings import ClientSettings, parse_settings

DEFAULT_CLUSTER = "default"
"""The id of the cluster when there is one only, given by `kafka.bootstrap.servers`."""

SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")
CLUSTER_OPTIONS = (*SUBSCRIPTIONS, "startingOffsets", "endingOffsets")
ASSIGNMENT_OPTIONS = ("readers", "policy", "assignScope", "rebalance")
SOURCE_OPTIONS = ("clusters", *ASSIGNMENT_OPTIONS, "maxOffsetsPerTrigger", "includeHeaders", "includeCluster")

READERS_MAX = 100_000
LONG_MAX = 2**63 - 1

_KAFKA = "kafka."
_BOOTSTRAP = "kafka.bootstrap.servers"
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_OFFSETS_SHAPE = '{"topic": {"0": 23, "1": -2}} (-2: earliest, -1: latest)'


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """One cluster: how to reach it, what to read, from where and to where. None: not said."""

    id: str
    settings: ClientSettings
    subscription: Subscription
    starting: Strategy | None = None
    ending: Strategy | None = None
    starts_by_itself: bool = False


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options, checked.

    `policy`, `scope`, `rebalance`: see `core.settings`. `ignored`: Kafka settings that were understood and have no
    meaning here.
    """

    clusters: tuple[ClusterOptions, ...]
    readers: int | None
    offsets_max: int | None
    headers: bool
    with_cluster: bool
    policy: str = BALANCED
    scope: str = ALL_CLUSTERS
    rebalance: str = ALWAYS
    ignored: tuple[str, ...] = ()

    def cluster(self, name: str) -> ClusterOptions | None:
        """The options of one cluster; None where there are none (any more)."""
        return next((cluster for cluster in self.clusters if cluster.id == name), None)


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """The options, understood.

    Raises:
        OptionError: one or more are missing, unknown, contradictory or not of their form; it lists them all.
    """
    return _Parser({name.lower(): value for name, value in options.items()}).parse()


def check_streaming(options: SourceOptions) -> None:
    """Raises OptionError for options that have no place in a streaming query."""
    problems = [
        f"endingOffsets is given{_of(cluster)}, but a streaming query has no end; leave it out, or use spark.read"
        for cluster in options.clusters
        if cluster.ending is not None
    ]
    if problems:
        raise OptionError(problems)


def check_batch(options: SourceOptions) -> None:
    """Raises OptionError for options that have no place in a batch query."""
    problems: list[str] = []
    if options.offsets_max is not None:
        problems.append("maxOffsetsPerTrigger is given, but a batch query has no triggers; leave it out")
    for cluster in options.clusters:
        if _names(cluster.starting, Latest, LATEST):
            problems.append(
                f"startingOffsets{_of(cluster)} is latest (-1), where nothing is to be read in a batch query; "
                "expected earliest or offsets"
            )
        if _names(cluster.ending, Earliest, EARLIEST):
            problems.append(
                f"endingOffsets{_of(cluster)} is earliest (-2), where nothing is to be read in a batch query; "
                "expected latest or offsets"
            )
    if problems:
        raise OptionError(problems)


def _names(strategy: Strategy | None, kind: type, marker: int) -> bool:
    return isinstance(strategy, kind) or (isinstance(strategy, Specific) and marker in strategy.offsets.values())


def _of(cluster: ClusterOptions) -> str:
    return "" if cluster.id == DEFAULT_CLUSTER else f" of cluster {cluster.id!r}"


class _Parser:
    """One pass over the options that goes on after a wrong one, so that all are reported together."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self._problems: list[str] = []
        self._ignored: list[str] = []

    def parse(self) -> SourceOptions:
        known = {name.lower() for name in (*CLUSTER_OPTIONS, *SOURCE_OPTIONS)}
        self._unknown(self._options, known, (*CLUSTER_OPTIONS, *SOURCE_OPTIONS), where="")
        several = "clusters" in self._options
        clusters = self._clusters() if several else [self._cluster(DEFAULT_CLUSTER, {}, where="")]
        readers = self._count("readers", READERS_MAX)
        offsets_max = self._count("maxOffsetsPerTrigger", LONG_MAX)
        headers = self._flag("includeHeaders")
        with_cluster = self._flag("includeCluster")
        policy = self._choice("policy", POLICIES, BALANCED)
        scope = self._choice("assignScope", SCOPES, ALL_CLUSTERS)
        rebalance = self._choice("rebalance", REBALANCES, ALWAYS)
        if self._problems:
            raise OptionError(tuple(dict.fromkeys(self._problems)))
        return SourceOptions(
            clusters=tuple(cluster for cluster in clusters if cluster is not None),
            readers=readers,
            offsets_max=offsets_max,
            headers=bool(headers),
            with_cluster=several if with_cluster is None else with_cluster,
            policy=policy,
            scope=scope,
            rebalance=rebalance,
            ignored=tuple(sorted(set(self._ignored))),
        )

    def _unknown(self, given: Mapping[str, Any], known: set[str], names: tuple[str, ...], *, where: str) -> None:
        for name in sorted(given):
            if name.lower() in known or name.lower().startswith(_KAFKA):
                continue
            close = difflib.get_close_matches(name.lower(), [one.lower() for one in names], n=1)
            hint = next((one for one in names if close and one.lower() == close[0]), None)
            hint = f"; did you mean {hint}?" if hint else f"; expected one of {', '.join(names)}, kafka.*"
            self._problems.append(f"{name} is not an option{where}{hint}")

    def _clusters(self) -> list[ClusterOptions | None]:
        text = self._options["clusters"]
        shape = '{"east": {"kafka.bootstrap.servers": "host:9092", "subscribe": "orders"}, "west": {...}}'
        document = self._json(text, "clusters", shape, secret=True)
        if document is None:
            return []
        if not document or not all(isinstance(options, dict) for options in document.values()):
            self._problems.append(f"clusters has no clusters, or one without options; expected {shape}")
            return []
        if _BOOTSTRAP in self._options:
            self._problems.append(f"{_BOOTSTRAP} and clusters are both given; expected one of them")
        parsed: list[ClusterOptions | None] = []
        for name in sorted(document):
            where = f" of cluster {name!r}"
            if not name or len(name) > 249 or "/" in name or not name.isprintable():
                self._problems.append(
                    f"clusters names a cluster {name!r}; expected 1 to 249 printable characters without a slash"
                )
            folded: dict[str, Any] = {}
            for key, value in document[name].items():
                if key.lower() in folded:
                    self._problems.append(f"{key}{where} is given twice; expected it once (case does not matter)")
                folded[key.lower()] = value
            self._unknown(folded, {one.lower() for one in CLUSTER_OPTIONS}, CLUSTER_OPTIONS, where=where)
            parsed.append(self._cluster(name, folded, where=where))
        return parsed

    def _cluster(self, name: str, own: Mapping[str, Any], *, where: str) -> ClusterOptions | None:
        settings = self._settings(own, where=where)
        subscription = self._subscription(own, where=where)
        starting = self._offsets("startingOffsets", own, where=where)
        ending = self._offsets("endingOffsets", own, where=where)
        if settings is None or subscription is None:
            return None
        return ClusterOptions(name, settings, subscription, starting, ending, starts_by_itself="startingoffsets" in own)

    def _settings(self, own: Mapping[str, Any], *, where: str) -> ClientSettings | None:
        values: dict[str, str] = {}
        for source in (self._options, own):
            for name, value in source.items():
                if name.startswith(_KAFKA):
                    values[name.removeprefix(_KAFKA)] = value if isinstance(value, str) else json.dumps(value)
        settings, problems, ignored = parse_settings(values)
        self._problems.extend(f"{problem}{f' ({where.strip()})' if where else ''}" for problem in problems)
        self._ignored.extend(f"{_KAFKA}{name}" for name in ignored)
        return settings

    def _subscription(self, own: Mapping[str, Any], *, where: str) -> Subscription | None:
        source = own if any(name.lower() in own for name in SUBSCRIPTIONS) else self._options
        given = [name for name in SUBSCRIPTIONS if name.lower() in source]
        if len(given) != 1:
            found = " and ".join(given) if given else "none"
            self._problems.append(
                f"{found} of subscribe, subscribePattern and assign given{where}; expected exactly one"
            )
            return None
        value = source[given[0].lower()]
        parse: Callable[[Any, str], Subscription | None] = {
            "subscribe": self._topics,
            "subscribePattern": self._pattern,
            "assign": self._partitions,
        }[given[0]]
        return parse(value, where)

    def _topics(self, value: Any, where: str) -> Subscription | None:
        listed = value if isinstance(value, list) else str(value).split(",")
        names = tuple(sorted({str(name).strip() for name in listed} - {""}))
        wrong = [name for name in names if not _TOPIC.fullmatch(name)]
        if wrong or not names:
            found = f"names {', '.join(map(repr, wrong))}" if wrong else f"is {value!r}"
            self._problems.append(
                f"subscribe{where} {found}; expected topic names of 1 to 249 letters, digits, '.', '_' or '-', "
                "separated by commas"
            )
            return None
        return Topics(names)

    def _pattern(self, value: Any, where: str) -> Subscription | None:
        try:
            if not isinstance(value, str) or not value:
                raise re.error("it is empty" if value == "" else "it is not text")
            re.compile(value)
        except re.error as error:
            self._problems.append(f"subscribePattern{where} is {value!r}; expected a regular expression: {error}")
            return None
        return TopicPattern(value)

    def _partitions(self, value: Any, where: str) -> Subscription | None:
        shape = '{"topic": [0, 1]}'
        document = self._json(value, f"assign{where}", shape)
        if document is None:
            return None
        parsed: dict[str, tuple[int, ...]] = {}
        for topic, numbers in sorted(document.items()):
            if not isinstance(numbers, list) or not numbers or not all(_is_whole(number, 0) for number in numbers):
                self._problems.append(
                    f"assign{where} gives {topic!r} the partitions {numbers!r}; expected a list of numbers from 0"
                )
            elif not _TOPIC.fullmatch(topic):
                self._problems.append(f"assign{where} names {topic!r}, which cannot be a topic")
            else:
                parsed[topic] = tuple(sorted(set(numbers)))
        if not document:
            self._problems.append(f"assign{where} is empty; expected at least one partition, such as {shape}")
        return Partitions(parsed) if parsed else None

    def _offsets(self, name: str, own: Mapping[str, Any], *, where: str) -> Strategy | None:
        value = own.get(name.lower(), self._options.get(name.lower()))
        if value is None:
            return None
        if isinstance(value, str) and value.strip().lower() in ("earliest", "latest"):
            return Earliest() if value.strip().lower() == "earliest" else Latest()
        document = self._json(value, f"{name}{where}", f"earliest, latest or {_OFFSETS_SHAPE}")
        if document is None:
            return None
        offsets: dict[tuple[str, int], int] = {}
        for topic, by_partition in document.items():
            entries = by_partition.items() if isinstance(by_partition, dict) else [("?", by_partition)]
            for partition, offset in entries:
                if not (partition.isascii() and partition.isdigit() and _is_whole(offset, EARLIEST)):
                    self._problems.append(
                        f"{name}{where} has {_shown(json.dumps({topic: by_partition}))}; expected {_OFFSETS_SHAPE}"
                    )
                    break
                offsets[topic, int(partition)] = offset
        return Specific(offsets)

    def _json(self, value: Any, name: str, shape: str, *, secret: bool = False) -> dict[str, Any] | None:
        """`value` as a JSON object; it may be one already, inside `clusters`. A secret one is not shown in errors."""
        found = "not what it should be" if secret else _shown(value)
        if isinstance(value, dict):
            return value
        try:
            document = json.loads(value, object_pairs_hook=_unique) if isinstance(value, str) else None
        except ValueError as error:
            self._problems.append(f"{name} is {found}; expected {shape}: {error}")
            return None
        if not isinstance(document, dict):
            self._problems.append(f"{name} is {found}; expected {shape}")
            return None
        return document

    def _count(self, name: str, most: int) -> int | None:
        text = self._options.get(name.lower())
        if text is None:
            return None
        digits = text.strip()
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and 1 <= int(digits) <= most):
            self._problems.append(f"{name} is {text!r}; expected a whole number of at least 1 and at most {most}")
            return None
        return int(text)

    def _choice(self, name: str, known: Sequence[str], default: str) -> str:
        text = self._options.get(name.lower(), default)
        value = text.strip().lower()
        if value not in known:
            self._problems.append(f"{name} is {text!r}; expected one of {', '.join(known)}")
        return value

    def _flag(self, name: str) -> bool | None:
        text = self._options.get(name.lower())
        if text is None:
            return None
        if text.strip().lower() not in ("true", "false"):
            self._problems.append(f"{name} is {text!r}; expected true or false")
            return None
        return text.strip().lower() == "true"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice in one object")
    return found


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return repr(text if len(text) <= 100 else f"{text[:100]}…")
