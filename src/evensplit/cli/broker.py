"""`evensplit broker`: a Kafka cluster on this machine until Ctrl-C."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

from evensplit.testing import LocalKafka, Prepared, Progress, prepare

WATCH_INTERVAL_S = 0.2


class TopicType(click.ParamType[tuple[str, int]]):
    """`name` or `name:partitions`."""

    name = "name[:partitions]"

    def convert(
        self, value: str | tuple[str, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        name, colon, partitions = value.partition(":")
        if not name or (colon and not (partitions.isdecimal() and int(partitions) > 0)):
            self.fail(f"{value!r}: expected a topic's name, or its name and how many partitions, as in clicks:4")
        return name, int(partitions) if colon else 1


class PropertyType(click.ParamType[tuple[str, str]]):
    """`key=value`."""

    name = "key=value"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, equals, content = value.partition("=")
        if not key or not equals:
            self.fail(f"{value!r}: expected a broker setting, as in log.retention.ms=60000")
        return key, content


@click.command()
@click.option("--brokers", type=click.IntRange(min=1), default=1, show_default=True, help="How many brokers.")
@click.option("--topic", "topics", type=TopicType(), multiple=True, help="Create this topic. May be repeated.")
@click.option(
    "--property", "properties", type=PropertyType(), multiple=True, help="Set this on every broker. May be repeated."
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep data and logs here, for the next time. Default: a temporary directory that is removed in the end.",
)
def broker(
    brokers: int, topics: tuple[tuple[str, int], ...], properties: tuple[tuple[str, str], ...], directory: Path | None
) -> None:
    """Run a real Kafka on this machine until Ctrl-C.

    The first line of standard output is its bootstrap address; everything else goes to standard error. Needs Java 17
    or later, listens on 127.0.0.1 alone, and leaves nothing behind.
    """
    console = Console(stderr=True)
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    try:
        _prepare(console)
        with LocalKafka(brokers=brokers, properties=dict(properties), directory=directory) as kafka:
            for name, partitions in topics:
                kafka.create_topic(name, partitions, replication_factor=min(3, brokers))
            click.echo(kafka.bootstrap_servers)
            console.print(_hint(kafka, topics))
            while kafka.is_running:
                time.sleep(WATCH_INTERVAL_S)
    except KeyboardInterrupt:
        console.print("stopped")


def _as_ctrl_c(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _prepare(console: Console) -> Prepared:
    """What the brokers need, with a bar while it is being fetched and nothing at all when it is there."""
    bar = ProgressBar(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console, transient=True
    )
    task = bar.add_task("Kafka, the first time", total=None)

    def report(progress: Progress) -> None:
        bar.start()
        bar.update(task, description=progress.doing, completed=progress.done, total=progress.total)

    try:
        return prepare(report)
    finally:
        bar.stop()


def _hint(kafka: LocalKafka, topics: tuple[tuple[str, int], ...]) -> Panel:
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
