"""What the outcomes of a commit are to a query, and what tasks and the driver's side tell each other."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from dataclasses import replace

import pytest

from evensplit.core.delivery import outcomes
from evensplit.core.delivery.orders import Fate
from evensplit.core.delivery.terms import Decision, State, Transaction, Written
from evensplit.errors import ClusterUnreachable
from evensplit.errors.writing import (
    BatchIncomplete,
    DecisionUncertain,
    LedgerError,
    RunSuperseded,
    TransactionNotEnded,
    TransactionTooOld,
    WriteError,
)
from evensplit.spark.sink import deciding
from evensplit.spark.sink.deciding import abort, commit, error_of
from evensplit.spark.sink.messages import TaskMessage, TaskPlace, place_in
from evensplit.spark.sink.options import parse_writing
from evensplit.spark.sink.task import write_rows_of_stream
from tests.support.written import struct_type

ONE = Transaction("east", "evensplit.q.h-0", 7, 3, (Written("t", 0, 5, 10, 14), Written("t", 2, 1, 0, 0)))
OTHER = Transaction("west", "evensplit.q.h-0", 8, 0, (Written("u", 0, 2, 0, 1),))
DECISION = Decision("q", 4, State.DECIDED, (ONE,))


def _raise(outcome: outcomes.Outcome) -> None:
    error = error_of(outcome, "q", 3, "west")
    assert error is not None
    assert "batch 3" in str(error)
    raise error


@pytest.mark.parametrize(
    "outcome, part",
    [
        (outcomes.Fenced(), "not decided. Another process has begun to decide"),
        (outcomes.Superseded(DECISION), "the ledger has batch 4, decided"),
        (outcomes.GivenUp(), "given up before"),
        (outcomes.MoreRows(DECISION, 9), "the query was changed"),
        (outcomes.MoreRows(DECISION, 9), "written with 6 rows, and now it has 9"),
    ],
)
def test_what_another_one_decides_is_superseded(outcome: outcomes.Outcome, part: str) -> None:
    with pytest.raises(RunSuperseded, match=part):
        _raise(outcome)


def test_what_the_ledger_refused_may_be_decided() -> None:
    with pytest.raises(DecisionUncertain, match=r"may have it all the same\. Another.* cluster 'west'"):
        _raise(outcomes.Uncertain())


def test_what_expired_before_it_was_decided_is_too_old() -> None:
    found = r"cluster 'east': t/0 \(5 records\), t/2 \(1 record\)\. Nothing was decided"
    with pytest.raises(TransactionTooOld, match=found):
        _raise(outcomes.TooOld((ONE,)))


def test_what_is_decided_and_open_is_not_ended() -> None:
    places = (
        r"all of it is committed\. No coordinator has answered: cluster 'east': t/0 \(5 records\), t/2 \(1 record\); "
        r"cluster 'west': u/0 \(2 records\)"
    )
    with pytest.raises(TransactionNotEnded, match=places):
        _raise(outcomes.NotEnded(replace(DECISION, batch=3), (ONE, OTHER)))


def test_why_it_is_not_ended_is_said_of_each() -> None:
    """Only of what the logs will never tell, it can be said that it may be missing."""

    def said(**fates: Fate) -> str:
        by_cluster = {ONE: fates.get("east"), OTHER: fates.get("west")}
        known = {one: fate for one, fate in by_cluster.items() if fate is not None}
        return str(error_of(outcomes.NotEnded(DECISION, (ONE, OTHER)), "q", 3, "west", known))

    both = said(east=Fate.UNKNOWN, west=Fate.OPEN)
    assert "Still open: cluster 'west': u/0 (2 records). Restart the query" in both
    assert "The logs do not tell: cluster 'east': t/0 (5 records), t/2 (1 record)." in both
    assert f"set acceptIncomplete to {DECISION.batch}" in both
    assert "coordinator" not in both
    some = said(east=Fate.OPEN)
    assert "No coordinator has answered: cluster 'west': u/0 (2 records)" in some
    assert "acceptIncomplete" not in some


def test_what_is_decided_and_lost_is_incomplete() -> None:
    with pytest.raises(BatchIncomplete, match="set acceptIncomplete to 3") as raised:
        _raise(outcomes.Incomplete(replace(DECISION, batch=3), (ONE,)))
    assert (raised.value.batch, raised.value.partitions) == (3, ("t/0 (5 records)", "t/2 (1 record)"))
    # Each partition once, however many tasks have written to it.
    with pytest.raises(BatchIncomplete) as raised:
        _raise(outcomes.Incomplete(replace(DECISION, batch=3), (ONE, replace(ONE, producer_id=8), OTHER)))
    assert raised.value.cluster == "east, west"
    assert raised.value.partitions == ("t/0 (10 records)", "t/2 (2 records)", "u/0 (2 records)")


def test_an_error_about_an_earlier_batch_has_the_number_of_that() -> None:
    """As one that another run has decided and left, while this one had no rows of it."""
    for outcome in (outcomes.NotEnded(DECISION, (ONE,)), outcomes.Incomplete(DECISION, (ONE,))):
        said = str(error_of(outcome, "q", 5, "west"))
        assert "batch 4" in said
        assert "5 " not in said.replace("t/0 (5 ", "")


def test_a_decision_that_is_gone_is_the_ledgers_error() -> None:
    with pytest.raises(LedgerError, match="cluster 'west'"):
        _raise(outcomes.DecisionMissing(None))


class Conducted:
    """Does nothing, and says what came of it."""

    def __init__(self, outcome: outcomes.Outcome) -> None:
        self._outcome = outcome

    def conduct(self, _: object) -> outcomes.Outcome:
        return self._outcome


def test_a_commit_that_fails_raises_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = parse_writing({"kafka.bootstrap.servers": "b:1", "topic": "t"}, struct_type("value string"), stream=True)

    def commit_to(outcome: outcomes.Outcome) -> None:
        monkeypatch.setattr(deciding, "_conductor", lambda *_: Conducted(outcome))
        commit(parsed, [TaskMessage(6, "q", (ONE,))], 4)

    with pytest.raises(RunSuperseded):
        commit_to(outcomes.GivenUp())
    with pytest.raises(TransactionNotEnded):
        commit_to(outcomes.NotEnded(DECISION, (ONE,)))
    with pytest.raises(TransactionTooOld):
        commit_to(outcomes.TooOld((ONE,)))
    with pytest.raises(BatchIncomplete):
        commit_to(outcomes.Incomplete(DECISION, (ONE,)))
    commit_to(outcomes.Finished(DECISION, (ONE,)))


def test_fewer_rows_than_were_decided_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    parsed = parse_writing({"kafka.bootstrap.servers": "b:1", "topic": "t"}, struct_type("value string"), stream=True)
    monkeypatch.setattr(deciding, "_conductor", lambda *_: Conducted(outcomes.Finished(DECISION, rows=2)))
    commit(parsed, [TaskMessage(6, "q", (ONE,))], 4)
    (line,) = (one.getMessage() for one in caplog.records if one.name == deciding.log.name)
    assert "query q, batch 4: it was decided and written with 6 rows, and now has 2" in line


@pytest.mark.parametrize(
    "outcome, said",
    [
        (outcomes.GivenUp(), (logging.INFO, "query q, batch 4: given up, and its transactions are aborted")),
        (outcomes.Finished(DECISION), None),
        (outcomes.Uncertain(), (logging.WARNING, "Another process has begun to decide")),
        (outcomes.NotEnded(DECISION, (ONE,)), (logging.WARNING, "decided, and not all of it is committed")),
        (outcomes.Incomplete(DECISION, (ONE,)), (logging.WARNING, "set acceptIncomplete to 4")),
    ],
)
def test_an_abort_warns_only_of_what_somebody_has_to_look_at(
    outcome: outcomes.Outcome,
    said: tuple[int, str] | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    parsed = parse_writing({"kafka.bootstrap.servers": "b:1", "topic": "t"}, struct_type("value string"), stream=True)
    monkeypatch.setattr(deciding, "_conductor", lambda *_: Conducted(outcome))
    with caplog.at_level(logging.INFO, "evensplit"):
        abort(parsed, [TaskMessage(6, "q", (ONE,))], 4)
    lines = [(one.levelno, one.getMessage()) for one in caplog.records if one.name == deciding.log.name]
    assert [level for level, _ in lines] == ([] if said is None else [said[0]])
    assert said is None or said[1] in lines[0][1]


@pytest.mark.parametrize(
    "outcome", [outcomes.NothingToDo(), outcomes.Committed(DECISION, (ONE,)), outcomes.Finished(DECISION)]
)
def test_outcomes_that_are_none(outcome: outcomes.Outcome) -> None:
    assert error_of(outcome, "q", 3, "west") is None


def test_a_batch_of_which_nobody_has_said_anything_asks_nobody() -> None:
    """Its cluster does not exist. A task without rows says of which query it is, and the ledger is asked."""
    options = {"kafka.bootstrap.servers": "nowhere.invalid:1", "topic": "t", "kafka.request.timeout.ms": "200"}
    parsed = parse_writing(options, struct_type("value string"), stream=True)
    commit(parsed, [], 3)
    with pytest.raises(ClusterUnreachable):
        commit(parsed, [TaskMessage(0, "q")], 3)


@pytest.mark.parametrize("message", [TaskMessage(6, "", (ONE,)), TaskMessage(6, "", skipped=True)])
def test_what_was_offered_by_nobody_knows_whom_is_not_passed_over(message: TaskMessage) -> None:
    """Spark would take the batch for written."""
    options = {"kafka.bootstrap.servers": "nowhere.invalid:1", "topic": "t"}
    parsed = parse_writing(options, struct_type("value string"), stream=True)
    for end in (commit, abort):
        with pytest.raises(WriteError, match="batch 3: tasks have written, and have not told of which query"):
            end(parsed, [message], 3)


@pytest.mark.parametrize("place", [TaskPlace(0, 1, "", 3, "r"), TaskPlace(0, 1, "q", -1, "r")])
def test_a_task_that_spark_tells_too_little_writes_nothing(place: TaskPlace) -> None:
    options = {"kafka.bootstrap.servers": "nowhere.invalid:1", "topic": "t"}
    parsed = parse_writing(options, struct_type("value string"), stream=True)
    with pytest.raises(WriteError, match=r"sql\.streaming\.queryId, streaming\.sql\.batchId"):
        write_rows_of_stream(parsed, place, iter(()))


def test_a_message_is_small_and_needs_little_to_be_read() -> None:
    message = TaskMessage(6, "q", (ONE,), 1_700_000_000_000)
    data = pickle.dumps(message)
    assert pickle.loads(data) == message
    assert len(data) < 700
    program = (
        "import pickle, sys; pickle.load(sys.stdin.buffer); "
        "print([one for one in sys.modules if one.split('.')[0] in ('pyarrow', 'py4j') or one == 'evensplit._kernel'])"
    )
    done = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, check=True, timeout=60)
    assert b"pyarrow" not in done.stdout
    assert b"_kernel" not in done.stdout


class Context:
    """A task's context, as Spark gives it."""

    def __init__(self, **properties: str) -> None:
        self._properties = properties

    def partitionId(self) -> int:  # noqa: N802
        return 3

    def taskAttemptId(self) -> int:  # noqa: N802
        return 17

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        return self._properties.get(name)


def test_where_a_task_is() -> None:
    batch = place_in(Context())  # type: ignore[arg-type]
    assert (batch.partition, batch.attempt, batch.query, batch.batch, batch.run) == (3, 17, "", -1, "")
    stream = {"sql.streaming.queryId": "q", "streaming.sql.batchId": "12", "spark.jobGroup.id": "r"}
    place = place_in(Context(**stream))  # type: ignore[arg-type]
    assert (place.query, place.batch, place.run) == ("q", 12, "r")
