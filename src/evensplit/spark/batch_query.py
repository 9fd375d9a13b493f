"""One look at the clusters, one plan: what a batch query reads."""

from __future__ import annotations

from collections.abc import Mapping

from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import BatchPlanned
from evensplit.core.machine.rebalance import unreadable_splits
from evensplit.core.model import SplitId
from evensplit.core.state.offset_strategies import Earliest, Latest, named_offset
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import SubscriptionError
from evensplit.spark.driver.coordinator import Coordinator
from evensplit.spark.options.parse import SourceOptions
from evensplit.spark.slots.reader_number import asked_slots
from evensplit.spark.task.deferred_bounds import late_bounds
from evensplit.spark.task.partition import ReaderPartition
from evensplit.spark.task.telling import Destination


def plan_query(options: SourceOptions, readers_default: int, ask: Destination | None = None) -> list[ReaderPartition]:
    """One input partition for each reader that has work. `ask`: as in `micro_batches.coordinate`.

    Raises SubscriptionError for topics, partitions and offsets that do not exist, all at once.
    """
    slots = asked_slots(options.readers, ask)
    coordinator = Coordinator(
        options, readers_default=readers_default, starting_default=Earliest(), batch=True, slots=slots
    )
    try:
        start = coordinator.observe(EnumeratorState(), fix_ends=True)
        unreadable = unreadable_splits(start)
        found = {key: end for key, end in ends(start, coordinator).items() if key not in unreadable}
        end = step(start, BatchPlanned(found)).state
        return coordinator.partitions(start, end, late_bounds(coordinator.clusters(), start, found))
    finally:
        coordinator.close()


def ends(start: EnumeratorState, coordinator: Coordinator) -> Mapping[SplitId, int]:
    """Split -> where reading ends that begins at `start`, by the last poll; clusters that did not answer have no ends.

    Under read_committed, a split that starts after the last stable offset, and would end there, ends where it starts.

    Raises SubscriptionError for all ends that do not exist, are after the last stable offset, or before the starts.
    """
    found: dict[SplitId, int] = {}
    problems: list[str] = []
    for cluster in coordinator.clusters():
        own = [key for key in start.splits if key.cluster == cluster.id]
        strategy = cluster.ending or Latest()
        resolved = coordinator.ends(cluster, strategy, [(key.topic, key.partition) for key in own])
        if resolved is None:
            continue
        where = f"cluster {cluster.id!r}, ending offsets"
        problems.extend(f"{where}: {problem}" for problem in resolved.problems)
        logs = coordinator.bounds(cluster)
        problems.extend(
            f"{where}: topic {at[0]!r}, partition {at[1]} has no offset {wanted}; expected one from "
            f"{logs[at].earliest}, where its log begins, to {logs[at].end}, where it ends"
            for at, wanted in resolved.out_of_range.items()
        )
        for key in own:
            at = (key.topic, key.partition)
            position, end = start.splits[key].position, resolved.offsets.get(at)
            if end is None or at in resolved.out_of_range:
                continue
            log = logs[at]
            if position is not None and end == log.latest < position <= log.log_end:
                end = position if named_offset(strategy, at) is None else end
            if position is not None and end < position:
                problems.append(
                    f"cluster {cluster.id!r}: The resolved start offset {position} is greater than the resolved end "
                    f"offset {end} for topic {key.topic!r}, partition {key.partition}; expected "
                    f"{cluster.starting_option or 'startingOffsets'} at or before "
                    f"{cluster.ending_option or 'endingOffsets'}"
                )
            elif end > log.latest and end != position:
                problems.append(
                    f"{where}: topic {key.topic!r}, partition {key.partition} cannot be read to {end} yet: a "
                    f"transaction is open in it since offset {log.latest}, and its log ends at {log.log_end}; "
                    f"expected an end at {log.latest} or before. Read again when the transaction has ended, or with "
                    "kafka.isolation.level=read_uncommitted"
                )
            else:
                found[key] = end
    if problems:
        raise SubscriptionError(problems)
    return found
