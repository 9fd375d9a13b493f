"""The host of examples/host.py under worse conditions than it makes for itself: it dies between an order and carrying
it out, its readers die in the middle of transactions, and those of a host that died go on until they notice.
"""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from evensplit.enumerator import Effect, Event
from evensplit.testing import LocalKafka
from tests.support.records import Draft, consume, produce

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RECORDS = 300
"""In each partition."""
PARTITIONS = {"east": 4, "west": 3}


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch, topic: str) -> tuple[ModuleType, ModuleType]:
    """The modules `host` and `_host_parts`, for this topic, with frail readers."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import _host_parts
    import host
    from tests.support import frail_readers

    monkeypatch.setattr(host, "TOPIC", topic)
    monkeypatch.setattr(_host_parts, "read", frail_readers.read)
    return host, _host_parts


class Died(Exception):
    """The host is not there any more."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_each_record_is_there_once_whenever_hosts_and_readers_die(
    seed: int,
    east: LocalKafka,
    west: LocalKafka,
    topic: str,
    parts: tuple[ModuleType, ModuleType],
    tmp_path: Path,
) -> None:
    host, around = parts
    servers, wanted = {}, set()
    for (cluster, count), broker in zip(PARTITIONS.items(), (east, west), strict=True):
        servers[cluster] = broker.bootstrap_servers
        broker.create_topic(topic, partitions=count)
        numbers = range(RECORDS * count)
        produce(broker.bootstrap_servers, topic, [Draft(b"%d" % n, partition=n % count) for n in numbers])
        found = consume(broker.bootstrap_servers, topic, range(count))
        wanted |= {(cluster, one.partition, one.offset, (one.value or b"").decode()) for one in found}
    moments, deaths = random.Random(seed), 0
    sink = around.Sink(tmp_path / "sink.sqlite")
    sink.database.executescript(around.TABLES)
    started: list[Any] = []

    class FrailHost(host.Host):  # type: ignore[name-defined, misc]
        def tell(self, *events: Event) -> None:
            super().tell(*events)
            perhaps_die()

        def carry_out(self, effect: Effect) -> list[Event]:
            perhaps_die()
            answers: list[Event] = super().carry_out(effect)
            perhaps_die()
            return answers

        def start(self, number: int) -> None:
            super().start(number)
            started.append(self.readers[number])

    def perhaps_die() -> None:
        nonlocal deaths
        if deaths < 6 and moments.random() < 0.03:
            deaths += 1
            raise Died

    clusters = ["east"]
    deadline = time.monotonic() + 400
    while sink.count() < len(wanted):
        assert time.monotonic() < deadline
        kept = host.Host.__new__(FrailHost)
        try:
            kept.__init__(sink, servers, lambda _: None)
            kept.list_clusters(*clusters)
            kept.run(until=RECORDS, kills=0)
            clusters = ["east", "west"]
            kept.list_clusters(*clusters)
            kept.run(until=len(wanted), kills=0)
        except Died:
            for reader in getattr(kept, "readers", {}).values():
                reader.pipe.close()
    for reader in kept.readers.values():
        reader.end()
    for reader in started:
        reader.process.join(60)
    written = sink.database.execute("SELECT cluster, partition, offset, value FROM records").fetchall()
    assert len(written) == len(wanted)
    assert set(written) == wanted
    assert deaths == 6
    assert sum(reader.process.exitcode == -signal.SIGKILL for reader in started) >= 3
