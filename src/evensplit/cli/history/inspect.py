"""`evensplit inspect`: what a checkpoint holds, and what has happened in the batches that it has kept."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import click
from rich.box import SIMPLE
from rich.console import Group
from rich.table import Table
from rich.text import Text

from evensplit.checkpoint.history import CheckpointHistory, read_history
from evensplit.checkpoint.places.place import Place
from evensplit.cli.history.decided import asking_ledger, decisions_table, plain_decision, read_decisions
from evensplit.cli.live.connection_options import check_source
from evensplit.cli.usage import PLACE, batches_bar, batches_option, cell, ending, form_option, new_console, source_title
from evensplit.core.model import Cluster, Lifecycle, Readable, Topic
from evensplit.core.state.settings import Settings
from evensplit.core.text import counted, plain
from evensplit.explain.held import held_sentence
from evensplit.observe.source_view import SplitView, View
from evensplit.spark.options.spec.all import KEPT
from evensplit.spark.options.spec.query import CAPACITY
from evensplit.times import time_of

ROWS_MAX = 50
"""So many topics, and so many readers, have a row each; JSON has all of them."""

CHANGES_MAX = 10
"""So many of the last changes are shown; JSON has all that are known."""


@click.command(
    epilog=ending(
        "the checkpoint was printed",
        "the checkpoint cannot be read: missing, damaged, of a newer version, or without a source of evensplit; or the "
        "ledger cannot",
        "evensplit inspect /checkpoints/orders",
        "evensplit inspect /checkpoints/orders --splits --format json",
        "evensplit inspect /checkpoints/orders --bootstrap-servers broker:9092",
    )
)
@click.argument("checkpoint", type=PLACE)
@click.option("--source", "chosen", metavar="SOURCE", help="Only this source of the query.")
@click.option("--splits", is_flag=True, help="List every partition, not only totals by topic.")
@batches_option
@asking_ledger
@form_option
def inspect(
    checkpoint: Place,
    chosen: str | None,
    splits: bool,
    batches: int | None,
    servers: str | None,
    options: tuple[str, ...],
    ledger: str | None,
    form: str,
) -> None:
    """Show what CHECKPOINT holds.

    CHECKPOINT is the checkpointLocation of a query (a path, or a URL as s3a://bucket/orders), which may be running. The
    output has clusters, topics, positions, the load of each reader, settings, how even the assignment is, and the last
    changes, from the batches that Spark has kept. Nothing is written.

    With --bootstrap-servers, it also has what the query has written in these batches, if it writes exactly once: what
    was decided, in how many transactions, and how many records to which topics. The checkpoint does not say where that
    is. Without that option no broker is asked.
    """
    kept = read_history(checkpoint, batches, batches_bar)
    if chosen is not None:
        check_source(chosen, list(kept.views), "--source")
    decisions = read_decisions(kept, servers, options, ledger)
    views = {name: view for name, view in kept.views.items() if chosen in (None, name)}
    if form == "json":
        written = {} if decisions is None else {"written": [plain_decision(one) for one in decisions]}
        click.echo(json.dumps({**_plain(kept, views, splits=splits), **written}, indent=1))
    else:
        console = new_console()
        console.print(_page(kept, views, splits=splits))
        if decisions is not None:
            console.print(decisions_table(decisions) if decisions else "The ledger has nothing of these batches.")


def _page(kept: CheckpointHistory, views: dict[str, View], *, splits: bool) -> Group:
    done = "is done" if kept.committed else "is planned, and Spark has not committed it yet"
    query = f", query {plain(kept.query_id)}" if kept.query_id else ""
    parts: list[Any] = [
        Text(f"{plain(str(kept.path))}{query}", "bold"),
        Text(f"Batches {kept.first} to {kept.last} are kept. The last one, {time_of(kept.planned_ms)} UTC, {done}."),
    ]
    for name, view in views.items():
        if len(kept.views) > 1:
            parts.append(Text(f"\n{source_title(name, view.last.end.splits)}", "bold"))
        parts.extend((_clusters(view), *_topics(view), _readers(view)))
        if splits:
            parts.append(_splits(view))
        for one in view.explanation.evenness:
            where = "" if one.cluster is None else f"cluster {one.cluster}: "
            parts.append(Text(f"Proven of the owners: {plain(where + one.statement())}."))
        if advice := view.explanation.advice():
            parts.append(Text(f"In the last batch {advice}."))
        parts.extend(how_far(view))
        parts.append(Text(_settings(view)))
        for reader, able in view.last.end.eligible.items():
            named = ", ".join(plain(_named(one)) for one in able) or "nothing"
            parts.append(Text(f"Reader {reader} may read {named}."))
        parts.extend(_changes(view))
    parts.extend(Text(f"Note: {plain(note)}.") for note in kept.notes)
    return Group(*parts)


def how_far(view: View) -> list[Text]:
    """Why the last batch had fewer readers, what held it, and which time is reached: a line each, of what is known."""
    found: list[Text] = []
    if few := view.explanation.plan.few(view.last.end.settings.reader_offsets_min):
        found.append(Text(f"In the last batch, {few}."))
    if view.explanation.held:
        found.append(Text(f"The last batch was {plain(held_sentence(view.explanation.held))}."))
    if (reached_ms := view.last.end.reached_ms) is not None:
        found.append(
            Text(f"Reached {time_of(reached_ms)} UTC, by the records' timestamps, as of the last batch with alignment.")
        )
    return found


def _table(*headings: str, title: str = "") -> Table:
    """A table; columns whose headings begin with a # are numbers. Where it is narrow, they fold: one that is cut
    would be another number."""
    table = Table(box=SIMPLE, title=Text(title, "bold") if title else None, title_justify="left")
    for heading in headings:
        table.add_column(heading.removeprefix("#"), justify="right" if heading[:1] == "#" else "left", overflow="fold")
    return table


def _clusters(view: View) -> Table:
    table = _table("cluster", "#topics", "#read", "#waiting", "#retained", "#finished", "bootstrap servers")
    state = view.last.end
    topics: dict[str, set[str]] = {}
    for key in state.splits:
        topics.setdefault(key.cluster, set()).add(key.topic)
    for one in view.explanation.clusters:
        known, counts = state.clusters[one.id], one.splits
        gone = "" if one.removed_at_ms is None else f" (removed {time_of(one.removed_at_ms)})"
        undiscovered = "" if known.discovered else " (not discovered yet)"
        table.add_row(
            cell(f"{one.id}{gone}{undiscovered}"),
            cell(len(topics.get(one.id, ()))),
            *(cell(counts.get(stage, 0)) for stage in _STAGES),
            cell(", ".join(known.bootstrap_servers) or None),
        )
    return table


_STAGES = (Lifecycle.ASSIGNED, Lifecycle.UNASSIGNED, Lifecycle.RETAINED, Lifecycle.FINISHED)


def _topics(view: View) -> list[Any]:
    table = _table("topic", "#partitions", "#next offsets, all", "#least", "#most", "")
    groups = _by_topic(view)
    for (cluster, topic), splits in groups[:ROWS_MAX]:
        positions = [one.position for one in splits if one.position is not None]
        stands = [
            f"{len([one for one in splits if one.stands is stage]):,} {stage}"
            for stage in _STAGES[1:]
            if any(one.stands is stage for one in splits)
        ]
        table.add_row(
            cell(f"{cluster}/{topic}"),
            cell(len(splits)),
            cell(sum(positions) if positions else None),
            cell(min(positions, default=None)),
            cell(max(positions, default=None)),
            cell(", ".join(stands)),
        )
    return [table, *_more(len(groups), "topic")]


def _by_topic(view: View) -> list[tuple[tuple[str, str], list[SplitView]]]:
    return [(key, list(group)) for key, group in groupby(view.splits(), key=lambda one: (one.id.cluster, one.id.topic))]


def _readers(view: View) -> Group:
    readers = view.explanation.readers
    by_rate = ("#offsets a minute, by rate", "#capacity") if any(one.work is not None for one in readers) else ()
    table = _table("#reader", "#partitions", "#offsets in the last batch", *by_rate)
    for one in readers[:ROWS_MAX]:
        more = (cell(one.work), cell(one.capacity)) if by_rate else ()
        table.add_row(cell(one.reader), cell(one.splits), cell(one.offsets), *more)
    return Group(table, *_more(len(readers), "reader"))


def _more(count: int, what: str) -> list[Text]:
    return [Text(f"… {counted(count, what)} in all; --format json has all of them")] if count > ROWS_MAX else []


def _splits(view: View) -> Table:
    table = _table("partition", "", "#reader", "#next offset", "#in the last batch")
    for one in view.splits():
        owner = "" if one.owner is None else one.owner
        table.add_row(cell(one.id), cell(one.stands), cell(owner), cell(one.position), cell(one.offsets))
    return table


def _settings(view: View) -> str:
    state = view.last.end
    found = state.settings
    values = [(option, getattr(found, attribute)) for attribute, option in KEPT.items()]
    said = [f"{option.name} {option.type.written(value)}" for option, value in values if value is not None]
    if found.capacities:
        said.append(f"{CAPACITY.name} {json.dumps(_capacities(found))}")
    bounded = "; reading ends at stops" if found.bounded else ""
    return f"Settings: {', '.join((f'readers {state.readers}', *said))}{bounded}."


def _capacities(settings: Settings) -> dict[str, int]:
    return {str(reader): capacity for reader, capacity in settings.capacities}


def _named(readable: Readable) -> str:
    if isinstance(readable, Cluster):
        return readable.id
    return f"{readable.cluster}/{readable.name}" if isinstance(readable, Topic) else str(readable)


def _changes(view: View) -> list[Any]:
    if not view.happenings:
        return []
    table = _table("#batch", "time (UTC)", "what happened", title="Last changes")
    for one in view.happenings[-CHANGES_MAX:]:
        table.add_row(cell(one.batch), cell(time_of(one.at_ms)), cell(f"{one.kind}: {one.text}"))
    left = len(view.happenings) - CHANGES_MAX
    return [table, *([Text(f"… and {left:,} before; --format json has them")] if left > 0 else [])]


def _plain(kept: CheckpointHistory, views: dict[str, View], *, splits: bool) -> dict[str, Any]:
    return {
        "checkpoint": str(kept.path),
        "query": kept.query_id or None,
        "firstBatch": kept.first,
        "lastBatch": kept.last,
        "plannedMs": kept.planned_ms,
        "committed": kept.committed,
        "notes": list(kept.notes),
        "sources": [{"source": name, **_source(view, splits=splits)} for name, view in views.items()],
    }


def _source(view: View, *, splits: bool) -> dict[str, Any]:
    state = view.last.end
    settings = state.settings
    found: dict[str, Any] = {
        "readers": state.readers,
        "generation": state.generation,
        "reachedMs": state.reached_ms,
        "settings": {
            **{option.name: getattr(settings, one) for one, option in KEPT.items() if one != "retention_ms"},
            CAPACITY.name: _capacities(settings),
            "retentionMs": settings.retention_ms,
            "bounded": settings.bounded,
        },
        "pins": {str(reader): [_named(one) for one in able] for reader, able in state.eligible.items()},
        "clusters": [
            {
                **one.to_json(),
                "bootstrapServers": list(state.clusters[one.id].bootstrap_servers),
                "kafkaId": state.clusters[one.id].kafka_id or None,
                "discovered": state.clusters[one.id].discovered,
            }
            for one in view.explanation.clusters
        ],
        "topics": [_topic(*key, ones) for key, ones in _by_topic(view)],
        "last": view.explanation.to_json(),
        "happenings": [
            {"batch": one.batch, "atMs": one.at_ms, "kind": str(one.kind), "text": one.text, "splits": one.splits}
            for one in view.happenings
        ],
    }
    if splits:
        found["splits"] = [
            {
                "split": str(one.id),
                "stands": str(one.stands),
                "owner": one.owner,
                "position": one.position,
                "offsets": one.offsets,
            }
            for one in view.splits()
        ]
    return found


def _topic(cluster: str, topic: str, splits: list[SplitView]) -> dict[str, Any]:
    positions = [one.position for one in splits if one.position is not None]
    return {
        "cluster": cluster,
        "topic": topic,
        "partitions": len(splits),
        "stands": {str(stage): sum(one.stands is stage for one in splits) for stage in Lifecycle},
        "positionSum": sum(positions) if positions else None,
        "positionMin": min(positions, default=None),
        "positionMax": max(positions, default=None),
    }
