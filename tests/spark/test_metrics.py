"""Metrics of a real query: what a scraper is told is what was written and read, and it ends with the query."""

from __future__ import annotations

import logging
import socket
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

import evensplit
from evensplit.testing import LocalKafka
from tests.support.queries import stream
from tests.support.records import numbers
from tests.support.starting import started
from tests.support.waiting import wait_for


def scraped(port: int, query: str) -> dict[str, float]:
    """The metrics of one query without its labels; of several series of a name, their sum."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.labels["query"] == query:
                found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.usefixtures("closed")
def test_a_query_is_scraped_as_long_as_it_runs(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="evensplit")
    east.create_topic(topic, partitions=3)
    numbers(east.bootstrap_servers, topic, range(90), partitions=3)
    registration = evensplit.register(spark, metrics_port=0, metrics_partitions=True)
    port = registration.metrics_port
    assert port
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest", readers=2)
    sink = frame.writeStream.format("noop").queryName(topic.replace("-", "_"))
    query = started(sink.option("checkpointLocation", str(checkpoint)))
    name = str(query.name)
    try:
        query.processAllAvailable()
        wait_for(lambda: "evensplit_records_total" in scraped(port, name), what="the first batch in the metrics")
        found = scraped(port, name)
        assert found["evensplit_offsets_total"] == found["evensplit_records_total"] == 90
        assert found["evensplit_partition_position"] == 90
        assert (found["evensplit_cluster_up"], found["evensplit_even"]) == (1, 1)
        numbers(east.bootstrap_servers, topic, range(90, 120), partitions=3)
        query.processAllAvailable()
        wait_for(lambda: scraped(port, name)["evensplit_records_total"] == 120, what="the records of both batches")
        heard_s = scraped(port, name)["evensplit_heard_timestamp_seconds"]
        wait_for(
            lambda: scraped(port, name)["evensplit_heard_timestamp_seconds"] > heard_s, what="word of an idle query"
        )
        # A port that another has harms neither the query nor what is served.
        with socket.create_server(("127.0.0.1", 0)) as other:
            taken = other.getsockname()[1]
            assert evensplit.register(spark, metrics_port=taken) is registration
        assert f"no metrics: nothing can be served at port {taken} of 127.0.0.1" in caplog.text
        assert evensplit.register(spark, metrics_port=port).metrics_port == port
        assert query.isActive
        # A scraper that takes nothing of its answer.
        with socket.create_connection(("127.0.0.1", port), timeout=60) as slow:
            slow.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            numbers(east.bootstrap_servers, topic, range(120, 150), partitions=3)
            query.processAllAvailable()
            wait_for(lambda: scraped(port, name)["evensplit_records_total"] == 150, what="the third batch")
    finally:
        query.stop()
    wait_for(lambda: not scraped(port, name), what="the end of the series")
