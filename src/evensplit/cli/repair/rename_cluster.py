"""`evensplit rename-cluster`: a cluster has another id in the options of a query."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from evensplit.checkpoint.places.place import Place
from evensplit.cli.repair.edit.finish import finish
from evensplit.cli.repair.edit.making import in_those
from evensplit.cli.repair.edit.options import checkpoint_argument, editing
from evensplit.cli.repair.edit.outcome import begin
from evensplit.cli.usage import ending
from evensplit.core.repair.edit import OpenBatch, rename_cluster
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.options.per_cluster import DEFAULT_CLUSTER, cluster_name_problem


@click.command(
    "rename-cluster",
    epilog=ending(
        "edited; or, without --yes, nothing prevents it",
        "refused or failed; nothing was written",
        "evensplit rename-cluster /checkpoints/orders default eu --yes",
    ),
)
@checkpoint_argument
@click.argument("before", metavar="OLD")
@click.argument("after", metavar="NEW")
@editing
def rename_command(
    checkpoint: Place, before: str, after: str, chosen: tuple[str, ...], yes: bool, assume_stopped: bool, form: str
) -> None:
    """Give a cluster another id.

    In CHECKPOINT, the checkpointLocation of a query that has ended, the cluster OLD becomes NEW, with its positions and
    owners. Do it before the query's options call it so. It is needed only where the checkpoint does not have Kafka's id
    of the cluster, as right after `evensplit migrate`: by that a query finds a cluster that is called otherwise. The
    command says whether it is needed. The one cluster of a query without the options clusters and metadata is called
    'default'.
    """
    problem = cluster_name_problem(after, "NEW")
    if problem:
        raise click.UsageError(problem)
    outcome = begin(checkpoint, "rename-cluster", shlex.join((before, after)))
    kafka_ids: list[str] = []

    def make(batch: OpenBatch) -> EnumeratorState:
        edited = rename_cluster(batch, before, after, outcome.told)
        kafka_ids.append(edited.clusters[after].kafka_id)
        return edited

    in_those(outcome, chosen, lambda batch: before in batch.end.clusters, make)
    unfinished = outcome.checkpoint.newest.number if outcome.checkpoint.replays else None
    outcome.notes.append(_note(before, after, kafka_ids, unfinished))
    finish(outcome, yes=yes, assume_stopped=assume_stopped, form=form)


def _note(before: str, after: str, kafka_ids: Sequence[str], unfinished: int | None) -> str:
    """What the query has to call the cluster.

    Args:
        kafka_ids: Kafka's id of it in each source, empty if not known.
        unfinished: the batch that is planned and not done; None: none is.
    """
    if all(kafka_ids):
        # A batch that is done again reads at once, before the cluster can say who it is.
        servers = f". Batch {unfinished} is not finished, so with another name than {after}, they have to keep one of "
        servers = "" if unfinished is None else f"{servers}the cluster's bootstrap servers, too"
        return (
            f"This is not needed: the checkpoint has Kafka's id of the cluster, {kafka_ids[0]}, by which the query "
            f"finds it under any new name. So it goes on where it stopped, whether its options call the cluster "
            f"{before}, {after} or otherwise{servers}"
        )
    calls = (
        "The cluster of a query without the options clusters and metadata is called so"
        if after == DEFAULT_CLUSTER
        else f"The query has to call this cluster {after}, in clusters or metadata"
    )
    return (
        f"{calls}. The checkpoint does not have Kafka's id of the cluster, so under any other new name it would be "
        "taken for another one, and read from its beginning"
    )
