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
from evensplit.observe.dashboard import server
from evensplit.testing import LocalKafka
from tests.support.queries import stream
from tests.support.records import numbers
from tests.support.starting import started
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Dashboards that a test has opened end with it."""
    served: dict[tuple[str, int], tuple[server.Dashboard, str | None]] = {}
    monkeypatch.setattr(server, "_served", served)
    yield
    for dashboard, _ in served.values():
        dashboard.close()


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
        assert f"port {taken} of 127.0.0.1: something else listens there" in caplog.text
        numbers(east.bootstrap_servers, topic, range(90, 120), partitions=3)
        query.processAllAvailable()
        expect(page.locator("#batch")).to_have_text("2")
        expect(page.locator(".clusters td").nth(1)).to_have_text("0")
        assert query.isActive
    finally:
        query.stop()
    expect(page.locator("#status")).to_contain_text("ended")
