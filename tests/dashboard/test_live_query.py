"""The dashboard of a real query: it shows what an independent client counts, and nothing of it ends the query."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from playwright.sync_api import Page, expect
from pyspark.sql import SparkSession

import evensplit
from evensplit.testing import LocalKafka
from tests.support.clients import NOWHERE
from tests.support.queries import stream
from tests.support.records import numbers
from tests.support.starting import started
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def own() -> Iterator[LocalKafka]:
    """A broker for one test alone, which may kill it."""
    with LocalKafka() as broker:
        yield broker


def ends(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """Where each log ends, by another client."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "witness"})
    try:
        return [consumer.get_watermark_offsets(TopicPartition(topic, one), timeout=60)[1] for one in range(partitions)]
    finally:
        consumer.close()


@pytest.mark.usefixtures("closed")
def test_a_query_as_it_runs(
    opened: Callable[..., Page],
    spark: SparkSession,
    east: LocalKafka,
    topic: str,
    checkpoint: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="evensplit")
    east.create_topic(topic, partitions=3)
    numbers(east.bootstrap_servers, topic, range(90), partitions=3)
    registration = evensplit.register(spark, dashboard_port=0)
    assert registration.dashboard_url is not None
    page = opened(registration.dashboard_url)
    frame = stream(
        spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest", readers=2, maxOffsetsPerTrigger=60
    )
    sink = frame.writeStream.format("noop").queryName(topic.replace("-", "_"))
    query = started(sink.option("checkpointLocation", str(checkpoint)))
    try:
        query.processAllAvailable()
        wait_for(lambda: registration.recorder.find(query.id) is not None, what="a listener that was told of a batch")
        # The page stays with what it showed at first: a query of another test, if there was one.
        page.goto(f"{registration.dashboard_url}?source=0:{query.id}")
        expect(page.locator("h1")).to_have_text(str(query.name))
        expect(page.locator("#batch")).to_have_text("1")
        expect(page.locator("a.cell")).to_have_count(3)
        for partition, end in enumerate(ends(east.bootstrap_servers, topic, 3)):
            cell = page.locator(f"a.cell[title*='{topic}/{partition},']")
            expect(cell).to_have_attribute("data-v", "0")
            cell.click()
            expect(page.locator("#story .now")).to_contain_text(f"next offset {end}")
            page.keyboard.press("Escape")
        # Another query of this session wants a port that is taken: it is told so, and runs.
        with socket.create_server(("127.0.0.1", 0)) as other:
            taken = other.getsockname()[1]
            assert evensplit.register(spark, dashboard_port=taken) is registration
        assert f"port {taken} of 127.0.0.1: another program listens there" in caplog.text
        numbers(east.bootstrap_servers, topic, range(90, 120), partitions=3)
        query.processAllAvailable()
        expect(page.locator("#batch")).to_have_text("2")
        expect(page.locator(".clusters td").nth(1)).to_have_text("0")
        assert query.isActive
    finally:
        query.stop()
    expect(page.locator("#status")).to_contain_text("ended")


@pytest.mark.usefixtures("closed")
def test_a_query_without_a_batch_is_there_with_what_it_waits_for_and_what_it_failed_with(
    opened: Callable[..., Page], spark: SparkSession, east: LocalKafka, topic: str
) -> None:
    registration = evensplit.register(spark, dashboard_port=0)
    failed = started(stream(spark, east.bootstrap_servers, subscribe=topic).writeStream.format("noop"))
    page = opened(f"{registration.dashboard_url}?source=0:{failed.id}")
    status = page.locator("#status")
    expect(status).to_contain_text("failed SubscriptionError")
    expect(page.locator("#error")).to_contain_text(f"topic '{topic}' does not exist")
    expect(page.locator("#error")).to_contain_text("`evensplit explain ES-105`")
    frame = stream(spark, NOWHERE, subscribe=topic, **{"kafka.request.timeout.ms": 20_000})
    query = frame.writeStream.format("noop").queryName("nowhere").start()
    try:
        page.goto(f"{registration.dashboard_url}?source=0:{query.id}")
        expect(page.locator("h1")).to_have_text("nowhere")
        expect(status).to_contain_text(f"waiting for default ({NOWHERE}) since")
        expect(status).to_contain_text("failed ClusterUnreachable")
        expect(page.locator("#error")).to_contain_text(f"{NOWHERE}: connection refused")
        expect(page.locator("#error")).to_contain_text("ES-201")
        # It is the whole width of a phone, and no more.
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    finally:
        query.stop()


@pytest.mark.usefixtures("closed")
def test_a_query_whose_only_cluster_goes_away_waits_for_it_and_so_it_does_after_a_restart(
    opened: Callable[..., Page], spark: SparkSession, topic: str, own: LocalKafka, checkpoint: Path
) -> None:
    """Long before its question fails, which would be after two minutes here."""
    own.create_topic(topic, partitions=2)
    numbers(own.bootstrap_servers, topic, range(90), partitions=2)
    registration = evensplit.register(spark, dashboard_port=0)
    wanted = {"subscribe": topic, "startingOffsets": "earliest", "kafka.request.timeout.ms": 120_000}
    sink = stream(spark, own.bootstrap_servers, **wanted).writeStream.format("noop")
    query = started(sink.option("checkpointLocation", str(checkpoint)))
    page = opened(f"{registration.dashboard_url}?source=0:{query.id}")
    status, waits = page.locator("#status"), f"waiting for default ({own.bootstrap_servers}) since"
    try:
        expect(status).to_contain_text("nothing new")
        own.kill()
        expect(status).to_contain_text(waits)
        expect(page.locator(".clusters")).to_contain_text("it has not answered within 1 s")
        query.stop()
        expect(status).to_contain_text("ended")
        registration.recorder.forget(str(query.id))
        query = started(sink.option("checkpointLocation", str(checkpoint)))
        expect(status).to_contain_text(waits)
        expect(page.locator("a.cell")).to_have_count(2)
        expect(page.locator("#timeline")).to_contain_text("the query continues from its checkpoint")
        own.start()
        expect(status).to_contain_text("nothing new")
    finally:
        query.stop()
