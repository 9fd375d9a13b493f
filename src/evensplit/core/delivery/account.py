"""What a delivery has done, noted while it is done: pure."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from evensplit.core.delivery.orders import Answer, Append, Appended, End, Ended, Fate, LookUp, Order, ReadLast
from evensplit.core.delivery.terms import Decision, State, Transaction

_Result = TypeVar("_Result")


@dataclass(slots=True)
class Account:
    """Notes what came of orders, as far as they were carried out."""

    decided: bool = False
    """Whether a batch was decided now, and not before."""

    committed: dict[Transaction, None] = field(default_factory=dict)
    """The transactions of which brokers, or the logs, have said that they are committed, in their order."""

    aborted: dict[Transaction, None] = field(default_factory=dict)
    """The transactions of which brokers have said that they are aborted."""

    fates: dict[Transaction, Fate] = field(default_factory=dict)
    """What the logs have said of transactions of which brokers have not said that they are committed."""

    _last: Decision | None = None

    def noting(self, steps: Generator[Order, Answer, _Result]) -> Generator[Order, Answer, _Result]:
        """The same steps, with what is answered noted here."""
        try:
            order = next(steps)
            while True:
                answer = yield order
                self._note(order, answer)
                order = steps.send(answer)
        except StopIteration as end:
            found: _Result = end.value
            return found
        finally:
            steps.close()

    def _note(self, order: Order, answer: Answer) -> None:
        match order:
            case ReadLast():
                self._last = cast("Decision | None", answer)
            case Append(decision):
                # What is left open beside a decided batch is given up by the same decision again, with that added.
                before = None if self._last is None else (self._last.batch, self._last.state)
                new = decision.state is State.DECIDED and before != (decision.batch, State.DECIDED)
                self.decided = self.decided or (answer is Appended.THERE and new)
            case End(transactions, commit):
                ended = cast("Mapping[Transaction, Ended]", answer)
                noted = self.committed if commit else self.aborted
                noted.update((one, None) for one in transactions if ended.get(one) is Ended.ENDED)
            case LookUp(transactions):
                fates = cast("Mapping[Transaction, Fate]", answer)
                self.fates.update(fates)
                self.committed.update((one, None) for one in transactions if fates.get(one) is Fate.COMMITTED)
            case _:
                pass
