"""Planted bugs of identity: whether a topic, a cluster and a log are the ones that were read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evensplit.core.machine import data_loss, identity
from evensplit.core.machine.enumerator import Step, step
from evensplit.core.machine.events import Event, LogsObserved, PartitionsListed
from evensplit.core.state.state import EnumeratorState
from tests.sim.planting import Planted, by_step, swapped


def new_id_at_once(state: EnumeratorState, event: Event) -> Step:
    """The first answer that names another id of a topic is believed, however old it is."""
    with swapped("ID_CONFLICT_ANSWERS_MIN", 1, identity), swapped("id_conflict_wait_ms", lambda _: 0, identity):
        return step(state, event)


def new_id_in_no_time(state: EnumeratorState, event: Event) -> Step:
    """Two answers are enough, though both came before any broker could have heard the news."""
    with swapped("id_conflict_wait_ms", lambda _: 0, identity):
        return step(state, event)


def former_id_believed(state: EnumeratorState, event: Event) -> Step:
    """A topic can have an id again that it had before."""
    if isinstance(event, PartitionsListed):
        state = replace(state, session=replace(state.session, former_topic_ids={}))
    return step(state, event)


def renamed_anew(state: EnumeratorState, event: Event) -> Step:
    """A cluster under another name is another cluster, and is read from the beginning."""
    with swapped("_rename", lambda *_: None, identity):
        return step(state, event)


def epochs_ignored(state: EnumeratorState, event: Event) -> Step:
    """A log that is long enough is the one that was read."""
    if isinstance(event, LogsObserved):
        event = replace(event, epochs={})
    return step(state, event)


def former_leader_believed(state: EnumeratorState, event: Event) -> Step:
    """What a leader says counts, also if another one has begun since."""
    with swapped("is_older", lambda *_: False, data_loss):
        return step(state, event)


def short_in_no_time(state: EnumeratorState, event: Event) -> Step:
    """Three answers that come at once show that a log ends before its position."""
    with swapped("truncation_wait_ms", lambda _: 0, data_loss):
        return step(state, event)


BUGS: Mapping[str, Planted] = {
    "new-id-at-once": Planted(
        "one old answer makes a topic another one",
        ("S9", "S15"),
        by_step(new_id_at_once),
        seed=7,
        like="evensplit, before: a listing with a former topic id",
    ),
    "new-id-in-no-time": Planted("two answers at once do so", ("S9", "S15"), by_step(new_id_in_no_time), seed=103),
    "former-id-believed": Planted(
        "a topic has a former id again",
        ("S9", "S15"),
        by_step(former_id_believed),
        seed=144,
        like="evensplit, before: a listing with a former topic id",
    ),
    "renamed-anew": Planted(
        "a cluster with a new name is read anew",
        ("S15",),
        by_step(renamed_anew),
        seed=27,
        like="evensplit, before: a renamed cluster read anew",
    ),
    "epochs-ignored": Planted(
        "a log that was replaced is read on",
        ("S9",),
        by_step(epochs_ignored),
        seed=62,
        like="evensplit, before: an unclean election",
    ),
    "former-leader-believed": Planted(
        "a former leader is believed",
        ("S9",),
        by_step(former_leader_believed),
        seed=167,
        like="evensplit, before: frozen metadata believed",
    ),
    "short-in-no-time": Planted(
        "three quick answers cut a log off",
        ("S9",),
        by_step(short_in_no_time),
        seed=225,
        like="evensplit, before: a stale end believed",
    ),
}
"""Name -> bug."""
