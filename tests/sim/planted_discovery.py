"""Planted bugs of discovery: what is there, what is lost, and which cluster it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from evensplit.core.machine import data_loss, discovery
from evensplit.core.machine.effects import RefuseCluster, ReportLoss, ResolveStart, Revoke
from evensplit.core.machine.enumerator import Step, step
from evensplit.core.machine.events import BatchOpened, Event, LogsObserved, PartitionsListed
from evensplit.core.model import Loss, SplitId
from evensplit.core.state.state import EnumeratorState
from tests.sim.planting import Planted, by_step, changed, swapped


def pruned_on_partial(state: EnumeratorState, event: Event) -> Step:
    """An answer that says that it lacks something is taken for a complete one."""
    if isinstance(event, PartitionsListed):
        event = replace(event, complete=True)
    return step(state, event)


def ids_joined(state: EnumeratorState, event: Event) -> Step:
    """Splits are told apart by `cluster-topic-partition`, which is the same for a + b-c and for a-b + c."""
    if isinstance(event, PartitionsListed):
        known = {f"{key.cluster}-{key.topic}-{key.partition}": key for key in sorted(state.splits, reverse=True)}
        kept = tuple(
            one
            for one in event.partitions
            if known.get(f"{event.cluster}-{one.topic}-{one.partition}", (event.cluster,))[0] == event.cluster
        )
        event = replace(event, partitions=kept)
    return step(state, event)


def silent_recreation(state: EnumeratorState, event: Event) -> Step:
    """A topic that was created anew goes on at the old offsets, and nobody is told."""
    if isinstance(event, PartitionsListed):
        known = {key[:2]: split.topic_id for key, split in state.splits.items() if split.position is not None}
        same = (
            one._replace(topic_id=known.get((event.cluster, one.topic), one.topic_id))
            for one in event.partitions
            if SplitId(event.cluster, one.topic, one.partition) in state.splits
            or known.get((event.cluster, one.topic), one.topic_id) == one.topic_id
        )
        event = replace(event, partitions=tuple(same))
    return step(state, event)


def loss_not_reported(state: EnumeratorState, event: Event) -> Step:
    """The split begins anew, and nobody is told that something was lost."""
    done = step(state, event)
    return Step(done.state, tuple(effect for effect in done.effects if type(effect) is not ReportLoss))


def loss_not_written(state: EnumeratorState, event: Event) -> Step:
    """A loss is told to whoever looks, and is in no checkpoint."""
    done = step(state, event)
    return Step(replace(done.state, losses=()), done.effects)


def loss_said_twice(state: EnumeratorState, event: Event) -> Step:
    """What is lost is written down with the event, and once more."""
    done = step(state, event)
    new = done.state.losses[len(state.losses) :]
    return Step(replace(done.state, losses=(*done.state.losses, *new)), done.effects)


def loss_between_batches(state: EnumeratorState, event: Event) -> Step:
    """What is noticed after a batch was planned is dropped when the next one begins."""
    if isinstance(event, BatchOpened):
        state = replace(state, session=replace(state.session, undeclared=()))
    return step(state, event)


def truncated_at_first_sight(state: EnumeratorState, event: Event) -> Step:
    """The first answer that has a log end before its position is believed, however stale it is."""
    with swapped("TRUNCATION_POLLS_MIN", 1, data_loss):
        return step(state, event)


def looked_at_again(state: EnumeratorState, event: Event) -> Step:
    """One answer that is looked at several times counts as several."""
    if isinstance(event, LogsObserved):
        state = replace(state, session=replace(state.session, observed={}))
    return step(state, event)


def stale_end_believed(state: EnumeratorState, event: Event) -> Step:
    """The last end that was heard of counts: a stale one makes unread records look as if they had been read."""
    done = step(state, event)
    if isinstance(event, LogsObserved) and event.cluster in done.state.session.ends:
        session = done.state.session
        ends = {**session.ends, event.cluster: {**session.ends[event.cluster], **event.ends}}
        return Step(replace(done.state, session=replace(session, ends=ends)), done.effects)
    return done


def recreated_at_the_old_position(state: EnumeratorState, event: Event) -> Step:
    """A topic that was created anew is known to be another one, and is read from where the old one was."""
    done = step(state, event)
    if not isinstance(event, PartitionsListed):
        return done
    anew = [
        split._replace(position=state.splits[key].position, owner=state.splits[key].owner)
        for key, split in done.state.splits.items()
        if split.position is None and key in state.splits and state.splits[key].owner is not None
    ]
    return changed(done, *anew, keep=lambda effect: not isinstance(effect, (ResolveStart, Revoke))) if anew else done


def truncation_ignored(state: EnumeratorState, event: Event) -> Step:
    """A log that ends before its position is waited for until it has grown beyond it."""
    with swapped("TRUNCATION_POLLS_MIN", 1_000_000, data_loss):
        return step(state, event)


def aged_out_unnoticed(state: EnumeratorState, event: Event) -> Step:
    """Nobody looks where logs begin."""
    if isinstance(event, LogsObserved):
        event = replace(event, starts={})
    return step(state, event)


def deletion_unnoticed(state: EnumeratorState, event: Event) -> Step:
    """What is deleted counts as read."""
    with swapped("unread", lambda *_: None, discovery):
        return step(state, event)


def false_alarm(state: EnumeratorState, event: Event) -> Step:
    """What is deleted counts as unread, whatever is known of it."""
    with swapped("unread", lambda _, split, cause: Loss(split.id, cause, split.position or 0), discovery):
        return step(state, event)


def refusal_ignored(state: EnumeratorState, event: Event) -> Step:
    """A cluster says which one it is, and nobody listens."""
    if isinstance(event, PartitionsListed):
        event = replace(event, kafka_id="")
    done = step(state, event)
    return Step(done.state, tuple(effect for effect in done.effects if not isinstance(effect, RefuseCluster)))


def twin_unnoticed(state: EnumeratorState, event: Event) -> Step:
    """A cluster is compared with what it was before, and with no other one."""
    if isinstance(event, PartitionsListed) and event.cluster in state.clusters:
        known = state.clusters[event.cluster]
        if not known.kafka_id and event.kafka_id:
            clusters = {**state.clusters, event.cluster: replace(known, kafka_id=event.kafka_id)}
            return step(replace(state, clusters=MappingProxyType(clusters)), replace(event, kafka_id=""))
    return step(state, event)


def finished_again(state: EnumeratorState, event: Event) -> Step:
    """A split that was read to its end is found again, and given to a reader."""
    done = step(state, event)
    known = done.state.clusters.get(event.cluster) if isinstance(event, PartitionsListed) else None
    if isinstance(event, PartitionsListed) and known is not None and known.kafka_id == event.kafka_id:
        listed = [SplitId(event.cluster, one.topic, one.partition) for one in event.partitions]
        found = [done.state.splits[key] for key in listed if key in done.state.splits]
        again = (split._replace(finished=False, owner=0) for split in found if split.finished)
        return changed(done, *again) if done.state.session.assigned else done
    return done


BUGS: Mapping[str, Planted] = {
    "pruned-on-partial": Planted("a partial answer removes", ("S4", "S7", "S9"), by_step(pruned_on_partial), seed=7),
    "ids-joined": Planted("a/b-c and a-b/c are one", ("S1",), by_step(ids_joined), seed=2),
    "silent-recreation": Planted(
        "a new topic goes on at old offsets",
        ("S9",),
        by_step(silent_recreation),
        seed=7,
        like="Spark: a topic created anew is read from the old offset",
    ),
    "loss-not-reported": Planted("loss is silent", ("S9",), by_step(loss_not_reported)),
    "loss-not-written": Planted("a loss is in no checkpoint", ("S9",), by_step(loss_not_written)),
    "loss-said-twice": Planted("one loss is two in the checkpoint", ("S9",), by_step(loss_said_twice), seed=9),
    "loss-between-batches": Planted("a loss between batches is dropped", ("S9",), by_step(loss_between_batches)),
    "truncated-at-first-sight": Planted(
        "a stale end is a truncation",
        ("S9",),
        by_step(truncated_at_first_sight),
        seed=3,
        like="evensplit, before: a stale end believed",
    ),
    "looked-at-again": Planted("one stale answer counts as several", ("S9",), by_step(looked_at_again), seed=3),
    "truncation-ignored": Planted("a truncation is waited out", ("S9",), by_step(truncation_ignored), seed=135),
    "stale-end-believed": Planted("a stale end hides unread records", ("S9",), by_step(stale_end_believed)),
    "recreated-at-old": Planted(
        "a new topic is read from old offsets",
        ("S2", "S3", "S4"),
        by_step(recreated_at_the_old_position),
        seed=7,
        like="Spark: a topic created anew is read from the old offset",
    ),
    "aged-out-unnoticed": Planted(
        "records that aged out are passed over", ("S9",), by_step(aged_out_unnoticed), seed=48
    ),
    "deletion-unnoticed": Planted("a deletion loses nothing", ("S9",), by_step(deletion_unnoticed)),
    "false-alarm": Planted("what was read is declared lost", ("S9",), by_step(false_alarm)),
    "refusal-ignored": Planted("another cluster's answer is taken in", ("S15",), by_step(refusal_ignored), seed=3),
    "twin-unnoticed": Planted("a cluster is read under two names", ("S15",), by_step(twin_unnoticed), seed=9),
    "finished-again": Planted("a finished split is read again", ("S1",), by_step(finished_again), seed=6),
}
"""Name -> bug."""
