"""What carries out the protocol's orders over simulated clusters, as the driver's process does over real ones."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from evensplit.core.delivery.decision_json import batch_key, decode_decision, encode_decision, last_key
from evensplit.core.delivery.ids import ledger_id, task_ids_begin
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
from evensplit.core.delivery.outcomes import Outcome
from evensplit.core.delivery.terms import ABORT_MS, LIST_MS, Decision, Transaction
from evensplit.testing.sim.delivery.broker import Cluster, Error, Log, Phase, Producer
from evensplit.testing.sim.delivery.world import LOST, Call, Failed, Sleep, Steps, World

PREFIX = "evensplit"
LEDGER = "ledger"
LEDGER_TIMEOUT_MS = 10_000
DEADLINE_MS = 30_000
"""The request timeout, as it is by default."""
PAUSE_MS = 50
MEMORY_MS = 50_000
"""How long a process believes that it holds what it has acquired; ids are forgotten after twice that."""

AGAIN = (LOST, Error.CONCURRENT_TRANSACTIONS)


def ask(world: World, call: Call, deadline_ms: int = DEADLINE_MS) -> Steps:
    """Send a request again until there is an answer. Raises Failed where there is none in time, or no time is left."""
    until_ms = world.now_ms + deadline_ms
    while world.now_ms <= until_ms:
        answer = yield call
        if not any(answer is one for one in AGAIN):
            return answer
        yield Sleep(PAUSE_MS)
    raise Failed(f"no answer in time to: {call.says}")


def last_decision(log: Log, query: str) -> Decision | None:
    """The last one that readers see."""
    key = last_key(query)
    for one in reversed(log.entries[: log.stable_end]):
        if one.committed and not one.marker:
            record: Any = one.value
            if record[0] == key:
                return decode_decision(record[1])
    return None


@dataclass
class Held:
    """What a process knows after it has acquired a query."""

    producer: Producer
    until_ms: int
    is_read: bool = False
    last: Decision | None = None


class Process:
    """A Python process of a driver. Another one knows nothing of what this one has acquired."""

    def __init__(self, world: World, clusters: Mapping[str, Cluster], name: str) -> None:
        self.world = world
        self.clusters = clusters
        self.name = name
        self.held: Held | None = None
        self.ledger = clusters["a"]

    def run(self, steps: Generator[Order, Any, Outcome]) -> Generator[Call | Sleep, Any, Outcome]:
        """Carry out all orders of `commit` or `abort`."""
        answer: Any = None
        while True:
            try:
                order = steps.send(answer)
            except StopIteration as stop:
                outcome: Outcome = stop.value
                return outcome
            self.world.note(f"{self.name}: {type(order).__name__}")
            answer = yield from self.carry_out(order)

    def carry_out(self, order: Order) -> Steps:
        """The answer to one order."""
        match order:
            case Acquire(query, anew):
                return (yield from self._acquire(query, anew=anew))
            case ReadLast(query, stable):
                return (yield from self._read(query, stable=stable))
            case Append(decision, within_ms):
                return (yield from self._append(decision, within_ms))
            case CheckOpen(transactions):
                return (yield from self._check_open(transactions))
            case End(transactions, commit):
                return (yield from self._end(transactions, commit=commit))
            case LookUp(transactions):
                return (yield from self._look_up(transactions))
            case ListOpen(query):
                return (yield from self._list_open(query))

    def _holds(self) -> Held | None:
        if self.held is not None and self.held.until_ms < self.world.now_ms:
            self.held = None
        return self.held

    def _ask(self, cluster: str, says: str, effect: Callable[[], Any], deadline_ms: int = DEADLINE_MS) -> Steps:
        return (yield from ask(self.world, Call(cluster, says, effect), deadline_ms))

    def _acquire(self, query: str, *, anew: bool) -> Steps:
        if self._holds() and not anew:
            return
        self.held = None
        name = ledger_id(PREFIX, query)
        until_ms = self.world.now_ms + MEMORY_MS
        producer = yield from self._ask("a", f"init {name}", lambda: self.ledger.init(name, LEDGER_TIMEOUT_MS))
        self.held = Held(producer, until_ms)

    def _read(self, query: str, *, stable: bool) -> Steps:
        held, log = self._holds(), self.ledger.log(LEDGER)
        if held and held.is_read:
            return held.last
        end = 0 if stable and not held else (yield from self._ask("a", "end of the ledger", lambda: len(log.entries)))
        until_ms = self.world.now_ms + DEADLINE_MS
        while end and (yield from self._ask("a", "stable end of the ledger", lambda: log.stable_end)) < end:
            if self.world.now_ms > until_ms:
                raise Failed("a transaction in the ledger is open for too long")
            yield Sleep(200)
        last = yield from self._ask("a", "read the ledger", lambda: last_decision(log, query))
        if held:
            held.is_read, held.last = True, last
        return last

    def _append(self, decision: Decision, within_ms: int | None) -> Steps:
        until_ms = self.world.now_ms + min(DEADLINE_MS, DEADLINE_MS if within_ms is None else within_ms)
        held = self._holds()
        if held is None:
            raise Failed("what was acquired is too old")
        # As long as it is not certain that it is there, this process knows nothing.
        self.held = None
        values = [
            (last_key(decision.query), encode_decision(decision)),
            (batch_key(decision.query, decision.batch), encode_decision(decision)),
        ]
        one = held.producer

        def ask_in_time(says: str, effect: Callable[[], Any]) -> Steps:
            return (yield from self._ask("a", says, effect, until_ms - self.world.now_ms))

        add = ask_in_time("add the ledger", lambda: self.ledger.add(one, LEDGER))
        if self.ledger.version == 1 and (yield from add) is not None:
            return Appended.NOT_THERE
        says = f"append that batch {decision.batch} is {decision.state}"
        answer = yield from ask_in_time(says, lambda: self.ledger.produce(one, LEDGER, 0, values))
        if not isinstance(answer, int):
            return Appended.NOT_THERE
        answer = yield from ask_in_time("commit the decision", lambda: self.ledger.end(one, commit=True))
        if not isinstance(answer, Producer):
            return Appended.UNCERTAIN
        # In version 1 the epoch stays, and a late repeat of this commit would end the next append.
        if answer.epoch != one.epoch:
            self.held = replace(held, producer=answer, last=decision, is_read=True)
        return Appended.THERE

    def _check_open(self, transactions: tuple[Transaction, ...]) -> Steps:
        ends_ms: dict[Transaction, int | None] = {}
        for one in transactions:
            name, cluster = one.transactional_id, self.clusters[one.cluster]
            said = yield from self._ask(one.cluster, f"describe {name}", lambda c=cluster, n=name: c.describe(n))  # type: ignore[misc]
            same = said is not None and (said.producer_id, said.epoch) == (one.producer_id, one.epoch)
            ends_ms[one] = said.ends_ms if same and said.phase is Phase.ONGOING else None
        return {one: None if end_ms is None else end_ms - self.world.now_ms for one, end_ms in ends_ms.items()}

    def _end(self, transactions: tuple[Transaction, ...], *, commit: bool) -> Steps:
        found: dict[Transaction, Ended] = {}
        for one in self.world.random.sample(transactions, len(transactions)):
            says = f"{'commit' if commit else 'abort'} {one.transactional_id}"
            deadline_ms = DEADLINE_MS if commit else ABORT_MS
            try:
                answer = yield from self._ask(one.cluster, says, self._ending(one, commit=commit), deadline_ms)
                found[one] = Ended.ENDED if isinstance(answer, Producer) else Ended.UNCERTAIN
            except Failed:
                found[one] = Ended.UNANSWERED
        return found

    def _ending(self, one: Transaction, *, commit: bool) -> Callable[[], object]:
        producer = Producer(one.transactional_id, one.producer_id, one.epoch)
        return lambda: self.clusters[one.cluster].end(producer, commit=commit)

    def _look_up(self, transactions: tuple[Transaction, ...]) -> Steps:
        found: dict[Transaction, Fate] = {}
        for one in transactions:
            log = self.clusters[one.cluster].log(f"{one.written[0].topic}-{one.written[0].partition}")
            number, offset = one.producer_id, one.written[0].offset_last
            until_ms = self.world.now_ms + DEADLINE_MS
            says = f"markers of {one.transactional_id}"
            try:
                while True:
                    answer = yield from self._ask(one.cluster, says, lambda g=log, n=number, o=offset: g.fate(n, o))  # type: ignore[misc]
                    if answer is not None or self.world.now_ms > until_ms:
                        break
                    yield Sleep(200)
            except Failed:
                found[one] = Fate.UNKNOWN
            else:
                found[one] = {True: Fate.COMMITTED, False: Fate.ABORTED, None: Fate.OPEN}[answer]
        return found

    def _list_open(self, query: str) -> Steps:
        found: list[Transaction] = []
        for name, cluster in self.clusters.items():
            if cluster.version < 2:
                continue
            until_ms = self.world.now_ms + LIST_MS
            try:
                ids = yield from self._ask(name, "list transactions", cluster.ongoing, LIST_MS)
                for one in ids:
                    if one.startswith(task_ids_begin(PREFIX, query)):
                        describe = partial(cluster.describe, one)
                        left_ms = until_ms - self.world.now_ms
                        said = yield from self._ask(name, f"describe {one}", describe, left_ms)
                        if said is not None and said.phase is Phase.ONGOING:
                            found.append(Transaction(name, one, said.producer_id, said.epoch, ()))
            except Failed:
                continue
        return tuple(found)
