"""Makes a job of what was answered, with all that is wrong at once: the source's own parser judges the options."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evensplit.cli.init import job as words
from evensplit.cli.init.job import NAME_MAX, Answers, Job
from evensplit.cli.init.literals import shared_directory
from evensplit.cli.init.own_output import reads_topic
from evensplit.cli.init.sample import sample
from evensplit.cli.init.secret_options import secret_problems
from evensplit.cli.init.sink_problems import sink_problems
from evensplit.cli.usage import options_said
from evensplit.errors import OptionError
from evensplit.kafka.options.security import SECURITY_NAMES
from evensplit.spark.options.parse import check_batch, check_streaming, parse_options
from evensplit.typed.schema import parse_struct
from evensplit.typed.types import Struct

SERVERS, CLUSTERS, METADATA = "kafka.bootstrap.servers", "clusters", "metadata"
FLAGS: Mapping[str, str] = {
    SERVERS: "--servers",
    CLUSTERS: "--cluster",
    METADATA: "--metadata",
    "subscribe": "--topics",
    "subscribePattern": "--pattern",
    "start": "--start",
    "stop": "--stop",
    "value.format": "--values",
    "value.schema": "--schema",
    "value.message": "--message",
    "schema.registry.url": "--registry",
}
"""Option -> the flag that says it."""

IN_THE_CODE = ("columns", "includeCluster")
"""Options on which the code depends that comes after reading."""

_FLAG_OF = {name.lower(): flag for name, flag in FLAGS.items()}
_STARTS = re.compile(r"start(ing.*)?", re.I)
ANY_SERVERS, ANY_TOPIC = "host:9092", "topic"
"""Stand in for what is missing where only the rest is judged."""

_NAME = re.compile(r"[\w.-]+", re.ASCII)


def job_of(answers: Answers) -> Job:
    """The job that was asked for.

    Raises:
        OptionError: flags are missing, wrong or contradictory, or the source or the sink would refuse an option; it
            lists all, and shows no secret.
        LibraryMissing: what reads a schema is not installed.
    """
    making = _Making(answers)
    making.check_words()
    making.check_place()
    making.check_sink()
    source = making.source()
    making.check_options(source)
    if making.problems:
        raise OptionError(tuple(dict.fromkeys(making.problems)))
    return making.job(source)


@dataclass(slots=True)
class _Making:
    """What is known so far, and what is wrong with it."""

    given: Answers
    problems: list[str] = field(default_factory=list)
    said: dict[str, str] = field(init=False)
    """The options that were given by their names, without those that have a flag."""

    clusters: dict[str, str] = field(init=False)
    stream: bool = field(init=False)
    values: str = field(init=False)
    sink: str = field(init=False)
    target: str = field(init=False)
    target_servers: str = field(init=False)

    def __post_init__(self) -> None:
        given = self.given
        self.stream = (given.kind or words.STREAM).lower() != words.BATCH
        self.values = (given.values or words.RAW).lower()
        self.sink = (given.sink or words.CONSOLE).lower()
        self.clusters = dict(self._clusters(given.clusters))
        self.said = self._said(given.options)
        default = "data" if self.sink in (words.PARQUET, words.DELTA, words.FOREACH) else ""
        self.target = (given.to or default).strip()
        self.target_servers = (given.to_servers or given.servers or "").strip()

    def wrong(self, problem: str) -> None:
        self.problems.append(problem)

    def check_words(self) -> None:
        """Say of each flag with a word what it may be."""
        given = self.given
        for flag, value, known in (
            ("--kind", given.kind, words.KINDS),
            ("--values", given.values, words.VALUES),
            ("--sink", given.sink, words.SINKS),
            ("--trigger", given.trigger, words.TRIGGERS),
        ):
            if value is not None and value.lower() not in known:
                self.wrong(f"{flag} is {value!r}; expected one of {', '.join(known)}")

    def check_place(self) -> None:
        """Say what is wrong with where records come from."""
        given = self.given
        places = {
            "--servers": given.servers is not None,
            "--cluster": bool(given.clusters),
            "--metadata": given.metadata is not None,
            "--local": given.local,
        }
        named = [flag for flag, there in places.items() if there]
        if len(named) != 1:
            found = f"{' and '.join(named)} are given together" if named else "where Kafka is, is not given"
            self.wrong(f"{found}; expected one of {', '.join(places)}")
        if given.topics is not None and given.pattern is not None:
            self.wrong("--topics and --pattern are given together; expected one of them")
        nothing = given.topics is None and given.pattern is None and "assign" not in map(str.lower, self.said)
        if nothing and not given.local and given.metadata is None:
            self.wrong("which topics are read is not given; expected --topics or --pattern")
        if given.local and given.pattern is not None:
            self.wrong("--pattern is given with --local, which creates the topics; expected --topics")
        if given.local and (given.registry is not None or self.values in (words.AVRO, words.PROTOBUF)):
            self.wrong("--local sends values as text or JSON; expected --values raw or json, without --registry")
        if given.local and self._login():
            self.wrong("a login is given with --local, whose broker has none; leave those options out")
        if given.local and _is_file(given.schema or ""):
            self.wrong("--schema is a file with --local, which sends values that fit it; expected the schema itself")
        typed = self.values in (words.JSON, words.AVRO, words.PROTOBUF)
        if typed and given.schema is None and given.registry is None:
            self.wrong(f"--values {self.values} is given without a schema; expected --schema or --registry")
        for flag, value in (("--schema", given.schema), ("--registry", given.registry), ("--message", given.message)):
            if value is not None and self.values == words.RAW:
                self.wrong(f"{flag} is given, but --values is raw; expected --values json, avro or protobuf")

    def check_sink(self) -> None:
        """Say what is wrong with where rows go."""
        given = self.given
        if self.sink == words.KAFKA and not self.target:
            self.wrong("--sink kafka is given without a topic; expected --to TOPIC")
        if self.sink == words.CONSOLE and given.to is not None:
            self.wrong("--to is given, but rows are printed; expected another --sink, or leave --to out")
        if self.sink == words.FOREACH and not self.stream:
            self.wrong("--sink foreach is for streams; expected --kind stream, or another sink")
        if given.to_servers is not None and self.sink != words.KAFKA:
            self.wrong("--to-servers is given, but no topic is written; expected --sink kafka, or leave it out")
        if self.sink == words.KAFKA and not self.target_servers and (self.clusters or given.metadata is not None):
            self.wrong("--sink kafka is given without the cluster that is written to; expected --to-servers")
        stores = self.sink in (words.PARQUET, words.DELTA, words.FOREACH)
        if stores and self.stream and self.target and (wrong := shared_directory(self.target, self._checkpoint())):
            self.wrong(wrong)
        for flag, value, is_used in (("--to", given.to, stores), ("--checkpoint", given.checkpoint, self.stream)):
            if is_used and value is not None and not value.strip():
                self.wrong(f"{flag} is empty; expected a directory, or leave it out")
            if is_used and value is not None and value.strip().startswith("~"):
                self.wrong(f"{flag} begins with ~, which is no home directory for Spark; expected the whole path")
        for flag, value in (("--checkpoint", given.checkpoint), ("--trigger", given.trigger)):
            if value is not None and not self.stream:
                self.wrong(f"{flag} is given, but is for streams; expected --kind stream, or leave it out")

    def source(self) -> dict[str, str]:
        """The options of the source, without clusters and login; with stand-ins for what is missing."""
        given = self.given
        found = {name: value for name, value in self.said.items() if not _is_login(name)}
        topics = "orders" if given.local and given.topics is None and given.pattern is None else given.topics
        flags = {
            SERVERS: given.servers,
            METADATA: given.metadata,
            "subscribe": None if topics is None else _listed(topics),
            "subscribePattern": None if topics is not None else given.pattern,
            "start": given.start,
            "stop": given.stop,
            "value.format": None if self.values == words.RAW else self.values,
        }
        if self.values != words.RAW:
            flags |= {
                "value.schema": given.schema,
                "value.message": given.message,
                "schema.registry.url": given.registry,
            }
        if given.start is None and not any(_STARTS.fullmatch(name) for name in self.said):
            flags["start"] = "earliest"
        order = {name: value.strip() for name, value in flags.items() if value is not None}
        return {**order, **found}

    def check_options(self, source: Mapping[str, str]) -> None:
        """Let the parsers of the source and of the sink say what they would refuse."""
        given, login = self.given, self._login()
        places = {"--to": self.target, "--checkpoint": given.checkpoint or ""}
        self.problems += secret_problems({**source, **login, **places})
        judged = {**source, **login}
        if self.clusters:
            judged.pop(SERVERS, None)
            judged[CLUSTERS] = clusters_json(self.clusters)
        elif METADATA not in judged and not judged.get(SERVERS):
            judged[SERVERS] = ANY_SERVERS
        named = {name.lower() for name in judged}
        if METADATA not in judged and named.isdisjoint(("subscribe", "subscribepattern", "assign")):
            judged["subscribe"] = ANY_TOPIC
        if self.values not in words.VALUES or (given.schema is None and given.registry is None):
            judged.pop("value.format", None)
            for name in ("value.schema", "value.message", "schema.registry.url"):
                judged.pop(name, None)
        try:
            parsed = parse_options(judged)
            (check_streaming if self.stream else check_batch)(parsed)
        except OptionError as error:
            self.problems += error.problems
        if self.sink == words.KAFKA:
            servers, topic = self.target_servers or judged.get(SERVERS, ANY_SERVERS), self.target or ANY_TOPIC
            if self.target and reads_topic(judged, topic, judged[SERVERS] if given.local else servers):
                self.wrong(f"--to is {topic}, which is read, too: it would never end; expected another topic")
            found = sink_problems({SERVERS: servers, "topic": topic, **login}, stream=self.stream)
            # What is wrong with the login was said of the source.
            self.problems += [f"{one} (--sink kafka)" for one in found if one not in self.problems]

    def job(self, source: Mapping[str, str]) -> Job:
        """The job, of what has no problem."""
        given, local = self.given, self.given.local
        struct = _struct(given.schema) if self.values == words.JSON else None
        now = (given.trigger or (words.AVAILABLE_NOW if local else words.ALWAYS)).lower() == words.AVAILABLE_NOW
        return Job(
            name=_name(source.get("subscribe", "")),
            stream=self.stream,
            local=local,
            source=source,
            clusters=self.clusters,
            login=self._login(),
            values=self.values,
            fields=frozenset(one.name.lower() for one in struct.fields) if struct else frozenset(),
            typed_keys=self.said.get("key.format", "binary").lower() not in ("binary", "string"),
            sample=_sample(struct) if local else "",
            sink=self.sink,
            target=self.target,
            target_servers="" if local else self.target_servers,
            checkpoint=self._checkpoint() if self.stream else "",
            available_now=now,
        )

    def _checkpoint(self) -> str:
        return (self.given.checkpoint or "").strip() or "checkpoint"

    def _login(self) -> dict[str, str]:
        return {name: value for name, value in self.said.items() if _is_login(name)}

    def _said(self, options: Sequence[str]) -> dict[str, str]:
        found, problems = options_said(options)
        self.problems += problems
        for name in list(found):
            if flag := _FLAG_OF.get(name.lower()):
                self.wrong(f"--option {name} has a flag of its own; expected {flag}")
            elif name.lower() in map(str.lower, IN_THE_CODE):
                self.wrong(
                    f"--option {name} changes which columns there are; put it into SOURCE in the code that is "
                    "written, and into rows()"
                )
            else:
                continue
            del found[name]
        return found

    def _clusters(self, given: Sequence[str]) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for text in given:
            name, equals, servers = text.partition("=")
            if not equals or not name.strip() or not servers.strip():
                self.wrong(f"--cluster is {text!r}; expected NAME=SERVERS, as in eu=eu-1:9092,eu-2:9092")
            elif name.strip() in dict(found):
                self.wrong(f"--cluster {name.strip()} is given twice; expected each cluster once")
            else:
                found.append((name.strip(), servers.strip()))
        return found


def _is_login(name: str) -> bool:
    return name.lower().removeprefix("kafka.") in SECURITY_NAMES and name.lower().startswith("kafka.")


def clusters_json(clusters: Mapping[str, str]) -> str:
    """The option `clusters` of clusters by their servers."""
    return json.dumps({name: {SERVERS: servers} for name, servers in clusters.items()})


def _listed(topics: str) -> str:
    return ",".join(topic.strip() for topic in topics.split(","))


def _is_file(schema: str) -> bool:
    return schema.strip().startswith("file:")


def _struct(schema: str | None) -> Struct | None:
    """The type of values, if it is known here."""
    return None if schema is None or _is_file(schema) else parse_struct(schema)


def _sample(struct: Struct | None) -> str:
    return sample(struct, indent=8) if struct else ""


def _name(topics: str) -> str:
    """What Spark shows of the job: a topic, if that is one word and short."""
    return topics if _NAME.fullmatch(topics) and len(topics) <= NAME_MAX else "evensplit"
