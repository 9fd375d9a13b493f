"""`evensplit doctor`: what is in the way of a query, on this machine and at its clusters, each with its cure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, cast

import click
from rich.text import Text

from evensplit.checkpoint.places.place import Place
from evensplit.cli.doctor.checkpoint import CheckpointLook
from evensplit.cli.doctor.cluster import ClusterToAsk, cluster_findings
from evensplit.cli.doctor.findings import Finding, Status, Step, taken
from evensplit.cli.doctor.local import local_findings
from evensplit.cli.doctor.start import WHERE as START
from evensplit.cli.doctor.start import Given, StartLook
from evensplit.cli.doctor.written import format_findings
from evensplit.cli.live.next_batch import clusters_named, names_clusters
from evensplit.cli.usage import (
    PLACE,
    end_with,
    ending,
    form_option,
    new_console,
    options_of,
    source_options,
    wrong_options,
)
from evensplit.core.model import TopicPattern
from evensplit.core.state.offset_strategies import Committed, parts
from evensplit.core.text import counted, plain
from evensplit.spark.options.parse import SourceOptions, parse_options
from evensplit.spark.options.per_cluster import SUBSCRIPTIONS, ClusterOptions
from evensplit.spark.options.spec.clusters import METADATA
from evensplit.typed.schema import parse_struct

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

ANY = "[^/]+"
"""The topics of a cluster of which none are named."""

_STYLES = {Status.OK: "green", Status.WARNING: "yellow", Status.FAILED: "bold red", Status.SKIPPED: "dim"}


@click.command(
    epilog=ending(
        "no check failed; there may be warnings",
        "a check failed",
        "evensplit doctor",
        "evensplit doctor -o kafka.bootstrap.servers=broker:9092",
        "evensplit doctor -o metadata=clusters.yaml --format json",
        "evensplit doctor --sink -o kafka.bootstrap.servers=broker:9092",
        "evensplit doctor --checkpoint /checkpoints/orders -o metadata=clusters.yaml",
    )
)
@source_options
@click.option("--sink", is_flag=True, help="The options are those of a streaming query that writes.")
@click.option(
    "--checkpoint",
    type=PLACE,
    metavar="CHECKPOINT",
    help="Also say what this version, and the options, would change in a query's checkpoint.",
)
@click.option("--source", metavar="SOURCE", help="The source in CHECKPOINT, if the query has several.")
@form_option
def doctor(given: tuple[str, ...], sink: bool, checkpoint: Place | None, source: str | None, form: str) -> None:
    """Check what a query needs, and how to fix what is missing.

    Without options, it checks this machine: Java, PySpark, pyarrow, the kernel, the workers' Python and its
    address. With the options of a query, it also checks each cluster: name, connection, TLS and login of each bootstrap
    server, the addresses that brokers advertise, and access to the topics and consumer groups. Topics may be left out.
    With --sink: whether the query could write there, the ledger, the timeouts of transactions, and those that are open.
    With --checkpoint, the checkpointLocation of a query, it says what that holds, whether this version can go on from
    it, the format that it would write there, and whether an older version could go on from that. With the options as
    well, it says what would be different when the query starts: settings, clusters, topics, and owners.
    No record is read, nothing is written or committed, and no secret is printed.
    """
    said = options_of(given)
    if sink and not said:
        raise click.UsageError(
            "--sink needs the options of the query: -o kafka.bootstrap.servers=host:port, for example"
        )
    if sink and checkpoint is not None:
        raise click.UsageError("--checkpoint is compared with the options of a query that reads; leave --sink out")
    if source is not None and checkpoint is None:
        raise click.UsageError("--source is for a CHECKPOINT; leave it out, or give --checkpoint")
    looks = _looks(said, sink=sink, kept=None if checkpoint is None else CheckpointLook(checkpoint, source))
    console = new_console(highlight=False)
    found: list[Finding] = []
    for one in chain(local_findings(), looks):
        found.append(one)
        if form == "table":
            console.print(_line(one))
    counts = Counter(one.status for one in found)
    if form == "json":
        click.echo(
            json.dumps({"well": not counts[Status.FAILED], "findings": [one.to_json() for one in found]}, indent=1)
        )
    else:
        console.print(_sum(counts))
    end_with(not counts[Status.FAILED])


def _looks(said: Mapping[str, str], *, sink: bool, kept: CheckpointLook | None) -> Iterator[Finding]:
    """What is looked at besides this machine. Raises click.UsageError, and before any of it."""
    if kept is None:
        return (_sink_findings(said) if sink else _cluster_findings(_options(said))) if said else iter(())
    given = _given(said) if said else None
    asked = _cluster_findings(given.options) if given is not None and given.clusters else iter(())
    return chain(kept.findings(), asked, _start_findings(kept, given))


def _start_findings(look: CheckpointLook, given: Given | None) -> Iterator[Finding]:
    """What would change in what was found, for each source of it."""
    if given is not None and len(look.kept) > 1:
        names = " or ".join(one.source for one in look.kept)
        yield Finding(
            START,
            "options",
            Status.SKIPPED,
            f"not compared, since the query has several sources: add --source {names}",
        )
        given = None
    for kept in look.kept:
        after = kept.state
        if given is not None:
            start = StartLook(kept, given)
            yield from start.findings()
            after = start.after
        yield from format_findings(kept, after, None if given is None else given.options)


def _given(said: Mapping[str, str]) -> Given:
    """The options for a checkpoint, which may be some of those of the query. Raises click.UsageError."""
    if names_clusters(said):
        options = _options(said)
        topics = all(cluster.subscription != TopicPattern(ANY) for cluster in options.clusters)
        return Given(said, options, clusters=True, topics=topics)
    with wrong_options():
        # Stands in for the options that name clusters, which the checkpoint has.
        return Given(said, parse_options({**said, METADATA.name: "checkpoint"}), clusters=False, topics=False)


def _options(said: Mapping[str, str]) -> SourceOptions:
    """The options, where clusters without topics have `ANY`. Raises click.UsageError."""
    names = {name.lower() for name in said}
    with wrong_options():
        if names.isdisjoint({METADATA.name, *map(str.lower, SUBSCRIPTIONS)}) and names_clusters(said):
            return parse_options({**said, "subscribePattern": ANY})
        return parse_options(said)


def _sink_findings(said: Mapping[str, str]) -> Iterator[Finding]:
    """Those of a query that writes, with any columns. Raises click.UsageError, and before any of them."""
    try:
        # Which columns can be written is said by PySpark's types.
        from evensplit.cli.doctor.sink import sink_findings
        from evensplit.spark.row_type import spark_type
        from evensplit.spark.sink.columns import TYPES
        from evensplit.spark.sink.options import parse_writing
    except ModuleNotFoundError as error:
        raise click.UsageError(f"--sink needs PySpark: pip install 'evensplit[spark]' ({error})") from error
    columns = spark_type(parse_struct(", ".join(f"{name} {types[0]}" for name, types in TYPES.items())))
    with wrong_options():
        parsed = parse_writing(said, cast("StructType", columns), stream=True)
    return (found for cluster in parsed.clusters for found in sink_findings(parsed, cluster))


def _cluster_findings(parsed: SourceOptions) -> Iterator[Finding]:
    clusters: list[ClusterOptions] = []

    def read() -> str:
        found, missing = clusters_named(parsed)
        clusters.extend(found)
        return "; ".join((f"it names {counted(len(found), 'cluster')}", *missing))

    if parsed.metadata is None:
        clusters.extend(parsed.clusters)
    else:
        yield taken("metadata", Step("metadata", read, "check the option metadata, and what it names"))
    for cluster in clusters:
        topics = cluster.subscription != TopicPattern(ANY)
        yield from cluster_findings(ClusterToAsk(cluster, topics, _groups(parsed, cluster)))


def _groups(options: SourceOptions, cluster: ClusterOptions) -> Mapping[str, bool]:
    """The groups that a query would use on a cluster, and whether it commits to them."""
    begun = [] if cluster.starting is None else parts(cluster.starting)
    found = {one.group: False for one in begun if isinstance(one, Committed)}
    return {**found, options.commit_group: True} if options.commit_group else found


def _line(one: Finding) -> Text:
    line = Text(f"{one.status:8}", _STYLES[one.status])
    error = f" ({one.id})" if one.id else ""
    line.append(
        f" {plain(one.where)}, {plain(one.step)}: {plain(one.found)}{error}",
        "" if one.status is not Status.OK else "dim",
    )
    if one.cure and one.status is not Status.OK:
        line.append(f"\n         → {plain(one.cure)}", "bold")
    return line


def _sum(counts: Counter[Status]) -> Text:
    if counts[Status.FAILED]:
        return Text(f"{counts[Status.FAILED]} failed, {counted(counts[Status.WARNING], 'warning')}.", "bold red")
    return Text(f"All is well, with {counted(counts[Status.WARNING], 'warning')}.", "bold green")
