"""Faults of a schedule: each begins and ends once, one at a time on a resource, and what cannot be made is said."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evensplit.errors import ChaosError
from evensplit.testing.chaos.faults import Faults
from evensplit.testing.chaos.history.events import Event, FaultBegan, FaultEnded, FaultFailed
from evensplit.testing.chaos.history.recorder import Recorder, read_history
from evensplit.testing.chaos.nemesis.base import Harm, Nemesis, nemesis
from evensplit.testing.chaos.schedule import Planned
from tests.support.waiting import wait_for


def quiet(name: str, resource: str = "topics", body: Callable[[Random], None] = lambda _: None) -> Nemesis:
    @nemesis(name, resource, "Nothing happens")
    def do(arena: Any, dice: Random) -> Iterator[Harm]:
        body(dice)
        yield Harm(f"{name} is on", ("east",))

    return do


def refuse(_: Random) -> None:
    raise ChaosError("there is no topic")


unmade = quiet("unmade", "network", refuse)


@nemesis("unended", "access", "It cannot be ended")
def unended(arena: Any, dice: Random) -> Iterator[Harm]:
    yield Harm("on for ever")
    raise ChaosError("the broker is not back")


@contextmanager
def storm(directory: Path, nemeses: list[Nemesis], *planned: Planned) -> Iterator[Faults]:
    with Recorder(directory, "run") as recorder:
        arena = cast("Any", SimpleNamespace(recorder=recorder))
        faults = Faults(arena, {one.kind.name: one for one in nemeses}, planned, recorder.now_s)
        faults.start()
        yield faults
        faults.stop()


def told(directory: Path, kind: type[Event]) -> list[Any]:
    return [one for one in read_history(directory) if isinstance(one, kind)]


def test_a_fault_begins_lasts_and_ends(tmp_path: Path) -> None:
    with storm(tmp_path, [quiet("calm")], Planned(1, "calm", 0.1, 0.3, 7)) as faults:
        wait_for(lambda: faults.on == ("calm is on",), what="the fault is on")
        wait_for(faults.are_over, what="the end of the fault")
    (began,), (ended,) = told(tmp_path, FaultBegan), told(tmp_path, FaultEnded)
    assert (began.fault, began.nemesis, began.what, began.clusters) == (1, "calm", "calm is on", ("east",))
    assert ended.at_s - began.at_s >= 0.3
    assert (faults.done, faults.failed, faults.on) == (1, 0, ())


def test_the_choices_of_a_fault_are_those_of_its_dice(tmp_path: Path) -> None:
    chosen: list[float] = []
    nemeses = [quiet(name, name, lambda dice: chosen.append(dice.random())) for name in ("a", "b")]
    with storm(tmp_path, nemeses, Planned(1, "a", 0, 0, 7), Planned(2, "b", 0, 0, 7)) as faults:
        wait_for(faults.are_over, what="the end of both")
    assert chosen == [Random(7).random()] * 2


def test_what_cannot_be_made_or_ended_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    planned = [Planned(1, "unmade", 0, 1, 0), Planned(2, "unended", 0, 0, 0), Planned(3, "calm", 0.2, 0, 0)]
    with storm(tmp_path, [unmade, unended, quiet("calm")], *planned) as faults:
        wait_for(faults.are_over, what="the end of all")
    assert (faults.done, faults.failed) == (3, 2)
    failed = {one.fault: one.problem for one in told(tmp_path, FaultFailed)}
    assert "there is no topic" in failed[1]
    assert "the broker is not back" in failed[2]
    assert {one.fault: one.made for one in told(tmp_path, FaultFailed)} == {1: False, 2: True}
    assert {one.fault: one.what for one in told(tmp_path, FaultBegan)} == {
        1: "it could not be made",
        2: "on for ever",
        3: "calm is on",
    }
    assert [one.fault for one in told(tmp_path, FaultEnded)] == [3]


@pytest.mark.parametrize("resource", ["topics", "brokers"])
def test_faults_of_one_resource_do_not_overlap(tmp_path: Path, resource: str) -> None:
    on: set[int] = set()
    most: list[int] = []

    def held(name: str, resource: str) -> Nemesis:
        @nemesis(name, resource, "It is counted")
        def do(arena: Any, dice: Random) -> Iterator[Harm]:
            on.add(threading.get_ident())
            most.append(len(on))
            yield Harm(name)
            on.remove(threading.get_ident())

        return do

    nemeses = [held("a", "topics"), held("b", resource)]
    with storm(tmp_path, nemeses, Planned(1, "a", 0, 0.5, 0), Planned(2, "b", 0.1, 0.5, 0)) as faults:
        wait_for(faults.are_over, what="the end of both")
    assert max(most) == (1 if resource == "topics" else 2)


def test_a_storm_that_is_stopped_ends_what_is_on_and_begins_nothing_more(tmp_path: Path) -> None:
    planned = [Planned(1, "a", 0, 600, 0), Planned(2, "b", 500, 600, 0)]
    with storm(tmp_path, [quiet("a"), quiet("b")], *planned) as faults:
        wait_for(lambda: faults.on, what="the first fault is on")
    assert faults.are_over()
    assert [one.fault for one in told(tmp_path, FaultEnded)] == [1]
    assert [one.fault for one in told(tmp_path, FaultBegan)] == [1]
