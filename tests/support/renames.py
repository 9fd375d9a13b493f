"""A cluster that is known as east, and the names that it gets."""

from __future__ import annotations

from evensplit.core.machine.events import BatchPlanned, ListedCluster, PartitionsListed
from evensplit.core.model import SplitId
from tests.support.enumeration import ONE, TWO, Enumeration, listed, running

NORTH = ListedCluster("north", ("n:9092",))
N_ONE, N_TWO, N_THREE = (SplitId("north", "t", partition) for partition in range(3))
W_ONE = SplitId("west", "t", 0)


def answer(cluster: str, kafka_id: str = "K", count: int = 2, topic_id: str = "id-t") -> PartitionsListed:
    return PartitionsListed(cluster, listed("t", count, topic_id), kafka_id=kafka_id)


def known_as_east(**wanted: object) -> Enumeration:
    """East, which calls itself K, is read up to 20 by two readers, and that is durable."""
    one = running(2, 2, **wanted)  # type: ignore[arg-type]
    one.tell(answer("east"), BatchPlanned({ONE: 20, TWO: 20}))
    one.observe()
    return one
