"""`evensplit broker`: a Kafka cluster on this machine until Ctrl-C."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

from evensplit.cli.usage import ending, new_console
from evensplit.core.text import shown
from evensplit.errors import BrokerError
from evensplit.metadata.checks import TOPIC, is_topic
from evensplit.testing import LocalKafka, Prepared, Progress, prepare

TOPIC_ALREADY_EXISTS = 36
WATCH_INTERVAL_S = 0.2


def parse_topics(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> list[tuple[str, int]]:
    """Name and number of partitions of each `name` or `name:partitions`."""
    topics = []
    for text in given:
        name, colon, partitions = text.partition(":")
        if not name or (colon and not (partitions.isdecimal() and int(partitions) > 0)):
            raise click.BadParameter(
                f"{text!r}: expected a topic's name, or its name and how many partitions, as in clicks:4"
            )
        if not is_topic(name):
            raise click.BadParameter(f"{shown(text)}: expected {TOPIC}")
        topics.append((name, int(partitions) if colon else 1))
    return topics


def parse_properties(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """The settings of each `key=value`."""
    properties = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{text!r}: expected a broker setting, as in log.retention.ms=60000")
        properties[key] = value
    return properties


@click.command(
    epilog=ending(
        "ended with Ctrl-C",
        "it could not start, or a broker ended",
        "evensplit broker --topic orders:8 --topic clicks",
    )
)
@click.option("--brokers", type=click.IntRange(min=1), default=1, show_default=True, help="The number of brokers.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    callback=parse_topics,
    metavar="NAME[:PARTITIONS]",
    help="Create this topic. Repeatable.",
)
@click.option(
    "--property",
    "properties",
    multiple=True,
    callback=parse_properties,
    metavar="KEY=VALUE",
    help="A setting for every broker. Repeatable.",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep data, logs and ports here for the next start. Default: a temporary directory.",
)
def broker(brokers: int, topics: list[tuple[str, int]], properties: dict[str, str], directory: Path | None) -> None:
    """Run a real Kafka on this machine until Ctrl-C.

    The first line of standard output is its bootstrap address; everything else goes to standard error. Needs Java 17
    or later, listens on 127.0.0.1 alone, and leaves nothing behind.
    """
    console = new_console(stderr=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _prepare(console)
        with LocalKafka(brokers=brokers, properties=properties, directory=directory) as kafka:
            for name, partitions in topics:
                _create(kafka, name, partitions, console)
            console.print(_hint(kafka, topics))
            click.echo(kafka.bootstrap_servers)
            while kafka.is_running:
                time.sleep(WATCH_INTERVAL_S)
    except KeyboardInterrupt:
        console.print("stopped")


def _create(kafka: LocalKafka, name: str, partitions: int, console: Console) -> None:
    try:
        kafka.create_topic(name, partitions, replication_factor=min(3, len(kafka.brokers)))
    except BrokerError as error:
        if error.code != TOPIC_ALREADY_EXISTS:
            raise
        console.print(f"topic {name} is in the directory from before, and stays as it is")


def _prepare(console: Console) -> Prepared:
    """What the brokers need, with a bar while it is being fetched and nothing at all when it is there."""
    bar = ProgressBar(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console, transient=True
    )
    task = bar.add_task("Kafka, the first time", total=None)
    with ExitStack() as stack:

        def report(progress: Progress) -> None:
            if not bar.live.is_started:
                stack.enter_context(bar)
            bar.update(task, description=progress.doing, completed=progress.done, total=progress.total)

        return prepare(report)


def _hint(kafka: LocalKafka, topics: list[tuple[str, int]]) -> Panel:
    subscribed = topics[0][0] if topics else "my-topic"
    return Panel(
        f'spark.readStream.format("evensplit")\n'
        f'    .option("kafka.bootstrap.servers", "{kafka.bootstrap_servers}")\n'
        f'    .option("subscribe", "{subscribed}")\n\n'
        f"[dim]Logs: {kafka.broker(0).log}[/dim]",
        title=f"Kafka is running ({len(kafka.brokers)} broker{'s' if len(kafka.brokers) > 1 else ''})",
        subtitle="Ctrl-C ends it",
        expand=False,
    )
