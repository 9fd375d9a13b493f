"""The enumerator in the simulated world, with a limit in bytes: clusters tell how long logs are, late or never."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from random import Random

import pytest

from evensplit.core.batch.limits import Caps
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.kafka.admin.protocol import LogSize
from evensplit.spark.options.parse import SourceOptions
from evensplit.testing.sim import simulate
from evensplit.testing.sim.profile import profile
from evensplit.testing.sim.stream.host import StreamHost
from evensplit.testing.sim.stream.port import RECORD_BYTES, SimPort

SEEDS = [seed for seed in range(40) if profile(seed, Random(seed)).logical][:4]
EVENTS = 400


def test_every_law_holds_with_a_limit_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch has 40 records where clusters tell how long they are, and else one of each partition, of 16 KB."""
    told: list[LogSize] = []
    options_of, sizes_of = StreamHost._options, SimPort.log_sizes

    def options(host: StreamHost) -> SourceOptions:
        found = options_of(host)
        bound = Caps(None if host.still else 40 * 3 * RECORD_BYTES)
        return replace(found, limits=replace(found.limits, bytes=bound))

    def log_sizes(port: SimPort, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogSize]:
        found = sizes_of(port, partitions)
        told.extend(found.values())
        return found

    monkeypatch.setattr(StreamHost, "_options", options)
    monkeypatch.setattr(SimPort, "log_sizes", log_sizes)
    for seed in SEEDS:
        assert simulate(seed, EVENTS).events >= EVENTS
    assert len(told) > 50
    assert all(size.bytes == size.offsets * RECORD_BYTES for size in told)
