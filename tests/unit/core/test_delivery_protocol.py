"""commit and abort, order by order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from evensplit.core.delivery.orders import (
    Acquire,
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
from evensplit.core.delivery.protocol import (
    Batch,
    Judgement,
    Offered,
    Steps,
    abort,
    commit,
    judge,
    judge_task,
)
from evensplit.core.delivery.terms import (
    COMMIT_MIN_MS,
    GIVEN_UP_MAX,
    LEFT_MIN_MS,
    Decision,
    State,
    Transaction,
    Written,
)

BATCH = 7


def transaction(number: int) -> Transaction:
    return Transaction("east", f"p.q.h-{number}", 100 + number, 2, (Written("t", number, 3, 10, 12),), 64)


ONE, TWO = transaction(1), transaction(2)
OFFERED = Batch("q", BATCH, (Offered((TWO,), rows=3), Offered((ONE,), rows=3), Offered(rows=0)), 1_000)
DECIDED = Decision("q", BATCH, State.DECIDED, (ONE, TWO), 1_000)
GIVEN_UP = tuple(replace(one, written=(), bytes=0) for one in (ONE, TWO))
ABORTED = Decision("q", BATCH, State.ABORTED, (), 1_000, GIVEN_UP)
EARLIER = Decision("q", BATCH - 1, State.DECIDED, (transaction(9),), 5)
SKIPPED = replace(OFFERED, offered=(Offered(skipped=True, rows=3), Offered(skipped=True, rows=3)))
READ = [ReadLast("q", stable=True), Acquire("q"), ReadLast("q")]
STRAY = Transaction("west", "p.q.h-5", 7, 0, ())
OTHER = replace(ABORTED, given_up=(STRAY,))


@dataclass
class World:
    """What the orders find; and what was ordered."""

    last: Decision | None = EARLIER
    appends: Appended = Appended.THERE
    left_ms: Mapping[Transaction, int | None] = field(default_factory=dict)
    ended: Mapping[Transaction, Ended] = field(default_factory=dict)
    fates: Mapping[Transaction, Fate] = field(default_factory=dict)
    listed: tuple[Transaction, ...] = ()
    orders: list[Order] = field(default_factory=list)

    def run(self, steps: Steps) -> Outcome:
        answer: Any = None
        while True:
            try:
                order = steps.send(answer)
            except StopIteration as stop:
                outcome: Outcome = stop.value
                return outcome
            self.orders.append(order)
            answer = self.answer(order)

    def answer(self, order: Order) -> Any:
        match order:
            case ReadLast():
                return self.last
            case Append():
                return self.appends
            case CheckOpen(transactions):
                return {one: self.left_ms.get(one, 60_000) for one in transactions}
            case End(transactions):
                return {one: self.ended.get(one, Ended.ENDED) for one in transactions}
            case LookUp(transactions):
                return {one: self.fates[one] for one in transactions}
            case ListOpen():
                return self.listed
            case _:
                return None


@pytest.mark.parametrize(
    "last, judged",
    [
        (None, Judgement.FREE),
        (EARLIER, Judgement.FREE),
        (replace(DECIDED, batch=BATCH + 1), Judgement.SUPERSEDED),
        (replace(ABORTED, batch=BATCH + 1), Judgement.SUPERSEDED),
        (DECIDED, Judgement.DECIDED),
        (OTHER, Judgement.FREE),
    ],
)
def test_what_the_last_decision_means(last: Decision | None, judged: Judgement) -> None:
    assert judge(last, BATCH, (ONE, TWO)) is judge_task(last, BATCH) is judged


@pytest.mark.parametrize("last", [ABORTED, replace(ABORTED, batch=BATCH - 1), replace(EARLIER, given_up=GIVEN_UP[:1])])
def test_what_was_given_up_may_not_be_decided_but_others_may(last: Decision) -> None:
    assert judge(last, BATCH, (ONE,)) is Judgement.GIVEN_UP
    assert judge(last, BATCH, (replace(ONE, epoch=3),)) is judge_task(last, BATCH) is Judgement.FREE


@pytest.mark.parametrize("last", [None, EARLIER, OTHER])
def test_a_batch_is_decided_and_committed(last: Decision | None) -> None:
    """What is listed before is given up with it, and what was offered is open, too."""
    world = World(last, listed=(GIVEN_UP[0], STRAY))
    decided = replace(DECIDED, given_up=(STRAY,))
    assert world.run(commit(OFFERED)) == Committed(decided)
    done = [ListOpen("q"), CheckOpen((ONE, TWO)), Append(decided, 60_000 - COMMIT_MIN_MS)]
    assert world.orders == [*READ, *done, End((ONE, TWO), commit=True), End((STRAY,), commit=False)]


def test_a_decision_has_no_more_time_than_the_oldest_transaction_leaves() -> None:
    """Nothing that takes time comes between the look and the decision, and something is left for the commit."""
    world = World(left_ms={ONE: 30_000, TWO: LEFT_MIN_MS})
    assert world.run(commit(OFFERED)) == Committed(DECIDED)
    assert world.orders[-3:-1] == [CheckOpen((ONE, TWO)), Append(DECIDED, LEFT_MIN_MS - COMMIT_MIN_MS)]


@pytest.mark.parametrize("last", [None, EARLIER, ABORTED])
@pytest.mark.parametrize("offered", [(), (Offered(rows=0),)])
def test_a_batch_without_rows_is_decided_too(last: Decision | None, offered: tuple[Offered, ...]) -> None:
    world = World(last)
    assert world.run(commit(replace(OFFERED, offered=offered))) == NothingToDo()
    assert world.orders == [*READ, Append(Decision("q", BATCH, State.DECIDED, (), 1_000))]
    world.appends = Appended.UNCERTAIN
    assert world.run(commit(replace(OFFERED, offered=offered))) == Uncertain()


def test_a_batch_that_has_no_rows_any_more_is_finished_if_it_was_decided() -> None:
    """Its tasks may not have seen the decision: they read to the last stable offset alone. And the other way round."""
    world = World(DECIDED)
    empty = replace(OFFERED, offered=(Offered(rows=0), Offered(rows=0)))
    assert world.run(commit(empty)) == Finished(DECIDED, rows=0)
    assert world.orders == [*READ, End((ONE, TWO), commit=True), ListOpen("q")]
    assert World(DECIDED).run(commit(replace(empty, accept_incomplete=BATCH))) == Finished(DECIDED)
    nothing = replace(DECIDED, transactions=())
    assert World(nothing).run(commit(empty)) == Finished(nothing)
    assert World(nothing).run(commit(OFFERED)) == MoreRows(nothing, 6)
    later = Decision("q", BATCH + 1, State.DECIDED, (TWO,))
    assert World(later).run(commit(empty)) == Superseded(later)


@pytest.mark.parametrize("steps", [commit, abort])
def test_what_was_decided_last_is_never_aborted(steps: Any) -> None:
    decided = replace(transaction(9), written=(), bytes=0)
    world = World(listed=(decided, STRAY))
    world.run(steps(OFFERED))
    (append,) = (order for order in world.orders if isinstance(order, Append))
    aborted = [order.transactions for order in world.orders if isinstance(order, End) and not order.commit]
    assert [STRAY in one for one in (append.decision.given_up, *aborted)] == [True, True]
    assert [decided in one for one in (append.decision.given_up, *aborted)] == [False, False]


@pytest.mark.parametrize("left_ms", [None, -1, LEFT_MIN_MS - 1])
def test_what_is_about_to_expire_is_not_decided(left_ms: int | None) -> None:
    world = World(left_ms={ONE: LEFT_MIN_MS, TWO: left_ms})
    assert world.run(commit(OFFERED)) == TooOld((TWO,))
    assert world.orders == [*READ, ListOpen("q"), CheckOpen((ONE, TWO))]


@pytest.mark.parametrize("steps", [commit, abort])
@pytest.mark.parametrize(
    "appended, outcome", [(Appended.NOT_THERE, Fenced()), (Appended.UNCERTAIN, Uncertain())], ids=["not", "uncertain"]
)
def test_who_is_fenced_stops_and_aborts_nothing(steps: Any, appended: Appended, outcome: Outcome) -> None:
    world = World(appends=appended)
    assert world.run(steps(OFFERED)) == outcome
    assert isinstance(world.orders[-1], Append)


@pytest.mark.parametrize("steps", [commit, abort])
def test_who_is_superseded_fences_nobody_and_aborts_its_own(steps: Any) -> None:
    last = Decision("q", BATCH + 1, State.DECIDED, (TWO,))
    world = World(last)
    assert world.run(steps(OFFERED)) == Superseded(last)
    assert world.orders == [ReadLast("q", stable=True), End((ONE,), commit=False)]


def test_what_was_given_up_is_not_decided() -> None:
    world = World(ABORTED)
    assert world.run(commit(OFFERED)) == GivenUp()
    assert world.orders == [*READ, End((ONE, TWO), commit=False)]


def test_tasks_that_skipped_need_a_decision() -> None:
    """Who holds the query may not know that another one has decided; so it acquires it anew before it says so."""
    world = World(EARLIER)
    assert world.run(commit(SKIPPED)) == DecisionMissing(EARLIER)
    assert world.orders == [ReadLast("q", stable=True), Acquire("q", anew=True), ReadLast("q")]


def test_what_was_decided_before_is_finished() -> None:
    world = World(DECIDED)
    assert world.run(commit(SKIPPED)) == Finished(DECIDED)
    assert world.orders == [*READ, End((ONE, TWO), commit=True), ListOpen("q")]


@pytest.mark.parametrize("steps", [commit, abort])
def test_what_killed_attempts_left_open_is_given_up_and_aborted(steps: Any) -> None:
    """Given up first: it may be of the next batch of a driver that has taken this one for done."""
    before = replace(DECIDED, given_up=(STRAY,))
    left = Transaction("west", "p.q.h-6", 8, 0, ())
    world = World(before, listed=(left, replace(ONE, written=(), bytes=0)))
    assert world.run(steps(SKIPPED)) == Finished(before)
    append = Append(replace(before, given_up=(left, STRAY)))
    assert world.orders == [*READ, End((ONE, TWO), commit=True), ListOpen("q"), append, End((left,), commit=False)]


def test_who_is_fenced_aborts_nothing_that_is_left_open() -> None:
    """The batch itself is finished."""
    world = World(DECIDED, appends=Appended.NOT_THERE, listed=(STRAY,))
    assert world.run(commit(SKIPPED)) == Finished(DECIDED)
    assert isinstance(world.orders[-1], Append)


def test_as_long_as_not_all_has_ended_nothing_is_given_up() -> None:
    world = World(DECIDED, ended={TWO: Ended.UNANSWERED}, fates={TWO: Fate.OPEN}, listed=(STRAY,))
    assert world.run(commit(SKIPPED)) == NotEnded(DECIDED, (TWO,))
    assert isinstance(world.orders[-1], ListOpen)


@pytest.mark.parametrize("steps", [commit, abort])
def test_what_was_offered_besides_is_aborted(steps: Any) -> None:
    decided = replace(DECIDED, transactions=(TWO,))
    world = World(decided)
    assert world.run(steps(replace(OFFERED, accept_incomplete=BATCH))) == Finished(decided)
    assert world.orders == [*READ, End((TWO,), commit=True), End((ONE,), commit=False), ListOpen("q")]


def test_other_rows_than_those_decided_are_noticed() -> None:
    """Of a batch that is repeated, Kafka may have removed some since; more are a sign of another checkpoint."""
    more = replace(SKIPPED, offered=(*SKIPPED.offered, Offered(skipped=True, rows=1)))
    assert World(DECIDED).run(commit(more)) == MoreRows(DECIDED, 7)
    assert World(DECIDED).run(commit(replace(more, accept_incomplete=BATCH))) == Finished(DECIDED)
    assert World(DECIDED).run(abort(more)) == Finished(DECIDED)
    fewer = replace(SKIPPED, offered=SKIPPED.offered[:1])
    assert World(DECIDED).run(commit(fewer)) == Finished(DECIDED, rows=3)
    assert World(DECIDED).run(commit(replace(fewer, accept_incomplete=BATCH))) == Finished(DECIDED)
    assert World(DECIDED).run(abort(fewer)) == Finished(DECIDED)
    uncounted = replace(SKIPPED, offered=(*SKIPPED.offered, Offered(skipped=True)))
    assert World(DECIDED).run(commit(uncounted)) == Finished(DECIDED)
    gone = {TWO: Ended.UNCERTAIN}
    assert World(DECIDED, ended=gone, fates={TWO: Fate.ABORTED}).run(commit(more)) == Incomplete(DECIDED, (TWO,))


@pytest.mark.parametrize("ended", [Ended.UNCERTAIN, Ended.UNANSWERED])
def test_the_logs_say_what_became_of_a_transaction(ended: Ended) -> None:
    world = World(ended={TWO: ended}, fates={TWO: Fate.COMMITTED})
    assert world.run(commit(OFFERED)) == Committed(DECIDED)
    assert world.orders[-1] == LookUp((TWO,))


@pytest.mark.parametrize("ended", [Ended.UNCERTAIN, Ended.UNANSWERED])
@pytest.mark.parametrize("fate", [Fate.OPEN, Fate.UNKNOWN])
def test_what_may_be_open_is_not_ended(ended: Ended, fate: Fate) -> None:
    world = World(ended={TWO: ended}, fates={TWO: fate})
    assert world.run(commit(OFFERED)) == NotEnded(DECIDED, (TWO,))
    assert world.orders[-1] == LookUp((TWO,))


def test_what_is_lost_is_named_until_someone_accepts_it() -> None:
    world = World(ended={TWO: Ended.UNCERTAIN}, fates={TWO: Fate.ABORTED})
    assert world.run(commit(OFFERED)) == Incomplete(DECIDED, (TWO,))
    assert world.run(commit(replace(OFFERED, accept_incomplete=BATCH - 1))) == Incomplete(DECIDED, (TWO,))
    assert world.run(commit(replace(OFFERED, accept_incomplete=BATCH))) == Committed(DECIDED, (TWO,))
    world.last = DECIDED
    assert world.run(commit(replace(SKIPPED, accept_incomplete=BATCH))) == Finished(DECIDED, (TWO,))


def test_what_nobody_can_tell_can_be_accepted_but_not_while_it_may_be_committed() -> None:
    accepting = replace(SKIPPED, accept_incomplete=BATCH)
    world = World(DECIDED, ended={TWO: Ended.UNCERTAIN}, fates={TWO: Fate.UNKNOWN})
    assert world.run(commit(accepting)) == Finished(DECIDED, (TWO,))
    world.ended = {TWO: Ended.UNANSWERED}
    assert world.run(commit(accepting)) == NotEnded(DECIDED, (TWO,))


def test_a_batch_is_given_up_before_anything_is_aborted() -> None:
    world = World(listed=(GIVEN_UP[0], STRAY))
    assert world.run(abort(OFFERED)) == GivenUp()
    given_up = replace(ABORTED, given_up=(*GIVEN_UP, STRAY))
    assert world.orders == [*READ, ListOpen("q"), Append(given_up), End((ONE, TWO, STRAY), commit=False)]


def test_what_was_given_up_before_stays_so() -> None:
    """An order to abort it may still arrive, or its task go on as if nothing had been."""
    world = World(OTHER)
    assert world.run(abort(replace(OFFERED, offered=(Offered((ONE,)),)))) == GivenUp()
    appended = Append(replace(ABORTED, given_up=(GIVEN_UP[0], STRAY)))
    assert world.orders == [*READ, ListOpen("q"), appended, End((ONE,), commit=False)]


def test_of_one_producer_the_last_epoch_alone_stays_given_up() -> None:
    """Brokers refuse those before, and so does whoever decides. Another producer under the same id is another one."""
    other = replace(GIVEN_UP[0], producer_id=99)
    world = World(replace(ABORTED, given_up=(replace(GIVEN_UP[0], epoch=1), other, replace(GIVEN_UP[1], epoch=4))))
    assert world.run(abort(OFFERED)) == GivenUp()
    given_up = (GIVEN_UP[0], replace(GIVEN_UP[1], epoch=4), other)
    assert world.orders[4] == Append(replace(ABORTED, given_up=given_up))
    assert judge(replace(ABORTED, given_up=given_up), BATCH, (replace(TWO, epoch=3),)) is Judgement.GIVEN_UP


def test_what_is_given_up_again_and_again_does_not_grow_without_end() -> None:
    before = tuple(Transaction("east", f"p.q.g-{number}", number, 0, ()) for number in range(GIVEN_UP_MAX + 5))
    world = World(replace(ABORTED, given_up=before))
    assert world.run(abort(OFFERED)) == GivenUp()
    assert world.orders[4] == Append(replace(ABORTED, given_up=(*GIVEN_UP, *before[: GIVEN_UP_MAX - 2])))
    many = tuple(Offered((replace(one, written=ONE.written),)) for one in before)
    world = World(ABORTED)
    assert world.run(abort(replace(OFFERED, offered=many))) == GivenUp()
    (append,) = (order for order in world.orders if isinstance(order, Append))
    assert set(append.decision.given_up) == set(before)


def test_where_nothing_is_open_nothing_is_aborted() -> None:
    world = World()
    assert world.run(abort(replace(OFFERED, offered=()))) == GivenUp()
    assert world.orders == [*READ, ListOpen("q"), Append(replace(ABORTED, given_up=()))]
