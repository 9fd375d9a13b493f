"""How tests/data/checkpoints/spark was made: small checkpoints of Spark's own Kafka source, as Spark 4.2.0 writes them.

    .venv/bin/python -m tools.peer_environment
    .venv/bin/python -m tests.support.record_checkpoints

- `done`: two batches, both committed.
- `replay`: three batches, of which the last is not committed. Partition 2 begins with it.
- `first`: the first batch, not committed, which does not begin at 0.
- `several`: two sources of Kafka, and one that is not between them.
- `named`: the same sources with names, in an offset log of version 2.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from evensplit.testing import LocalKafka
from tests.support.peer_query import ROOT, Peer
from tests.support.records import numbers

PLACE = ROOT / "tests" / "data" / "checkpoints" / "spark"
NAMED = {
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "2",
}


def main() -> int:
    """Record all of them anew."""
    shutil.rmtree(PLACE, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch, LocalKafka() as kafka:
        peer = Peer(Path(scratch) / "log")
        try:
            record(kafka, peer, Path(scratch))
        finally:
            peer.close()
    return 0


def record(kafka: LocalKafka, peer: Peer, scratch: Path) -> None:
    """Write each checkpoint below PLACE."""

    def source(topic: str, name: str = "", start: str = "earliest") -> dict[str, object]:
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, "startingOffsets": start}
        return {"format": "kafka", "options": options, "name": name}

    def run(checkpoint: str, *sources: dict[str, object], error: str = "", **more: object) -> None:
        done = peer.run(
            sources=list(sources), checkpoint=str(PLACE / checkpoint), out=str(scratch / "out" / checkpoint), **more
        )
        assert (error in done["error"]) if error else not done["error"], done["error"]

    rate: dict[str, object] = {"format": "rate", "options": {}}
    kafka.create_topic("orders", partitions=2)
    kafka.create_topic("clicks", partitions=1)
    for batch in (0, 1):
        numbers(kafka.bootstrap_servers, "orders", range(10 * batch, 10 * batch + 10), partitions=2)
        numbers(kafka.bootstrap_servers, "clicks", range(3))
        run("done", source("orders"))
        run("replay", source("orders"))
        run("several", source("orders"), rate, source("clicks"))
        run("named", source("orders", "in"), {**rate, "name": "ticks"}, source("clicks", "more"), conf=NAMED)
    kafka.add_partitions("orders", 3)
    numbers(kafka.bootstrap_servers, "orders", range(20, 32), partitions=3)
    run("replay", source("orders"), error="the sink fails", fails_in=2)
    start = '{"orders": {"0": 2, "1": 3, "2": 0}}'
    run("first", source("orders", start=start), error="the sink fails", fails_in=0)


if __name__ == "__main__":
    sys.exit(main())
