"""Checkpoints of Spark's own Kafka source: its offsets as states, and its last batch, to be planned again here.

Spark does not check which source the offsets of a checkpoint are of. Those of its own Kafka source can be read where
there is one cluster only; `evensplit migrate` makes a checkpoint for everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from evensplit.core.import_spark_offsets import firsts_between, lost_between, positions_of_state, state_of_positions
from evensplit.core.machine.events import ParallelismChanged, ReaderRegistered, RecordsLost
from evensplit.core.state.codec import decode
from evensplit.core.state.spark_offsets import parse_positions
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CheckpointForeign
from evensplit.spark.driver.change_log import say_losses
from evensplit.spark.driver.event_feed import check_migrated, settings_changed, tell
from evensplit.spark.options.parse import ClusterOptions, SourceOptions


def read_state(
    offset: Mapping[str, Any], options: SourceOptions, start: EnumeratorState | None = None
) -> EnumeratorState:
    """Return the state in an offset, as Spark hands it over.

    Args:
        start: the state at which the batch begins that ends at this offset.

    Raises:
        CheckpointForeign: it is of another source, and not of Spark's own Kafka source with one cluster in the options;
            or it is the end of that source's first batch, whose start Spark shows to no other source.
        CheckpointError: see `decode`.
    """
    if offset == {}:
        return EnumeratorState()
    positions = parse_positions(offset)
    if positions is None or options.metadata is not None or len(options.clusters) != 1:
        return decode(offset)
    (cluster,) = options.clusters
    firsts = {}
    if start is not None:
        if not start.begun:
            raise CheckpointForeign(
                "the first batch of this checkpoint was planned by Spark's own Kafka source and is not committed, so "
                "it has to be read again from where it began, which is in the directory sources of the checkpoint and "
                "shown to no other source. Let Spark's source finish the batch, or give the query the checkpoint that "
                "`evensplit migrate FROM TO` makes of this one"
            )
        firsts = firsts_between(positions_of_state(start).get(cluster.id, {}), positions)
    return state_of_positions(cluster.id, cluster.settings.bootstrap_servers, positions, firsts)


def deal(
    start: EnumeratorState,
    end: EnumeratorState,
    options: SourceOptions,
    clusters: Iterable[ClusterOptions],
    readers_default: int,
) -> EnumeratorState:
    """Return `end`, the end of a batch from `start` that another source planned, with readers, so that it can be read.

    Raises:
        DataLossError: that batch leaves out records that were to be read, and that is to end the run.
        CheckpointForeign: the options name all clusters, and not the one that the batch is of.
    """
    if options.metadata is None:
        check_migrated(end, [one.id for one in options.clusters])
    state = tell(end, settings_changed(options, end.settings, clusters)).state
    losses = lost_between(start, end)
    state = tell(state, RecordsLost(losses)).state if losses else state
    say_losses(state.losses, more="in this batch, which another source planned")
    state = tell(state, ParallelismChanged(options.readers or readers_default)).state
    for reader in range(state.readers):
        state = tell(state, ReaderRegistered(reader)).state
    return state
