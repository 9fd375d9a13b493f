"""Parses the options of `format("evensplit")`, and reports all wrong ones at once.

Each option is declared (see `spec`). Names are those of Spark's own Kafka source where it has one. Case does not
matter, as Spark hands option names over in lower case. Inside `clusters` every cluster has options of its own under the
same names; it takes those that it leaves out from outside. With `metadata`, the clusters come from there while the
query runs, and take options from outside in the same way (`parse_clusters`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from evensplit.core.model import Readable, TopicPattern, Topics
from evensplit.core.state.offset_strategies import EARLIEST, LATEST, Earliest, Latest
from evensplit.core.state.settings import Settings
from evensplit.errors import OptionError
from evensplit.kafka.options.local_access import NOTHING, Allowed, parse_allowed
from evensplit.kafka.options.option import INT_MAX
from evensplit.metadata.checks import PROBLEMS_MAX
from evensplit.registry.settings import RegistrySettings
from evensplit.spark.options import rules
from evensplit.spark.options.capacities import parse_capacities
from evensplit.spark.options.limits import Limits, check_scopes
from evensplit.spark.options.per_cluster import (
    BOOTSTRAP,
    DEFAULT_CLUSTER,
    KAFKA,
    REGISTRY,
    ClusterOptions,
    ClusterParser,
    cluster_name_problem,
)
from evensplit.spark.options.pins import parse_pins
from evensplit.spark.options.reading import ReadOptions
from evensplit.spark.options.rows.row_columns import row_columns
from evensplit.spark.options.rows.sides import Lookup, SchemaSource
from evensplit.spark.options.spec.all import CLUSTER_OPTIONS, DECLARED, SOURCE_OPTIONS
from evensplit.spark.options.spec.clusters import ALLOW, CLUSTERS, METADATA, METADATA_OWN
from evensplit.spark.options.start_stop import contradictions, says
from evensplit.spark.options.values import RawOptions

__all__ = [
    "ClusterOptions",
    "MetadataOptions",
    "SourceOptions",
    "batch_problems",
    "check_batch",
    "check_streaming",
    "parse_clusters",
    "parse_options",
    "streaming_problems",
]

_OWN_PREFIX = METADATA_OWN.name.removesuffix("<name>")
# Stands in for a cluster where only the options outside are checked.
_ANY_CLUSTER = {BOOTSTRAP: "host:9092", "subscribe": "topic"}


@dataclass(frozen=True, slots=True)
class MetadataOptions:
    """Where the metadata of clusters come from, and which of their streams are read."""

    location: str = field(repr=False)
    """A file, a URL or the dotted name of a class."""

    streams: tuple[str, ...] | None
    """Ids of the streams to read, ascending; None: those of `streams_pattern`."""

    streams_pattern: str | None
    """A regular expression that is found in the ids of the streams to read; None: all, if `streams` is None too."""

    token_env: str
    """Environment variable with the bearer token; empty: none."""

    token_file: str
    """File with the bearer token; empty: none."""

    timeout_ms: int
    """How long one answer may take."""

    failures_max: int
    """How many answers in a row may fail."""

    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The options for the user's class, without `metadata.` and in lower case."""

    allowed: Allowed = NOTHING
    """What the metadata may use of this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """All options, checked."""

    clusters: tuple[ClusterOptions, ...]
    """The clusters to read; empty where `metadata` lists them."""

    metadata: MetadataOptions | None

    common: Mapping[str, Any] = field(repr=False)
    """The options outside that a cluster takes where it has none of its own, by their names in lower case."""

    settings: Settings
    """How splits are assigned and batches planned: kept in the checkpoint."""

    reading: ReadOptions
    """How tasks read: handed to each of them."""

    readers: int | None
    """How many readers there are; `AUTO`: as many as the session has slots; None: as in the checkpoint, or the default
    of the session."""

    registry: RegistrySettings | None
    """The schema registry of clusters that have none of their own; None: none is given."""

    pins: Mapping[int, tuple[Readable, ...]]
    """Reader -> what it may read; empty: all may read everything."""

    limits: Limits
    """How far a micro-batch goes."""

    discovery_interval_ms: int
    """How often clusters, topics and partitions are looked for; 0: never."""

    cluster_wait_ms: int
    """How long a cluster may hold up a batch of the others; 0: not at all."""

    unreachable_timeout_ms: int
    """How long a cluster may be away before that is an error; 0: not at all."""

    schemas_known: bool
    """Whether it is known what keys and values are decoded by: not, where only a registry has it and was not asked."""

    accepted_schemas: tuple[str, ...]
    """Fingerprints of schemas that may follow another one in a checkpoint."""

    allow_unreachable: bool
    """A run that ends reads without clusters that are away."""

    commit_group: str
    """The consumer group that positions are committed to; empty: none."""

    ignored: tuple[str, ...]
    """Options that were given and have no effect."""

    ignored_in_batch: tuple[str, ...]
    """Options that were given and have no effect in a batch query."""

    refused_in_batch: tuple[str, ...]
    """Options that were given and are an error in a batch query."""

    def cluster(self, name: str) -> ClusterOptions | None:
        """The options of one cluster; None if it is not among them."""
        return next((cluster for cluster in self.clusters if cluster.id == name), None)


def parse_options(options: Mapping[str, str], lookup: Lookup | None = None) -> SourceOptions:
    """Parse and check all options.

    `lookup`: asks the schema registry, where that has the schema of keys or values; None: these stay open.

    Raises:
        OptionError: options are missing, unknown, contradictory or malformed; it lists them all.
        RegistryError: the registry does not answer, or does not have a schema.
    """
    given = RawOptions(options, [])
    rules.refuse_unknown(given, (*CLUSTER_OPTIONS, *SOURCE_OPTIONS), (KAFKA, REGISTRY, _OWN_PREFIX))
    rules.check_together(given)
    parts = _read_declared(given)
    metadata = _metadata(given, parts.pop("metadata"))
    parser = ClusterParser(given)
    names: list[str] | None = None
    clusters: list[ClusterOptions | None] = []
    if metadata is not None:
        parser.parse(DEFAULT_CLUSTER, _ANY_CLUSTER, where="")
    elif CLUSTERS.name in given:
        names, clusters = _clusters(given, parser)
    else:
        names, clusters = [DEFAULT_CLUSTER], [parser.parse(DEFAULT_CLUSTER, {}, where="")]
    reading, limits, own = parts["reading"], parts["limits"], parts[""]
    found = tuple(cluster for cluster in clusters if cluster is not None)
    registry = parser.registry or next((one.registry for one in found if one.registry is not None), None)
    refused = registry is None and any(name.startswith(REGISTRY) for name in given.options)
    source = SchemaSource(registry, _only_topic(found), None if given.problems else lookup, refused)
    rows, schemas = row_columns(given, source, several=CLUSTERS.name in given or metadata is not None)
    rules.check_registries(given, found, rows)
    capacities = parse_capacities(given, own["readers"] or None)
    kept = {**parts["settings"], "capacities": capacities}
    settings = Settings(**kept, key_schema=schemas.key, value_schema=schemas.value)
    rules.check_balance(given, settings)
    # A minimum of 0 is no minimum. Sockets cannot wait longer than INT_MAX.
    limits["offsets_min"] = limits["offsets_min"] or None
    if reading["poll_timeout_ms"] is not None:
        reading["poll_timeout_ms"] = min(reading["poll_timeout_ms"], INT_MAX)
    limited = Limits(**limits)
    rules.check_limits(given, limited.offsets_min, limited.offsets_max)
    check_scopes(given, limited, names, {one.id: one.subscription for one in found})
    parsed = SourceOptions(
        clusters=found,
        metadata=metadata,
        common=_common(given.options),
        settings=settings,
        reading=ReadOptions(**rows._asdict(), registry=registry, **reading),
        limits=limited,
        registry=parser.registry,
        schemas_known=schemas.known,
        pins=parse_pins(given, own["readers"] or None, names),
        ignored=tuple(sorted({*parser.ignored, *rules.without_effect(given, rows, schemas)})),
        ignored_in_batch=rules.for_streams(given, refused=False),
        refused_in_batch=rules.for_streams(given, refused=True),
        **own,
    )
    if given.problems:
        raise OptionError(tuple(dict.fromkeys(given.problems)))
    return parsed


def _read_declared(given: RawOptions) -> dict[str, dict[str, Any]]:
    """The values of all options that are read by their type alone: part of the options -> field -> value."""
    parts: dict[str, dict[str, Any]] = {}
    for option in DECLARED:
        if option.name.startswith(KAFKA):
            continue
        part, _, name = option.field.rpartition(".")
        read = given.read(option) if rules.has_what_it_needs(option, given) else option.default
        if name:
            parts.setdefault(part, {})[name] = read
    return parts


def parse_clusters(
    common: Mapping[str, Any],
    listed: Mapping[str, Mapping[str, Any]],
    allowed: Allowed = NOTHING,
    refused: list[str] | None = None,
) -> tuple[tuple[ClusterOptions, ...], tuple[str, ...]]:
    """Parse the clusters of the metadata: the clusters by id, and one sentence for each problem, about PROBLEMS_MAX at
    most.

    `common`: as in SourceOptions. `listed`: cluster id -> its own options; one that is None counts as left out. `where`
    among them is no option: it is the place of the cluster in the metadata, for sentences about it. Sentences about
    settings that are not `allowed` go to `refused`, if that is given.
    """
    problems: list[str] = []
    parser = ClusterParser(RawOptions(common, problems), allowed, refused)
    looked_at = takewhile(lambda _: len(problems) + len(refused or ()) < PROBLEMS_MAX, sorted(listed))
    clusters = [_cluster(parser, problems, name, listed[name], in_metadata=True) for name in looked_at]
    return tuple(cluster for cluster in clusters if cluster is not None), tuple(dict.fromkeys(problems))


def check_streaming(options: SourceOptions) -> None:
    """Raises OptionError for options that have no place in a streaming query."""
    problems = streaming_problems(_all_clusters(options))
    if problems:
        raise OptionError(problems)


def check_batch(options: SourceOptions) -> None:
    """Raises OptionError for options that have no place in a batch query."""
    problems = [
        f"{name} is given, but it is for streaming queries only; leave it out" for name in options.refused_in_batch
    ]
    problems.extend(batch_problems(_all_clusters(options)))
    if problems:
        raise OptionError(problems)


def streaming_problems(clusters: Iterable[ClusterOptions]) -> tuple[str, ...]:
    """One sentence for each end that cannot be in a streaming query."""
    return tuple(
        f"{cluster.ending_option}{_of(cluster)} is given, but a streaming query has no end (ending "
        f"{'timestamp' if 'Timestamp' in cluster.ending_option else 'offset'} not valid in streaming queries); leave "
        "it out, use stop to end it there, or use spark.read"
        for cluster in clusters
        if cluster.ending is not None and not cluster.ends_stream
    )


def batch_problems(clusters: Iterable[ClusterOptions]) -> tuple[str, ...]:
    """One sentence for each start at the end, end at the start, and end before its start in a batch query."""
    problems: list[str] = []
    for cluster in clusters:
        if says(cluster.starting, Latest, LATEST):
            problems.append(
                f"{cluster.starting_option}{_of(cluster)} is latest (-1), where nothing is to be read in a batch "
                "query (starting offset can't be latest for batch queries); expected earliest or offsets"
            )
        if says(cluster.ending, Earliest, EARLIEST):
            problems.append(
                f"{cluster.ending_option}{_of(cluster)} is earliest (-2), where nothing is to be read in a batch "
                "query (ending offset can't be earliest for batch queries); expected latest or offsets"
            )
        problems.extend(
            f"{problem} ({cluster.starting_option} and {cluster.ending_option}{_of(cluster)})"
            for problem in contradictions(cluster.starting, cluster.ending)
        )
    return tuple(problems)


def _all_clusters(options: SourceOptions) -> tuple[ClusterOptions, ...]:
    """The clusters; with `metadata`, one that says nothing itself in place of them."""
    if options.metadata is None:
        return options.clusters
    return parse_clusters(options.common, {DEFAULT_CLUSTER: _ANY_CLUSTER})[0]


def _metadata(given: RawOptions, fields: Mapping[str, Any]) -> MetadataOptions | None:
    if METADATA.name not in given:
        return None
    allowed, wrong = parse_allowed(given.value(ALLOW.name)) if ALLOW.name in given else (NOTHING, [])
    given.problems.extend(f"{ALLOW.name} {problem}" for problem in wrong)
    own = {name.lower(): given.value(name) for name in rules.own_of_metadata(given)}
    return MetadataOptions(
        location=given.read(METADATA) or "",
        options={name.removeprefix(_OWN_PREFIX): value for name, value in own.items()},
        allowed=allowed,
        **fields,
    )


def _clusters(given: RawOptions, parser: ClusterParser) -> tuple[list[str] | None, list[ClusterOptions | None]]:
    """The ids that `clusters` names, None where it cannot be read, and the clusters."""
    document = given.document(CLUSTERS)
    if document is None:
        return None, []
    if not document or not all(isinstance(options, dict) for options in document.values()):
        given.problems.append(
            f"{CLUSTERS.name} has no clusters, or one without options; expected {CLUSTERS.type.expected}"
        )
        return None, []
    names = sorted(document)
    return names, [_cluster(parser, given.problems, name, document[name]) for name in names]


def _cluster(
    parser: ClusterParser, problems: list[str], name: str, options: Mapping[str, Any], *, in_metadata: bool = False
) -> ClusterOptions | None:
    """One cluster among several."""
    place = str(options.get("where") or "") if in_metadata else ""
    where = _where(name, place)
    if problem := cluster_name_problem(name, f"the metadata ({place})" if place else "clusters"):
        problems.append(problem)
    own: dict[str, Any] = {}
    for key, value in options.items():
        if in_metadata and (key == "where" or value is None):
            continue
        if key.lower() in map(str.lower, own):
            problems.append(f"{key}{where} is given twice; expected it once (case does not matter)")
        own[key] = value
    given = RawOptions(own, problems, where)
    if in_metadata:
        # Whoever writes the metadata shall not say where the user's login goes.
        theirs = tuple(one for one in CLUSTER_OPTIONS if not one.startswith(REGISTRY))
        others = tuple(one for one in given.options if one.startswith(REGISTRY))
        rules.refuse_unknown(given, theirs, (KAFKA,), elsewhere=(*SOURCE_OPTIONS, *others))
    else:
        rules.refuse_unknown(given, CLUSTER_OPTIONS, (KAFKA, REGISTRY), elsewhere=SOURCE_OPTIONS)
    rules.check_together(given)
    return parser.parse(name, given.options, where=where, in_metadata=in_metadata, place=place)


def _only_topic(clusters: Iterable[ClusterOptions]) -> str | None:
    """The topic, if the options name just one."""
    names: set[str] = set()
    for cluster in clusters:
        if isinstance(cluster.subscription, TopicPattern):
            return None
        named = cluster.subscription
        names.update(named.names if isinstance(named, Topics) else named.by_topic)
    return names.pop() if len(names) == 1 else None


def _common(options: Mapping[str, Any]) -> dict[str, Any]:
    names = frozenset(name.lower() for name in CLUSTER_OPTIONS)
    return {name: options[name] for name in sorted(options) if name in names or name.startswith((KAFKA, REGISTRY))}


def _of(cluster: ClusterOptions) -> str:
    return "" if cluster.id == DEFAULT_CLUSTER else _where(cluster.id, cluster.where)


def _where(name: str, place: str) -> str:
    return f" of cluster {name!r}" + (f" ({place})" if place else "")
