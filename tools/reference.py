"""Writes the reference from the code: `python -m tools.reference` writes the pages in docs/reference anew.

Options, columns, commands, errors and metrics each have one table, or one tree, in the package. A page is made from it,
and a test compares the two. With `--check`, nothing is written; the exit code says whether every page is up to date.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click
import yaml
from pyspark.sql.pandas.types import from_arrow_schema

from evensplit.cli.group import evensplit
from evensplit.errors import BY_ID, EvenSplitError
from evensplit.kafka.fetch.columns import COLUMNS, TABLE, row_schema
from evensplit.kafka.options.option import INT_MAX, Option, ValueType, WholeNumber
from evensplit.observe import files
from evensplit.observe.metrics import METRICS, Metric
from evensplit.spark.options.hints import SOUGHT
from evensplit.spark.options.spec import OPTIONS, notes
from tools import made

ROOT = Path(__file__).resolve().parents[1]
DIRECTORY = ROOT / "docs" / "reference"
MADE = "This page is made from {source} by `python -m tools.reference`."

OPTIONS_HEAD = """\
Look up here what an option does, what its value is, and what holds without it. `evensplit explain OPTION` says the
same. How each option of Spark's own Kafka source behaves here is in
[Spark's options, one by one](../options.md).

Names are not case-sensitive. An option that does not exist is an error, and one error lists all that is wrong. *Where*
says what an option can be given for: the whole query, one cluster (in `clusters` or the metadata, where it goes before
the same option outside), or single topics (inside its JSON). All are there since 0.1.0 unless it is said."""

KINDS = {
    "addresses": "`host:port` of one or more brokers, separated by commas; IPv6 addresses in brackets",
    "choice": "one of the words that the meaning lists, in any case",
    "duration": "a number and a unit, `ms`, `s`, `m`, `h` or `d`: `90s`, `1.5 h`",
    "flag": "`true` or `false`",
    "JSON": "a JSON object",
    "names": "names, separated by commas",
    "number": "a whole number; where no upper bound is given it is 2147483647 or more",
    "path": "the path of a file on the driver",
    "position": "a word or a JSON object, or `file:/path`, a file on the driver with the value",
    "regex": "a regular expression in Python's syntax",
    "text": "text",
}
FIRST_VERSION = "0.1.0"

OPTIONS_FOOT = """\
Options that are ignored are named in one line of the log, as are other settings of Kafka's consumer that have no effect
here. Settings that would change what is read are errors. [The list](../options.md#kafkas-consumer).

`evensplit.register(spark)` is never needed. It tells the source how many tasks the session can run, as the default
for `readers`; without it that is the number of the driver's processors. It also gives you what happens as objects, see
[Monitoring](../howto/monitoring.md). Spark warns then, once for each session, that it "replaced a statically registered
data source", which is the one that it finds by itself: that is as it should be."""

SOUGHT_HEAD = """\
Names from other sources, other clients of Kafka and older versions. Each is an error that says the same as this table.
A name that is nearly one of the options gets that one as an answer."""

ERRORS_HEAD = """\
What to do about each error. Every error has an id that never changes; `evensplit explain ID` shows its cause and its
cure, as this page does. The command line shows the id below the message. In Python, and in the text of Spark's
exceptions, it is in the last line of the error. In a log line, it follows the message in brackets:

```text
evensplit.errors.OptionError: 1 option is wrong: subscribe is missing …
ES-101: `evensplit explain ES-101` tells its cause and its cure
```

In a program, `error.id` has it. All errors are classes in `evensplit.errors` (see [the Python API](api.md)), and all
can be caught as `EvenSplitError`."""

COLUMNS_HEAD = """\
The columns of the rows, always in this order. The first seven are those of Spark's own Kafka source. Option
[`columns`](options.md) chooses other ones: what is not chosen is neither decoded nor handed to Spark."""

METRICS_HEAD = """\
How to have them served: [Monitoring and alerts](../howto/monitoring.md). Every one has the labels `query` and `source`;
below are the others. Those with `partition` are there only with `metrics_partitions=True`."""

COMMANDS_HEAD = """\
They need `pip install 'evensplit[cli]'`. `evensplit COMMAND --help` shows the same. Where a command ends with 1, the
message says why, and has [the id of the error](errors.md) if it is one of those."""


def options_page() -> str:
    """Every option: value, default, where it may stand, and its meaning with an example."""
    lines = [
        "# Options",
        "",
        MADE.format(source="the declarations in `src/evensplit/spark/options/spec.py`"),
        "",
        OPTIONS_HEAD,
        "",
        "| type | value |",
        "|---|---|",
        *(f"| {kind} | {what} |" for kind, what in KINDS.items()),
    ]
    for heading, options in OPTIONS.items():
        lines += ["", f"## {heading}", "", "| option | type | default | where | meaning |", "|---|---|---|---|---|"]
        lines += map(_option_row, options)
    by_advice: dict[str, list[str]] = {}
    for name, advice in SOUGHT.items():
        by_advice.setdefault(advice, []).append(f"`{name}`")
    lines += [
        "",
        OPTIONS_FOOT,
        "",
        "## Names that are no options",
        "",
        SOUGHT_HEAD,
        "",
        "| name | what to do |",
        "|---|---|",
    ]
    lines += (f"| {', '.join(names)} | {advice} |" for advice, names in by_advice.items())
    return "\n".join(lines) + "\n"


def _option_row(option: Option) -> str:
    since = [] if option.since == FIRST_VERSION else [f"Since {option.since}."]
    meaning = " ".join((option.meaning, *notes(option), *since, f"Example: `{option.example}`"))
    cells = (f"`{option.name}`", _type(option.type), option.default_shown, ", ".join(option.places), meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _type(kind: ValueType) -> str:
    if not isinstance(kind, WholeNumber):
        return kind.kind
    bounds = f"{kind.least} or more" if kind.most >= INT_MAX else f"{kind.least} to {kind.most}"
    return f"{kind.kind}{f' of {kind.unit}' if kind.unit else ''}, {bounds}"


def errors_page() -> str:
    """Every error: id, class, cause and cure."""
    lines = [
        "# Errors",
        "",
        MADE.format(source="the classes in `src/evensplit/errors`"),
        "",
        ERRORS_HEAD,
        "",
        "| id | class |",
        "|---|---|",
        *(f"| [{error.id}](#{_anchor(_heading(error))}) | `{error.__name__}` |" for error in BY_ID.values()),
    ]
    for error in BY_ID.values():
        lines += ["", f"## {_heading(error)}", "", f"**Cause.** {error.cause}", "", f"**Cure.** {error.cure}"]
    return "\n".join(lines) + "\n"


def _heading(error: type[EvenSplitError]) -> str:
    return f"{error.id} {error.__name__}"


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def columns_page() -> str:
    """Every column: name, Spark's type, what it holds."""
    lines = [
        "# Columns",
        "",
        MADE.format(source="`src/evensplit/kafka/fetch/columns.py`"),
        "",
        COLUMNS_HEAD,
        "",
        "| column | type in Spark | what it holds |",
        "|---|---|---|",
    ]
    for field in from_arrow_schema(row_schema(COLUMNS)):
        kind = f"`{field.dataType.simpleString()}`"
        lines.append(f"| `{field.name}` | {kind} | {TABLE[field.name].holds} |")
    return "\n".join(lines) + "\n"


def commands_page() -> str:
    """Every command, with its arguments and options, as `--help` has them."""
    lines = [
        "# Commands",
        "",
        MADE.format(source="the commands themselves"),
        "",
        COMMANDS_HEAD,
    ]
    for name, command in _commands("evensplit", evensplit):
        lines += ["", f"## {name}", "", *_usage(name, command), "", *_told(command)]
        options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
        if options:
            lines += ["", "| option | default | what it does |", "|---|---|---|", *map(_command_option, options)]
        if command.epilog:
            lines += ["", *_paragraphs(command.epilog)]
    return "\n".join(lines) + "\n"


def _commands(prefix: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in sorted(group.list_commands(context)):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(f"{prefix} {name}", command)
        else:
            yield f"{prefix} {name}", command


def _usage(name: str, command: click.Command) -> list[str]:
    context = click.Context(command, info_name=name)
    return ["```text", f"{name} {' '.join(command.collect_usage_pieces(context))}", "```"]


def _told(command: click.Command) -> Iterator[str]:
    """The help text."""
    return _paragraphs(inspect.cleandoc(command.help or ""))


def _paragraphs(text: str) -> Iterator[str]:
    """What click is told not to wrap stays as it is."""
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ""
        if paragraph.startswith("\b\n"):
            yield from ("```text", *paragraph.removeprefix("\b\n").splitlines(), "```")
        else:
            yield from paragraph.splitlines()


def _command_option(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    kind = "" if option.is_flag else f" {option.make_metavar(click.Context(click.Command('evensplit')))}"
    shown = option.default if isinstance(option.default, str | int | float) and not option.is_flag else None
    default = "" if shown is None else f"`{shown}`"
    said = (option.help or "").replace("|", "\\|")
    return f"| {names}{kind.replace('|', chr(92) + '|')} | {default} | {said} |"


def metrics_page() -> str:
    """Every metric, and every alert rule that goes with them."""
    lines = [
        "# Metrics and alerts",
        "",
        MADE.format(source="`src/evensplit/observe/metrics.py` and the alert rules beside it"),
        "",
        METRICS_HEAD,
        "",
        "| metric | type | labels | what it says |",
        "|---|---|---|---|",
        *map(_metric_row, METRICS),
        "",
        "## Alerts",
        "",
        'The rules as a file for Prometheus: `evensplit.observe.files()["alerts.yml"]`.',
    ]
    for rule in yaml.safe_load(files()["alerts.yml"])["groups"][0]["rules"]:
        lines += ["", f"### {rule['alert']}", "", rule["annotations"]["description"].strip(), "", "```text"]
        wait = f"\nfor {rule['for']}" if "for" in rule else ""
        lines += [f"{rule['expr'].strip()}{wait}", "```"]
    return "\n".join(lines) + "\n"


def _metric_row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels if label not in ("query", "source"))
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"


PAGES: Mapping[str, Callable[[], str]] = {
    "options.md": options_page,
    "errors.md": errors_page,
    "columns.md": columns_page,
    "commands.md": commands_page,
    "metrics.md": metrics_page,
}


def stale(directory: Path = DIRECTORY) -> list[str]:
    """The pages that are not what the code gives."""
    return made.stale(directory, PAGES)


def main(arguments: list[str]) -> int:
    """Write the pages, or check them."""
    return made.main("tools.reference", __doc__, DIRECTORY, PAGES, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
