"""The topic of our own sink: a faultless one holds, and each planted fault of it is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evensplit.testing.chaos.checker.check import check
from evensplit.testing.chaos.checker.verdict import Verdict
from evensplit.testing.chaos.history import events as ev
from evensplit.testing.chaos.page.text import verdict_text
from tests.support.chaos_histories import END_S, Row, Run, writing

QUERY = "kafka"


def test_a_faultless_topic_holds(tmp_path: Path) -> None:
    run = writing()
    run.events.append(ev.ReadersWaited(at_s=90, partition=1, offset=7, waited_s=12.5))
    _cut_off(run, 7, before=False)
    _cut_off(run, 9, before=True)
    # That with which the run ends: nobody comes after it.
    run.events.append(ev.BatchCutOff(at_s=END_S - 1, batch=19, batch_ms=19_000, ends=(10**6, 10**6)))
    verdict = check(run.write(tmp_path))
    assert verdict.held, verdict_text(verdict)
    assert not [one for one in verdict.not_judged if one.startswith("writing")]
    assert verdict.figures["batches that the end of a driver cut off"] == 2
    assert verdict.figures["of them decided before, and found again by the next driver"] == 1
    assert verdict.figures["readers of the sink waited at most (s)"] == 12.5
    assert verdict.figures["records delivered"][QUERY] == 760
    assert verdict.figures["records in the sink's topic"] == 760
    assert verdict.figures["records of aborted transactions in the sink's topic"] == 6
    assert verdict.figures["batches"][QUERY] == 20


def _cut_off(run: Run, batch: int, *, before: bool) -> None:
    """A driver ends in a batch, whose records are in the topic before that, or come with the next driver."""
    at_s, ends = batch * 10 + 4.0, 1_000 * (batch + before)
    run.events += [
        ev.BatchCutOff(at_s=at_s, batch=batch, batch_ms=1_000 * batch, ends=(ends, ends)),
        ev.JobStarted(at_s=at_s + 1, pid=batch, settings={}),
    ]


def _nothing_aborted(run: Run) -> None:
    run.found = lambda told: replace(told, hidden=0)


def _processes_end(run: Run, nemesis: str, times: int) -> None:
    for number in range(times):
        at_s = 20.0 + number
        run.events += [
            ev.FaultBegan(at_s=at_s, fault=10 + number, nemesis=nemesis, what=f"{nemesis} {number}"),
            ev.FaultEnded(at_s=at_s + 0.5, fault=10 + number),
        ]


def _lacks(verdict: Verdict, what: str, *, proves: bool) -> None:
    """It is said that the run lacks something, and is a finding if the run proves nothing without it."""
    assert [one.what for one in verdict.findings if one.kind == "incomplete"] == ([] if proves else [what])
    assert (f"writing through crashes: {what}" in verdict.not_judged) == proves


@pytest.mark.parametrize("kills, proves", [(0, True), (5, True), (6, False)])
def test_a_run_in_which_nobody_ends_as_it_writes_shows_little(tmp_path: Path, kills: int, proves: bool) -> None:
    run = writing()
    _nothing_aborted(run)
    _cut_off(run, 9, before=True)
    _processes_end(run, "python-worker-kill", kills)
    verdict = check(run.write(tmp_path))
    what = "the sink's topic has no record of an aborted transaction, so no task or driver was ended as it wrote, in "
    _lacks(verdict, f"{what}{kills} faults that end one", proves=proves)
    assert verdict.held == proves


@pytest.mark.parametrize("kills, proves", [(0, True), (3, True), (4, False)])
def test_a_run_in_which_nothing_decided_is_found_again_shows_little(tmp_path: Path, kills: int, proves: bool) -> None:
    run = writing()
    _cut_off(run, 9, before=False)
    _processes_end(run, "writing-kill", kills)
    verdict = check(run.write(tmp_path))
    what = "no driver was ended after it had decided a batch, and before Spark knew, in "
    _lacks(verdict, f"{what}{kills} faults that aim at that", proves=proves)
    said = "Held; not judged in full: " if proves else "Proves nothing: 1 finding"
    assert verdict.sentence.startswith(said)


def test_a_batch_of_which_nobody_could_say_how_far_it_had_come_proves_nothing_against_a_run(tmp_path: Path) -> None:
    run = writing()
    _cut_off(run, 9, before=False)
    run.events = [replace(one, ends=()) if isinstance(one, ev.BatchCutOff) else one for one in run.events]
    _processes_end(run, "writing-kill", 4)
    verdict = check(run.write(tmp_path))
    assert verdict.held
    assert [one for one in verdict.not_judged if one.startswith("writing through crashes")]


def _lost(run: Run) -> None:
    run.rows(QUERY, 3).remove(next(row for row in run.rows(QUERY, 3) if row.topic == "plain"))


def _twice(run: Run) -> None:
    run.rows(QUERY, 4).append(Row(**vars(next(row for row in run.rows(QUERY, 3) if row.topic == "risky"))))


def _batch_again(run: Run) -> None:
    """A restart writes a batch that was decided, with the same time, and readers see both."""
    (token, at_s, rows) = run.batches[QUERY][6][0]
    run.batches[QUERY][6].append((f"{token}b", at_s + 2, [Row(**vars(row)) for row in rows]))


def _batch_late(run: Run) -> None:
    def after_the_next(batch: int, columns: dict[str, list[int]]) -> None:
        if batch == 5:
            columns["sink_offset"] = [6_500 + number for number in range(len(columns["sink_offset"]))]

    run.places = after_the_next


def _task_backwards(run: Run) -> None:
    def backwards(batch: int, columns: dict[str, list[int]]) -> None:
        if batch == 5:
            columns["sink_offset"].reverse()

    run.places = backwards


def _held_up(run: Run) -> None:
    run.events.append(ev.ReadersWaited(at_s=END_S - 1, partition=1, offset=7, waited_s=200.0, over=False))


def _hung_reader(run: Run) -> None:
    """The reader of the run has stopped, so that nobody knows what came later."""
    run.found = lambda told: replace(told, reader_at=told.end - 1)


def _blind_reader(run: Run) -> None:
    """The reader has got to the end, and has not kept a record that another client finds."""
    run.found = lambda told: replace(told, committed=told.committed + 1)


def _never_read(run: Run) -> None:
    run.found = lambda told: None


@pytest.mark.parametrize(
    "plant, kinds",
    [
        (_lost, {"lost"}),
        (_twice, {"repeated", "reordered"}),
        (_batch_again, {"repeated", "reordered"}),
        (_batch_late, {"reordered"}),
        (_task_backwards, {"reordered"}),
        (_held_up, {"held up"}),
        (_hung_reader, {"incomplete"}),
        (_blind_reader, {"history"}),
        (_never_read, {"incomplete"}),
    ],
)
def test_a_planted_fault_is_found(tmp_path: Path, plant: Callable[[Run], None], kinds: set[str]) -> None:
    run = writing()
    plant(run)
    verdict = check(run.write(tmp_path))
    found = {one.kind for one in verdict.findings}
    assert found, "nothing was found"
    assert found <= kinds, verdict_text(verdict)
    assert min(kinds) in found


def test_tasks_of_one_batch_may_come_in_any_order(tmp_path: Path) -> None:
    def in_turn(batch: int, columns: dict[str, list[int]]) -> None:
        columns["task"] = [number % 5 for number in range(len(columns["task"]))]
        columns["sink_offset"].reverse()

    run = writing()
    run.places = in_turn
    verdict = check(run.write(tmp_path))
    assert verdict.held, verdict_text(verdict)
