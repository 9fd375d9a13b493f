"""`evensplit audit topic`: whether all that was decided in the ledger is in the topics, once and whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import click
from rich.box import SIMPLE
from rich.table import Table

from evensplit.checkpoint.files import batches_of, is_directory, numbers_in
from evensplit.checkpoint.history import query_id_of
from evensplit.checkpoint.places.place import Place
from evensplit.cli.audit.batches import read_batches
from evensplit.cli.audit.connections import EVERY, clusters_of, reaching_clusters, settings_for
from evensplit.cli.audit.ledger import Ledger, read_ledger
from evensplit.cli.audit.logs import Progress, bounds_of, ledger_records, read_logs
from evensplit.cli.audit.topic_verdict import Finding, Kind, TopicVerdict, judge, judge_checkpoint
from evensplit.cli.usage import PLACE, cell, end_with, ending, form_option, new_console, progress_bar
from evensplit.core.delivery.decision_json import decode_decision
from evensplit.core.delivery.terms import Decision, State
from evensplit.core.model import Range
from evensplit.core.text import counted, plain
from evensplit.errors import CheckpointError, ClusterError, LedgerError
from evensplit.kafka.options.client import ClientSettings
from evensplit.spark.options.spec.sink import LEDGER

ROWS_MAX = 50
"""So many batches have a line; JSON has all of them."""


@click.command(
    epilog=ending(
        "all there, each once",
        "something is missing or too much, or cannot be told; or a cluster does not answer",
        "evensplit audit topic orders --bootstrap-servers broker:9092",
        "evensplit audit topic --bootstrap-servers broker:9092 --checkpoint /c/orders",
    )
)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@reaching_clusters
@click.option("--ledger", default=LEDGER.default, show_default=True, metavar="TOPIC", help="The ledger of the query.")
@click.option("--ledger-cluster", metavar="CLUSTER", help="Where the ledger is. Default: the first cluster.")
@click.option("--query", metavar="ID", help="Only this query of the ledger. Default: all, or that of the checkpoint.")
@click.option("--checkpoint", type=PLACE, help="Compare with this checkpoint, too.")
@click.option("--shared", is_flag=True, help="Others write to the topics, too: what no decision has is theirs.")
@click.option("--filtered", is_flag=True, help="A batch that has read something may have nothing to write.")
@form_option
def topic(
    topics: tuple[str, ...],
    servers: tuple[str, ...],
    options: tuple[str, ...],
    ledger: str,
    ledger_cluster: str | None,
    query: str | None,
    checkpoint: Place | None,
    shared: bool,
    filtered: bool,
    form: str,
) -> None:
    """Check topics that queries have written to exactly once, with evensplit.

    For each batch that the ledger has: was each of its transactions committed, are all of its records there, and is
    nothing else there? Without TOPIC, these are all topics that the ledger names. Only the headers of record batches
    are looked at, and their checksums. Records that retention or compaction has removed since are no fault.
    """
    if not servers:
        raise click.UsageError("expected --bootstrap-servers, the cluster to ask")
    clusters = clusters_of(servers, options)
    if query is None and checkpoint is not None:
        query = query_id_of(checkpoint)
        if not query:
            raise CheckpointError(
                f"{checkpoint / 'metadata'} has no id of the query; expected a checkpoint, or --query"
            )
    home = ledger_cluster or next(iter(clusters)) or "default"
    settings = settings_for(clusters, home)
    if settings is None:
        raise click.UsageError(f"--ledger-cluster names cluster {home!r}; expected one of {', '.join(clusters)}")
    with _bar("ledger"):
        found = read_ledger(ledger_records(home, settings, ledger), _decode)
    wanted = topics or tuple(sorted(_topics(found, query)))
    verdict = _audit(found, wanted, _named(clusters, found), home, query=query, shared=shared)
    if checkpoint is not None and query is not None:
        _add_checkpoint(verdict, found, query, checkpoint, filtered=filtered)
    if form == "json":
        click.echo(json.dumps(_plain(verdict, found, wanted), indent=1))
    else:
        _print(verdict, found)
    end_with(verdict.well)


def _decode(data: bytes) -> Decision:
    try:
        return decode_decision(data)
    except ValueError as error:
        raise LedgerError(f"the ledger has a record that is no decision: {error}. Is --ledger its topic?") from error


def _topics(ledger: Ledger, query: str | None) -> set[str]:
    decisions = (one for one in ledger.decisions.values() if query in (None, one.query))
    every = (one for decision in decisions for one in decision.transactions)
    return {written.topic for one in every for written in one.written}


def _named(clusters: Mapping[str, ClientSettings], ledger: Ledger) -> dict[str, ClientSettings]:
    """Cluster -> its settings; those without a name are for the one cluster that the ledger names."""
    if EVERY not in clusters:
        return dict(clusters)
    names = sorted({one.cluster for decision in ledger.decisions.values() for one in decision.transactions})
    if len(names) > 1:
        raise click.UsageError(
            f"the query writes to clusters {', '.join(names)}; expected --bootstrap-servers for each, with its name: "
            f"{names[0]}=broker:9092"
        )
    return {names[0] if names else "default": clusters[EVERY]}


def _audit(
    ledger: Ledger,
    topics: tuple[str, ...],
    clusters: Mapping[str, ClientSettings],
    home: str,
    *,
    query: str | None,
    shared: bool,
) -> TopicVerdict:
    everything = {name: replace(one, read_committed=False) for name, one in clusters.items()}
    ranges: list[Range] = []
    ids: dict[tuple[str, str], str] = {}
    for name, settings in everything.items() if topics else ():
        more, more_ids = bounds_of(name, settings, topics)
        ranges.extend(more)
        ids.update(more_ids)
    there = {one.split.topic for one in ranges}
    if absent := [name for name in topics if name not in there]:
        raise ClusterError(home, f"topic {absent[0]!r} does not exist; expected one that the query has written to")
    with _bar("offsets") as progress:
        logs = read_logs(ranges, everything, ids, progress)
    return judge(ledger, logs, topics, clusters, query=query, shared=shared)


@contextmanager
def _bar(what: str) -> Iterator[Progress]:
    with progress_bar(what) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _add_checkpoint(verdict: TopicVerdict, ledger: Ledger, query: str, path: Place, *, filtered: bool) -> None:
    planned = max(batches_of(path))
    commits = path / "commits"
    read: Mapping[int, int] = {}
    began = 0
    try:
        batches = read_batches(path)
        # Whoever names another query than that of the checkpoint may mean the one before the fork.
        read, began = batches.offsets, batches.began if query == query_id_of(path) else 0
    except CheckpointError as error:
        verdict.notes.append(f"what its batches have read is not known: {error}")
    judge_checkpoint(
        verdict,
        query,
        ledger,
        committed=numbers_in(commits) if is_directory(commits) else (),
        planned=planned,
        read=read,
        filtered=filtered,
        began=began,
    )


def _summary(verdict: TopicVerdict) -> str:
    whole = f"{counted(verdict.batches, 'batch', 'batches')}, {counted(verdict.records, 'record')}"
    counts = {kind: sum(one.kind is kind for one in verdict.findings) for kind in Kind}
    said = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    if not verdict.findings:
        return f"{whole}: all there, each once"
    if verdict.well:
        return f"{whole}: all there, each once, but for what was removed since ({said})"
    return f"{whole}: {said}"


def _print(verdict: TopicVerdict, ledger: Ledger) -> None:
    console = new_console()
    if verdict.findings:
        console.print(_table(verdict.findings, several=len(ledger.queries) > 1))
    if len(verdict.findings) > ROWS_MAX:
        click.echo(f"… {len(verdict.findings):,} in all; --format json has them.")
    click.echo(f"{_summary(verdict)}.")
    for note in verdict.notes:
        click.echo(f"Note: {plain(note)}.", err=True)


def _table(findings: list[Finding], *, several: bool) -> Table:
    table = Table(box=SIMPLE)
    if several:
        table.add_column("query", no_wrap=True)
    table.add_column("batch", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("what", overflow="fold")
    for one in sorted(findings, key=lambda one: (one.query or "", -1 if one.batch is None else one.batch))[:ROWS_MAX]:
        style = "" if one.kind is Kind.GONE else "red"
        row = (cell("-" if one.batch is None else one.batch), cell(one.kind, style), cell(one.what))
        table.add_row(*((cell(one.query or "-"),) if several else ()), *row)
    return table


def _plain(verdict: TopicVerdict, ledger: Ledger, topics: tuple[str, ...]) -> dict[str, Any]:
    return {
        "well": verdict.well,
        "topics": list(topics),
        "queries": list(ledger.queries),
        "batches": verdict.batches,
        "given_up": sum(one.state is State.ABORTED for one in ledger.decisions.values()),
        "records": verdict.records,
        "findings": [one.to_json() for one in verdict.findings],
        "notes": verdict.notes,
    }
