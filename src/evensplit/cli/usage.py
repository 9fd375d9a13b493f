"""Shared by all commands: exit codes, common options, progress bars, and cells of tables."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from evensplit.checkpoint.places.place import Place, place
from evensplit.core.model import SplitId, topic_names
from evensplit.core.text import plain, some
from evensplit.errors import AssignmentInputError, OptionError

Item = TypeVar("Item")

_NAME = re.compile(r"[A-Za-z][A-Za-z.]{0,60}", re.ASCII)
_SAID = re.compile(r"\s*([\w.-]+)\s*=(.*)", re.ASCII | re.DOTALL)

HELP_COLUMNS = 78
"""The widest line of the help: click's own in a terminal of 80 columns."""

UNFOLDED_COLUMNS = 100_000
"""More than anything that is printed has in a line."""

WRONG_USE = "unknown or conflicting option or argument"


def ending(good: str, bad: str, *examples: str) -> str:
    """Format the end of a command's help: its exit codes (0: `good`, 1: `bad`, 2: wrong use) and examples."""
    codes = "\n".join(
        textwrap.fill(meaning, HELP_COLUMNS, initial_indent=f"  {code}  ", subsequent_indent=" " * 5)
        for code, meaning in enumerate((good, bad, WRONG_USE))
    )
    called = "\n".join(f"  {example}" for example in examples)
    return f"\b\nExit codes:\n{codes}\n\n\b\nExample{'s' * (len(examples) > 1)}:\n{called}"


form_option = click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True, help="What to print."
)
"""`--format table|json`, as `form`."""


class PlaceType(click.ParamType[Place]):
    """A checkpoint, or another directory of Spark's: a path, or the URL of a file system (`place`)."""

    name = "path|url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        return place(value) if isinstance(value, str) else value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """As the shell completes paths."""
        return click.Path().shell_complete(ctx, param, incomplete)


PLACE = PlaceType()
"""The type of an argument that names a checkpoint."""

source_options = click.option(
    "-o",
    "--option",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help='An option of the query, as given to format("evensplit"). Repeatable. Secrets: ${env:NAME}.',
)
"""`-o NAME=VALUE`, the options of `format("evensplit")`, as `given`."""

batches_option = click.option(
    "--batches",
    type=click.IntRange(min=1),
    metavar="N",
    help="Read only the last N batches; faster with many partitions. Default: all that Spark has kept.",
)
"""`--batches N`, as `batches`."""


def options_of(given: Sequence[str]) -> Mapping[str, str]:
    """Parse `-o NAME=VALUE`. Raises click.UsageError for another form, and for an option given twice."""
    found, problems = options_said(given)
    if problems:
        raise click.UsageError("; ".join(problems))
    return found


def options_said(given: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Parse `-o NAME=VALUE`: the options, and a sentence for each that has another form or is given twice."""
    found: dict[str, str] = {}
    problems: list[str] = []
    for text in given:
        match = _SAID.fullmatch(text)
        if match is None:
            problems.append(another_form(text, "subscribe=orders"))
        elif match[1].lower() in map(str.lower, found):
            problems.append(f"--option {match[1]} is given twice; expected it once (case does not matter)")
        else:
            found[match[1]] = match[2]
    return found, problems


def another_form(text: str, example: str) -> str:
    """The error for an `--option` that is not NAME=VALUE. Shows only known names: the rest may be secret."""
    from evensplit.spark.options.spec.all import BY_NAME

    name = _NAME.match(text)
    is_one = name is not None and (name[0].lower() in BY_NAME or name[0].startswith("kafka."))
    shown = f" '{name[0]}{'…' if name.end() < len(text) else ''}'" if name is not None and is_one else ""
    return f"--option{shown}: expected NAME=VALUE with an option's name, as in {example}"


def new_console(*, stderr: bool = False, highlight: bool = True) -> Console:
    """Where a command prints. Lines and tables are folded at the width of a terminal, or at COLUMNS; in a pipe or a
    file they are as wide as what is in them."""
    made = Console(stderr=stderr, highlight=highlight)
    if made.file.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return made
    return Console(stderr=stderr, highlight=highlight, width=UNFOLDED_COLUMNS)


def source_title(name: str, keys: Iterable[SplitId]) -> str:
    """How a source of a query is called, by its name in the checkpoint and the topics of its splits."""
    topics = some(topic_names(keys))
    return plain(f"Source {name} of the query{topics and f', {topics}'}")


def end_with(well: bool) -> None:
    """End the command after printing, with exit code 1 unless all went `well`."""
    if not well:
        raise click.exceptions.Exit(1)


@contextmanager
def wrong_options() -> Iterator[None]:
    """Turn OptionError and AssignmentInputError into wrong use of the command (exit code 2)."""
    try:
        yield
    except (OptionError, AssignmentInputError) as error:
        raise click.UsageError(f"{error}\n{error.reference}") from error


@contextmanager
def progress_bar(what: str, *, hidden: bool = False) -> Iterator[Progress]:
    """A progress bar on standard error, if that is a terminal."""
    console = new_console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=hidden or not console.is_terminal) as bar:
        yield bar


def watched(what: str, things: Iterable[Item], total: int) -> Iterator[Item]:
    """Yield `things`, with a progress bar."""
    with progress_bar(what) as bar:
        yield from bar.track(things, total=total)


def batches_bar(files: Sequence[Item]) -> Iterable[Item]:
    """Yield the files of a checkpoint, with a progress bar if there are several."""
    return watched("batches", files, len(files)) if len(files) > 1 else files


def cell(value: object, style: str = "") -> Text:
    """A cell of a table: text without markup; `?` for None (not known)."""
    if value is None:
        return Text("?", style)
    return Text(f"{value:,}" if isinstance(value, int) else plain(str(value)), style)
