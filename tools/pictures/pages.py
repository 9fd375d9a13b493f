"""The pictures of the page of one query and of all: `python -m tools.pictures.pages`. Needs Chromium on PATH."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from evensplit.core.model import Held, SplitId
from evensplit.core.state.codec import encode
from evensplit.observe.dashboard import Dashboard
from evensplit.observe.health.unreadable import Unreadable
from evensplit.observe.recorder import QueryStatus, Recorder
from evensplit.observe.source_view import Source
from tests.support.batches import orders

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
BATCHES = 40
STEP_S = 30
WIDTH = 1280


def play(
    recorder: Recorder,
    name: str,
    *,
    read: int | None = None,
    held: str = "",
    busy: float = 0.3,
    away: bool = False,
    lost: bool = False,
) -> None:
    """A query with forty batches. `busy`: for what share of the time it reads."""
    script = orders({"eu": 12, "us": 6}, query=name, name=name, readers=4)  # type: ignore[arg-type]
    script.at_ms = round(time.time() * 1000) - 1000 * STEP_S * BATCHES - 5_000
    for number in range(BATCHES):
        script.write(900 + number * 37 % 200)
        script.read(read)
        if away and number > BATCHES - 5:
            script.unreachable["us"] = "no broker of us-1:9092 answered within 10 s"
        if lost and number == BATCHES - 10:
            script.lose(SplitId("eu", "orders", 1), 700)
        batch = script.batch(seconds=STEP_S)
        took_ms = round(1000 * STEP_S * busy) + number * 97 % 900
        end = replace(batch.end, held=(Held(held, ""),) if held else ())
        recorder.add(replace(batch, end=end, duration_ms=took_ms), encode(end), heard_ms=script.at_ms + 4_000)


def queries() -> Recorder:
    """Some that are well, and some that are not."""
    found = Recorder()
    for name in ("inventory", "orders-enriched", "sessions", "backfill-2025", "audit-copy"):
        play(found, name)
    play(found, "clicks-to-lake", read=300, held="maxOffsetsPerTrigger", busy=0.2)
    play(found, "fraud-scores", read=500, busy=0.98)
    play(found, "payments", away=True)
    play(found, "returns", lost=True)
    now_ms = round(time.time() * 1000)
    found.query("sessions", QueryStatus.IDLE, now_ms)
    found.query("backfill-2025", QueryStatus.ENDED, now_ms)
    said = "eu/orders/3: offsets 1,200 to 1,899 were deleted before they were read. `evensplit explain ES-301`"
    found.query("audit-copy", QueryStatus.FAILED, now_ms, failure="DataLossError", said=said)
    found.begin(Source("new", 0, "new-arrivals"), now_ms - 20_000, run_id="run-1", awaited={"eu": ("eu-1:9092",)})
    return found


def one_query() -> Recorder:
    """A query over three clusters, of which one is away."""
    found = Recorder()
    script = orders({"eu-west": 18, "us-east": 24, "ap-south": 6}, query="orders", name="orders", readers=7)  # type: ignore[arg-type]
    script.at_ms = round(time.time() * 1000) - 1000 * STEP_S * BATCHES - 5_000
    for number in range(BATCHES):
        script.write(new := 700 + round(400 * math.sin(number / 6)))
        script.read(most := round(900 + 60 * math.sin(number / 4)))
        if number > BATCHES - 4:
            script.unreachable["ap-south"] = "no broker of ap-south-1:9092 answered within 10 s"
        batch = script.batch(seconds=STEP_S, rows=42 * min(new, most))
        took_ms = 9_000 + round(5_000 * math.sin(number / 6)) + number * 97 % 900
        found.add(replace(batch, duration_ms=took_ms), encode(batch.end), heard_ms=script.at_ms + 4_000)
    return found


def take_one(browser: Browser) -> None:
    """The page of one query, with the history of a partition beside it."""
    recorder = one_query()
    with Dashboard(recorder, port=0) as served:
        page = browser.new_page(viewport={"width": 1380, "height": 1010}, locale="en-GB", timezone_id="UTC")
        page.goto(served.url)
        page.locator("a.cell").nth(1).click()
        page.get_by_text("was discovered").first.wait_for()
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=IMAGES / "dashboard.png")


def main() -> None:
    """Take the pictures."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        sys.exit("There is no Chromium on PATH; Debian, Ubuntu: apt-get install chromium")
    recorder = queries()
    with Dashboard(recorder, port=0, overview=True) as served, sync_playwright() as driver:
        why = "offsets/17, line 3: it is not JSON. Restore the file from a copy of the checkpoint"
        served.unreadable([Unreadable("lake/stock", why)])
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=path, args=sandbox)
        page = browser.new_page(viewport={"width": WIDTH, "height": 700}, locale="en-GB", timezone_id="UTC")
        page.goto(served.url)
        page.locator("time.ago").first.wait_for()
        page.screenshot(path=IMAGES / "dashboard-all.png", full_page=True)
        take_one(browser)
        browser.close()


if __name__ == "__main__":
    main()
