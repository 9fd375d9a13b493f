"""Each excuse of the checker: a faultless history that needs it is held, and a fault just outside of it is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evensplit.testing.chaos.checker.check import check
from evensplit.testing.chaos.checker.ledger import ledger_of
from evensplit.testing.chaos.history import events as ev
from tests.support.chaos_histories import END_S, Row, Run, faultless

QUERY = "foreach-batch"
Plant = Callable[[Run], None]


def _removed(at_s: float, *, partition: int = 0, beyond: int = 1) -> Plant:
    """A record of batch 3 is removed before it had to be there: until 90 s, since a fault ends at 60 s."""

    def plant(run: Run) -> None:
        row = run.find("plain", 3)[0]
        run.miss(row.number)
        run.not_in_log(row.number)
        place: dict[str, Any] = {"cluster": "east", "topic": "plain", "incarnation": 1, "partition": partition}
        run.events.append(ev.RemovalBegan(at_s=at_s, **place, before_offset=row.offset + beyond))

    return plant


def _lost_by_election(batch: int, cluster: str = "east", topic: str = "risky") -> Plant:
    """A record that nobody finds any more. The only fault about a cluster is one of east, until 60 s."""

    def plant(run: Run) -> None:
        number = run.find(topic, batch, cluster)[0].number
        run.miss(number)
        run.not_in_log(number)

    return plant


def _lost_by_failed_fault(run: Run) -> None:
    run.events += [
        ev.FaultBegan(at_s=180, fault=5, nemesis="unclean-election", what="it could not be made"),
        ev.FaultFailed(at_s=185, fault=5, nemesis="unclean-election", problem="no replica became leader"),
    ]
    _lost_by_election(17, "west")(run)


def _offsets_given_anew(cluster: str) -> Plant:
    def plant(run: Run) -> None:
        for row, offset in zip(run.find("risky", 10, cluster), (2, 5), strict=True):
            run.move(row.number, offset)

    return plant


def _unknown(*, delivered: bool, in_log: bool) -> Plant:
    def plant(run: Run) -> None:
        run.ends("t3-east-0", "unknown")
        for row in run.find("money", 3):
            if not in_log:
                run.not_in_log(row.number)
            if not delivered:
                run.miss(row.number)

    return plant


def _again_by_async(started_s: float, batch: int, *, before_s: float | None = None) -> Plant:
    """What batch 9, at 97 s, or one of those before it, each 10 s earlier, has delivered comes again at 107 s.

    `before_s`: another start.
    """

    def plant(run: Run) -> None:
        starts = [started_s] if before_s is None else [before_s, started_s]
        run.events.extend(ev.QueryStarted(at_s=at_s, query="async") for at_s in starts)
        run.rows("async", 10).extend(Row(**vars(row)) for row in run.rows("async", batch))

    return plant


def _deleted(topic: str) -> Plant:
    """Records of batch 15 are missing; a topic is deleted at 151 s, before they had to be there."""

    def plant(run: Run) -> None:
        run.miss(*(row.number for row in run.find(topic, 15)))

    return plant


def _replaced(until: int) -> Plant:
    """A record of batch 3, due until 90 s, is replaced by the next batch from `until` on."""

    def plant(run: Run) -> None:
        replaced = run.find("state", 3)[0]
        for batch in range(4, until):
            run.call(run.find("state", batch)[0].number, "k2")
        run.miss(replaced.number)
        run.not_in_log(replaced.number)

    return plant


def _compacted_after(lag_s: float, *, ahead: int = 3, ahead_s: float = 0.0, lost: bool = False) -> Plant:
    """A record of batch 3, due until 90 s, is replaced by the next batch; both have timestamps of about 50.2 s.

    `ahead_s`: so much the clock is ahead in batch `ahead`. `lost`: the records of batch 4 never reached the log, and
    those of batch 5 are the next ones.
    """

    def fast(one: ev.RecordsSent) -> ev.RecordsSent:
        return replace(one, timestamps_ms=tuple(time + int(ahead_s * 1000) for time in one.timestamps_ms))

    def plant(run: Run) -> None:
        run.change(ev.RunBegan, lambda _: True, lambda one: replace(one, began_ms=950_000))
        wrong = [row.number for row in run.find("state", ahead)]
        run.change(ev.RecordsSent, lambda one: wrong[0] in one.numbers, fast)
        for row in [copy for number in wrong for copy in run.copies(number)]:
            row.timestamp_ms += int(ahead_s * 1000)
        if lost:
            later = [row.number for row in run.find("state", 4)]
            run.change(ev.RecordsAcknowledged, lambda one: later[0] in one.numbers, lambda _: None)
            run.miss(*later)
            for number in later:
                run.not_in_log(number)
        run.change(
            ev.TopicCreated, lambda one: one.kind == "compacted", lambda one: replace(one, compaction_lag_s=lag_s)
        )
        _replaced(4)(run)

    return plant


def _late(at_s: float) -> Plant:
    """What was due at 53 s comes at this time; a fault is on until 60 s."""

    def plant(run: Run) -> None:
        run.batches["parquet"][5] = [(token, at_s, rows) for token, _, rows in run.batches["parquet"][5]]

    return plant


def _late_after_a_start(at_s: float) -> Plant:
    """A driver that was killed is started at 106 s; the first one took ten seconds until it was ready."""

    def plant(run: Run) -> None:
        _driver_ended(expected=True)(run)
        run.change(ev.JobReady, lambda _: True, lambda one: replace(one, at_s=11))
        run.events += [ev.JobStarted(at_s=started_s, pid=1, settings={}) for started_s in (1, 106)]
        run.batches["parquet"][10] = [(token, at_s, rows) for token, _, rows in run.batches["parquet"][10]]

    return plant


def _late_though_the_fault_never_ends(run: Run) -> None:
    run.events.append(ev.FaultBegan(at_s=190, fault=5, nemesis="cut", what="east is cut off", clusters=("east",)))
    run.batches["parquet"][19] = [(token, 265.0, rows) for token, _, rows in run.batches["parquet"][19]]


def _driver_ended(*, expected: bool) -> Plant:
    """SIGKILL of the driver at 100 s: the batch that was under way comes again, in another order."""

    def plant(run: Run) -> None:
        run.events += [
            ev.FaultBegan(at_s=100, fault=5, nemesis="driver-kill", what="SIGKILL of the driver"),
            ev.JobEnded(at_s=100.1, pid=1, code=-9, expected=expected),
            ev.FaultEnded(at_s=107, fault=5),
        ]
        rows = [Row(**vars(row)) for row in reversed(run.rows(QUERY, 9))]
        run.batches[QUERY][9].append(("after", 106.0, rows))

    return plant


def _unconfirmed(*, delivered: bool, in_log: bool) -> Plant:
    """The producer of a record has heard nothing."""

    def plant(run: Run) -> None:
        row = run.find("plain", 3)[0]

        def without(one: ev.RecordsAcknowledged) -> ev.RecordsAcknowledged:
            return replace(one, numbers=one.numbers[1:], offsets=one.offsets[1:])

        run.change(ev.RecordsAcknowledged, lambda one: row.number in one.numbers, without)
        run.events.append(ev.RecordsUnconfirmed(at_s=60, writer="w", numbers=(row.number,), error="timed out"))
        if not in_log:
            run.not_in_log(row.number)
        if not delivered:
            run.miss(row.number)

    return plant


def _late_while_a_job_is_not_back(run: Run) -> None:
    run.events += [
        ev.FaultBegan(at_s=105, fault=5, nemesis="driver-kill", what="SIGKILL of the driver"),
        ev.FaultFailed(at_s=110, fault=5, nemesis="driver-kill", problem="the job was not back", made=True),
    ]
    run.batches["parquet"][11] = [(token, 155.0, rows) for token, _, rows in run.batches["parquet"][11]]


LOST = {"lost", "miscounted"}
"""No sink has the record, so one query counts one too few."""

HELD: dict[str, Plant] = {
    "a record is removed before it had to be there": _removed(89),
    "an unclean election loses a record": _lost_by_election(4),
    "an unclean election that failed half-way loses a record": _lost_by_failed_fault,
    "an unclean election gives offsets anew": _offsets_given_anew("east"),
    "a transaction of unknown outcome was committed": _unknown(delivered=True, in_log=True),
    "a transaction of unknown outcome was aborted": _unknown(delivered=False, in_log=False),
    "async delivers again after a start": _again_by_async(100, 9),
    "async delivers again what came 30 s before": _again_by_async(100, 6),
    "async delivers again what came before a run that kept nothing": _again_by_async(100, 3, before_s=72),
    "a topic is deleted in the meantime": _deleted("brief"),
    "a record is replaced in time": _replaced(8),
    "a record is replaced, and compaction may have run in time": _compacted_after(39),
    "a record is replaced by one after a lost one with a fast clock": _compacted_after(
        39, ahead=4, ahead_s=50, lost=True
    ),
    "a record waits for 30 s after a fault": _late(89.9),
    "a driver that is started again takes as long as at first": _late_after_a_start(145.9),
    "a killed driver repeats its batch": _driver_ended(expected=True),
    "an unconfirmed record is in the log": _unconfirmed(delivered=True, in_log=True),
    "an unconfirmed record is not in the log": _unconfirmed(delivered=False, in_log=False),
}

OUTSIDE: dict[str, tuple[Plant, set[str]]] = {
    "a record is removed after it had to be there": (_removed(91), LOST),
    "the first record that is not removed is missing": (_removed(89, beyond=0), LOST | {"history"}),
    "records of another partition are removed": (_removed(89, partition=1), LOST | {"history"}),
    "a record is lost after the last fault of its cluster": (_lost_by_election(6), LOST),
    "a record is lost in a cluster without a fault": (_lost_by_election(4, "west"), LOST),
    "a record is lost in a topic without unclean elections": (
        _lost_by_election(4, topic="plain"),
        LOST | {"history"},
    ),
    "offsets go back in a cluster without a fault": (_offsets_given_anew("west"), {"reordered"}),
    "a committed transaction is missing": (_unknown(delivered=False, in_log=True), LOST),
    "a transaction of unknown outcome was not committed, but seen": (
        _unknown(delivered=True, in_log=False),
        {"not in the log", "miscounted"},
    ),
    "async delivers again before a start": (_again_by_async(108, 9), {"repeated"}),
    "async delivers again what came long before": (_again_by_async(100, 5), {"repeated"}),
    "async delivers again what came long before a run that kept nothing": (
        _again_by_async(100, 2, before_s=72),
        {"repeated"},
    ),
    "async delivers again what came before a run that was long enough": (
        _again_by_async(100, 4, before_s=55),
        {"repeated"},
    ),
    "async delivers again what came before a run that was idle for long enough": (
        _again_by_async(100, 4, before_s=66),
        {"repeated"},
    ),
    "a topic that is not deleted lacks records": (_deleted("plain"), LOST),
    "a record is replaced too late": (_replaced(9), LOST),
    "a record is replaced, but compaction has to wait": (_compacted_after(40), LOST),
    "a record with a fast clock is replaced, but compaction has to wait": (_compacted_after(30, ahead_s=60), LOST),
    "a record waits longer than 30 s after a fault": (_late(90.1), {"stalled"}),
    "a fault that never ends excuses nothing for ever": (_late_though_the_fault_never_ends, {"liveness"}),
    "a driver that is started again takes longer": (_late_after_a_start(146.1), {"stalled"}),
    "a job that is not back is no fault that goes on": (_late_while_a_job_is_not_back, {"stalled"}),
    "a driver ends by itself while a fault is on": (_driver_ended(expected=False), {"ended by itself"}),
    "an unconfirmed record in the log is missing": (_unconfirmed(delivered=False, in_log=True), LOST),
    "an unconfirmed record comes from nowhere": (
        _unconfirmed(delivered=True, in_log=False),
        {"not in the log", "miscounted"},
    ),
}


@pytest.mark.parametrize("plant", HELD.values(), ids=HELD)
def test_a_history_that_needs_an_excuse_is_held(tmp_path: Path, plant: Plant) -> None:
    run = faultless()
    plant(run)
    assert check(run.write(tmp_path)).findings == ()


@pytest.mark.parametrize("plant, kinds", OUTSIDE.values(), ids=OUTSIDE)
def test_a_fault_just_outside_of_an_excuse_is_found(tmp_path: Path, plant: Plant, kinds: set[str]) -> None:
    run = faultless()
    plant(run)
    assert {finding.kind for finding in check(run.write(tmp_path)).findings} == kinds


def test_what_an_election_may_have_lost_is_not_judged_without_another_reader(tmp_path: Path) -> None:
    run = faultless()
    _lost_by_election(4)(run)
    run.change(ev.LogRead, lambda one: one.topic == "risky", lambda _: None)
    verdict = check(run.write(tmp_path))
    assert verdict.findings == ()
    assert any("no other client has read" in one and QUERY in one for one in verdict.not_judged)


def test_a_run_that_ends_early_says_what_it_does_not_show(tmp_path: Path) -> None:
    run = faultless()
    run.change(ev.FaultsStopped, lambda _: True, lambda _: None)
    run.change(ev.JobReady, lambda _: True, lambda _: None)
    run.change(ev.LogRead, lambda _: True, lambda _: None)
    run.change(ev.RunEnded, lambda _: True, lambda _: ev.RunEnded(at_s=END_S, problem="no broker started"))
    verdict = check(run.write(tmp_path))
    assert verdict.sentence.startswith("Proves nothing: 2 findings")
    assert {one.kind for one in verdict.findings} == {"incomplete"}
    said = "\n".join([*verdict.not_judged, *(one.what for one in verdict.findings)])
    for part in ("never ready", "no broker started", "the logs of 20 partitions"):
        assert part in said


@pytest.mark.parametrize(
    "kind, missing",
    [(ev.FaultsStopped, "the faults never stopped"), (ev.RunEnded, "the end of the run"), (ev.JobReady, "never ready")],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_run_that_lacks_its_end_or_its_beginning_is_not_held(
    tmp_path: Path, kind: type[ev.Event], missing: str
) -> None:
    run = faultless()
    run.change(kind, lambda _: True, lambda _: None)
    (found,) = check(run.write(tmp_path)).findings
    assert found.kind == "incomplete"
    assert missing in found.what


def test_a_run_without_a_fault_that_could_be_made_is_not_held(tmp_path: Path) -> None:
    run = faultless()
    for number, name in ((1, "broker-kill"), (2, "topic-recreated")):
        run.events.append(ev.FaultFailed(at_s=190, fault=number, nemesis=name, problem="no broker answers"))
    (found,) = check(run.write(tmp_path)).findings
    assert "none of 2 faults" in found.what


def test_a_run_that_a_fault_leaves_mostly_unjudged_is_not_held(tmp_path: Path) -> None:
    run = faultless()
    run.events += [
        ev.FaultBegan(at_s=95, fault=3, nemesis="cut", what="east is cut off", clusters=("east",)),
        ev.FaultFailed(at_s=99, fault=3, nemesis="cut", problem="no answer", made=True),
    ]
    (found,) = check(run.write(tmp_path)).findings
    assert (found.kind, "more than half of the run" in found.what) == ("incomplete", True)


def test_a_run_without_faults_is_not_held(tmp_path: Path) -> None:
    run = faultless()
    run.change(ev.FaultBegan, lambda _: True, lambda _: None)
    assert "incomplete" in {one.kind for one in check(run.write(tmp_path)).findings}


def test_only_what_a_later_record_replaces_is_ever_replaced() -> None:
    ledger = ledger_of(faultless().events)
    replaced = ledger.replaced(np.inf)
    assert replaced.any()
    assert not (replaced & ~ledger.of_kind("compacted")).any()
    # The last of each key stays.
    assert not replaced[ledger.place >= 0][-20:].all()
