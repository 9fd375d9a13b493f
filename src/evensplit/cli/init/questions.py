"""Asks on a terminal for what no flag says. An answer that the source would refuse is asked for again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import click

from evensplit.cli.init import job as words
from evensplit.cli.init.answers import ANY_SERVERS, ANY_TOPIC, CLUSTERS, METADATA, SERVERS
from evensplit.cli.init.job import Answers
from evensplit.cli.init.secret_options import secret_problems
from evensplit.errors import OptionError
from evensplit.metadata.checks import TOPIC, is_topic
from evensplit.spark.options.parse import parse_options

LOCAL = "local"
_SINKS = {
    words.PARQUET: ("Directory of the files", "data"),
    words.DELTA: ("Path of the table", "data"),
    words.KAFKA: ("Topic to write to", None),
    words.FOREACH: ("Directory of the batches", "data"),
}
_TRIGGER = "Run until it is stopped (always), or read what is there and end (available-now)?"
_WHERE = f"""Where is Kafka?
  host:port,host:port          brokers of one cluster
  eu=host:port us=host:port    several clusters
  a path or a URL              a metadata file or service
  {LOCAL}                        a broker that the job starts
One of these"""


def ask(given: Answers) -> Answers:
    """Ask for everything that is not said and has a bearing on the job. Each question shows its default."""
    kind = given.kind or _word("A stream, or a batch query?", words.KINDS, words.STREAM)
    given = _what(_where(replace(given, kind=kind)))
    sink = given.sink or _word("What becomes of the rows?", _sinks(kind), words.CONSOLE)
    given = replace(given, sink=sink)
    if given.to is None and sink in _SINKS:
        given = replace(given, to=_text(*_SINKS[sink], _topic if sink == words.KAFKA else str.strip))
    if sink == words.KAFKA and given.to_servers is None and (given.clusters or given.metadata):
        given = replace(given, to_servers=_text("Brokers of that topic", None, lambda said: _judged(SERVERS, said)))
    if kind != words.STREAM:
        return given
    if given.checkpoint is None:
        given = replace(
            given, checkpoint=_text("Where does the query keep its positions (its checkpoint)?", "checkpoint")
        )
    if given.trigger is None:
        default = words.AVAILABLE_NOW if given.local else words.ALWAYS
        given = replace(given, trigger=_word(_TRIGGER, words.TRIGGERS, default))
    return given


def _where(given: Answers) -> Answers:
    """The place of the records, and their topics."""
    if not (given.servers or given.clusters or given.metadata or given.local):
        given = _place(given, _text(_WHERE, LOCAL, _checked_place))
    if given.topics is None and given.pattern is None and given.metadata is None:
        topics = _text("Topics, with commas between them", "orders", lambda said: _judged("subscribe", said))
        given = replace(given, topics=topics)
    if given.start is None:
        asked = "Where does it start? earliest, latest, or -2h: two hours ago"
        given = replace(given, start=_text(asked, "earliest", lambda said: _judged("start", said)))
    return given


def _place(given: Answers, said: str) -> Answers:
    if said.lower() == LOCAL:
        return replace(given, local=True)
    if _names_clusters(said):
        return replace(given, clusters=said.split())
    return replace(given, metadata=said) if _is_metadata(said) else replace(given, servers=said)


def _checked_place(said: str) -> str:
    if said.strip().lower() == LOCAL:
        return LOCAL
    if _names_clusters(said):
        pairs = (one.partition("=") for one in said.split())
        each = {name: {SERVERS: servers} for name, _, servers in pairs}
        _judged(CLUSTERS, json.dumps(each))
        return said.strip()
    return _judged(METADATA if _is_metadata(said) else SERVERS, said)


def _names_clusters(said: str) -> bool:
    return "=" in said and "://" not in said


def _is_metadata(said: str) -> bool:
    return "/" in said or said.strip().endswith((".yaml", ".yml", ".json"))


def _what(given: Answers) -> Answers:
    """The values, and what they are decoded by."""
    known = (words.RAW, words.JSON) if given.local else words.VALUES
    values = given.values or _word("What are the values?", known, words.RAW)
    given = replace(given, values=values)
    if values not in words.VALUES or values == words.RAW or given.schema is not None or given.registry is not None:
        return given
    forms = {
        words.JSON: "Their fields, as in: id BIGINT, amount DOUBLE",
        words.AVRO: "Their schema (file:/path), or the URL of a schema registry",
        words.PROTOBUF: "Their descriptor set (file:/path), or the URL of a schema registry",
    }

    def checked(said: str) -> str:
        name = "schema.registry.url" if _is_url(said) else "value.schema"
        return _judged(name, said, {"value.format": values})

    said = _text(forms[values], None, checked)
    return replace(given, registry=said) if _is_url(said) else replace(given, schema=said)


def _is_url(said: str) -> bool:
    return said.strip().startswith(("http://", "https://"))


def _judged(name: str, said: str, beside: Mapping[str, str] | None = None) -> str:
    """An answer that the source takes as the value of that option. Raises click.BadParameter: click then asks again."""
    options = {**(beside or {}), name: said.strip()}
    if name != METADATA and name != CLUSTERS:
        options.setdefault(SERVERS, ANY_SERVERS)
    if name != METADATA:
        options.setdefault("subscribe", ANY_TOPIC)
    if found := next(secret_problems({name: said}), None):
        raise click.BadParameter(found)
    try:
        parse_options(options)
    except OptionError as error:
        raise click.BadParameter("; ".join(error.problems)) from error
    return said.strip()


def _topic(said: str) -> str:
    if not is_topic(said.strip()):
        raise click.BadParameter(f"expected {TOPIC}")
    return said.strip()


def _sinks(kind: str) -> tuple[str, ...]:
    return words.SINKS if kind == words.STREAM else tuple(one for one in words.SINKS if one != words.FOREACH)


def _word(question: str, known: tuple[str, ...], default: str) -> str:
    said: str = click.prompt(question, type=click.Choice(known), default=default, err=True)
    return said


def _text(question: str, default: str | None, checked: Callable[[str], str] = str.strip) -> str:
    said: str = click.prompt(question, default=default, value_proc=checked, err=True)
    return said
