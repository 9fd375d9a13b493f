"""`evensplit init`: writes a job to start from."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from evensplit.cli.init import job as words
from evensplit.cli.init.answers import clusters_json, job_of
from evensplit.cli.init.job import Answers, Job
from evensplit.cli.init.job_code import code_of
from evensplit.cli.init.questions import ask
from evensplit.cli.usage import ending, form_option, wrong_options
from evensplit.core.text import command_line

FILE = "job.py"
_ASKED = ("kafka.", "subscribe", "assign", "metadata")
"""How options begin that doctor looks at."""

_PLACE = ("kind", "servers", "metadata", "topics", "pattern", "start", "stop")
_REST = ("values", "schema", "message", "registry", "sink", "to", "to_servers", "checkpoint", "trigger")


class Word(click.types.StringParamType):
    """One of a few words. A wrong one is reported later, together with all else that is wrong."""

    name = "word"

    def __init__(self, known: Sequence[str]) -> None:
        self.known = tuple(known)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """What the help shows."""
        return f"[{'|'.join(self.known)}]"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The words that begin so."""
        return [CompletionItem(one) for one in self.known if one.startswith(incomplete)]


@click.command(
    epilog=ending(
        "the job was written, or printed",
        "the file is there already, or cannot be written",
        "evensplit init try --local",
        "evensplit init orders --servers broker-1:9092 --topics orders --print",
        "evensplit init --local --values json --schema 'id BIGINT' --sink parquet",
    )
)
@click.argument("directory", type=click.Path(path_type=Path), default=Path())
@click.option("--kind", type=Word(words.KINDS), help="A streaming query, or a batch query. Default: stream.")
@click.option("--servers", metavar="HOST:PORT,…", help="Brokers of the cluster to read.")
@click.option("--cluster", "clusters", multiple=True, metavar="NAME=SERVERS", help="A cluster to read. Repeatable.")
@click.option("--metadata", metavar="LOCATION", help="A file or service that lists clusters and topics.")
@click.option("--local", is_flag=True, help="The job starts a broker of its own, with records in it.")
@click.option("--topics", metavar="TOPIC,…", help="Topics to read. Default with --local: orders.")
@click.option("--pattern", metavar="REGEX", help="Read all topics with a match in their name.")
@click.option("--start", metavar="WHERE", help="Where a new query starts, such as latest or -2h. Default: earliest.")
@click.option("--stop", metavar="WHERE", help="Where reading ends, in the same form.")
@click.option("--values", type=Word(words.VALUES), help="What values are. Default: raw, shown as text.")
@click.option("--schema", metavar="SCHEMA", help="Of values: DDL for json; file:/path for avro and protobuf.")
@click.option("--message", metavar="NAME", help="The message that values are, for protobuf.")
@click.option("--registry", metavar="URL", help="A schema registry, in place of --schema.")
@click.option("--sink", type=Word(words.SINKS), help="What becomes of the rows. Default: console.")
@click.option("--to", metavar="PATH|TOPIC", help="Where rows go. Default: the directory data beside the job.")
@click.option("--to-servers", metavar="HOST:PORT,…", help="Brokers that are written to. Default: --servers.")
@click.option("--checkpoint", metavar="PATH", help="Where positions are kept. Default: beside the job.")
@click.option(
    "--trigger",
    type=Word(words.TRIGGERS),
    help="Run until it is stopped, or end when all is read. Default: always; with --local, available-now.",
)
@click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help='Another option of format("evensplit"). Repeatable. Secrets: ${env:NAME}.',
)
@click.option("--print", "only_print", is_flag=True, help="Print the code; write nothing.")
@click.option("--force", is_flag=True, help="Replace a job.py that is there.")
@form_option
def init(directory: Path, only_print: bool, force: bool, form: str, **flags: object) -> None:
    """Write a job to start from: DIRECTORY/job.py.

    Flags say what it reads and what becomes of it. On a terminal, what is missing is asked for, unless the flags say
    where Kafka is and which topics are read. Options are checked as a query checks them; no cluster is asked. No secret
    is written: give ${env:NAME} instead.
    """
    given = Answers(**flags)  # type: ignore[arg-type]  # the names of the flags are those of the fields
    path = directory / FILE
    asked = not _is_enough(given) and is_terminal()
    if asked:
        if path.exists() and not (force or only_print):
            raise _there_already(path)
        given = ask(given)
    with wrong_options():
        job = job_of(given)
    code = code_of(job)
    if not only_print:
        _write(path, code, force=force)
    if form == "json":
        click.echo(json.dumps({"path": str(path), "written": not only_print, "code": code}, indent=1))
    elif only_print:
        click.echo(code, nl=False)
    else:
        click.echo(f"{path} is written. Run it:\n\n  python {shlex.quote(str(path))}")
        if not job.local:
            click.echo(f"\nCheck before whether Kafka can be reached:\n\n  {check(job)}")
        if asked:
            click.echo(f"\nThe same without questions:\n\n  {again(directory, given)}")


def is_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def again(directory: Path, given: Answers) -> str:
    """The command line that gives the same answers."""
    said: list[str] = []
    for name in (*_PLACE, *_REST):
        value = getattr(given, name)
        if value is not None:
            said += [f"--{name.replace('_', '-')}", value]
    said += [part for one in given.clusters for part in ("--cluster", one)]
    said += [part for one in given.options for part in ("--option", one)]
    return command_line("init", directory, *(["--local"] if given.local else []), *said)


def check(job: Job) -> str:
    """The command line that checks what the job reads."""
    asked = {name: value for name, value in job.source.items() if name.lower().startswith(_ASKED)} | dict(job.login)
    if job.clusters:
        asked["clusters"] = clusters_json(job.clusters)
    said = [part for name, value in asked.items() for part in ("-o", f"{name}={value}")]
    return command_line("doctor", *said)


def _is_enough(given: Answers) -> bool:
    named = given.servers or given.clusters
    topics = given.topics or given.pattern or any(one.lower().startswith("assign=") for one in given.options)
    return bool(given.local or given.metadata or (named and topics))


def _write(path: Path, code: str, *, force: bool) -> None:
    """Write the file, all of it or nothing. Raises click.ClickException if one is there, or it cannot be written."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_text(code, encoding="utf-8")
            if not force:
                # Of two that write at once, one finds it there. Not every file system has links, which would do.
                path.open("x").close()
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except FileExistsError as error:
        raise _there_already(path) from error
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror or error}") from error


def _there_already(path: Path) -> click.ClickException:
    return click.ClickException(
        f"{path} is there already, and is left as it is; give --force to replace it, or another DIRECTORY"
    )
