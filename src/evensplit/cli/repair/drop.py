"""`evensplit drop`: forget a cluster, a topic or a partition of a checkpoint."""

from __future__ import annotations

import click

from evensplit.checkpoint.places.place import Place
from evensplit.cli.repair.edit.finish import finish
from evensplit.cli.repair.edit.making import in_those, newest_states
from evensplit.cli.repair.edit.options import checkpoint_argument, editing
from evensplit.cli.repair.edit.outcome import begin
from evensplit.cli.repair.scope import SCOPE_METAVAR, Scope, meant, parse_scope
from evensplit.cli.usage import ending
from evensplit.core.repair.edit import drop, is_known
from evensplit.core.state.edits import scope_text
from evensplit.core.text import counted


@click.command(
    "drop",
    epilog=ending(
        "edited; or, without --yes, nothing prevents it",
        "refused or failed; nothing was written",
        "evensplit drop /checkpoints/orders west",
        "evensplit drop /checkpoints/orders east/returns --yes",
    ),
)
@checkpoint_argument
@click.argument("scope", metavar=SCOPE_METAVAR, callback=parse_scope)
@editing
def drop_command(
    checkpoint: Place, scope: Scope, chosen: tuple[str, ...], yes: bool, assume_stopped: bool, form: str
) -> None:
    """Forget a cluster, a topic or a partition.

    Its positions are removed from CHECKPOINT, the checkpointLocation of a query that has ended. Of a batch that is not
    done, its records are left out. Take it out of the query's options, too: what these still name is found again as
    new, and read from its first offset. CLUSTER can be left out if only one cluster has such a topic or partition; a
    name that a cluster and a topic have is the cluster's.
    """
    outcome = begin(checkpoint, "drop", str(scope))
    gone = meant([scope], [*newest_states(outcome, chosen).values()])[0]
    name = scope_text(gone)
    in_those(outcome, chosen, lambda batch: is_known(batch.end, gone), lambda batch: drop(batch, gone, outcome.told))
    offsets = sum(one.before for ones in outcome.found.values() for one in ones)
    outcome.notes.append(
        f"Take {name} out of the options of the query, too, unless it is to be read anew: what they still name of it "
        f"is read from its first offset, which is up to {counted(offsets, 'offset')} more: the sink and the state of "
        "the query get these records once more"
    )
    finish(outcome, yes=yes, assume_stopped=assume_stopped, form=form)
