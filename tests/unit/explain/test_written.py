"""What a batch has written: in words, in JSON and back, and from what came of its orders."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.delivery import outcomes, protocol
from evensplit.core.delivery.account import Account
from evensplit.core.delivery.orders import (
    Acquire,
    Answer,
    Append,
    Appended,
    CheckOpen,
    End,
    Ended,
    Fate,
    ListOpen,
    LookUp,
    Order,
    ReadLast,
)
from evensplit.core.delivery.terms import Decision, State, Transaction, Written
from evensplit.explain.delivered import delivered, kept_in_ledger, sent, timed
from evensplit.explain.written import ClusterWritten, WriteOutcome, WriteReport, written_of

EU = ClusterWritten(1_204, 80_000, committed=2)
US = ClusterWritten(1, 90, committed=1)


def report(outcome: WriteOutcome = WriteOutcome.DECIDED, **clusters: ClusterWritten) -> WriteReport:
    return WriteReport("q", 7, outcome, clusters)


@pytest.mark.parametrize(
    "told, said",
    [
        (
            replace(report(eu=EU, us=US), took_ms=14),
            "wrote 1,204 records in 2 transactions to eu and 1 record in 1 transaction to us; decided in 14 ms",
        ),
        (report(WriteOutcome.WRITTEN, eu=ClusterWritten(3, 40)), "wrote 3 records to eu, at least once"),
        (
            replace(report(WriteOutcome.FINISHED, eu=ClusterWritten(9, 1, finished=1)), skipped=2),
            "finished what was decided before: 9 records in 1 transaction to eu; 2 tasks wrote nothing, since it was "
            "decided",
        ),
        (report(WriteOutcome.NOT_ENDED), "decided, and not known to be committed everywhere: so far 0 records"),
        (
            report(WriteOutcome.INCOMPLETE, eu=ClusterWritten(9, 1, committed=1, lost=2)),
            "decided, and 2 transactions lost: 9 records in 1 transaction to eu are left",
        ),
        (report(WriteOutcome.EMPTY), "wrote nothing"),
        (report(WriteOutcome.FAILED), "not known to be decided: the ledger or a cluster could not be asked"),
        (
            report(WriteOutcome.GIVEN_UP, eu=ClusterWritten(aborted=1, strays=2)),
            "wrote nothing that is visible, given up: 1 transaction aborted; 2 stray transactions aborted",
        ),
        (
            report(WriteOutcome.TOO_OLD),
            "wrote nothing that is visible, a transaction was too old: 0 transactions aborted",
        ),
        (
            report(WriteOutcome.SUPERSEDED),
            "wrote nothing that is visible, superseded by another run: 0 transactions aborted",
        ),
        (
            report(a=US, b=US, c=US, d=US, e=US),
            "wrote 1 record in 1 transaction to a, 1 record in 1 transaction to b, 1 record in 1 transaction to c and "
            "to 2 more clusters; decided",
        ),
    ],
)
def test_in_words(told: WriteReport, said: str) -> None:
    assert told.sentence() == said


COUNTS = st.integers(0, 1 << 62)
TIMES = st.none() | COUNTS
REPORTS = st.builds(
    WriteReport,
    st.text(),
    COUNTS,
    st.sampled_from(WriteOutcome),
    st.dictionaries(st.text(), st.builds(ClusterWritten, *[COUNTS] * 7), max_size=4),
    COUNTS,
    TIMES,
    TIMES,
    TIMES,
    COUNTS,
)


@given(REPORTS)
def test_through_json_and_back(told: WriteReport) -> None:
    assert written_of(json.loads(json.dumps(told.to_json()))) == told


@pytest.mark.parametrize(
    "changed",
    [
        {"batchId": -1},
        {"batchId": True},
        {"batchId": "1"},
        {"outcome": "lucky"},
        {"tookMs": 1.5},
        {"clusters": 1},
        {"clusters": [{"id": "eu"}]},
    ],
)
def test_what_is_no_report_is_refused(changed: Mapping[str, object]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        written_of({**report(eu=EU).to_json(), **changed})


def transaction(name: str, cluster: str = "eu", records: int = 10) -> Transaction:
    return Transaction(cluster, name, 1, 0, (Written("t", 0, records, 0, records),), 100 * records)


A, B, STRAY = transaction("a"), transaction("b", "us", 5), replace(transaction("s"), written=(), bytes=0)


def batch(*offered: Transaction, skipped: bool = False) -> protocol.Batch:
    return protocol.Batch("q", 7, (protocol.Offered(offered, skipped),), 0)


def run(steps: Generator[Order, Answer, outcomes.Outcome], world: World) -> tuple[outcomes.Outcome, Account]:
    """Carry out steps in a world where all is as it says."""
    account = Account()
    noting = account.noting(steps)
    try:
        order = next(noting)
        while True:
            order = noting.send(world.answer(order))
    except StopIteration as end:
        return end.value, account


class World:
    """Answers orders. `last`: what the ledger has; `uncertain`: fates of transactions that brokers do not know."""

    def __init__(
        self,
        last: Decision | None = None,
        listed: Sequence[Transaction] = (),
        uncertain: Mapping[Transaction, Fate] | None = None,
        left_ms: int = 60_000,
    ) -> None:
        self.last, self.listed, self.left_ms = last, tuple(listed), left_ms
        self.uncertain = uncertain or {}

    def answer(self, order: Order) -> Answer:
        match order:
            case Acquire():
                return None
            case ReadLast():
                return self.last
            case Append():
                return Appended.THERE
            case CheckOpen(transactions):
                return dict.fromkeys(transactions, self.left_ms)
            case End(transactions):
                return {one: Ended.UNCERTAIN if one in self.uncertain else Ended.ENDED for one in transactions}
            case LookUp(transactions):
                return {one: self.uncertain[one] for one in transactions}
            case ListOpen():
                return cast("Answer", self.listed)
            case _:
                raise AssertionError(f"{order} was not expected")


def told_of(of: protocol.Batch, world: World, steps: Generator[Order, Answer, outcomes.Outcome]) -> WriteReport:
    outcome, account = run(steps, world)
    return delivered(of, outcome, account)


def test_a_batch_that_is_decided_and_a_stray() -> None:
    found = told_of(batch(A, B), World(listed=[A, B, STRAY]), protocol.commit(batch(A, B)))
    assert found.outcome is WriteOutcome.DECIDED
    assert found.clusters == {
        "eu": ClusterWritten(10, 1_000, committed=1, strays=1),
        "us": ClusterWritten(5, 500, committed=1),
    }


def test_a_batch_that_was_decided_before() -> None:
    decided = Decision("q", 7, State.DECIDED, (A, B))
    skips = batch(skipped=True)
    found = told_of(skips, World(decided, uncertain={B: Fate.COMMITTED}), protocol.commit(skips))
    assert (found.outcome, found.skipped) == (WriteOutcome.FINISHED, 1)
    assert found.clusters == {
        "eu": ClusterWritten(10, 1_000, finished=1),
        "us": ClusterWritten(5, 500, finished=1),
    }


@pytest.mark.parametrize(
    "fate, outcome, lost",
    [(Fate.ABORTED, WriteOutcome.INCOMPLETE, 1), (Fate.OPEN, WriteOutcome.NOT_ENDED, 0)],
)
def test_what_is_not_committed_is_not_counted(fate: Fate, outcome: WriteOutcome, lost: int) -> None:
    found = told_of(batch(A, B), World(uncertain={B: fate}), protocol.commit(batch(A, B)))
    assert found.outcome is outcome
    assert found.clusters["eu"] == ClusterWritten(10, 1_000, committed=1)
    assert found.clusters.get("us", ClusterWritten()) == ClusterWritten(lost=lost)


def test_a_batch_that_is_given_up() -> None:
    found = told_of(batch(A), World(listed=[A, STRAY]), protocol.abort(batch(A)))
    assert found.outcome is WriteOutcome.GIVEN_UP
    assert found.clusters == {"eu": ClusterWritten(aborted=1, strays=1)}


def test_the_other_ends() -> None:
    empty = batch()
    assert told_of(empty, World(), protocol.commit(empty)).outcome is WriteOutcome.EMPTY
    assert told_of(batch(A), World(left_ms=1), protocol.commit(batch(A))).outcome is WriteOutcome.TOO_OLD
    later = World(Decision("q", 8, State.DECIDED, (B,)))
    assert told_of(batch(A), later, protocol.commit(batch(A))).outcome is WriteOutcome.SUPERSEDED
    skips = batch(skipped=True)
    assert told_of(skips, World(), protocol.commit(skips)).outcome is WriteOutcome.FAILED
    # A cluster did not answer.
    assert delivered(batch(A), None, Account()) == WriteReport("q", 7, WriteOutcome.FAILED)


def test_orders_that_are_not_carried_out_are_not_noted() -> None:
    account, closed = Account(), []

    def steps() -> Generator[Order, Answer, outcomes.Outcome]:
        try:
            yield End((A,), commit=True)
        finally:
            closed.append(True)
        return outcomes.NothingToDo()

    noting = account.noting(steps())
    next(noting)
    noting.close()
    assert (account.committed, closed) == ({}, [True])


def test_what_the_ledger_keeps() -> None:
    kept = kept_in_ledger(Decision("q", 7, State.DECIDED, (A, B), 5))
    assert (kept.outcome, kept.all, kept.at_ms) == (WriteOutcome.DECIDED, ClusterWritten(15, 1_500, committed=2), 5)
    assert kept_in_ledger(Decision("q", 7, State.DECIDED)).sentence() == "wrote nothing"
    given_up = kept_in_ledger(Decision("q", 7, State.ABORTED, (), 5, (STRAY,)))
    assert (given_up.outcome, given_up.all) == (WriteOutcome.GIVEN_UP, ClusterWritten(aborted=1))


def test_times_and_what_is_written_at_least_once() -> None:
    found = timed(report(eu=EU), begun_ms=100, ended_ms=140, oldest_ms=50, timeout_ms=60)
    assert (found.at_ms, found.took_ms, found.age_ms, found.timeout_ms) == (140, 40, 90, 60)
    # Clocks of two machines differ.
    assert timed(report(), begun_ms=100, ended_ms=90, oldest_ms=95, timeout_ms=60).took_ms == 0
    assert timed(report(), begun_ms=100, ended_ms=110, oldest_ms=None, timeout_ms=60).age_ms is None
    one = ClusterWritten(3, 40)
    assert sent("q", 1, {"eu": one, "us": ClusterWritten()}, 9) == WriteReport(
        "q", 1, WriteOutcome.WRITTEN, {"eu": one}, 9
    )
    assert sent("q", 1, {}, 9).outcome is WriteOutcome.EMPTY
