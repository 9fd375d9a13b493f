"""The report of a batch that was delivered exactly once, from what came of its orders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from evensplit.core.delivery import outcomes
from evensplit.core.delivery.account import Account
from evensplit.core.delivery.protocol import Batch
from evensplit.core.delivery.terms import Decision, State, Transaction
from evensplit.explain.written import ClusterWritten, WriteOutcome, WriteReport


def delivered(batch: Batch, outcome: outcomes.Outcome | None, account: Account) -> WriteReport:
    """What a batch has written and what became of it, without times.

    `outcome`: None if a cluster or the ledger could not be asked.
    """
    found: dict[str, ClusterWritten] = {}

    def add(transactions: Iterable[Transaction], one: ClusterWritten) -> None:
        for it in transactions:
            found[it.cluster] = found.get(it.cluster, ClusterWritten()).plus(one)

    for one in account.committed:
        ended = ClusterWritten(committed=1) if account.decided else ClusterWritten(finished=1)
        add([one], ended._replace(records=one.records, bytes=one.bytes))
    offered = frozenset(map(_name, batch.transactions))
    add((one for one in account.aborted if _name(one) in offered), ClusterWritten(aborted=1))
    add((one for one in account.aborted if _name(one) not in offered), ClusterWritten(strays=1))
    if isinstance(outcome, outcomes.Committed | outcomes.Finished | outcomes.Incomplete):
        add(outcome.lost, ClusterWritten(lost=1))
    skipped = sum(task.skipped for task in batch.offered)
    return WriteReport(batch.query, batch.number, _outcome(outcome), found, skipped=skipped)


def timed(report: WriteReport, *, begun_ms: int, ended_ms: int, oldest_ms: int | None, timeout_ms: int) -> WriteReport:
    """The same with its times. All are moments in milliseconds since 1970, but `timeout_ms`.

    `oldest_ms`: when the oldest transaction was begun; None: there was none.
    """
    return replace(
        report,
        at_ms=ended_ms,
        took_ms=max(0, ended_ms - begun_ms),
        age_ms=None if oldest_ms is None else max(0, ended_ms - oldest_ms),
        timeout_ms=timeout_ms,
    )


def sent(query: str, number: int, clusters: Mapping[str, ClusterWritten], ended_ms: int) -> WriteReport:
    """The report of a batch that was written at least once. `clusters`: cluster -> records and bytes."""
    there = {name: one for name, one in clusters.items() if one.records}
    return WriteReport(query, number, WriteOutcome.WRITTEN if there else WriteOutcome.EMPTY, there, ended_ms)


def kept_in_ledger(decision: Decision) -> WriteReport:
    """The report of a batch by its decision alone: what is decided counts as committed, what is given up as aborted."""
    found: dict[str, ClusterWritten] = {}
    is_decided = decision.state is State.DECIDED
    for one in decision.transactions if is_decided else decision.given_up:
        more = ClusterWritten(one.records, one.bytes, committed=1) if is_decided else ClusterWritten(aborted=1)
        found[one.cluster] = found.get(one.cluster, ClusterWritten()).plus(more)
    outcome = WriteOutcome.DECIDED if is_decided else WriteOutcome.GIVEN_UP
    if is_decided and not decision.transactions:
        outcome = WriteOutcome.EMPTY
    return WriteReport(decision.query, decision.batch, outcome, found, decision.decided_ms)


def _outcome(outcome: outcomes.Outcome | None) -> WriteOutcome:
    match outcome:
        case outcomes.NothingToDo():
            return WriteOutcome.EMPTY
        case outcomes.Committed():
            return WriteOutcome.DECIDED
        case outcomes.Finished():
            return WriteOutcome.FINISHED
        case outcomes.GivenUp():
            return WriteOutcome.GIVEN_UP
        case outcomes.Superseded() | outcomes.Fenced() | outcomes.MoreRows():
            return WriteOutcome.SUPERSEDED
        case outcomes.TooOld():
            return WriteOutcome.TOO_OLD
        case outcomes.Incomplete():
            return WriteOutcome.INCOMPLETE
        case outcomes.NotEnded():
            return WriteOutcome.NOT_ENDED
        case _:
            # The ledger, or a cluster, could not be asked; or the ledger has lost what tasks have seen there.
            return WriteOutcome.FAILED


def _name(one: Transaction) -> tuple[str, str, int, int]:
    return one.cluster, one.transactional_id, one.producer_id, one.epoch
