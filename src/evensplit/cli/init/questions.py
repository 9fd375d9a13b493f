"""Asks on a terminal for what no flag says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import click

from evensplit.cli.init import job as words
from evensplit.cli.init.job import Answers

LOCAL = "local"
_SINKS = {
    words.PARQUET: ("Directory of the files", "data"),
    words.DELTA: ("Path of the table", "data"),
    words.KAFKA: ("Topic to write to", None),
    words.FOREACH: ("Directory of the batches", "data"),
}


def ask(given: Answers) -> Answers:
    """Ask for everything that is not said and has a bearing on the job. Each question shows its default."""
    kind = given.kind or _word("A stream, or a batch query?", words.KINDS, words.STREAM)
    given = replace(given, kind=kind)
    given = _where(given)
    given = _what(given)
    sink = given.sink or _word("What becomes of the rows?", _sinks(kind), words.CONSOLE)
    given = replace(given, sink=sink)
    if given.to is None and sink in _SINKS:
        given = replace(given, to=_text(*_SINKS[sink]))
    if sink == words.KAFKA and given.to_servers is None and (given.clusters or given.metadata):
        given = replace(given, to_servers=_text("Brokers of that topic", None))
    if kind != words.STREAM:
        return given
    if given.checkpoint is None:
        given = replace(given, checkpoint=_text("Where the query keeps its positions (checkpoint)", "checkpoint"))
    if given.trigger is None:
        default = words.AVAILABLE_NOW if given.local else words.ALWAYS
        asked = "Run until it is stopped (always), or read what is there and end (available-now)?"
        given = replace(given, trigger=_word(asked, words.TRIGGERS, default))
    return given


def _where(given: Answers) -> Answers:
    """The place of the records, and their topics."""
    if not (given.servers or given.clusters or given.metadata or given.local):
        said = _text(
            "Where is Kafka? host:port, several with commas; NAME=host:port for each cluster, with blanks between "
            f"them; a metadata file or URL; or {LOCAL}, for a broker that the job starts",
            LOCAL,
        )
        given = _place(given, said)
    if given.topics is None and given.pattern is None and given.metadata is None:
        given = replace(given, topics=_text("Topics, with commas between them", "orders"))
    if given.start is None:
        given = replace(given, start=_text("Where does it start? earliest, latest, or -2h: two hours ago", "earliest"))
    return given


def _place(given: Answers, said: str) -> Answers:
    if said.lower() == LOCAL:
        return replace(given, local=True)
    if "=" in said and "://" not in said:
        return replace(given, clusters=said.split())
    if "/" in said or said.endswith((".yaml", ".yml", ".json")):
        return replace(given, metadata=said)
    return replace(given, servers=said)


def _what(given: Answers) -> Answers:
    """The values, and what they are decoded by."""
    known = (words.RAW, words.JSON) if given.local else words.VALUES
    values = given.values or _word("What are the values?", known, words.RAW)
    given = replace(given, values=values)
    if values == words.RAW or given.schema is not None or given.registry is not None:
        return given
    forms = {
        words.JSON: "Their fields, as in: id BIGINT, amount DOUBLE",
        words.AVRO: "Their schema (file:/path), or the URL of a schema registry",
        words.PROTOBUF: "Their descriptor set (file:/path), or the URL of a schema registry",
    }
    said = _text(forms[values], None)
    is_url = said.startswith(("http://", "https://"))
    return replace(given, registry=said) if is_url else replace(given, schema=said)


def _sinks(kind: str) -> tuple[str, ...]:
    return words.SINKS if kind == words.STREAM else tuple(one for one in words.SINKS if one != words.FOREACH)


def _word(question: str, known: tuple[str, ...], default: str) -> str:
    said: str = click.prompt(question, type=click.Choice(known), default=default, err=True)
    return said


def _text(question: str, default: str | None) -> str:
    check: Callable[[str], str] = str.strip
    said: str = click.prompt(question, default=default, value_proc=check, err=True)
    return said
