"""How long the audits of ten million records take: each a whole command, as a user starts it.

    make bench-audit ARGS="[--records 10000000] [--shuffled]"

For `evensplit audit topic`, a broker on this machine gets the records in transactions of a hundred thousand, and a
ledger that is made from its logs. For `evensplit audit sink`, there are a hundred Parquet files, and a checkpoint of a
hundred batches. With `--shuffled`, the rows of each file are in no order. Prints seconds, and the most memory.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer

from evensplit.cli.audit.logs import bounds_of, read_logs
from evensplit.cli.live.log_ends import settings_of
from evensplit.core.delivery.decision_json import batch_key, encode_decision, last_key
from evensplit.core.delivery.terms import Decision, State, Transaction, Written
from evensplit.core.state.spark_offsets import format_positions
from evensplit.testing import LocalKafka

PARTITIONS = 8
BATCHES = 100
VALUE = b"x" * 100
QUERY = "bench"


def written(kafka: LocalKafka, records: int) -> None:
    """Write the records, a transaction for each batch."""
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "queue.buffering.max.messages": 1_000_000}
    for _ in range(BATCHES):
        producer = Producer({**settings, "transactional.id": "task", "linger.ms": 5, "compression.type": "lz4"})
        producer.init_transactions(60)
        producer.begin_transaction()
        for number in range(records // BATCHES):
            producer.produce("orders", VALUE, partition=number % PARTITIONS)
            if number % 1_000 == 0:
                producer.poll(0)
        producer.commit_transaction(60)


def ledger(kafka: LocalKafka) -> None:
    """Decisions about all transactions in the topic."""
    settings = settings_of(kafka.bootstrap_servers, {})
    ranges, ids = bounds_of("east", settings, ["orders"])
    of: dict[tuple[int, int], list[Written]] = {}
    for split, log in read_logs(ranges, {"east": settings}, ids).items():
        for part in log.parts:
            one = Written(split.topic, split.partition, part.records, part.first, part.last)
            of.setdefault((part.producer_id, part.epoch), []).append(one)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for batch, (identity, parts) in enumerate(sorted(of.items())):
        value = encode_decision(
            Decision(QUERY, batch, State.DECIDED, (Transaction("east", "task", *identity, tuple(sorted(parts))),))
        )
        for key in (last_key(QUERY), batch_key(QUERY, batch)):
            producer.produce("evensplit-ledger", value, key)
    assert producer.flush(60) == 0


def sink(place: Path, records: int, *, shuffled: bool) -> None:
    """Parquet files, a file for each batch, and the checkpoint of a query that has read all of them."""
    each = records // BATCHES // PARTITIONS
    dice = np.random.default_rng(0)
    (place / "sink").mkdir()
    for name in ("offsets", "commits"):
        (place / "checkpoint" / name).mkdir(parents=True)
    (place / "checkpoint" / "sources" / "0").mkdir(parents=True)
    keys = [("orders", number) for number in range(PARTITIONS)]
    start = format_positions(dict.fromkeys(keys, 0))
    (place / "checkpoint" / "sources" / "0" / "0").write_bytes(b"\0v1\n" + start.encode())
    for batch in range(BATCHES):
        partitions = np.repeat(np.arange(PARTITIONS, dtype=np.int32), each)
        offsets = np.tile(np.arange(batch * each, (batch + 1) * each), PARTITIONS)
        order = dice.permutation(offsets.size) if shuffled else np.arange(offsets.size)
        topics = pa.DictionaryArray.from_arrays(np.zeros(offsets.size, np.int32), ["orders"]).cast(pa.string())
        columns = {"topic": topics, "partition": partitions[order], "offset": offsets[order]}
        values = pa.array(np.full(offsets.size, VALUE.decode()))
        pq.write_table(pa.table({**columns, "value": values}), place / "sink" / f"part-{batch:05}.parquet")
        end = format_positions(dict.fromkeys(keys, (batch + 1) * each))
        (place / "checkpoint" / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{end}")
        (place / "checkpoint" / "commits" / str(batch)).write_text("v1\n{}")


def timed(*arguments: str) -> None:
    """Run the command, and print what it says, how long it took, and its memory."""
    began_s = time.perf_counter()
    subprocess.run([sys.executable, "-m", "evensplit.cli", "audit", *arguments], check=True)
    took_s = time.perf_counter() - began_s
    kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"audit {arguments[0]}: {took_s:.1f} s; the largest process so far had {kib / 1024:,.0f} MiB", flush=True)


def main() -> None:
    """Make the data, and run both commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--shuffled", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        sink(place, given.records, shuffled=given.shuffled)
        timed("sink", str(place / "sink"), "--checkpoint", str(place / "checkpoint"))
    with LocalKafka() as kafka:
        kafka.create_topic("orders", PARTITIONS)
        kafka.create_topic("evensplit-ledger")
        written(kafka, given.records)
        ledger(kafka)
        timed("topic", "orders", "--bootstrap-servers", kafka.bootstrap_servers)


if __name__ == "__main__":
    main()
