"""The checker holds a faultless run, and finds each planted fault as what it is."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evensplit.testing.chaos import checker
from evensplit.testing.chaos.checker.check import check
from evensplit.testing.chaos.history import events as ev
from evensplit.testing.chaos.page.text import verdict_text
from tests.support.chaos_histories import END_S, Row, Run, faultless

QUERY = "foreach-batch"
UNREACHABLE = "evensplit.errors.ClusterUnreachable: cluster 'Ost': no broker answers"
IN_PYTHON = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
Job aborted due to stage failure: Task 0 in stage 7.0 failed 4 times, most recent failure: PythonException:
Traceback (most recent call last):
  File "/lib/evensplit/kafka/fetch/lane.py", line 7, in read
IndexError: list index out of range"""


def _first(run: Run, topic: str, batch: int = 3) -> Row:
    return next(row for row in run.rows(QUERY, batch) if row.topic == topic)


def _lost(run: Run) -> None:
    run.rows(QUERY, 3).remove(_first(run, "plain"))


def _lost_from_log(run: Run) -> None:
    run.rows(QUERY, 3).remove(_first(run, "risky"))


def _deleted_too_late(run: Run) -> None:
    run.rows(QUERY, 3).remove(_first(run, "brief"))


def _replaced_in_another_partition(run: Run) -> None:
    rows = run.rows(QUERY, 19)
    rows.remove(next(row for row in rows if row.topic == "state" and row.partition == 0))


def _removed_too_late(run: Run) -> None:
    row = _first(run, "plain")
    run.rows(QUERY, 3).remove(row)
    place: dict[str, Any] = {"cluster": row.cluster, "topic": row.topic, "incarnation": 1, "partition": row.partition}
    run.events.append(ev.RemovalBegan(at_s=190, **place, before_offset=10**6))


def _repeated(run: Run) -> None:
    run.rows("parquet", 4).append(Row(**vars(next(row for row in run.rows("parquet", 3) if row.topic == "risky"))))


def _repeated_by_async(run: Run) -> None:
    run.rows("async", 4).append(Row(**vars(run.rows("async", 3)[0])))


def _batch_differs(run: Run) -> None:
    run.rows(QUERY, 6, 1).pop()


def _reordered(run: Run) -> None:
    row = _first(run, "plain")
    run.rows(QUERY, 3).remove(row)
    run.rows(QUERY, 4).append(row)


def _wrong_offset(run: Run) -> None:
    _first(run, "plain").offset += 1


def _wrong_incarnation(run: Run) -> None:
    rows = [row for row in run.rows(QUERY, 15) if row.topic == "brief"]
    for row in rows:
        run.rows(QUERY, 15).remove(row)
    run.rows(QUERY, 17).extend(rows)


def _wrong_place(run: Run) -> None:
    _first(run, "plain").partition += 1


def _aborted(run: Run) -> None:
    sent = next(e for e in run.events if isinstance(e, ev.RecordsSent) and e.transaction == "t5-east-0")
    run.rows(QUERY, 5).append(Row(sent.numbers[0], "east", "money", 1, 0, 15, sent.timestamps_ms[0]))


def _part(run: Run) -> None:
    run.ends("t3-east-0", "unknown")
    # No other client tells how it ended.
    run.change(ev.LogRead, lambda one: one.topic == "money", lambda _: None)
    run.rows(QUERY, 3).remove(_first(run, "money"))


def _made_up(run: Run) -> None:
    row = _first(run, "plain")
    run.rows(QUERY, 3).append(replace(row, number=999_999, value=""))


def _unparsed(run: Run) -> None:
    run.rows(QUERY, 3).append(replace(_first(run, "plain"), value="nonsense"))


def _changed(run: Run) -> None:
    _first(run, "plain").timestamp_ms += 1


def _changed_key(run: Run) -> None:
    _first(run, "state").key = "k9"


def _key_of_its_own(run: Run) -> None:
    _first(run, "plain").key = "k0"


def _key_left_out(run: Run) -> None:
    _first(run, "state").key = ""


def _offset_of_a_lost_record(run: Run) -> None:
    row = _first(run, "risky")
    row.offset += 1


def _not_in_the_log(run: Run) -> None:
    number = _first(run, "plain").number
    run.not_in_log(number)

    def unconfirmed(one: ev.RecordsAcknowledged) -> ev.RecordsAcknowledged:
        return replace(one, numbers=one.numbers[1:], offsets=one.offsets[1:])

    run.change(ev.RecordsAcknowledged, lambda one: one.numbers[0] == number, unconfirmed)
    for query in ("parquet", "deduplicated", "async"):
        run.rows(query, 3).remove(next(row for row in run.rows(query, 3) if row.number == number))


def _nothing(run: Run) -> None:
    """Faults that go on to the end excuse each record, but not all of them."""
    _cut_off_to_the_end(run)
    for attempts in run.batches[QUERY].values():
        attempts[:] = [(token, at_s, []) for token, at_s, _ in attempts]


def _cut_off_to_the_end(run: Run) -> None:
    run.events.append(ev.FaultBegan(at_s=1, fault=3, nemesis="cut", what="east is cut off"))
    run.change(ev.FaultsStopped, lambda _: True, lambda one: replace(one, at_s=END_S))


def _no_sink(run: Run) -> None:
    _cut_off_to_the_end(run)
    run.batches[QUERY].clear()


def _vanished(run: Run) -> None:
    """A batch that the history has is in the sink no more, and nothing in it had to be there."""
    run.events.append(
        ev.BatchDelivered(at_s=300, query=QUERY, batch=20, attempt="attempt-a", files=("sink/part-0.parquet",), rows=0)
    )


def _one_offset_twice(run: Run) -> None:
    """The brokers gave the offset of another record of the place, and every witness has it so."""
    first, second = [row for row in run.rows(QUERY, 3) if row.topic == "plain"][:2]
    run.move(second.number, first.offset)


def _found_elsewhere(run: Run) -> None:
    """Another client finds a record at an offset that the brokers did not give."""
    number = _first(run, "plain").number
    run.change(
        ev.LogRead, lambda one: one.numbers[0] == number, lambda one: replace(one, offsets=(900, one.offsets[1]))
    )


def _found_though_aborted(run: Run) -> None:
    sent = next(e for e in run.events if isinstance(e, ev.RecordsSent) and e.transaction == "t5-east-0")
    place: dict[str, Any] = {"cluster": "east", "topic": "money", "incarnation": 1, "partition": 0}
    run.events.append(ev.LogRead(at_s=END_S - 1, **place, numbers=sent.numbers[:1], offsets=(15,)))
    for query in ("foreach-batch", "parquet", "deduplicated", "async"):
        row = Row(sent.numbers[0], "east", "money", 1, 0, 15, sent.timestamps_ms[0])
        run.rows(query, 5).append(row)


def _stall(run: Run) -> None:
    [(token, at_s, rows)] = run.batches["parquet"][10]
    run.batches["parquet"][10] = [(token, at_s + 40, rows)]


def _liveness(run: Run) -> None:
    [(token, at_s, rows)] = run.batches["parquet"][19]
    run.batches["parquet"][19] = [(token, at_s + 75, rows)]


def _contents(run: Run) -> None:
    row = _first(run, "plain")
    row.value = row.value.replace("xxxx", "xxxy")


def _cut_short(run: Run) -> None:
    row = _first(run, "plain")
    row.value = row.value.removesuffix("x")


def _before_it_was_sent(run: Run) -> None:
    [(token, at_s, rows)] = run.batches[QUERY][10]
    run.batches[QUERY][10] = [(token, at_s - 6, rows)]


def _memory_jumps(run: Run) -> None:
    """A process that grows once, and by much."""
    for minute in range(41):
        mib = 500 + 40 * (minute > 25)
        run.events.append(ev.MemoryMeasured(at_s=minute * 60, process="driver", pid=1, resident_mib=mib))


def _ended_by_the_other_cluster(run: Run) -> None:
    """Only a broker of east was killed."""
    error = "evensplit.errors.ClusterUnreachable: cluster 'West': no broker answers"
    run.events.append(ev.QueryEnded(at_s=70, query=QUERY, error=error))


def _loss_that_no_broker_makes(run: Run) -> None:
    """A broker that dies loses nothing of a topic whose elections are clean."""
    error = "evensplit.errors.DataLossError: cluster 'Ost', topic 'plain': offsets 3 to 7 are gone"
    run.events.append(ev.QueryEnded(at_s=70, query=QUERY, error=error))


def _loss_of_another_topic(run: Run) -> None:
    """It is another one that is created anew, with a name that begins like it."""
    error = "evensplit.errors.DataLossError: cluster 'Ost', topic 'brief-2': offsets 3 to 7 are gone"
    run.events += [
        ev.TopicCreated(at_s=0, cluster="east", topic="brief-2", incarnation=1, partitions=1, kind="plain"),
        ev.QueryEnded(at_s=155, query=QUERY, error=error),
    ]


def _raised_while_a_process_was_killed(run: Run) -> None:
    """Spark says the same of every error in Python, so a killed process does not explain this one."""
    run.events += [
        ev.FaultBegan(at_s=110, fault=3, nemesis="python-worker-kill", what="SIGKILL of a Python process"),
        ev.FaultEnded(at_s=111, fault=3),
        ev.QueryEnded(at_s=120, query=QUERY, error=IN_PYTHON),
    ]


def _memory(run: Run) -> None:
    for minute in range(31):
        run.events.append(
            ev.MemoryMeasured(at_s=minute * 60, process="driver", pid=1, resident_mib=500 + 2 * max(0, minute - 10))
        )


def _ended(run: Run) -> None:
    run.events.append(ev.QueryEnded(at_s=120, query=QUERY, error=UNREACHABLE))


def _driver_ended(run: Run) -> None:
    run.events.append(ev.JobEnded(at_s=120, pid=1, code=1, expected=False))


def _miscounted(run: Run) -> None:
    run.counts_off[19, "a"] = 1


def _counted_twice(run: Run) -> None:
    """A batch that comes again counts one more."""
    run.batches["counted"][6].append(("b", 69.0, []))
    run.counts_off[6, "b"] = 1


def _counted_late(run: Run) -> None:
    for batch in range(10, 14):
        run.batches["counted"][batch] = [(token, 147.0, rows) for token, _, rows in run.batches["counted"][batch]]


def _stall_over_many_faults(run: Run) -> None:
    """Faults that come again before a record has to be there excuse no wait without an end."""
    for number, begin_s in enumerate(range(60, 180, 20), 10):
        run.events += [
            ev.FaultBegan(at_s=begin_s, fault=number, nemesis="cut", what="cut", clusters=("west",)),
            ev.FaultEnded(at_s=begin_s + 1, fault=number),
        ]
    run.batches["parquet"][6] = [(token, 150.0, rows) for token, _, rows in run.batches["parquet"][6]]


FAULTS: dict[Callable[[Run], None], str] = {
    _lost: "lost",
    _lost_from_log: "lost",
    _deleted_too_late: "lost",
    _removed_too_late: "lost",
    _replaced_in_another_partition: "lost",
    _repeated: "repeated",
    _repeated_by_async: "repeated",
    _batch_differs: "repeated batch differs",
    _reordered: "reordered",
    _wrong_offset: "wrong offset",
    _wrong_incarnation: "wrong incarnation",
    _wrong_place: "wrong place",
    _aborted: "aborted but seen",
    _part: "part of a transaction",
    _made_up: "made up",
    _unparsed: "made up",
    _changed: "changed",
    _changed_key: "changed",
    _stall: "stalled",
    _liveness: "liveness",
    _memory: "memory",
    _ended: "ended by itself",
    _driver_ended: "ended by itself",
    _miscounted: "miscounted",
    _counted_twice: "repeated batch differs",
    _counted_late: "stalled",
    _stall_over_many_faults: "stalled",
    _key_of_its_own: "changed",
    _key_left_out: "changed",
    _offset_of_a_lost_record: "wrong offset",
    _not_in_the_log: "not in the log",
    _nothing: "nothing delivered",
    _no_sink: "nothing delivered",
    _vanished: "vanished",
    _one_offset_twice: "history",
    _found_elsewhere: "history",
    _found_though_aborted: "history",
    _contents: "changed",
    _cut_short: "changed",
    _before_it_was_sent: "made up",
    _memory_jumps: "memory",
    _ended_by_the_other_cluster: "ended by itself",
    _loss_that_no_broker_makes: "ended by itself",
    _loss_of_another_topic: "ended by itself",
    _raised_while_a_process_was_killed: "ended by itself",
}


def test_a_faultless_run_is_held(tmp_path: Path) -> None:
    verdict = check(faultless().write(tmp_path))
    assert verdict.findings == ()
    assert verdict_text(verdict).startswith("Held; not judged in full: memory.\n")
    assert verdict.figures["repeated batches"][QUERY] == 1


@pytest.mark.parametrize("plant, kind", FAULTS.items(), ids=[plant.__name__ for plant in FAULTS])
def test_a_planted_fault_is_found_as_its_kind(tmp_path: Path, plant: Callable[[Run], None], kind: str) -> None:
    run = faultless()
    plant(run)
    found = {finding.kind for finding in check(run.write(tmp_path)).findings}
    assert found == {kind}


@pytest.mark.parametrize("topic, held", [("brief", True), ("plain", False)])
def test_a_repeated_batch_may_lack_what_was_deleted_in_the_meantime(tmp_path: Path, topic: str, held: bool) -> None:
    run = faultless()
    rows = [Row(**vars(row)) for row in run.rows(QUERY, 14) if row.topic != topic]
    run.batches[QUERY][14].append(("again", 155.0, rows))
    verdict = check(run.write(tmp_path))
    assert {finding.kind for finding in verdict.findings} == (set() if held else {"repeated batch differs"})


def test_an_end_with_a_fault_that_explains_it_is_held(tmp_path: Path) -> None:
    run = faultless()
    run.events.append(ev.QueryEnded(at_s=70, query=QUERY, error=UNREACHABLE))
    verdict = check(run.write(tmp_path))
    assert verdict.held
    assert "broker 1 of east" in verdict.figures["queries' ends"][0]["cause"]


def test_memory_that_rises_a_little_and_stays_is_no_growth(tmp_path: Path) -> None:
    run = faultless()
    for minute in range(21):
        mib = 500 + 25 * (minute > 17)
        run.events.append(ev.MemoryMeasured(at_s=minute * 60, process="driver", pid=1, resident_mib=mib))
    assert check(run.write(tmp_path)).findings == ()


def test_a_failed_fault_is_no_finding_but_is_said(tmp_path: Path) -> None:
    run = faultless()
    run.events.append(ev.FaultFailed(at_s=END_S - 1, fault=3, nemesis="disk-full", problem="no right to mount"))
    assert check(run.write(tmp_path)).sentence == "Held; not judged in full: memory; 1 fault could not be made or ended"


def test_the_checker_imports_nothing_of_the_source() -> None:
    (home,) = checker.__path__
    names = {
        node.module or ""
        for file in Path(home).glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom)
    }
    ours = tuple(f"evensplit.{name}" for name in ("errors", "testing.chaos.history", "testing.chaos.checker"))
    assert [name for name in names if name.startswith("evensplit") and not name.startswith(ours)] == []
