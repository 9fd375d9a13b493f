"""What a delivery has done, noted while it is done: pure."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from evensplit.core.delivery.orders import Answer, Append, End, Ended, Fate, LookUp, Order
from evensplit.core.delivery.terms import State, Transaction

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
            case Append(decision):
                self.decided = self.decided or (answer is True and decision.state is State.DECIDED)
            case End(transactions, commit):
                ended = cast("Mapping[Transaction, Ended]", answer)
                found = self.committed if commit else self.aborted
                found.update((one, None) for one in transactions if ended.get(one) is Ended.ENDED)
            case LookUp(transactions):
                fates = cast("Mapping[Transaction, Fate]", answer)
                self.committed.update((one, None) for one in transactions if fates.get(one) is Fate.COMMITTED)
            case _:
                pass
