"""Shared by the examples: a broker with records, a Spark session, arguments. Not part of evensplit."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from kafka import KafkaProducer
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka

# Spark's workers run this Python, not the `python3` on PATH, which may not have evensplit.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def command_line(description: str, *, topic: str | None = None) -> argparse.ArgumentParser:
    """A parser with `--bootstrap-servers` and, if `topic` is given, `--topic` with that default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--bootstrap-servers",
        default=os.environ.get("BOOTSTRAP_SERVERS"),
        help="your brokers (or the variable BOOTSTRAP_SERVERS); without, a broker is started and filled here",
    )
    if topic is not None:
        parser.add_argument("--topic", default=topic, help=f"the topic to read ({topic})")
    return parser


@contextmanager
def kafka(bootstrap_servers: str | None, topics: Mapping[str, Iterable[bytes]]) -> Iterator[str]:
    """The given bootstrap servers, or those of a new broker with `topics`, which runs during the `with` block."""
    if bootstrap_servers:
        yield bootstrap_servers
        return
    print("No brokers given: starting one and filling it.", flush=True)
    with LocalKafka() as broker:
        for topic, values in topics.items():
            fill(broker, topic, values)
        yield broker.bootstrap_servers


def fill(broker: LocalKafka, topic: str, values: Iterable[bytes], *, partitions: int = 3) -> None:
    """Create a topic and write `values` to its partitions in turn."""
    broker.create_topic(topic, partitions=partitions)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=5)
    sent = [producer.send(topic, value, partition=n % partitions) for n, value in enumerate(values)]
    for record in sent:
        record.get(timeout=120)
    producer.close()


def spark_session(name: str) -> SparkSession:
    """A session that logs nothing, on this machine or wherever `spark-submit` says."""
    builder = SparkSession.builder.appName(name).config("spark.log.level", "OFF").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "2")
    return builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
