"""What a batch costs on the driver with 10,000 partitions, aligned beside unaligned.

    .venv/bin/python -m bench.howfar.driver_cost           about 4 minutes
    .venv/bin/python -m bench.howfar.driver_cost --quick   1,000 partitions; writes nothing

Two readers plan in turn over one real broker, called in Spark's order with what Spark passes. Each batch finds one new
record in every partition. Ratios are taken per round.
"""

from __future__ import annotations

import argparse
import statistics
import time

from rich.console import Console
from rich.table import Table

from bench.driver_bench import BROKER, PARTITIONS, READERS, Spark, Writer
from bench.howfar.results import keep
from evensplit.spark.options.parse import parse_options
from evensplit.spark.poll.cluster_poller import REFRESH_INTERVAL_S, REST_FACTOR
from evensplit.spark.stream_reader import EvenSplitStreamReader
from evensplit.testing import LocalKafka

KEY = "driverCost"
GOAL = 1.5


def main() -> None:
    """Measure, print a table, and write it down unless it was quick."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1,000 partitions; writes nothing")
    quick = parser.parse_args().quick
    topics, rounds, console = 10 if quick else 100, 5 if quick else 15, Console()
    found: dict[str, list[float]] = {"unaligned": [], "aligned": []}
    with LocalKafka(jvm_options=BROKER) as kafka, console.status("creating topics") as status:
        for number in range(topics):
            kafka.create_topic(f"topic-{number:03}", partitions=PARTITIONS)
        given = {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "subscribePattern": "topic-.*",
            "startingOffsets": "earliest",
        }
        readers = {
            "unaligned": EvenSplitStreamReader(parse_options(given), READERS),
            "aligned": EvenSplitStreamReader(parse_options({**given, "alignment": "10m"}), READERS),
        }
        sparks = {name: Spark(reader) for name, reader in readers.items()}
        writer = Writer(kafka.bootstrap_servers, topics)
        try:
            for number in range(rounds + 2):
                status.update(f"round {number + 1} of {rounds + 2}")
                writer.write(topics * PARTITIONS)
                for name in sorted(sparks, reverse=bool(number % 2)):
                    # Until the cluster may be polled again, there would be nothing new.
                    last_ms = found[name][-1] if found[name] else 0.0
                    time.sleep(max(REFRESH_INTERVAL_S, REST_FACTOR * last_ms / 1e3) + 0.05)
                    batch = sparks[name].batch()
                    if batch.ranges != topics * PARTITIONS:
                        raise RuntimeError(f"{batch.ranges} of {topics * PARTITIONS} partitions have been read")
                    found[name].append(batch.both_ms)
        finally:
            writer.close()
            for reader in readers.values():
                reader.stop()
    # Leaders, versions and caches are known after two rounds.
    taken = {name: values[2:] for name, values in found.items()}
    ratios = [mine / other for mine, other in zip(taken["aligned"], taken["unaligned"], strict=True)]
    table = Table("planning a batch", "median ms", "from", "to", title=f"{topics * PARTITIONS:,} partitions")
    for name, values in taken.items():
        table.add_row(name, *(f"{value:,.0f}" for value in (statistics.median(values), min(values), max(values))))
    console.print(table)
    console.print(
        f"aligned over unaligned: {statistics.median(ratios):.2f} [{min(ratios):.2f} to {max(ratios):.2f}] (goal: at "
        f"most {GOAL})",
        highlight=False,
    )
    if not quick:
        keep(KEY, {"partitions": topics * PARTITIONS, "milliseconds": taken, "ratios": ratios})


if __name__ == "__main__":
    main()
