"""Options declared: which clusters and topics are read, and where reading starts and ends."""

from __future__ import annotations

from evensplit.kafka.options.client_options import BOOTSTRAP_SERVERS
from evensplit.kafka.options.option import (
    CLUSTER,
    LONG_MAX,
    SOURCE,
    TOPIC,
    Choice,
    Duration,
    Form,
    Name,
    Names,
    Option,
    Regex,
    SecretForm,
    Text,
    Variable,
    WholeNumber,
)

_ONE = "earliest, latest, timestamp:<ms since 1970, or ISO 8601 with a zone>, -10m (so long ago: ms, s, m, h or d), "
SPARK_FORM = 'earliest, latest or {"topic": {"0": 23, "1": -2}, "other": "earliest"} (-2: earliest, -1: latest)'
OUR_FORM = (
    f'{_ONE}-1000 (so many before the end) or {{"topic": <one of these>, "other": {{"0": <one of these, or an offset '
    'as a number>, "*": <one of these>}}'
)
_TIME = WholeNumber(0, LONG_MAX, "milliseconds since 1970")
_TIMES = Form("JSON", '{"topic": {"0": 1700000000000}} (milliseconds since 1970)')
_PLACES = (SOURCE, CLUSTER)
_IN_JSON = (SOURCE, CLUSTER, TOPIC)

SUBSCRIBE = Option(
    name="subscribe",
    type=Form("names", "topic names of 1 to 249 letters, digits, '.', '_' or '-', separated by commas"),
    default_text="none: one of `subscribe`, `subscribePattern` and `assign` is required for each cluster",
    meaning="Topics to read, separated by commas.",
    example="orders,clicks",
    places=_PLACES,
    aliases="topic topics kafka.topic kafka.topics kafka.subscribe subscribeTopics",
)
SUBSCRIBE_PATTERN = Option(
    name="subscribePattern",
    type=Regex(),
    default_text="none: see `subscribe`",
    meaning="Read all topics with a match anywhere in their name, except internal ones. The syntax is Python's.",
    example="^orders-",
    places=_PLACES,
    aliases="topicPattern topic-pattern topicsPattern topicRegex kafka.topic.pattern",
)
ASSIGN = Option(
    name="assign",
    type=Form("JSON", '{"topic": [0, 1]}'),
    default_text="none: see `subscribe`",
    meaning="Read single partitions: topic → numbers of partitions.",
    example='{"orders": [0, 1]}',
    places=_IN_JSON,
    aliases="partition partitions topicPartitions",
)
SUBSCRIPTIONS = (SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN)

CLUSTERS = Option(
    name="clusters",
    type=SecretForm("JSON", '{"east": {"kafka.bootstrap.servers": "host:9092", "subscribe": "orders"}, "west": {...}}'),
    default_text="one cluster, `default`, at `kafka.bootstrap.servers`",
    meaning="Read several clusters: cluster id → its options, which are the `kafka.*`, subscription, starting and "
    "ending options. Options that a cluster does not set are taken from the query.",
    example='{"east": {"kafka.bootstrap.servers": "e:9092"}, "west": {"kafka.bootstrap.servers": "w:9092"}}',
    excludes=(BOOTSTRAP_SERVERS.name,),
)
METADATA = Option(
    name="metadata",
    type=Text(),
    meaning="Read the clusters and topics that a file or service lists, and follow its changes: a YAML or JSON file, "
    "an `http(s)://` address, or a class of yours by its dotted name. A `kafka.*`, starting or ending option that a "
    "cluster there does not set is taken from the query.",
    example="/etc/evensplit/fleet.yaml",
    excludes=(CLUSTERS.name, BOOTSTRAP_SERVERS.name, *(one.name for one in SUBSCRIPTIONS)),
)
STREAMS_PATTERN = Option(
    name="streamsPattern",
    type=Regex(),
    default_text="all streams",
    meaning="Read only the streams of the metadata with a match anywhere in their id.",
    example="^eu-",
    field="metadata.streams_pattern",
    needs=METADATA.name,
)
STREAMS = Option(
    name="streams",
    type=Names("ids of streams"),
    default_text="all streams",
    meaning="Read only these streams of the metadata: their ids, separated by commas.",
    example="orders,clicks",
    field="metadata.streams",
    needs=METADATA.name,
    excludes=(STREAMS_PATTERN.name,),
)
TOKEN_FILE = Option(
    name="metadataTokenFile",
    type=Text("path"),
    default="",
    meaning="File on the driver with the bearer token for the metadata's address. It is read for each request.",
    example="/run/secrets/metadata-token",
    field="metadata.token_file",
    needs=METADATA.name,
)
TOKEN_ENV = Option(
    name="metadataTokenEnv",
    type=Variable(),
    default="",
    meaning="Environment variable of the driver with the bearer token for the metadata's address.",
    example="METADATA_TOKEN",
    field="metadata.token_env",
    needs=METADATA.name,
    excludes=(TOKEN_FILE.name,),
)
METADATA_TIMEOUT = Option(
    name="metadataTimeout",
    type=Duration(),
    default=10_000,
    meaning="How long one answer of the metadata may take.",
    example="30s",
    field="metadata.timeout_ms",
    needs=METADATA.name,
)
METADATA_FAILURES = Option(
    name="metadataFailureThreshold",
    type=WholeNumber(0),
    default=20,
    meaning="How many answers of the metadata in a row may fail. Until then the last good answer is used; one more "
    "failure ends the query.",
    example="5",
    field="metadata.failures_max",
    needs=METADATA.name,
)
ALLOW = Option(
    name="metadata.allow",
    type=Form("names", "environment variables (env:NAME), absolute paths and token endpoints (https://…)"),
    default_text="nothing",
    meaning="What the metadata may use of this machine, separated by commas: environment variables (`env:NAME`) and "
    "files or directories (absolute paths) for its `${env:…}`, `${file:…}` and paths, and the token endpoints "
    "(`https://…`) that it may send them to. See [Secrets in metadata](../howto/metadata.md#secrets-in-metadata).",
    example="env:KAFKA_PASSWORD, /etc/kafka/secrets",
    needs=METADATA.name,
)
METADATA_OWN = Option(
    name="metadata.<name>",
    type=Text(),
    meaning="Option for a metadata class of your own, which gets it as `<name>`, in lower case. Values of four "
    "characters or more appear in no log and no error.",
    example="orders",
    needs=METADATA.name,
)

STARTING_TIMESTAMP = Option(
    name="startingTimestamp",
    type=_TIME,
    meaning="Start all partitions at the first record of this time or later, in milliseconds since 1970. It "
    "overrides `startingOffsetsByTimestamp` and `startingOffsets`.",
    example="1700000000000",
    places=_PLACES,
    aliases="scan.startup.timestamp-millis startTime",
)
STARTING_OFFSETS_BY_TIMESTAMP = Option(
    name="startingOffsetsByTimestamp",
    type=_TIMES,
    meaning="Start each partition at the first record of a time of its own or later, in milliseconds since 1970. All "
    "partitions must be named. It overrides `startingOffsets`.",
    example='{"orders": {"0": 1700000000000}}',
    places=_IN_JSON,
)
STARTING_OFFSETS = Option(
    name="startingOffsets",
    type=Form("position", SPARK_FORM),
    default_text="streaming query: `latest`; batch query: `earliest`",
    meaning="Where a new query starts: `earliest`, `latest`, or JSON with an offset for each partition (-2: earliest, "
    "-1: latest) or one word for a whole topic. JSON names all partitions of a topic, or the topic as a whole; topics "
    "may be left out only if one is named as a whole. May be `file:/path`, a file on the driver with the value. A "
    "query that continues from a checkpoint ignores all starting options.",
    example='{"orders": {"0": 23, "1": -2}, "clicks": "latest"}',
    places=_IN_JSON,
    aliases="auto.offset.reset startFrom scan.startup.mode startingPosition offsetReset kafka.startingOffsets "
    "fromOffsets",
)
NO_RECORD = Option(
    name="startingOffsetsByTimestampStrategy",
    type=Choice({"error": "error", "latest": "latest"}),
    default="error",
    meaning="What to do with a partition that has no record at its starting time or later: fail (`error`), or start "
    "at its end (`latest`).",
    example="latest",
    places=_PLACES,
)
SPARK_STARTS = (STARTING_TIMESTAMP, STARTING_OFFSETS_BY_TIMESTAMP, STARTING_OFFSETS)
START = Option(
    name="start",
    type=Form("position", OUR_FORM),
    default_text="as `startingOffsets`",
    meaning="Where a new query starts, in place of the four `starting` options above: `earliest`, `latest`, "
    "`timestamp:2025-01-31T12:00:00Z` (or milliseconds since 1970; `latest` if there is no record that late), `-10m` "
    "(that long ago), `-1000` (that many offsets before the end), or JSON with one of these by topic or partition, "
    "`*` for the other partitions of a topic. Anything not named starts at `earliest`. May be `file:/path`.",
    example='{"orders": "-10m", "clicks": {"0": 23, "*": "latest"}}',
    places=_IN_JSON,
    excludes=(*(one.name for one in SPARK_STARTS), NO_RECORD.name),
)
GROUP = Option(
    name="startingGroup",
    type=Name(),
    meaning="Start at the committed offsets of this consumer group. Partitions that `startingOffsets` or `start` "
    "names start there instead. Partitions without a committed offset start where those options say for all "
    "partitions, else at `earliest`.",
    example="orders-job",
    places=_PLACES,
)
ENDING_TIMESTAMP = Option(
    name="endingTimestamp",
    type=_TIME,
    meaning="End all partitions before the first record of this time or later, in milliseconds since 1970; at their "
    "end if there is none. It overrides the other two `ending` options.",
    example="1700000000000",
    places=_PLACES,
    only="batch",
)
ENDING_OFFSETS_BY_TIMESTAMP = Option(
    name="endingOffsetsByTimestamp",
    type=_TIMES,
    meaning="End each partition before the first record of a time of its own or later; at its end if there is none. "
    "All partitions must be named. It overrides `endingOffsets`.",
    example='{"orders": {"0": 1700000000000}}',
    places=_IN_JSON,
    only="batch",
)
ENDING_OFFSETS = Option(
    name="endingOffsets",
    type=Form("position", SPARK_FORM),
    default_text="`latest`",
    meaning="Where a batch query ends, exclusive: `latest`, or JSON as in `startingOffsets`, without -2. May be "
    "`file:/path`.",
    example='{"orders": {"0": 50, "1": -1}}',
    places=_IN_JSON,
    only="batch",
)
SPARK_ENDS = (ENDING_TIMESTAMP, ENDING_OFFSETS_BY_TIMESTAMP, ENDING_OFFSETS)
STOP = Option(
    name="stop",
    type=Form("position", OUR_FORM.removeprefix("earliest, ")),
    default_text="streaming query: it never ends; batch query: `latest`",
    meaning="Where reading ends, exclusive, in place of the three `ending` options, in batch and streaming queries. "
    "The form is that of `start` without `earliest`; anything not named ends at `latest`. In a stream, a stop is "
    "looked up once and then final: a restart with another value, or without one, keeps it and says so in the log, "
    "but gives a stop to partitions that had none. May be `file:/path`.",
    example='{"orders": "timestamp:2025-01-31T12:00:00Z"}',
    places=_IN_JSON,
    excludes=tuple(one.name for one in SPARK_ENDS),
)

WHAT_TO_READ: tuple[Option, ...] = (
    BOOTSTRAP_SERVERS,
    *SUBSCRIPTIONS,
    CLUSTERS,
    METADATA,
    STREAMS,
    STREAMS_PATTERN,
    TOKEN_ENV,
    TOKEN_FILE,
    METADATA_TIMEOUT,
    METADATA_FAILURES,
    ALLOW,
    METADATA_OWN,
)
STARTS_AND_ENDS: tuple[Option, ...] = (*SPARK_STARTS, NO_RECORD, START, GROUP, *SPARK_ENDS, STOP)
