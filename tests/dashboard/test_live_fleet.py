"""The page of all queries over a folder with checkpoints of real ones, beside what an independent client counts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import evensplit
from evensplit.cli.history.fleet import Fleet
from evensplit.cli.history.fleet_lag import FleetLag
from evensplit.observe.dashboard import Dashboard
from evensplit.observe.recorder import Recorder
from evensplit.testing import LocalKafka
from tests.dashboard.test_live_query import ends
from tests.support.queries import stream
from tests.support.records import numbers
from tests.support.starting import started
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka]


@contextmanager
def followed(folder: Path) -> Iterator[Dashboard]:
    """The dashboard of a folder, as the command has it."""
    fleet, lag, over = Fleet([folder]), FleetLag((), (), True), threading.Event()
    with Dashboard(Recorder(), port=0, overview=True) as served:

        def follow() -> None:
            while not over.wait(0.3):
                fleet.round(served, lag)

        thread = threading.Thread(target=follow)
        thread.start()
        try:
            yield served
        finally:
            over.set()
            thread.join()
            lag.close()


@pytest.mark.usefixtures("closed")
def test_all_queries_of_a_folder(
    opened: Callable[..., Page], spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path
) -> None:
    east.create_topic(topic, partitions=3)
    numbers(east.bootstrap_servers, topic, range(90), partitions=3)
    registration = evensplit.register(spark, dashboard_port=0)

    def query(name: str, **more: object) -> StreamingQuery:
        frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest", readers=2, **more)
        sink = frame.writeStream.format("noop").queryName(f"{name}_{topic.replace('-', '_')}")
        return started(sink.option("checkpointLocation", str(tmp_path / "team" / name)))

    all_of_it, half = query("all"), query("some", maxOffsetsPerTrigger=30)
    (tmp_path / "broken" / "offsets").mkdir(parents=True)
    (tmp_path / "broken" / "offsets" / "0").write_text("v1\n{}\n{rubbish")
    (tmp_path / "broken" / "commits").mkdir()
    (tmp_path / "broken" / "commits" / "0").write_text("v1\n{}")
    try:
        for one in (all_of_it, half):
            one.processAllAvailable()
        with followed(tmp_path) as served:
            page = opened(served.url)

            def row(name: str) -> tuple[str, ...]:
                found = page.locator(".queries tbody tr", has=page.get_by_role("link", name=name, exact=True))
                expect(found).to_have_count(1)
                return tuple(found.locator("td").all_inner_texts())

            expect(page.locator(".queries tbody tr")).to_have_count(3)
            expect(page.locator(".queries tbody tr").first).to_contain_text("broken")
            wait_for(lambda: (row("team/all")[1], row("team/some")[1]) == ("0", "0"), what="a lag of nothing")
            half.stop()
            numbers(east.bootstrap_servers, topic, range(90, 150), partitions=3)
            all_of_it.processAllAvailable()
            # The one that runs has read it, the other one has not.
            left = sum(ends(east.bootstrap_servers, topic, 3)) - 90
            wait_for(lambda: row("team/some")[1] == str(left), what="the lag of the one that was stopped")
            wait_for(lambda: row("team/all")[1] == "0", what="the lag of the one that runs")
            wait_for(lambda: row("team/some")[2] not in ("0 s", "1 s"), what="records that have waited")
            page.get_by_role("link", name="team/some", exact=True).click()
            expect(page.locator("h1")).to_have_text("team/some")
            expect(page.locator("#history figure")).to_have_count(3)
        # The session has the same page of its own.
        mine = opened(f"{registration.dashboard_url}?show=all")
        names = mine.locator(".queries tbody th a")
        expect(names.filter(has_text=topic.replace("-", "_"))).to_have_count(2)
    finally:
        for one in (all_of_it, half):
            one.stop()
