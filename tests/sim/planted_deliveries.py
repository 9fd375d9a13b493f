"""Bugs planted in the protocol of delivery, or in what carries it out: the simulator has to find each of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from evensplit.core.delivery import ids, protocol
from evensplit.core.delivery.orders import Acquire, Append, Appended, CheckOpen, Ended, ListOpen, ReadLast
from evensplit.core.delivery.outcomes import Committed, Fenced, NothingToDo, Uncertain
from evensplit.core.delivery.protocol import Judgement
from evensplit.core.delivery.terms import State
from evensplit.testing.sim.delivery import shell, task
from evensplit.testing.sim.delivery.shell import Process
from evensplit.testing.sim.delivery.task import Host
from evensplit.testing.sim.delivery.world import Call
from tests.sim.planting import swapped

Swap = tuple[str, Any, Any]


@dataclass(frozen=True)
class PlantedDelivery:
    """A bug. `laws`: those of which any may be the first that it breaks. `swaps`: what takes the place of what.

    `seed`: the one that finds it, the first from 0.
    """

    says: str
    laws: tuple[str, ...]
    swaps: tuple[Swap, ...]
    seed: int = 0
    like: str = ""
    """Which system had one like it; none is known."""

    def planted(self) -> AbstractContextManager[object]:
        """It is there for as long as this is entered."""
        stack = ExitStack()
        for name, other, where in self.swaps:
            stack.enter_context(swapped(name, other, where))
        return stack


def _read_unfenced(batch: Any) -> Any:
    last = yield ReadLast(batch.query)
    yield Acquire(batch.query)
    return last


def _uncertain_is_ended(self: Process, transactions: Any, *, commit: bool) -> Any:
    found = yield from _end(self, transactions, commit=commit)
    return {one: Ended.ENDED if said is Ended.UNCERTAIN else said for one, said in found.items()}


def _any_slot(last: bytes, batch: int) -> bool:
    return not last or last.isdigit()


def _not_used_for_it(last: bytes, batch: int) -> bool:
    return not last or (last.isdigit() and int(last) != batch)


def _used_or_asked(last: bytes, batch: int) -> bool:
    return _is_free(last.rstrip(b"?"), batch)


def _always_open(self: Process, transactions: Any) -> Any:
    found = yield from _check_open(self, transactions)
    return dict.fromkeys(found, 60_000)


def _stable_only(self: Process, query: str, *, stable: bool) -> Any:
    held, log = self._holds(), self.ledger.log(shell.LEDGER)
    if held and held.is_read:
        return held.last
    last = yield from self._ask("a", "read the ledger", lambda: shell.last_decision(log, query))
    if held:
        held.is_read, held.last = True, last
    return last


def _without_aborted(batch: Any) -> Any:
    return _answering(
        _abort(batch), lambda one: isinstance(one, Append) and one.decision.state is State.ABORTED, Appended.THERE
    )


def _answering(steps: Any, chosen: Callable[[Any], bool], said: Any) -> Generator[Any, Any, Any]:
    """Some orders are not carried out: what they answer is made up."""
    answer = None
    while True:
        try:
            order = steps.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = said if chosen(order) else (yield order)


def _empty_unseen(batch: Any) -> Any:
    """A batch without rows is nothing, whatever was decided."""
    if not batch.transactions and not any(task.skipped for task in batch.offered):
        return NothingToDo()
    return (yield from _commit(batch))


def _empty_unsaid(batch: Any) -> Any:
    yield from ()
    return NothingToDo()


def _checks_first(batch: Any) -> Generator[Any, Any, Any]:
    """What is left of transactions is looked at before open ones are listed."""
    steps, answer, left_ms = _commit(batch), None, None
    while True:
        try:
            order = steps.send(answer)
        except StopIteration as stop:
            return stop.value
        if isinstance(order, ListOpen) and batch.transactions:
            left_ms = yield CheckOpen(batch.transactions)
        answer = left_ms if isinstance(order, CheckOpen) else (yield order)


def _without_hurry(self: Process, decision: Any, within_ms: int | None) -> Any:
    return _append(self, decision, None)


@contextmanager
def _gives_back(self: Host, number: int, batch: int, then: bytes) -> Iterator[None]:
    self.slots[number] = ids.asked_for(batch)
    try:
        yield
    finally:
        if then == ids.GIVEN_BACK:
            self.slots[number] = then
    self.slots[number] = then


def _aborts_when_fenced(batch: Any) -> Any:
    outcome = yield from _commit(batch)
    if outcome in (Fenced(), Uncertain()):
        yield from _abort_rest(batch.transactions, None)
    return outcome


def _lists_late(batch: Any) -> Any:
    """What is open is listed when it is to be aborted."""
    outcome = yield from _answering(_commit(batch), lambda one: isinstance(one, ListOpen), ())
    if isinstance(outcome, Committed):
        strays = yield from protocol._list_strays(batch, None)
        yield from _abort_rest(strays, outcome.decision)
    return outcome


def _uncounted(batch: Any, last: Any, *, counted: bool) -> Any:
    return _finish(batch, last, counted=False)


def _left_open_unsaid(batch: Any, last: Any, *, counted: bool) -> Any:
    return _answering(_finish(batch, last, counted=counted), lambda one: isinstance(one, Append), Appended.THERE)


def _nothing_given_up(last: Any, batch: int, offered: Any = ()) -> Judgement:
    return _judge(last, batch)


def _decides_skipped(last: Any, batch: int, offered: Any = ()) -> Judgement:
    judged = _judge(last, batch, offered)
    return Judgement.FREE if judged is Judgement.SUPERSEDED else judged


def _ends(self: task.Attempt, producer: Any, cluster: str, number: int) -> Any:
    end = partial(self.clusters[cluster].end, producer, commit=False)
    yield from shell.ask(self.world, Call(cluster, f"abort {producer.transactional_id}", end))


_end, _check_open, _append = Process._end, Process._check_open, Process._append
_abort, _commit, _judge = protocol.abort, protocol.commit, protocol.judge
_abort_rest, _finish = protocol._abort_rest, protocol._finish_earlier
_is_free = ids.is_free

PLANTED_DELIVERIES: Mapping[str, PlantedDelivery] = {
    "read-unfenced": PlantedDelivery(
        "the ledger is read before others are fenced, and not again",
        ("D2",),
        (("_acquire", _read_unfenced, protocol),),
    ),
    "lists-late": PlantedDelivery(
        "open transactions are listed when the decision is there",
        ("D7",),
        (("commit", _lists_late, protocol),),
        seed=782,
    ),
    "uncertain-fine": PlantedDelivery(
        "what the broker does not know counts as committed",
        ("D3",),
        (("_end", _uncertain_is_ended, Process),),
        seed=34,
    ),
    "failed-task-ends": PlantedDelivery(
        "a task that fails ends its transaction, and what it has sent comes late",
        ("D1", "D4", "D5"),
        (("_abort", _ends, task.Attempt),),
    ),
    "slot-again": PlantedDelivery(
        "a slot is used again within a batch",
        ("D7",),
        (("is_free", _any_slot, task),),
        seed=28,
    ),
    "slot-of-later-batch": PlantedDelivery(
        "a slot is taken that a later batch has used",
        ("D7",),
        (("is_free", _not_used_for_it, task),),
        seed=51,
    ),
    "slot-unanswered": PlantedDelivery(
        "a slot is taken whose InitProducerId was not answered",
        ("D7",),
        (("is_free", _used_or_asked, task),),
        seed=203,
    ),
    "not-checked": PlantedDelivery(
        "it is not seen whether transactions are open",
        ("D7",),
        (("_check_open", _always_open, Process),),
        seed=10,
    ),
    "stable-end": PlantedDelivery(
        "the ledger is read to its last stable offset only",
        ("D2",),
        (("_read", _stable_only, Process),),
        seed=5,
    ),
    "empty-unseen": PlantedDelivery(
        "a batch that has no rows any more is done, without a look at the ledger",
        ("D3", "D7"),
        (("commit", _empty_unseen, protocol),),
        seed=27,
    ),
    "empty-unsaid": PlantedDelivery(
        "that a batch has no rows is not said in the ledger",
        ("D3", "D7"),
        (("_decide_empty", _empty_unsaid, protocol),),
        seed=106,
    ),
    "checks-first": PlantedDelivery(
        "what is left of transactions is looked at before open ones are listed, which takes its time",
        ("D7",),
        (("commit", _checks_first, protocol), ("LIST_MS", shell.DEADLINE_MS, shell)),
        seed=835,
    ),
    "no-hurry": PlantedDelivery(
        "a decision is sent when its transactions have expired meanwhile",
        ("D7",),
        (("_append", _without_hurry, Process),),
        seed=14041,
    ),
    "given-back-unanswered": PlantedDelivery(
        "a task that fails gives its slot back, though its abort was not answered",
        ("D7",),
        (("asking", _gives_back, Host),),
        seed=2385,
    ),
    "aborted-unsaid": PlantedDelivery(
        "a batch is given up without a word in the ledger",
        ("D7",),
        (("abort", _without_aborted, protocol),),
        seed=51,
    ),
    "left-open-unsaid": PlantedDelivery(
        "what is left open beside a decided batch is aborted without a word in the ledger",
        ("D7",),
        (("_finish_earlier", _left_open_unsaid, protocol),),
        seed=51,
    ),
    "given-up-decided": PlantedDelivery(
        "what was given up is decided all the same",
        ("D7",),
        (("judge", _nothing_given_up, protocol),),
        seed=5886,
    ),
    "fenced-aborts": PlantedDelivery(
        "who is fenced while it decides aborts what it has offered",
        ("D7",),
        (("commit", _aborts_when_fenced, protocol),),
        seed=790,
    ),
    "rows-uncounted": PlantedDelivery(
        "it is not seen that a batch has other rows than those decided",
        ("D3",),
        (("_finish_earlier", _uncounted, protocol),),
        seed=17,
    ),
    "superseded-writes": PlantedDelivery(
        "who is superseded decides all the same",
        ("D2",),
        (("judge", _decides_skipped, protocol),),
        seed=2,
    ),
}
