"""How a batch is decided, once, by whichever driver is first: pure.

`commit` and `abort` are generators of orders. The shell carries out each order and sends back its answer; what cannot
be carried out it raises, and drops the generator: whoever comes next finds in the ledger what is true. A driver may
stop at any order, or go on from it much later.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import cast

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
from evensplit.core.delivery.outcomes import (
    Committed,
    DecisionMissing,
    Fenced,
    Finished,
    GivenUp,
    Incomplete,
    MoreRows,
    NotEnded,
    NothingToDo,
    Outcome,
    Superseded,
    TooOld,
    Uncertain,
)
from evensplit.core.delivery.terms import (
    COMMIT_MIN_MS,
    GIVEN_UP_MAX,
    LEFT_MIN_MS,
    Decision,
    State,
    Transaction,
)

Steps = Generator[Order, Answer, Outcome]


@dataclass(frozen=True, slots=True)
class Offered:
    """What one task says at its end."""

    transactions: tuple[Transaction, ...] = ()
    """One for each cluster that it has written to."""

    skipped: bool = False
    """It has found its batch decided, and has written nothing."""

    rows: int | None = None
    """How many rows it was given, written or not; None: it has not counted them."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch, with what its tasks have offered."""

    query: str
    number: int
    offered: tuple[Offered, ...]
    now_ms: int
    """The moment, in milliseconds since 1970, for people who read the decision."""

    accept_incomplete: int | None = None
    """The number of the batch of which records may be missing, if someone has said so."""

    @property
    def transactions(self) -> tuple[Transaction, ...]:
        """All that were offered, by cluster and transactional id."""
        return _sorted(one for task in self.offered for one in task.transactions)

    @property
    def rows(self) -> int | None:
        """How many rows it has; None: not all tasks have counted theirs."""
        counts = [task.rows for task in self.offered if task.rows is not None]
        return sum(counts) if len(counts) == len(self.offered) else None

    @property
    def accepted(self) -> bool:
        """Whether records of it may be missing."""
        return self.accept_incomplete == self.number


class Judgement(StrEnum):
    """What the last decision of a query means to a batch."""

    FREE = "free"
    """It may be written, and decided."""
    DECIDED = "decided"
    """It is decided: it has to be finished, and not to be written again."""
    GIVEN_UP = "given up"
    """What was offered has been given up."""
    SUPERSEDED = "superseded"
    """A later batch is decided, or was given up."""


def judge(last: Decision | None, batch: int, offered: Sequence[Transaction] = ()) -> Judgement:
    """What `last` means to `batch`, for which these transactions were offered."""
    if last is None:
        return Judgement.FREE
    if last.batch > batch:
        return Judgement.SUPERSEDED
    if last.batch == batch and last.state is State.DECIDED:
        return Judgement.DECIDED
    # Also if that is about an earlier batch: who finishes that once more gives up all that it finds open.
    given_up = {_producer(one): one.epoch for one in last.given_up}
    is_given_up = any(one.epoch <= given_up.get(_producer(one), -1) for one in offered)
    return Judgement.GIVEN_UP if is_given_up else Judgement.FREE


def judge_task(last: Decision | None, batch: int) -> Judgement:
    """What a task is to do: `FREE`, write; `DECIDED`, write nothing; else fail, since nobody could decide it."""
    return judge(last, batch)


def commit(batch: Batch) -> Steps:
    """Decide the batch and commit what was offered; or finish what was decided before."""
    last = yield from _acquire(batch)
    judged = judge(last, batch.number, batch.transactions)
    if last is not None and judged is not Judgement.FREE:
        return (yield from _take_over(batch, last, judged, counted=True))
    if any(task.skipped for task in batch.offered):
        return DecisionMissing(last)
    if not batch.transactions:
        return (yield from _decide_empty(batch))
    # As long as this batch is not decided, there is no task of a later one. So what is listed before is not of one.
    strays = yield from _list_strays(batch, last)
    # Last of all: whatever takes its time before, transactions grow older by it.
    answer = cast("Mapping[Transaction, int | None]", (yield CheckOpen(batch.transactions)))
    left_ms = {one: answer[one] or 0 for one in batch.transactions}
    old = tuple(one for one in batch.transactions if left_ms[one] < LEFT_MIN_MS)
    if old:
        return TooOld(old)
    decision = Decision(batch.query, batch.number, State.DECIDED, batch.transactions, batch.now_ms, strays)
    refused = yield from _append(decision, min(left_ms.values()) - COMMIT_MIN_MS)
    if refused is not None:
        return refused
    lost, open_ = yield from _end(batch, decision)
    yield from _abort_rest(strays, decision)
    return _outcome(batch, Committed(decision, lost), open_)


def _decide_empty(batch: Batch) -> Steps:
    """Write down that a batch has no rows: another run may have had some, and decide these once Spark has gone on."""
    refused = yield from _append(Decision(batch.query, batch.number, State.DECIDED, (), batch.now_ms))
    return NothingToDo() if refused is None else refused


def abort(batch: Batch) -> Steps:
    """Give up what was offered, and what else is open, and abort it; or finish the batch, if it was decided before."""
    last = yield from _acquire(batch)
    judged = judge(last, batch.number)
    if last is not None and judged is not Judgement.FREE:
        return (yield from _take_over(batch, last, judged, counted=False))
    strays = yield from _list_strays(batch, last)
    # What was given up before stays so: somebody may still offer it, and an order to abort it may still arrive.
    given_up = _given_up((*batch.transactions, *strays), () if last is None else last.given_up)
    refused = yield from _append(Decision(batch.query, batch.number, State.ABORTED, (), batch.now_ms, given_up))
    if refused is not None:
        return refused
    yield from _abort_rest((*batch.transactions, *strays), None)
    return GivenUp()


def _acquire(batch: Batch) -> Generator[Order, Answer, Decision | None]:
    """The last decision, which nobody else can change any more, unless the batch is superseded.

    The ledger is read before, too: who is superseded must not fence the one that has taken over. That does not wait for
    what is open there, which may be of this query's own driver that was killed: to acquire aborts it.
    """
    last = cast("Decision | None", (yield ReadLast(batch.query, stable=True)))
    if judge(last, batch.number) is Judgement.SUPERSEDED:
        return last
    # A task has found the batch decided. If this process holds the query and does not know that, it was taken over.
    skipped = any(task.skipped for task in batch.offered)
    yield Acquire(batch.query, anew=skipped and judge(last, batch.number) is not Judgement.DECIDED)
    return cast("Decision | None", (yield ReadLast(batch.query)))


def _append(decision: Decision, within_ms: int | None = None) -> Generator[Order, Answer, Fenced | Uncertain | None]:
    """Append a decision. None: it is there."""
    appended = yield Append(decision, within_ms)
    if appended is Appended.THERE:
        return None
    return Uncertain() if appended is Appended.UNCERTAIN else Fenced()


def _list_strays(batch: Batch, last: Decision | None) -> Generator[Order, Answer, tuple[Transaction, ...]]:
    """What is open of the query's tasks, and was neither offered nor decided."""
    listed = cast("tuple[Transaction, ...]", (yield ListOpen(batch.query)))
    return _without(listed, (*batch.transactions, *_decided_in(last)))


def _take_over(batch: Batch, last: Decision, judged: Judgement, *, counted: bool) -> Steps:
    """Do what the ledger says of a batch that is not free."""
    if judged is Judgement.DECIDED:
        return (yield from _finish_earlier(batch, last, counted=counted))
    yield from _abort_rest(batch.transactions, last)
    return Superseded(last) if judged is Judgement.SUPERSEDED else GivenUp()


def _finish_earlier(batch: Batch, decision: Decision, *, counted: bool) -> Steps:
    """Commit what was decided earlier, or by another process; and abort what attempts that were killed left open."""
    lost, open_ = yield from _end(batch, decision)
    yield from _abort_rest(batch.transactions, decision)
    outcome = _outcome(batch, Finished(decision, lost), open_)
    strays = yield from _list_strays(batch, decision)
    if strays and not open_:
        # Another driver may have taken the batch for done, and these may be of its next one: it must not decide them.
        given_up = _given_up(strays, decision.given_up)
        if (yield from _append(replace(decision, given_up=given_up))) is None:
            yield from _abort_rest(strays, None)
    return _compared(batch, outcome) if counted and isinstance(outcome, Finished) else outcome


def _compared(batch: Batch, done: Finished) -> Outcome:
    """What was decided, beside the rows that the batch has now."""
    written = done.decision.records
    if batch.rows is None or batch.rows == written or batch.accepted:
        return done
    # Kafka may have removed some meanwhile, by retention or compaction; but it does not add any.
    return MoreRows(done.decision, batch.rows) if batch.rows > written else replace(done, rows=batch.rows)


def _end(
    batch: Batch, decision: Decision
) -> Generator[Order, Answer, tuple[tuple[Transaction, ...], tuple[Transaction, ...]]]:
    """Commit what is decided. Which transactions are lost, and which may still be open."""
    ended = cast("Mapping[Transaction, Ended]", (yield End(decision.transactions, commit=True)))
    unsure = tuple(one for one in decision.transactions if ended[one] is not Ended.ENDED)
    fates: Mapping[Transaction, Fate] = {}
    if unsure:
        fates = cast("Mapping[Transaction, Fate]", (yield LookUp(unsure)))
    lost = tuple(one for one in unsure if _is_lost(batch, ended[one], fates[one]))
    return lost, tuple(one for one in unsure if one not in lost and fates[one] is not Fate.COMMITTED)


def _is_lost(batch: Batch, ended: Ended, fate: Fate) -> bool:
    """Whether readers will never see it. Where its records are gone, nobody can tell: that is for people to say."""
    return fate is Fate.ABORTED or (fate is Fate.UNKNOWN and ended is Ended.UNCERTAIN and batch.accepted)


def _outcome(batch: Batch, done: Committed | Finished, open_: tuple[Transaction, ...]) -> Outcome:
    if open_:
        return NotEnded(done.decision, open_)
    if done.lost and not batch.accepted:
        return Incomplete(done.decision, done.lost)
    return done


def _abort_rest(transactions: Sequence[Transaction], last: Decision | None) -> Generator[Order, Answer, None]:
    """Abort transactions; but not what is decided, whoever has decided it."""
    decided = {_name(one) for one in _decided_in(last)}
    rest = tuple(one for one in transactions if _name(one) not in decided)
    if rest:
        yield End(rest, commit=False)


def _sorted(transactions: Iterable[Transaction]) -> tuple[Transaction, ...]:
    return tuple(sorted(transactions, key=_name))


def _decided_in(last: Decision | None) -> tuple[Transaction, ...]:
    """What is decided, and so must not be aborted by anybody."""
    return last.transactions if last is not None and last.state is State.DECIDED else ()


def _without(transactions: Iterable[Transaction], others: Iterable[Transaction]) -> tuple[Transaction, ...]:
    """Each once, without what it has written; but not `others`."""
    left_out = {_name(one) for one in others}
    names = dict.fromkeys(name for name in map(_name, transactions) if name not in left_out)
    return _sorted(Transaction(*name, ()) for name in names)


def _given_up(now: Iterable[Transaction], before: Sequence[Transaction]) -> tuple[Transaction, ...]:
    """What is given up now, and then what was before, as far as it may still be offered.

    Of one producer that is the last epoch alone: brokers refuse those before.
    """
    last: dict[tuple[str, str, int], Transaction] = {}
    for one in _without(now, ()):
        last[_producer(one)] = one
    given_up = len(last)
    for one in before:
        if one.epoch > last.setdefault(_producer(one), one).epoch:
            last[_producer(one)] = one
    return tuple(last.values())[: max(given_up, GIVEN_UP_MAX)]


def _producer(one: Transaction) -> tuple[str, str, int]:
    return one.cluster, one.transactional_id, one.producer_id


def _name(one: Transaction) -> tuple[str, str, int, int]:
    return *_producer(one), one.epoch
