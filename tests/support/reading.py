"""A query's driver and tasks over real brokers, without Spark: each look and each read when a test says so."""

from __future__ import annotations

from evensplit.core.model import Loss, SplitId
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.offset_strategies import Earliest
from evensplit.core.state.state import EnumeratorState, new_losses
from evensplit.spark.driver.coordinator import Coordinator
from evensplit.spark.options.parse import SourceOptions, parse_options
from evensplit.spark.task.partition import read_partition
from evensplit.testing import LocalKafka

CLUSTER = "default"


def options_of(kafka: LocalKafka, topic: str, *, fatal: bool) -> SourceOptions:
    """All of one topic. `fatal`: a loss ends the query."""
    return parse_options(
        {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "discoveryInterval": "500ms",
            "failOnDataLoss": str(fatal),
            "kafka.request.timeout.ms": "5000",
        }
    )


class Reading:
    """A query that reads partition 0 of `topic`.

    `rows`: offset and value of each row, in the order in which they came. `losses`: what was declared. `state`: that at
    the end of the last batch.
    """

    def __init__(self, kafka: LocalKafka, topic: str, *, fatal: bool) -> None:
        self.split = SplitId(CLUSTER, topic, 0)
        self.state = EnumeratorState()
        self.rows: list[tuple[int, str]] = []
        self.losses: list[Loss] = []
        self._options = options_of(kafka, topic, fatal=fatal)
        self._coordinator = self._begun()

    def plan(self) -> EnumeratorState:
        """One look: the state at the end of the next batch, or that which there is."""
        return self._coordinator.plan(self.state, limited=False)

    def read(self, end: EnumeratorState) -> None:
        """Read the batch that ends at `end`, if there is one."""
        if end is self.state:
            return
        for partition in self._coordinator.partitions(self.state, end):
            for batch in read_partition(partition):
                values = [value.decode() for value in batch.column("value").to_pylist()]
                self.rows.extend(zip(batch.column("offset").to_pylist(), values, strict=True))
        self.losses.extend(new_losses(self.state, end))
        self.state = end
        self._coordinator.kept(end.revision)

    def step(self) -> list[tuple[int, str]]:
        """One look and the batch that comes of it; all rows so far."""
        self.read(self.plan())
        return self.rows

    def heard(self) -> int | None:
        """The epoch of the leader that the last look was an answer of, as far as it reaches the position."""
        table = self._coordinator._session.leader_epochs.get(CLUSTER, {}).get(self.split)
        return table[0].epoch if table else None

    def restart(self) -> None:
        """End the driver; another one goes on from what a checkpoint has."""
        self._coordinator.close()
        self.state = decode(encode(self.state))
        self._coordinator = self._begun()

    def close(self) -> None:
        self._coordinator.close()

    def _begun(self) -> Coordinator:
        return Coordinator(self._options, readers_default=1, starting_default=Earliest())
