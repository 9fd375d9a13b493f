"""`evensplit rename-cluster`: a cluster has another id in the options of a query."""

from __future__ import annotations

import click

from evensplit.checkpoint.places.place import Place
from evensplit.cli.repair.carry_out import begin, checkpoint_argument, editing, finish, in_those
from evensplit.cli.usage import ending
from evensplit.core.repair.edit import rename_cluster
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
    one cluster of a query without the options clusters and metadata is called 'default'.
    """
    problem = cluster_name_problem(after, "NEW")
    if problem:
        raise click.UsageError(problem)
    outcome = begin(checkpoint, "rename-cluster", f"{before} {after}")
    in_those(
        outcome,
        chosen,
        lambda batch: before in batch.end.clusters,
        lambda batch: rename_cluster(batch, before, after, outcome.told),
    )
    calls = (
        "The cluster of a query without the options clusters and metadata is called so"
        if after == DEFAULT_CLUSTER
        else f"The query has to call this cluster {after}, in clusters or metadata"
    )
    outcome.notes.append(f"{calls}. Under a name that is not in the checkpoint, it would be read from its beginning")
    finish(outcome, yes=yes, assume_stopped=assume_stopped, form=form)
