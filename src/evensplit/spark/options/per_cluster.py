"""The options of one cluster: its own, and those outside where it has none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evensplit.core.model import Partitions, Subscription, TopicPattern, Topics
from evensplit.core.state.offset_strategies import Strategy
from evensplit.core.text import short
from evensplit.kafka.options.client import NO_SERVERS, ClientSettings, named, parse_settings
from evensplit.kafka.options.client_options import BOOTSTRAP_SERVERS, PREFIX
from evensplit.kafka.options.local_access import EVERYTHING, Allowed
from evensplit.kafka.options.metadata_limits import refusals, theirs_of
from evensplit.kafka.options.option import INT_MAX, NAME_CHARACTERS_MAX, is_name
from evensplit.kafka.options.security import without_unused
from evensplit.registry.settings import PREFIX as REGISTRY_PREFIX
from evensplit.registry.settings import RegistrySettings
from evensplit.spark.options.hints import sought
from evensplit.spark.options.rows.registries import parse_registry
from evensplit.spark.options.spec import clusters as spec
from evensplit.spark.options.spec.clusters import ASSIGN, GROUP, NO_RECORD, STOP, SUBSCRIBE, SUBSCRIBE_PATTERN
from evensplit.spark.options.start_stop import (
    OFFSET_OPTIONS,
    STARTS,
    NoRecord,
    ParsedOffsets,
    by_group,
    parse_end,
    parse_start,
    undemanding,
)
from evensplit.spark.options.values import TOPIC, RawOptions, file_of, is_whole, shown

DEFAULT_CLUSTER = "default"
"""The id of the cluster when there is one only, given by `kafka.bootstrap.servers`."""

KAFKA = PREFIX
REGISTRY = REGISTRY_PREFIX
BOOTSTRAP = BOOTSTRAP_SERVERS.name
SUBSCRIPTIONS = tuple(one.name for one in spec.SUBSCRIPTIONS)


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """One cluster: how to reach it, what to read, from where and to where."""

    id: str
    settings: ClientSettings
    subscription: Subscription

    starting: Strategy | None = None
    """Where reading starts; None: not given."""

    ending: Strategy | None = None
    """Where reading ends; None: not given."""

    starts_by_itself: bool = False
    """Its start is an option of its own, not one outside."""

    ends_stream: bool = False
    """Its end is from `stop` or from the metadata, so it ends streaming queries, too."""

    registry: RegistrySettings | None = None
    """The schema registry of its producers; None: none is given."""

    where: str = ""
    """Its place in the metadata, for messages."""

    starting_option: str = ""
    """The option that decided where reading starts, for messages; empty if none did."""

    ending_option: str = ""
    """The same of where it ends."""


class ClusterParser:
    """Parses clusters that share the same options outside.

    Problems go to those of `outside`; a problem that several clusters share is there several times. `ignored` has the
    Kafka settings that have no effect here, with `kafka.`.

    Clusters of metadata may use of this machine only what is `allowed`. Sentences about other uses go to `refused`.
    """

    def __init__(self, outside: RawOptions, allowed: Allowed = EVERYTHING, refused: list[str] | None = None) -> None:
        self._outside = outside
        self._allowed = allowed
        self._refused = outside.problems if refused is None else refused
        self._outside_starts: dict[NoRecord, ParsedOffsets | None] = {}
        self._outside_end = parse_end(outside, ours=False)
        self.ignored: list[str] = []
        self.registry = parse_registry(outside)
        """That of clusters that have none of their own."""

    def parse(
        self, name: str, own: Mapping[str, Any], *, where: str, in_metadata: bool = False, place: str = ""
    ) -> ClusterOptions | None:
        """The cluster `name` with the options `own`, names in lower case; None if they are wrong.

        `where` follows the name of an option in a sentence. In metadata, `startingOffsets` and `endingOffsets` may have
        the form of `start` and `stop`, too, and an end may end a streaming query.
        """
        if in_metadata:
            own = self._without_files(own, where)
        given = RawOptions(own, self._outside.problems, where)
        settings = self.settings(own, where=where, in_metadata=in_metadata)
        subscription = self._subscription(given)
        start = self._start(given, in_metadata=in_metadata)
        end = parse_end(given, ours=in_metadata)
        ends_by_itself = end is not None
        # A registry is one with its login: of what stands outside, nothing goes to that of a cluster.
        its_own = any(one.startswith(REGISTRY) for one in given.options) and not in_metadata
        registry = parse_registry(given) if its_own else self.registry
        end = end or (undemanding(self._outside_end) if in_metadata else self._outside_end)
        if settings is None or subscription is None:
            return None
        return ClusterOptions(
            name,
            settings,
            subscription,
            start.strategy if start else None,
            end.strategy if end else None,
            starts_by_itself=bool(given.among([one.name for one in (*STARTS, GROUP)])),
            ends_stream=end is not None and (end.option == STOP.name or (in_metadata and ends_by_itself)),
            registry=registry,
            where=place,
            starting_option=start.option if start else "",
            ending_option=end.option if end else "",
        )

    def settings(self, own: Mapping[str, Any], *, where: str, in_metadata: bool = False) -> ClientSettings | None:
        """How to reach a cluster; None if the options are wrong."""
        both: list[dict[str, str]] = []
        for source in (self._outside.options, own):
            values: dict[str, str] = {}
            for name, value in source.items():
                if not name.startswith(KAFKA) or sought(name, prefixed=True):
                    continue
                if isinstance(value, dict | list) or value is None:
                    shown_name = short(name)
                    self._outside.problems.append(
                        f"{shown_name}{where} is no text; expected a text, a number, true or false"
                    )
                    continue
                values[name.removeprefix(KAFKA)] = value if isinstance(value, str) else json.dumps(value)
            both.append(values)
        outer, inner = both
        values = {**without_unused(outer, inner), **inner}
        theirs: tuple[str, ...] = ()
        if in_metadata:
            said, ours = named(values), named(outer)
            theirs = theirs_of(said, ours)
            self._refused.extend(f"{problem} ({where.strip()})" for problem in refusals(said, ours, self._allowed))
        settings, problems, ignored = parse_settings(values, theirs, self._allowed)
        if self._is_meant(RawOptions({}, self._outside.problems, where), BOOTSTRAP):
            problems = [problem for problem in problems if problem != NO_SERVERS]
        self._outside.problems.extend(f"{problem}{f' ({where.strip()})' if where else ''}" for problem in problems)
        self.ignored.extend(f"{KAFKA}{name}" for name in ignored)
        return settings

    def _without_files(self, own: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        """`own` without positions in files: an error would show what else is in the file."""
        names = tuple(one.name for one in OFFSET_OPTIONS)
        places = {name: (name.lower(), file_of(own.get(name.lower()))) for name in names}
        files = {key: (name, file) for name, (key, file) in places.items() if file is not None}
        self._refused.extend(
            f"{name} names the file {short(file)!r} of this machine, which is not for metadata to have read; "
            f"write the positions themselves ({where.strip()})"
            for name, file in files.values()
        )
        return {name: value for name, value in own.items() if name not in files}

    def _start(self, own: RawOptions, *, in_metadata: bool) -> ParsedOffsets | None:
        no_record: NoRecord = (own if NO_RECORD.name in own else self._outside).read(NO_RECORD)
        group = (own if GROUP.name in own else self._outside).read(GROUP)
        if no_record not in self._outside_starts:
            self._outside_starts[no_record] = parse_start(self._outside, no_record, ours=False)
        outside = self._outside_starts[no_record]
        # The options cannot know which partitions the clusters of the metadata have.
        start = parse_start(own, no_record, ours=in_metadata) or (undemanding(outside) if in_metadata else outside)
        if group is None:
            return start
        return ParsedOffsets(start.option if start else GROUP.name, by_group(start.strategy if start else None, group))

    def _is_meant(self, own: RawOptions, name: str) -> bool:
        """Whether an unknown name was probably meant to be `name`. The error about it covers that `name` is missing."""
        return own.is_meant(name) or self._outside.is_meant(name)

    def _subscription(self, own: RawOptions) -> Subscription | None:
        source = own if own.among(SUBSCRIPTIONS) else self._outside
        given = source.among(SUBSCRIPTIONS)
        if len(given) != 1:
            if not given and any(self._is_meant(own, name) for name in SUBSCRIPTIONS):
                return None
            rule = "Only one of the following options can" if given else "One of the following options must"
            own.problems.append(
                f"{rule} be specified{own.where}: {', '.join(SUBSCRIPTIONS)}; found {' and '.join(given) or 'none'}"
            )
            return None
        if given[0] == SUBSCRIBE_PATTERN.name:
            pattern = source.read(SUBSCRIBE_PATTERN)
            return None if pattern is None else TopicPattern(pattern)
        return _topics(source) if given[0] == SUBSCRIBE.name else _partitions(source)


def cluster_name_problem(name: str, option: str) -> str | None:
    """The problem of a cluster's id, in a sentence about `option`; None if it is right."""
    if is_name(name) and "/" not in name:
        return None
    return (
        f"{option} names a cluster {shown(name)}; expected 1 to {NAME_CHARACTERS_MAX} printable characters without a "
        "slash"
    )


def _topics(given: RawOptions) -> Subscription | None:
    value = given.value(SUBSCRIBE.name)
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(name, str) for name in listed):
        given.wrong(SUBSCRIBE)
        return None
    names = tuple(sorted({name.strip() for name in listed} - {""}))
    wrong = [name for name in names if not TOPIC.fullmatch(name)]
    if wrong:
        given.problems.append(
            f"{SUBSCRIBE.name}{given.where} names {', '.join(map(shown, wrong))}; expected {SUBSCRIBE.type.expected}"
        )
    elif not names:
        given.wrong(SUBSCRIBE, "no topics to subscribe to")
    return Topics(names) if names and not wrong else None


def _partitions(given: RawOptions) -> Subscription | None:
    document = given.document(ASSIGN)
    if document is None:
        return None
    parsed: dict[str, tuple[int, ...]] = {}
    for topic, numbers in sorted(document.items()):
        if not isinstance(numbers, list) or not numbers or not all(is_whole(one, 0, INT_MAX) for one in numbers):
            given.problems.append(
                f"assign{given.where} gives {shown(topic)} the partitions {shown(numbers)}; expected a list of numbers "
                "from 0"
            )
        elif not TOPIC.fullmatch(topic):
            given.problems.append(f"assign{given.where} names {shown(topic)}, which cannot be a topic")
        else:
            parsed[topic] = tuple(sorted(set(numbers)))
    if not document:
        form = f"at least one partition, such as {ASSIGN.type.expected}"
        given.wrong(ASSIGN, "no topicpartitions to assign", expected=form)
    return Partitions(parsed) if parsed else None
