"""The options of `format("evensplit")`: what they mean, and every wrong one at once.

Names are those of Spark's own Kafka source where there is one, and case does not matter, as anywhere in Spark
(which hands option names over in lower case). Inside `clusters` every cluster has options of its own, under the
same names; what a cluster leaves out, it takes from the options outside. With `metadata`, the clusters come from
there while the query runs, and take from the options outside in the same way (`parse_clusters`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from evensplit.core.assign.terms import BALANCED, POLICIES
from evensplit.core.model import Readable
from evensplit.core.state.offset_strategies import EARLIEST, LATEST, Earliest, Latest
from evensplit.core.state.settings import (
    ALL_CLUSTERS,
    ALWAYS,
    DISCOVERY_INTERVAL_MS_DEFAULT,
    PLANS,
    REBALANCES,
    RETENTION_MS_DEFAULT,
    SCOPES,
    WHOLE,
)
from evensplit.core.state.state import READERS_MAX
from evensplit.errors import OptionError
from evensplit.kafka.options.client import BATCH_BYTES_MAX
from evensplit.kafka.options.local_access import NOTHING, Allowed, parse_allowed
from evensplit.metadata.checks import PROBLEMS_MAX
from evensplit.spark.options.columns import COLUMN_OPTIONS, parse_columns, parse_overflow
from evensplit.spark.options.per_cluster import (
    BOOTSTRAP,
    CLUSTER_OPTIONS,
    DEFAULT_CLUSTER,
    KAFKA,
    SUBSCRIPTIONS,
    ClusterOptions,
    ClusterParser,
    cluster_name_problem,
)
from evensplit.spark.options.pins import parse_pins
from evensplit.spark.options.start_stop import contradictions, says
from evensplit.spark.options.triggers import (
    CONSUMER_OPTIONS,
    TRIGGER_DELAY_MS_DEFAULT,
    TRIGGER_OPTIONS,
    parse_poll_timeout_ms,
    parse_triggers,
    parse_without_meaning,
)
from evensplit.spark.options.values import INT_MAX, LONG_MAX, RawOptions

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

METADATA = "metadata."
ALLOW = "metadata.allow"
METADATA_OPTIONS = (
    "streams",
    "streamsPattern",
    "metadataTokenEnv",
    "metadataTokenFile",
    "metadataTimeout",
    "metadataFailureThreshold",
    ALLOW,
)
DISCOVERY_OPTIONS = ("discoveryInterval", "clusterWait", "unreachableTimeout", "removedRetention", "allowUnreachable")
ASSIGNMENT_OPTIONS = ("readers", "pin", "policy", "assignScope", "rebalance")
PLAN_OPTIONS = ("plan", "minPartitions", "maxRecordsPerPartition")
SOURCE_OPTIONS = (
    "clusters",
    "metadata",
    *METADATA_OPTIONS,
    *DISCOVERY_OPTIONS,
    *ASSIGNMENT_OPTIONS,
    *PLAN_OPTIONS,
    *TRIGGER_OPTIONS,
    *CONSUMER_OPTIONS,
    "maxBatchBytes",
    "failOnDataLoss",
    "commitGroup",
    *COLUMN_OPTIONS,
)

CLUSTER_WAIT_MS_DEFAULT = 1_000
UNREACHABLE_TIMEOUT_MS_DEFAULT = 600_000
METADATA_TIMEOUT_MS_DEFAULT = 10_000
METADATA_FAILURES_DEFAULT = 20
BATCH_BYTES_LIMIT = 1_000_000_000
"""With what comes around it, it has to fit into the longest response that is received (1 GiB)."""

_CLUSTERS_FORM = '{"east": {"kafka.bootstrap.servers": "host:9092", "subscribe": "orders"}, "west": {...}}'
# What stands for a cluster where only the options outside are looked at.
_ANY_CLUSTER = {BOOTSTRAP: "host:9092", "subscribe": "topic"}


@dataclass(frozen=True, slots=True)
class MetadataOptions:
    """Where the metadata of clusters come from, and which of their streams are read.

    `location`: a file, a URL or the dotted name of a class. `streams`: their ids, ascending; `streams_pattern`: a
    regular expression that is found in their ids; neither: all streams. `token_env`, `token_file`: the environment
    variable, or the file, that holds the bearer token; empty: there is none. `failures_max`: how many answers in a row
    may fail. `options`: what is for the user's class, names without `metadata.` and in lower case. `allowed`: what of
    this machine the metadata may name.
    """

    location: str = field(repr=False)
    streams: tuple[str, ...] | None = None
    streams_pattern: str | None = None
    token_env: str = ""
    token_file: str = ""
    timeout_ms: int = METADATA_TIMEOUT_MS_DEFAULT
    failures_max: int = METADATA_FAILURES_DEFAULT
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    allowed: Allowed = NOTHING


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options, checked.

    `clusters`: none where `metadata` names them. `columns`: those that rows have, in their order. `policy`, `scope`,
    `rebalance`, `plan`, `tasks_min`, `task_offsets_max`: see `core.settings`. `offsets_max`, `offsets_min`,
    `trigger_delay_ms`: see `option_triggers.Triggers`. `poll_timeout_ms`: how long a task waits for the next records of
    a partition, if not for `kafka.request.timeout.ms`. `ignored`: options that were understood and have no meaning
    here; `ignored_in_batch`: those that have none in a batch query. `common`: the options outside that a cluster takes
    where it says nothing itself, by their names in lower case. `batch_bytes_max`: how long a record batch may be.
    `null_timestamps`: timestamps that Spark cannot hold are null.

    `discovery_interval_ms`: 0: off. `cluster_wait_ms`: how long a cluster may hold up a batch.
    `unreachable_timeout_ms`: how long one may be away; 0: not at all. `retention_ms`: how long positions of what was
    removed are kept; 0: not at all. `commit_group`: the group that positions are committed to; empty: none. `pins`:
    reader -> what it may read.
    """

    clusters: tuple[ClusterOptions, ...]
    readers: int | None
    offsets_max: int | None
    columns: tuple[str, ...]
    offsets_min: int | None = None
    trigger_delay_ms: int = TRIGGER_DELAY_MS_DEFAULT
    poll_timeout_ms: int | None = None
    policy: str = BALANCED
    scope: str = ALL_CLUSTERS
    rebalance: str = ALWAYS
    plan: str = WHOLE
    tasks_min: int | None = None
    task_offsets_max: int | None = None
    ignored: tuple[str, ...] = ()
    ignored_in_batch: tuple[str, ...] = ()
    metadata: MetadataOptions | None = None
    common: Mapping[str, Any] = field(default_factory=dict, repr=False)
    discovery_interval_ms: int = DISCOVERY_INTERVAL_MS_DEFAULT
    cluster_wait_ms: int = CLUSTER_WAIT_MS_DEFAULT
    unreachable_timeout_ms: int = UNREACHABLE_TIMEOUT_MS_DEFAULT
    retention_ms: int = RETENTION_MS_DEFAULT
    allow_unreachable: bool = False
    fail_on_data_loss: bool = True
    commit_group: str = ""
    batch_bytes_max: int = BATCH_BYTES_MAX
    null_timestamps: bool = False
    pins: Mapping[int, tuple[Readable, ...]] = field(default_factory=dict)

    def cluster(self, name: str) -> ClusterOptions | None:
        """The options of one cluster; None where there are none (any more)."""
        return next((cluster for cluster in self.clusters if cluster.id == name), None)


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """The options, understood.

    Raises:
        OptionError: one or more are missing, unknown, contradictory or not of their form; it lists them all.
    """
    given = RawOptions(options, [])
    given.refuse_unknown((*CLUSTER_OPTIONS, *SOURCE_OPTIONS), (KAFKA, METADATA))
    metadata = _metadata(given)
    parser = ClusterParser(given)
    names: list[str] | None = None
    clusters: list[ClusterOptions | None] = []
    if metadata is not None:
        parser.parse(DEFAULT_CLUSTER, _ANY_CLUSTER, where="")
    elif "clusters" in given:
        names, clusters = _clusters(given, parser)
    else:
        names, clusters = [DEFAULT_CLUSTER], [parser.parse(DEFAULT_CLUSTER, {}, where="")]
    readers = given.count("readers", 1, READERS_MAX)
    commit_group = given.name("commitGroup")
    triggers = parse_triggers(given)
    columns = parse_columns(given, several="clusters" in given or metadata is not None)
    null_timestamps, moot = parse_overflow(given, columns)
    ignored = {*parser.ignored, *triggers.ignored, *moot, *parse_without_meaning(given)}
    parsed = SourceOptions(
        clusters=tuple(cluster for cluster in clusters if cluster is not None),
        readers=readers,
        offsets_max=triggers.offsets_max,
        offsets_min=triggers.offsets_min,
        trigger_delay_ms=triggers.delay_ms,
        poll_timeout_ms=parse_poll_timeout_ms(given),
        columns=columns,
        policy=given.choice("policy", POLICIES, BALANCED),
        scope=given.choice("assignScope", SCOPES, ALL_CLUSTERS),
        rebalance=given.choice("rebalance", REBALANCES, ALWAYS),
        plan=given.choice("plan", PLANS, WHOLE),
        tasks_min=given.count("minPartitions", 1, INT_MAX),
        task_offsets_max=given.count("maxRecordsPerPartition", 1, LONG_MAX),
        ignored=tuple(sorted(ignored)),
        ignored_in_batch=triggers.given,
        metadata=metadata,
        common=_common(given.options),
        discovery_interval_ms=given.duration_ms(
            "discoveryInterval", DISCOVERY_INTERVAL_MS_DEFAULT, zero="no discovery", negative=True
        ),
        cluster_wait_ms=given.duration_ms("clusterWait", CLUSTER_WAIT_MS_DEFAULT, zero="no wait"),
        unreachable_timeout_ms=given.duration_ms(
            "unreachableTimeout", UNREACHABLE_TIMEOUT_MS_DEFAULT, zero="an error at once"
        ),
        retention_ms=given.duration_ms("removedRetention", RETENTION_MS_DEFAULT, zero="no retention"),
        allow_unreachable=bool(given.flag("allowUnreachable")),
        fail_on_data_loss=given.flag("failOnDataLoss") is not False,
        commit_group=commit_group or "",
        batch_bytes_max=given.count("maxBatchBytes", 1, BATCH_BYTES_LIMIT) or BATCH_BYTES_MAX,
        null_timestamps=null_timestamps,
        pins=parse_pins(given, readers, names),
    )
    if given.problems:
        raise OptionError(tuple(dict.fromkeys(given.problems)))
    return parsed


def parse_clusters(
    common: Mapping[str, Any],
    listed: Mapping[str, Mapping[str, Any]],
    allowed: Allowed = NOTHING,
    refused: list[str] | None = None,
) -> tuple[tuple[ClusterOptions, ...], tuple[str, ...]]:
    """The clusters of the metadata, by id, and one sentence for each thing that is wrong, up to some PROBLEMS_MAX.

    `common`: as in SourceOptions. `listed`: cluster id -> its own options; None is as if it were not there. `where`
    among them is no option, but the place that the cluster was found at, which sentences about it then name. Sentences
    on what is not `allowed` go to `refused`, if that is given.
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
    problems: list[str] = []
    if options.commit_group:
        problems.append("commitGroup is given, but a batch query keeps no positions to commit; leave it out")
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


def _metadata(given: RawOptions) -> MetadataOptions | None:
    own = {name.removeprefix(METADATA): value for name, value in given.options.items() if name.startswith(METADATA)}
    if "metadata" not in given:
        given.problems.extend(
            f"{name} is given without metadata; expected the option metadata too, or leave it out"
            for name in (*given.among(METADATA_OPTIONS), *(given.written(f"{METADATA}{name}") for name in sorted(own)))
        )
        return None
    given.problems.extend(
        f"{name} and metadata are both given; expected metadata alone, which names the clusters and what is read"
        for name in given.among(("clusters", BOOTSTRAP, *SUBSCRIPTIONS))
    )
    given.problems.extend(
        f"{one} and {other} are both given; expected one of them"
        for one, other in (("streams", "streamsPattern"), ("metadataTokenEnv", "metadataTokenFile"))
        if one in given and other in given
    )
    own.pop(ALLOW.removeprefix(METADATA), None)
    allowed, wrong = parse_allowed(given.value(ALLOW)) if ALLOW in given else (NOTHING, [])
    given.problems.extend(f"{ALLOW} {problem}" for problem in wrong)
    location = given.text("metadata")
    pattern = given.pattern("streamsPattern") if "streamsPattern" in given else None
    failures_max = given.count("metadataFailureThreshold", 0, INT_MAX)
    return MetadataOptions(
        location=location or "",
        streams=given.names("streams", "ids of streams, separated by commas"),
        streams_pattern=pattern.regex if pattern else None,
        token_env=given.variable("metadataTokenEnv") or "",
        token_file=given.text("metadataTokenFile") or "",
        timeout_ms=given.duration_ms("metadataTimeout", METADATA_TIMEOUT_MS_DEFAULT),
        failures_max=METADATA_FAILURES_DEFAULT if failures_max is None else failures_max,
        options=own,
        allowed=allowed,
    )


def _clusters(given: RawOptions, parser: ClusterParser) -> tuple[list[str] | None, list[ClusterOptions | None]]:
    """The ids that `clusters` names, None where it cannot be read, and the clusters."""
    document = given.document("clusters", _CLUSTERS_FORM, secret=True)
    if document is None:
        return None, []
    if not document or not all(isinstance(options, dict) for options in document.values()):
        given.problems.append(f"clusters has no clusters, or one without options; expected {_CLUSTERS_FORM}")
        return None, []
    if BOOTSTRAP in given:
        given.problems.append(f"{BOOTSTRAP} and clusters are both given; expected one of them")
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
    given.refuse_unknown(CLUSTER_OPTIONS, (KAFKA,), elsewhere=SOURCE_OPTIONS)
    return parser.parse(name, given.options, where=where, in_metadata=in_metadata, place=place)


def _common(options: Mapping[str, Any]) -> dict[str, Any]:
    names = frozenset(name.lower() for name in CLUSTER_OPTIONS)
    return {name: options[name] for name in sorted(options) if name in names or name.startswith(KAFKA)}


def _of(cluster: ClusterOptions) -> str:
    return "" if cluster.id == DEFAULT_CLUSTER else _where(cluster.id, cluster.where)


def _where(name: str, place: str) -> str:
    return f" of cluster {name!r}" + (f" ({place})" if place else "")
