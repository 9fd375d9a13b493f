"""Bugs planted in the protocol of delivery, or in what carries it out: the simulator has to find each of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

from evensplit.core.delivery import ids, protocol
from evensplit.core.delivery.orders import Acquire, Append, Ended, ListOpen
from evensplit.core.delivery.outcomes import Committed, Superseded
from evensplit.core.delivery.protocol import Judgement
from evensplit.core.delivery.terms import State
from evensplit.testing.sim.delivery import shell, task
from evensplit.testing.sim.delivery.shell import Process
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

    def planted(self) -> AbstractContextManager[object]:
        """It is there for as long as this is entered."""
        stack = ExitStack()
        for name, other, where in self.swaps:
            stack.enter_context(swapped(name, other, where))
        return stack


def _read_unfenced(batch: Any) -> Any:
    last = yield from protocol._read(batch)
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


def _stable_only(self: Process, query: str) -> Any:
    held, log = self._holds(), self.ledger.log(shell.LEDGER)
    if held and held.is_read:
        return held.last
    last = yield from self._ask("a", "read the ledger", lambda: shell.last_decision(log, query))
    if held:
        held.is_read, held.last = True, last
    return last


def _without_aborted(batch: Any) -> Any:
    return _answering(_abort(batch), lambda one: isinstance(one, Append) and one.decision.state is State.ABORTED, True)


def _answering(steps: Any, chosen: Callable[[Any], bool], said: Any) -> Generator[Any, Any, Any]:
    """Some orders are not carried out: what they answer is made up."""
    answer = None
    while True:
        try:
            order = steps.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = said if chosen(order) else (yield order)


def _aborts_decided(transactions: Any, last: Any) -> Any:
    return _abort_rest(transactions, None)


def _aborts_when_fenced(batch: Any) -> Any:
    outcome = yield from _commit(batch)
    if outcome == Superseded(None):
        yield from _abort_rest(batch.transactions, None)
    return outcome


def _lists_late(batch: Any) -> Any:
    """What is open is listed when it is to be aborted."""
    outcome = yield from _answering(_commit(batch), lambda one: isinstance(one, ListOpen), ())
    if isinstance(outcome, Committed):
        strays = yield from protocol._list_strays(batch)
        yield from _abort_rest(strays, outcome.decision)
    return outcome


def _uncounted(batch: Any, last: Any, *, counted: bool) -> Any:
    return _finish(batch, last, counted=False)


def _left_open_unsaid(batch: Any, last: Any, *, counted: bool) -> Any:
    return _answering(_finish(batch, last, counted=counted), lambda one: isinstance(one, Append), True)


def _nothing_given_up(last: Any, batch: int, offered: Any = ()) -> Judgement:
    return _judge(last, batch)


def _decides_skipped(last: Any, batch: int, offered: Any = ()) -> Judgement:
    judged = _judge(last, batch, offered)
    return Judgement.FREE if judged is Judgement.SUPERSEDED else judged


_end, _check_open = Process._end, Process._check_open
_abort, _commit, _judge = protocol.abort, protocol.commit, protocol.judge
_abort_rest, _finish = protocol._abort_rest, protocol._finish_earlier
_is_free = ids.is_free

PLANTED_DELIVERIES: Mapping[str, PlantedDelivery] = {
    "read-unfenced": PlantedDelivery(
        "the ledger is read before others are fenced, and not again",
        ("D2",),
        (("_acquire", _read_unfenced, protocol),),
        seed=11,
    ),
    "lists-late": PlantedDelivery(
        "open transactions are listed when the decision is there",
        ("D7",),
        (("commit", _lists_late, protocol),),
        seed=266,
    ),
    "uncertain-fine": PlantedDelivery(
        "what the broker does not know counts as committed",
        ("D3",),
        (("_end", _uncertain_is_ended, Process),),
        seed=38,
    ),
    "slot-again": PlantedDelivery(
        "a slot is used again within a batch",
        ("D7",),
        (("is_free", _any_slot, task),),
        seed=6,
    ),
    "slot-of-later-batch": PlantedDelivery(
        "a slot is taken that a later batch has used",
        ("D7",),
        (("is_free", _not_used_for_it, task),),
        seed=40,
    ),
    "slot-unanswered": PlantedDelivery(
        "a slot is taken whose InitProducerId was not answered",
        ("D7",),
        (("is_free", _used_or_asked, task),),
        seed=698,
    ),
    "not-checked": PlantedDelivery(
        "it is not seen whether transactions are open",
        ("D7",),
        (("_check_open", _always_open, Process),),
        seed=194,
    ),
    "stable-end": PlantedDelivery(
        "the ledger is read to its last stable offset only",
        ("D2",),
        (("_read", _stable_only, Process),),
        seed=10,
    ),
    "aborted-unsaid": PlantedDelivery(
        "a batch is given up without a word in the ledger",
        ("D7",),
        (("abort", _without_aborted, protocol),),
        seed=2,
    ),
    "left-open-unsaid": PlantedDelivery(
        "what is left open beside a decided batch is aborted without a word in the ledger",
        ("D7",),
        (("_finish_earlier", _left_open_unsaid, protocol),),
        seed=119,
    ),
    "given-up-decided": PlantedDelivery(
        "what was given up is decided all the same",
        ("D7",),
        (("judge", _nothing_given_up, protocol),),
        seed=910,
    ),
    "decided-aborted": PlantedDelivery(
        "what was offered is aborted, decided or not",
        ("D7",),
        (("_abort_rest", _aborts_decided, protocol),),
        seed=463,
    ),
    "fenced-aborts": PlantedDelivery(
        "who is fenced while it decides aborts what it has offered",
        ("D7",),
        (("commit", _aborts_when_fenced, protocol),),
        seed=288,
    ),
    "rows-uncounted": PlantedDelivery(
        "it is not seen that a batch has other rows than those decided",
        ("D3",),
        (("_finish_earlier", _uncounted, protocol),),
        seed=10,
    ),
    "superseded-writes": PlantedDelivery(
        "who is superseded decides all the same",
        ("D2",),
        (("judge", _decides_skipped, protocol),),
        seed=1,
    ),
}
