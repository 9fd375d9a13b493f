"""Planted bugs of starts and positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evensplit.core.machine.effects import ResolveStart
from evensplit.core.machine.enumerator import Step, step
from evensplit.core.machine.events import Event, OffsetsResolved, ReaderRegistered, SettingsChanged
from evensplit.core.model import StartBy
from evensplit.core.state.state import EnumeratorState
from tests.sim.planting import Planted, by_step, changed


def resolved_twice(state: EnumeratorState, event: Event) -> Step:
    """A second answer moves a start that nothing has been read from yet."""
    done = step(state, event)
    if isinstance(event, OffsetsResolved):
        known = [state.splits[key] for key in event.starts if key in state.splits]
        unread = [one for one in known if one.position is not None and one.first == one.position and one.active]
        moved = [one._replace(position=event.starts[one.id], first=event.starts[one.id]) for one in unread]
        return changed(
            done, *(done.state.splits[one.id]._replace(position=one.position, first=one.first) for one in moved)
        )
    return done


def resolved_after_restart(state: EnumeratorState, event: Event) -> Step:
    """Where nothing has been read yet, a restart looks the start up again, and "latest" has moved on."""
    done = step(state, event)
    if isinstance(event, SettingsChanged) and state.session.now_ms is None:
        unread = [one for one in done.state.splits.values() if one.position == 0 and one.active]
        return changed(done, *(one._replace(position=None, first=None, owner=None) for one in unread))
    return done


def later_by_strategy(state: EnumeratorState, event: Event) -> Step:
    """A partition that was added later starts where the user wanted to start: its first records are skipped."""
    done = step(state, event)
    asked = (replace(one, by=StartBy.STRATEGY) if isinstance(one, ResolveStart) else one for one in done.effects)
    return Step(done.state, tuple(asked))


def adopted_at_earliest(state: EnumeratorState, event: Event) -> Step:
    """A reported split is taken up, and where its reader stood is not."""
    if isinstance(event, ReaderRegistered):
        event = replace(event, reported={key: at if key in state.splits else 0 for key, at in event.reported.items()})
    return step(state, event)


def retained_without_position(state: EnumeratorState, event: Event) -> Step:
    """What comes back begins again."""
    done = step(state, event)
    back = [
        split
        for key, split in done.state.splits.items()
        if split.active and split.position and key in state.splits and state.splits[key].removed_at_ms is not None
    ]
    return changed(done, *(split._replace(position=0) for split in back)) if back else done


BUGS: Mapping[str, Planted] = {
    "resolved-twice": Planted(
        "a start moves", ("S3", "S4"), by_step(resolved_twice), seed=99, like="Spark: a start that is resolved twice"
    ),
    "resolved-after-restart": Planted(
        "a start is looked up again", ("S3", "S4"), by_step(resolved_after_restart), seed=11, like="FLINK-38453"
    ),
    "later-by-strategy": Planted("new partitions start by the strategy", ("S4",), by_step(later_by_strategy), seed=3),
    "adopted-at-earliest": Planted("a reported position is not used", ("S3",), by_step(adopted_at_earliest), seed=16),
    "retained-without-position": Planted(
        "what returns begins again", ("S3",), by_step(retained_without_position), like="FLINK-39837", seed=1
    ),
}
"""Name -> bug."""
