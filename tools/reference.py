"""Writes the reference from the code: `python -m tools.reference` writes the pages in docs/reference anew.

Options, columns, commands, errors and metrics each have one table, or one tree, in the package. A page is made from it,
and a test compares the two. With `--check`, nothing is written; the exit code says whether every page is up to date.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import click
import yaml

from evensplit.cli.group import evensplit
from evensplit.errors import BY_ID, EvenSplitError
from evensplit.kafka.columns import COLUMNS, TABLE
from evensplit.kafka.options.option import INT_MAX, Duration, NumberOrWord, Option, ValueType, WholeNumber
from evensplit.observe import files
from evensplit.observe.metric import Metric
from evensplit.observe.metrics import METRICS
from evensplit.spark.options.hints import SOUGHT
from evensplit.spark.options.spec.all import DECLARED, OPTIONS, notes
from evensplit.spark.options.spec.sink import SINK_DECLARED, SINK_OPTIONS
from evensplit.spark.row_type import row_type
from tests.sim.planted import PLANTED
from tests.sim.planted_deliveries import PLANTED_DELIVERIES, PlantedDelivery
from tests.sim.planted_fetches import PLANTED_FETCHES, PlantedFetch
from tests.sim.planting import Planted
from tools import made

ROOT = Path(__file__).resolve().parents[1]
DIRECTORY = ROOT / "docs" / "reference"
MADE = "`python -m tools.reference` makes this page from {source}."

OPTIONS_HEAD = """\
This page says for each option what it does, which values it takes, and what applies if it is not given.
`evensplit explain OPTION` prints the same. [Spark's options, one by one](../options.md) says how the options of Spark's
own Kafka source differ here.

Option names are not case-sensitive. An unknown option is an error, and one error lists everything that is wrong. The
column *where* says what an option can be set for: the whole query, one cluster (in `clusters` or in the metadata,
where it overrides the option of the query), or single topics (in the option's JSON). Options exist since version
0.1.0, unless the table says otherwise."""

KINDS = {
    "addresses": "`host:port` of one or more brokers, separated by commas; IPv6 addresses in brackets",
    "choice": "one of the words in the last column, in upper or lower case",
    "duration": "a number and a unit, `ms`, `s`, `m`, `h` or `d`: `90s`, `1.5 h`",
    "flag": "`true` or `false`",
    "JSON": "a JSON object",
    "limit": "a number, or a JSON object of numbers by cluster and topic",
    "priority": "a JSON list of clusters and topics, or a JSON object with their weights",
    "names": "names, separated by commas",
    "number": "a whole number; if no upper bound is given, it is 2147483647 or more",
    "path": "the path of a file on the driver",
    "position": "a word, a JSON object, or `file:/path`: a file on the driver that contains one of these",
    "condition": "a condition in Spark's SQL over the columns",
    "schema": "a schema in Spark's DDL or JSON, or `file:/path`: a file on the driver that contains one",
    "regex": "a regular expression in Python's syntax",
    "text": "text",
}
FIRST_VERSION = "0.1.0"

OPTIONS_FOOT = """\
One line of the log names the options that are ignored, among them the settings of Kafka's consumer that have no
effect here. Settings that would change what is read are errors ([both lists](../options.md#kafkas-consumer)).

`evensplit.register(spark)` is optional. It tells the source how many tasks the session can run at once, which is the
default of `readers`; without it, the default is the number of the driver's processors. It also gives you each batch
as an object ([Monitoring](../howto/monitoring.md)). Spark then warns, once per session, that it "replaced a
statically registered data source". This is expected: Spark had found the same source by itself."""

SINK_HEAD = """\
These are the options of `df.writeStream.format("evensplit")` and `df.write.format("evensplit")`. An option for reading
is an error there, and one for writing is an error above. Settings of Kafka's producer that are not in the table are
ignored, and one line of the log names them, or they are errors with the reason, such as `kafka.transactional.id`."""

SOUGHT_HEAD = """\
These names come from other sources, other Kafka clients and older versions. Using one is an error with the advice of
this table. For a misspelt option, the error suggests the right name."""

ERRORS_HEAD = """\
This page has the cause of each error and its cure, that is, what to do about it. Every error has an id that never
changes, and `evensplit explain ID` prints its cause and cure, too. You find the id below the message on the command
line, in the last line of an exception in Python and in Spark, and in brackets after the message in a log:

```text
evensplit.errors.OptionError: 1 option is wrong: subscribe is missing …
ES-101: `evensplit explain ES-101` tells its cause and its cure
```

In a program, it is `error.id`. All errors are classes in `evensplit.errors` ([the Python API](api.md)), and
`except EvenSplitError` catches all of them."""

PLANTED_HEAD = """\
# Planted bugs

This page lists the bugs that are planted into the source, one at a time, to show that its simulator finds bugs. Each is
a small change of the rules, and the test suite fails unless the simulator finds it with the seed in the table. The
column *seen in* names the system that had such a bug: an issue of Flink's Kafka connector, Spark's own Kafka source, or
an earlier evensplit. One of the [laws](../explanation/laws.md) in the column *law* is the first to be broken. *Seeds
needed* is how many seeds are run at most if the first one is 0. Runs of the part `enumerator` have 400 events."""

AnyPlanted = Planted | PlantedFetch | PlantedDelivery
ALL_PLANTED: tuple[AnyPlanted, ...] = (*PLANTED.values(), *PLANTED_FETCHES.values(), *PLANTED_DELIVERIES.values())

COLUMNS_HEAD = """\
This page lists the columns of the rows in their order, which is always the same. The first seven are those of Spark's
own Kafka source. The option [`columns`](options.md) chooses among them: other columns are neither decoded nor passed
to Spark."""

METRICS_HEAD = """\
This page lists the metrics for Prometheus, and the alert rules that use them. [Monitoring and
alerts](../howto/monitoring.md) says how to serve them. Every metric has the labels `query` and `source`, those of the
sink (`evensplit_sink_`) only `query`; the table has the others. Metrics with the label `partition` exist only with
`metrics_partitions=True`."""

COMMANDS_HEAD = """\
This page has the help of every command, as `evensplit COMMAND --help` prints it. [The commands](../commands.md) is an
overview. They need `pip install 'evensplit[cli]'`. A command that ends with exit code 1 says why, with [the id of the
error](errors.md) if it has one."""


def options_page() -> str:
    """Every option: value, default, where it may stand, and its meaning with an example."""
    lines = [
        "# Options",
        "",
        OPTIONS_HEAD,
        "",
        MADE.format(source="the options declared in `src/evensplit/spark/options/spec/all.py`"),
        "",
        "| type | value |",
        "|---|---|",
        *(f"| {kind} | {what} |" for kind, what in KINDS.items()),
    ]
    for heading, options in OPTIONS.items():
        lines += ["", f"## {heading}", "", *_option_table(options, DECLARED)]
    by_advice: dict[str, list[str]] = {}
    for name, advice in SOUGHT.items():
        by_advice.setdefault(advice, []).append(f"`{name}`")
    lines += [
        "",
        OPTIONS_FOOT,
        "",
        "## Writing",
        "",
        SINK_HEAD,
    ]
    for heading, options in SINK_OPTIONS.items():
        lines += ["", f"### {heading}", "", *_option_table(options, SINK_DECLARED)]
    lines += [
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


def _option_table(options: Iterable[Option], among: Iterable[Option]) -> Iterator[str]:
    yield from ("| option | type | default | where | meaning |", "|---|---|---|---|---|")
    for option in options:
        yield _option_row(option, among)


def _option_row(option: Option, among: Iterable[Option]) -> str:
    since = [] if option.since == FIRST_VERSION else [f"Since {option.since}."]
    meaning = " ".join((option.meaning, *notes(option, among), *since, f"Example: `{option.example}`"))
    cells = (f"`{option.name}`", _type(option.type), option.default_shown, ", ".join(option.places), meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _type(kind: ValueType) -> str:
    if isinstance(kind, Duration):
        if kind.negative:
            return kind.kind
        return f"{kind.kind}, {'0 or more' if kind.zero else 'above 0'}"
    if isinstance(kind, NumberOrWord):
        return f"{kind.kind}, {kind.least} to {kind.most}, or `{kind.word}`"
    if not isinstance(kind, WholeNumber):
        return kind.kind
    bounds = f"{kind.least} or more" if kind.most >= INT_MAX else f"{kind.least} to {kind.most}"
    return f"{kind.kind}{f' of {kind.unit}' if kind.unit else ''}, {bounds}"


def errors_page() -> str:
    """Every error: id, class, cause and cure."""
    lines = [
        "# Errors",
        "",
        ERRORS_HEAD,
        "",
        MADE.format(source="the classes in `src/evensplit/errors`"),
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
        COLUMNS_HEAD,
        "",
        MADE.format(source="`src/evensplit/kafka/columns.py`"),
        "",
        "| column | type in Spark | what it holds |",
        "|---|---|---|",
    ]
    for field in row_type(COLUMNS):
        kind = f"`{field.dataType.simpleString()}`"
        lines.append(f"| `{field.name}` | {kind} | {TABLE[field.name].holds} |")
    return "\n".join(lines) + "\n"


def commands_page() -> str:
    """Every command, with its arguments and options, as `--help` has them."""
    lines = [
        "# Commands",
        "",
        COMMANDS_HEAD,
        "",
        MADE.format(source="the commands themselves"),
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
        METRICS_HEAD,
        "",
        MADE.format(source="`src/evensplit/observe/*metrics.py` and `src/evensplit/observe/files/alerts.yml`"),
        "",
        "| metric | type | labels | meaning |",
        "|---|---|---|---|",
        *map(_metric_row, METRICS),
        "",
        "## Alerts",
        "",
        '`evensplit.observe.files()["alerts.yml"]` has these rules as a file for Prometheus.',
    ]
    for rule in yaml.safe_load(files()["alerts.yml"])["groups"][0]["rules"]:
        lines += ["", f"### {rule['alert']}", "", rule["annotations"]["description"].strip(), "", "```text"]
        wait = f"\nfor {rule['for']}" if "for" in rule else ""
        lines += [f"{rule['expr'].strip()}{wait}", "```"]
    return "\n".join(lines) + "\n"


def _metric_row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels if label not in ("query", "source"))
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"


def planted_bugs_page() -> str:
    """The bugs that the simulator has to find."""
    rows = [
        *_planted_rows("enumerator", PLANTED),
        *_planted_rows("fetch", PLANTED_FETCHES),
        *_planted_rows("delivery", PLANTED_DELIVERIES),
    ]
    head = ("| bug | what it does | seen in | part | law | seed | seeds needed |", "|---|---|---|---|---|---|---|")
    made_from = MADE.format(source="`planted*.py` in `tests/sim`")
    count = f"There are {len(rows)}; each is found within {max(bug.seed for bug in ALL_PLANTED) + 1} seeds."
    return "\n".join((PLANTED_HEAD, "", count, "", made_from, "", *head, *rows)) + "\n"


def _planted_rows(part: str, bugs: Mapping[str, AnyPlanted]) -> Iterator[str]:
    """Those that were seen elsewhere come first."""
    for name in sorted(bugs, key=lambda name: (not bugs[name].like, name)):
        bug = bugs[name]
        yield f"| `{name}` | {bug.says} | {bug.like} | {part} | {', '.join(bug.laws)} | {bug.seed} | {bug.seed + 1} |"


PAGES: Mapping[str, Callable[[], str]] = {
    "options.md": options_page,
    "errors.md": errors_page,
    "columns.md": columns_page,
    "commands.md": commands_page,
    "metrics.md": metrics_page,
    "planted-bugs.md": planted_bugs_page,
}


def stale(directory: Path = DIRECTORY) -> list[str]:
    """The pages that are not what the code gives."""
    return made.stale(directory, PAGES)


def main(arguments: list[str]) -> int:
    """Write the pages, or check them."""
    return made.main("tools.reference", __doc__, DIRECTORY, PAGES, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
