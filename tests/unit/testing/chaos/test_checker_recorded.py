"""A recorded run is held as it is, and each fault that is planted in it is found as what it is, and as nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evensplit.testing.chaos.checker.check import check
from evensplit.testing.chaos.checker.faults import around, faults_of
from evensplit.testing.chaos.history import events as ev
from tests.support.chaos_recording import Recording

QUERY = "foreach-batch"
INTERRUPTED = "incomplete"
"""The run was, in the midst of its faults, and this is found of it, too."""

PLAIN, TRANSACTIONAL, SHORT_LIVED = "orders", "payments", "sessions"

Found = tuple[ev.BatchDelivered, dict[str, Any]]


def _incarnation(row: dict[str, Any]) -> int:
    return int(row["value"].split(b"|")[3])


def _some(run: Recording, topic: str = PLAIN) -> Found:
    """A row from the middle of the run."""
    found = list(run.rows(QUERY, lambda row: row["topic"] == topic))
    return found[len(found) // 2]


def _change(run: Recording, found: Found, **columns: Any) -> None:
    """Let a row have other columns."""
    batch, row = found
    rows = run.table(batch).to_pylist()
    rows[rows.index(row)] = {**row, **columns}
    run.put(batch, rows)


def _add(run: Recording, batch: ev.BatchDelivered, *rows: dict[str, Any]) -> None:
    run.put(batch, [*run.table(batch).to_pylist(), *rows])


def _remove(run: Recording, batch: ev.BatchDelivered, *rows: dict[str, Any]) -> None:
    run.put(batch, [row for row in run.table(batch).to_pylist() if row not in rows])


def _next(run: Recording, batch: ev.BatchDelivered) -> ev.BatchDelivered:
    batches = run.batches(QUERY)
    return batches[batches.index(batch) + 1]


def _lost(run: Recording) -> None:
    _remove(run, *_some(run))


def _repeated(run: Recording) -> None:
    batch, row = _some(run)
    _add(run, _next(run, batch), row)


def _offsets_swapped(run: Recording) -> None:
    batch, row = _some(run)
    rows = run.table(batch).to_pylist()
    of = [one for one in rows if all(one[name] == row[name] for name in ("cluster", "topic", "partition"))]
    assert len(of) > 1
    first, last = of[0], of[-1]
    first["offset"], last["offset"] = last["offset"], first["offset"]
    run.put(batch, rows)


def _reordered(run: Recording) -> None:
    batch, row = _some(run)
    later = next(
        one
        for one, other in run.rows(QUERY, lambda other: other["topic"] == PLAIN)
        if one.at_s > batch.at_s and all(other[name] == row[name] for name in ("cluster", "partition"))
    )
    _remove(run, batch, row)
    _add(run, _next(run, later), row)


def _aborted(run: Recording) -> None:
    aborted = {one.transaction for one in run.all(ev.TransactionEnded) if one.outcome == "aborted"}
    told = next(one for one in run.all(ev.RecordsAcknowledged) if one.transaction in aborted)
    sent = next(one for one in run.all(ev.RecordsSent) if told.numbers[0] in one.numbers)
    batch, row = next(
        (batch, row)
        for batch, row in run.rows(QUERY, lambda row: row["topic"] == TRANSACTIONAL and row["cluster"] == sent.cluster)
        if batch.at_s > told.at_s and row["partition"] == sent.partition and row["offset"] > told.offsets[0]
    )
    value = f"{told.numbers[0]}|{sent.cluster}|{sent.topic}|{sent.incarnation}|{sent.partition}|".encode()
    _add(run, batch, {**row, "offset": told.offsets[0], "value": value, "timestamp": _time(sent.timestamps_ms[0])})


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def _earlier_incarnation(run: Recording) -> None:
    new, row = next(run.rows(QUERY, lambda row: row["topic"] == SHORT_LIVED and _incarnation(row) == 4))

    def is_of_former(other: dict[str, Any]) -> bool:
        return other["topic"] == SHORT_LIVED and other["cluster"] == row["cluster"] and _incarnation(other) == 3

    *_, last = (batch for batch, _ in run.rows(QUERY, is_of_former))
    moved = [one for one in run.table(last).to_pylist() if is_of_former(one)]
    _remove(run, last, *moved)
    _add(run, _next(run, new), *moved)


def _timestamp(run: Recording) -> None:
    _, row = found = _some(run)
    _change(run, found, timestamp=row["timestamp"] + timedelta(seconds=1))


def _key(run: Recording) -> None:
    _change(run, _some(run), key=b"key-0-0")


def _column(run: Recording) -> None:
    _, row = found = _some(run)
    _change(run, found, cluster="west" if row["cluster"] == "east" else "east")


def _made_up(run: Recording) -> None:
    batch, row = _some(run)
    number, _, rest = row["value"].partition(b"|")
    _add(run, batch, {**row, "offset": row["offset"] + 100_000, "value": number + b"00000|" + rest})


def _batch_differs(run: Recording) -> None:
    batch, row = _some(run)
    rows = [one for one in run.table(batch).to_pylist() if one != row]
    run.repeat(batch, rows, after_s=1.0)


def _stall(run: Recording) -> None:
    batch = run.batches("parquet")[-1]
    run.swap(batch, replace(batch, at_s=batch.at_s + 300))


def _standstill(run: Recording) -> None:
    """Faults stop when the last batch is there, and it comes more than a minute later."""
    batch = run.batches("parquet")[-1]
    stopped = ev.FaultsStopped(at_s=batch.at_s)
    run.events = [one for one in run.events if not isinstance(one, ev.FaultBegan) or one.at_s < stopped.at_s]
    run.events.append(stopped)
    run.swap(batch, replace(batch, at_s=stopped.at_s + 61))


def _ended(run: Recording) -> None:
    """A query ends between two faults, more than 30 s after the first."""
    ends = sorted(one.end_s for one in faults_of(run.events, run.events[-1].at_s))
    at_s = next(end_s + 31 for end_s in ends if not around(faults_of(run.events, 1e9), end_s + 31, 30))
    run.events.append(
        ev.QueryEnded(at_s=at_s, query=QUERY, error="evensplit.errors.ClusterUnreachable: cluster 'east'")
    )


def _driver_ended(run: Recording) -> None:
    ended = next(one for one in run.all(ev.JobEnded) if one.expected)
    run.swap(ended, replace(ended, expected=False))


def _memory(run: Recording) -> None:
    """The last driver lives on for half an hour, and grows by two MiB a minute."""
    last = [one for one in run.all(ev.MemoryMeasured) if one.process == "driver"][-1]
    for minute in range(1, 31):
        grown = replace(last, at_s=last.at_s + 60 * minute, resident_mib=last.resident_mib + 2 * minute)
        run.events.append(grown)


def _contradiction(run: Recording) -> None:
    """Two records of one partition have one offset, as the brokers say."""
    told = next(one for one in run.all(ev.RecordsAcknowledged) if one.topic == PLAIN and len(one.numbers) > 1)
    run.swap(told, replace(told, offsets=(told.offsets[1], *told.offsets[1:])))


FAULTS: dict[Callable[[Recording], None], set[str]] = {
    _lost: {"lost"},
    _repeated: {"repeated"},
    _offsets_swapped: {"wrong offset"},
    _reordered: {"reordered"},
    _aborted: {"aborted but seen"},
    _earlier_incarnation: {"wrong incarnation"},
    _timestamp: {"changed"},
    _key: {"changed"},
    _column: {"wrong place"},
    _made_up: {"made up"},
    _batch_differs: {"repeated batch differs"},
    _stall: {"stalled"},
    _standstill: {"liveness"},
    _ended: {"ended by itself"},
    _driver_ended: {"ended by itself"},
    _memory: {"memory"},
    # What the brokers say is what delivery is measured by.
    _contradiction: {"history", "wrong offset"},
}


def test_the_recorded_run_is_held(tmp_path: Path) -> None:
    run = Recording(tmp_path)
    verdict = check(run.directory)
    assert {finding.kind for finding in verdict.findings} == {INTERRUPTED}
    # It has all that the planted faults are about.
    assert verdict.figures["records delivered"][QUERY] > 1_000
    assert verdict.figures["repeated batches"][QUERY] == 1
    assert all(end["cause"] for end in verdict.figures["queries' ends"])


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_fault_that_is_planted_in_the_recorded_run_is_found(
    tmp_path: Path, plant: Callable[[Recording], None]
) -> None:
    run = Recording(tmp_path)
    plant(run)
    assert {finding.kind for finding in check(run.write()).findings} == {INTERRUPTED, *FAULTS[plant]}
