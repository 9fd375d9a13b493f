"""What is true of all that was written and decided, and the laws that it is held against.

D1: what readers see was decided. D2: a batch has one decision. D3: a batch whose commit succeeded is there, each row
once; what is missing was named. D4: in the end each row is there once, in the order of its key, and nothing else.
D5: no transaction stays open. D6: a query that is restarted commits its batches. D7: what is decided is lost only by
its timeout, which was not over when the decision was sent. `crash`: the code under test raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from evensplit.core.delivery.decision_json import decode_decision, last_key
from evensplit.core.delivery.ids import ledger_id
from evensplit.core.delivery.outcomes import Committed, Finished, Incomplete, Outcome
from evensplit.core.delivery.terms import Decision, State, Transaction
from evensplit.testing.sim.delivery.broker import Cluster, Entry, Producer
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
        self.empty: set[tuple[str, int]] = set()
        """Batches of which Spark was told that they have no rows."""
        self.left_out: set[Row] = set()
        """Rows which the query's code of that run did not write."""

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
                self._note_decision(decode_decision(one.value[1]))  # type: ignore[index]

    def _note_decision(self, decision: Decision) -> None:
        self.world.note(f"DECIDED: {decision.query}, batch {decision.batch}, {decision.state}")
        before = self.decisions.get((decision.query, decision.batch))
        if decision.state is State.ABORTED:
            if before is not None:
                raise Broken("D2", f"batch {decision.batch} was decided, and is given up")
            return
        if before is not None and before.transactions != decision.transactions:
            raise Broken("D2", f"batch {decision.batch} is decided twice, with other transactions")
        self.decisions[decision.query, decision.batch] = decision
        self._check_empty(decision.query, decision.batch)
        for one in decision.transactions:
            name = name_of(one)
            self.decided[name] = decision
            if name in self.aborted:
                self.lost.add(name)
                when_ms, expired = self.aborted[name]
                if not expired:
                    self._blame(name)
                elif before is None and when_ms < self.world.sent_ms:
                    raise Broken("D7", f"{one.transactional_id} is decided, and had expired when that was sent")

    def check_incomplete(self, outcome: Incomplete) -> None:
        """D3: what is said to be lost is lost, and nothing else of the batch."""
        named = {name_of(one) for one in outcome.lost}
        lost = {name_of(one) for one in outcome.decision.transactions} & self.lost
        self.told |= named
        if named != lost:
            raise Broken("D3", f"lost are {sorted(lost)}, and named were {sorted(named)}")

    def check_fine(
        self, query: str, batch: int, planned: Sequence[Row], given: Sequence[Row] | None, outcome: Outcome
    ) -> None:
        """D3, for a batch of which Spark was told that it is committed.

        `planned`: the rows of its offsets. `given`: those that its tasks had; None: others may be decided.
        """
        decision = outcome.decision if isinstance(outcome, Committed | Finished) else None
        names = {name_of(one) for one in (() if decision is None else decision.transactions)}
        if names - self.committed - self.told:
            raise Broken("D3", f"batch {batch} of {query} is committed, and {names - self.committed} is not")
        if any(one not in self.told for one in names & self.lost):
            raise Broken("D3", f"batch {batch} of {query} is committed, and what is lost was not told")
        # In version 1, one producer with one epoch may have had a transaction before, which was aborted.
        rows = Counter(
            one.value
            for name, one in self._written_by(names)
            if one.committed is not False or (name, one.producer) in self.told
        )
        # An earlier run may have decided it, with rows that it has not got any more.
        if given is not None and not Counter(given) <= rows:
            raise Broken("D3", f"batch {batch} of {query} has {len(given)} rows, and {rows.total()} are decided")
        if decision is None:
            self.empty.add((query, batch))
            self._check_empty(query, batch)
        self.left_out |= {row for row in planned if row not in rows}

    def _check_empty(self, query: str, batch: int) -> None:
        decision = self.decisions.get((query, batch))
        if decision is not None and decision.transactions and (query, batch) in self.empty:
            raise Broken("D3", f"batch {batch} of {query} is decided with rows, and Spark was told that it has none")

    def _written_by(self, names: Iterable[Name]) -> Iterator[tuple[str, Entry]]:
        """Clusters, and records in them."""
        for name, producer in names:
            for log in self.clusters[name].logs.values():
                yield from ((name, one) for one in log.entries if one.producer == producer and not one.marker)

    def rows_decided(self, query: str, batch: int) -> set[Row] | None:
        """The rows of a batch, visible or not; None if it is not decided."""
        decision = self.decisions.get((query, batch))
        if decision is None:
            return None
        return {one.value for _, one in self._written_by(map(name_of, decision.transactions))}  # type: ignore[misc]

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
        all_ = set(wanted) - self.left_out
        missing = all_ - found.keys() - self._rows_told()
        if missing or found.keys() - all_:
            raise Broken("D4", f"missing: {sorted(missing)}, not wanted: {sorted(found.keys() - all_)}")

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
                if log.open:
                    raise Broken("D5", f"{log.name} in cluster {name} has an open transaction")
            if cluster.ongoing():
                raise Broken("D5", f"cluster {name} has open transactions: {cluster.ongoing()}")
