"""What the ledger says of the batches in a checkpoint, for a query that writes exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import click
from rich.box import SIMPLE
from rich.table import Table

from evensplit.checkpoint.history import CheckpointHistory
from evensplit.cli.live.connection_options import check_asked, kafka_options
from evensplit.cli.live.log_ends import settings_of
from evensplit.cli.usage import cell
from evensplit.core.delivery.terms import Decision
from evensplit.core.text import counted
from evensplit.errors import CheckpointError
from evensplit.explain.delivered import kept_in_ledger
from evensplit.spark.options.spec.sink import ID_PREFIX, LEDGER
from evensplit.times import time_of

ROWS_MAX = 10
"""So many of the last batches are shown; JSON has all."""

_HOME = "default"


def asking_ledger(command: Any) -> Any:
    """Add `--bootstrap-servers`, `--option` and `--ledger`: where a query that writes has its decisions."""
    servers = click.option(
        "--bootstrap-servers",
        "servers",
        metavar="HOST:PORT,...",
        help="Show what was written, too: ask the cluster there for the ledger of a query that writes exactly once.",
    )
    options = click.option(
        "--option",
        "options",
        multiple=True,
        metavar="NAME=VALUE",
        help="A Kafka setting for that, e.g. kafka.security.protocol=SSL. Repeatable. Secrets: ${env:NAME}.",
    )
    ledger = click.option("--ledger", metavar="TOPIC", help=f"The ledger of the query. Default: {LEDGER.default}.")
    return servers(options(ledger(command)))


def read_decisions(
    kept: CheckpointHistory, servers: str | None, options: Sequence[str], ledger: str | None
) -> list[Decision] | None:
    """The decisions about the batches that are kept, oldest first; None if no cluster is to be asked.

    Raises:
        click.UsageError: a setting is wrong, or there are no servers that it is for.
        CheckpointError: the checkpoint does not say which query it is of.
        ClusterError, LedgerError: the ledger cannot be read.
    """
    check_asked(options, [servers] if servers else [], lag=None)
    if not servers:
        if ledger is not None:
            raise click.UsageError("--ledger is given, but no cluster is asked; expected --bootstrap-servers too")
        return None
    # Without being asked for that, the command needs nothing of it.
    from evensplit.kafka.produce.ledger import Ledger

    if not kept.query_id:
        raise CheckpointError(f"{kept.path / 'metadata'} has no id of the query, by which the ledger knows it")
    settings = settings_of(servers, kafka_options(options, [_HOME])[_HOME])
    with closing(Ledger(_HOME, settings, ledger or LEDGER.default, ID_PREFIX.default)) as found:
        return [one for one in found.history(kept.query_id) if one.batch >= kept.first]


def decisions_table(decisions: Sequence[Decision]) -> Table:
    """The last decisions, a row each."""
    left = len(decisions) - ROWS_MAX
    caption = f"… {counted(len(decisions), 'batch', 'batches')} in all; --format json has them" if left > 0 else None
    table = Table(box=SIMPLE, title="Written, as the ledger says", title_justify="left", caption=caption)
    table.title_style, table.caption_justify = "bold", "left"
    table.add_column("batch", justify="right", no_wrap=True)
    table.add_column("decided (UTC)", no_wrap=True)
    table.add_column("what was written", overflow="fold")
    table.add_column("records by topic", overflow="fold")
    for one in decisions[-ROWS_MAX:]:
        topics = "\n".join(f"{cluster}/{topic}: {count:,}" for (cluster, topic), count in _topics(one).items())
        sentence = kept_in_ledger(one).sentence()
        table.add_row(cell(one.batch), cell(time_of(one.decided_ms)), cell(sentence), cell(topics))
    return table


def plain_decision(decision: Decision) -> dict[str, Any]:
    """All that is said of one, in JSON's own types."""
    topics = [
        {"cluster": cluster, "topic": topic, "records": count} for (cluster, topic), count in _topics(decision).items()
    ]
    return {**kept_in_ledger(decision).to_json(), "topics": topics}


def _topics(decision: Decision) -> Mapping[tuple[str, str], int]:
    counts: Counter[tuple[str, str]] = Counter()
    for one in decision.transactions:
        for written in one.written:
            counts[one.cluster, written.topic] += written.records
    return dict(sorted(counts.items()))
