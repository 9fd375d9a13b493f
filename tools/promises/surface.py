"""Names that users write down: options, columns, metrics, errors, commands; and the formats of offsets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click
import yaml

from evensplit.cli.group import evensplit
from evensplit.core.state.codec import VERSION
from evensplit.errors import BY_ID
from evensplit.kafka.columns import COLUMNS
from evensplit.kafka.options.option import Choice, NumberOrWord, Option
from evensplit.observe import files
from evensplit.observe.metrics import METRICS
from evensplit.spark.options.parse import parse_options
from evensplit.spark.options.spec.all import DECLARED
from evensplit.spark.options.spec.sink import SINK_DECLARED
from evensplit.spark.row_type import row_type

_ONE = {"kafka.bootstrap.servers": "east:1", "subscribe": "t"}
_SEVERAL = {"clusters": json.dumps({"east": _ONE})}


def surface() -> dict[str, Any]:
    """Kind -> name -> what is promised of it."""
    return {
        "options": _options(DECLARED),
        "sink options": _options(SINK_DECLARED),
        "columns": {field.name: field.dataType.simpleString() for field in row_type(COLUMNS)},
        "columns without the option": {
            "of one cluster": " ".join(parse_options(_ONE).reading.columns),
            "of several": " ".join(parse_options(_SEVERAL).reading.columns),
        },
        "metrics": {one.name: {"kind": one.kind, "labels": " ".join(one.labels)} for one in METRICS},
        "alerts": [rule["alert"] for rule in yaml.safe_load(files()["alerts.yml"])["groups"][0]["rules"]],
        "errors": {error_id: {"class": error.__name__, "of": _parents(error)} for error_id, error in BY_ID.items()},
        "commands": dict(_commands("evensplit", evensplit)),
        "formats read": [f"format {version}" for version in range(1, VERSION + 1)],
    }


def _options(declared: Iterable[Option]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in declared:
        words = list(one.type.words) if isinstance(one.type, Choice) else []
        if isinstance(one.type, NumberOrWord):
            words = [one.type.word]
        found[one.name] = {
            "type": one.type.kind,
            "default": one.default_shown if one.has_default else "none, or in words",
            "where": list(one.places),
            "words": words,
        }
    return found


def _parents(error: type[Exception]) -> list[str]:
    """The classes that an `except` can name for it."""
    return [one.__name__ for one in error.__mro__ if one not in (error, object, BaseException)]


def _commands(prefix: str, group: click.Group) -> Iterator[tuple[str, Mapping[str, Any]]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(f"{prefix} {name}", command)
            continue
        yield (
            f"{prefix} {name}",
            {
                "options": dict(_flags(command)),
                "parameters": {
                    one.name or "": "required" if one.required else "optional"
                    for one in command.params
                    if isinstance(one, click.Argument)
                },
            },
        )


def _flags(command: click.Command) -> Iterator[tuple[str, list[str]]]:
    """Each name of an option, with the words that it can be."""
    for one in command.params:
        if isinstance(one, click.Option) and not one.hidden:
            words = list(one.type.choices) if isinstance(one.type, click.Choice) else []
            for name in (*one.opts, *one.secondary_opts):
                yield name, [str(word) for word in words]
