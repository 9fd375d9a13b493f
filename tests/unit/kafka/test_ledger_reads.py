"""How long reading the ledger may take, however many partitions and attempts that takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from evensplit.core.model import Range, SplitId
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.produce.decisions import log as module
from evensplit.kafka.produce.decisions.log import LedgerLog
from evensplit.testing.sim.fetch.network import SimulatedClock, SimulatedNetwork

SETTINGS = ClientSettings(("a:1",), request_timeout_ms=30_000)


class Reads:
    """Reads that take so many seconds each. `pools`: those that were read with, and how long each read could take."""

    def __init__(self, clock: SimulatedClock, take_s: list[float]) -> None:
        self._clock = clock
        self._take_s = take_s
        self.waited_ms: list[int] = []
        self.pools: list[Pool] = []

    def read_ranges(
        self, ranges: Sequence[Range], clusters: Mapping[str, ClientSettings], *, pool: Pool, **_: Any
    ) -> Iterator[pa.RecordBatch]:
        self.waited_ms.append(clusters["east"].progress_timeout_ms)
        self.pools.append(pool)
        self._clock.pass_us(int(self._take_s.pop(0) * 1_000_000))
        return iter(())


@pytest.mark.parametrize("partitions", [True, False])
def test_all_that_is_read_of_a_ledger_has_one_deadline(monkeypatch: pytest.MonkeyPatch, partitions: bool) -> None:
    """Several partitions, or several parts of one. Connections are the shared ones unless it takes long."""
    clock = SimulatedClock()
    shared = Pool(network=SimulatedNetwork(clock))
    reads = Reads(clock, [0.1, 9.9, 15, 6])
    monkeypatch.setattr(module, "read_ranges", reads.read_ranges)
    logs = [LedgerLog(SplitId("east", "l", number), SETTINGS, shared) for number in range(5 if partitions else 1)]
    deadline = Deadline.after(30, clock)
    with pytest.raises(ClusterUnreachable, match=r"topic 'l', partition \d: no time was left to read it"):
        assert not [one.last(b"q", 0, 10 if partitions else 5_000, deadline) for one in logs]
    assert reads.waited_ms == [30_000, 30_000, 20_000, 5_000]
    assert [pool is shared for pool in reads.pools] == [True, True, False, False]
