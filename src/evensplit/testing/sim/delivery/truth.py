"""What is true of all that was written and decided, and the laws that it is held against.

D1: what readers see was decided. D2: a batch has one decision. D3: a batch whose commit succeeded is there, each row
once; what is missing was named. D4: in the end each row is there once, in the order of its key, and nothing else.
D5: no transaction stays open. D6: a query that is restarted commits its batches. D7: what is decided is lost only by
its timeout. `crash`: the code under test raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from evensplit.core.delivery.decision_json import decode_decision, last_key
from evensplit.core.delivery.ids import ledger_id
from evensplit.core.delivery.outcomes import Committed, Finished, Incomplete, Outcome
from evensplit.core.delivery.terms import Decision, State, Transaction
from evensplit.testing.sim.delivery.broker import Cluster, Producer
from evensplit.testing.sim.delivery.shell import LEDGER, PREFIX
from evensplit.testing.sim.delivery.task import Row
from evensplit.testing.sim.delivery.world import World
from evensplit.testing.sim.failure import Broken

Name = tuple[str, Producer]


def name_of(one: Transaction) -> Name:
    """Which transaction it is, for good."""
    return one.cluster, Producer(one.transactional_id, one.producer_id, one.epoch)


class Truth:
    """Told by the clusters how each transaction ends, at the moment at which it is certain."""

    def __init__(self, world: World, clusters: Mapping[str, Cluster], queries: Sequence[str]) -> None:
        self.world = world
        self.clusters = clusters
        self.ledger_ids = {ledger_id(PREFIX, query): query for query in queries}
        self.decisions: dict[tuple[str, int], Decision] = {}
        self.decided: dict[Name, Decision] = {}
        self.committed: set[Name] = set()
        self.lost: set[Name] = set()
        self.aborted: dict[Name, tuple[int, bool]] = {}
        """When those were aborted that were not decided then, and whether by their timeout."""
        self.told: set[Name] = set()
        """What was lost, and was named in an error."""

    def ending(self, cluster: str, producer: Producer, commit: bool, expired: bool) -> None:
        """A transaction is going to be committed, or aborted, whatever happens."""
        name = (cluster, producer)
        if producer.transactional_id in self.ledger_ids:
            if commit:
                self._decide(producer)
        elif commit:
            if name not in self.decided:
                raise Broken("D1", f"{producer.transactional_id} is committed, and was not decided")
            self.committed.add(name)
        elif name in self.decided and name not in self.committed:
            self.world.note(f"LOST: {producer.transactional_id} was decided, and is aborted")
            self.lost.add(name)
            if not expired:
                self._blame(name)
        elif name not in self.committed:
            self.aborted[name] = (self.world.now_ms, expired)

    @staticmethod
    def _blame(name: Name) -> None:
        raise Broken("D7", f"{name[1].transactional_id} was decided, and someone has aborted it")

    def _decide(self, producer: Producer) -> None:
        log = self.clusters["a"].log(LEDGER)
        key = last_key(self.ledger_ids[producer.transactional_id])
        for one in log.entries[log.open.get(producer.producer_id, len(log.entries)) :]:
            if one.producer == producer and not one.marker and one.value[0] == key:  # type: ignore[index]
                self._note_decision(decode_decision(one.value[1]), producer)  # type: ignore[index]

    def _note_decision(self, decision: Decision, decider: Producer) -> None:
        self.world.note(f"DECIDED: {decision.query}, batch {decision.batch}, {decision.state}")
        before = self.decisions.get((decision.query, decision.batch))
        if decision.state is State.ABORTED:
            if before is not None:
                raise Broken("D2", f"batch {decision.batch} was decided, and is given up")
            return
        if before is not None and before.transactions != decision.transactions:
            raise Broken("D2", f"batch {decision.batch} is decided twice, with other transactions")
        self.decisions[decision.query, decision.batch] = decision
        for one in decision.transactions:
            name = name_of(one)
            self.decided[name] = decision
            if name in self.aborted:
                self.lost.add(name)
                when_ms, expired = self.aborted[name]
                if not expired:
                    self._blame(name)
                elif before is None and when_ms < self.world.looked_ms.get(decider, self.world.now_ms):
                    raise Broken("D7", f"{one.transactional_id} is decided, and had expired when the driver looked")

    def check_incomplete(self, outcome: Incomplete) -> None:
        """D3: what is said to be lost is lost, and nothing else of the batch."""
        named = {name_of(one) for one in outcome.lost}
        lost = {name_of(one) for one in outcome.decision.transactions} & self.lost
        self.told |= named
        if named != lost:
            raise Broken("D3", f"lost are {sorted(lost)}, and named were {sorted(named)}")

    def check_fine(self, query: str, batch: int, rows: Sequence[Row], outcome: Outcome) -> None:
        """D3, for a batch of which Spark was told that it is committed."""
        decision = outcome.decision if isinstance(outcome, Committed | Finished) else None
        transactions = () if decision is None else decision.transactions
        names = {name_of(one) for one in transactions}
        if names - self.committed - self.told:
            raise Broken("D3", f"batch {batch} of {query} is committed, and {names - self.committed} is not")
        if any(one not in self.told for one in names & self.lost):
            raise Broken("D3", f"batch {batch} of {query} is committed, and what is lost was not told")
        found = Counter[Row]()
        for name, producer in names:
            for log in self.clusters[name].logs.values():
                its = (one for one in log.entries if one.producer == producer and not one.marker)
                # In version 1, one producer with one epoch may have had a transaction before, which was aborted.
                told = (name, producer) in self.told
                found.update(one.value for one in its if told or one.committed is not False)  # type: ignore[misc]
        if found != Counter(rows):
            raise Broken("D3", f"batch {batch} of {query} has {len(rows)} rows, and {found.total()} are decided")

    def seen(self) -> list[Row]:
        """All rows that readers see."""
        logs = (log for cluster in self.clusters.values() for name, log in cluster.logs.items() if name != LEDGER)
        return [one.value for log in logs for one in log.committed()]  # type: ignore[misc]

    def check_seen(self, wanted: Iterable[Row] | None) -> None:
        """D4. `wanted`: all rows that have to be there; None: it is enough that none is there twice."""
        found = Counter(self.seen())
        twice = [row for row, times in found.items() if times > 1]
        if twice:
            raise Broken("D4", f"{twice[0]} is there {found[twice[0]]} times")
        latest: dict[tuple[str, int], int] = {}
        for row in self.seen():
            if row.number < latest.get((row.query, row.key), -1):
                raise Broken("D4", f"{row} comes after {latest[row.query, row.key]}")
            latest[row.query, row.key] = row.number
        if wanted is None:
            return
        missing = set(wanted) - found.keys() - self._rows_told()
        if missing or found.keys() - set(wanted):
            raise Broken("D4", f"missing: {sorted(missing)}, not wanted: {sorted(found.keys() - set(wanted))}")

    def _rows_told(self) -> set[Row]:
        logs = [(name, log) for name, cluster in self.clusters.items() for log in cluster.logs.values()]
        return {
            one.value  # type: ignore[misc]
            for name, log in logs
            for one in log.entries
            if one.producer is not None and not one.marker and (name, one.producer) in self.told
        }

    def check_ended(self) -> None:
        """D5: nothing keeps readers waiting."""
        for name, cluster in self.clusters.items():
            for log in cluster.logs.values():
                # Brokers before Kafka 3.6 begin a transaction for a record that comes late, and nobody can end it.
                if log.open and cluster.verifies:
                    raise Broken("D5", f"{log.name} in cluster {name} has an open transaction")
            if cluster.ongoing():
                raise Broken("D5", f"cluster {name} has open transactions: {cluster.ongoing()}")
