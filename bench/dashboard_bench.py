"""What the dashboard costs: a batch on the driver, the first paint, and an update in the browser, with 10,000 splits.

    .venv/bin/python -m bench.dashboard_bench              10,000 splits, about half a minute
    .venv/bin/python -m bench.dashboard_bench --splits 1000

On the driver: what adding a batch to the recorder takes, without a dashboard, with one, and with a browser that shows
it; and the time for that browser's pages in the server's thread. In headless Chromium: from requesting the page to its
first contentful paint, and from receiving an update until it is painted. Goals: 1 s for the first, 200 ms for the
second. Needs Chromium on PATH.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from itertools import pairwise

from playwright.sync_api import Page, sync_playwright
from rich import box
from rich.console import Console
from rich.table import Table

from evensplit.core.state.codec import encode
from evensplit.core.state.observation import Report
from evensplit.core.state.state import EnumeratorState
from evensplit.observe.dashboard import Dashboard
from evensplit.observe.recorder import Recorder
from evensplit.observe.source_view import Batch, Source
from tests.support.views import PLANNED_MS, behind, states

BATCHES = 12
READERS = 16
WAIT_S = 60.0
PAINT_GOAL_MS = 1_000.0
UPDATE_GOAL_MS = 200.0

WATCH = """
() => {
  window.updates = [];
  let began = 0;
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target.id === "live") began = performance.now();
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.target.id !== "live") return;
    const from = began;
    requestAnimationFrame(() => setTimeout(() => window.updates.push(performance.now() - from)));
  });
}
"""


class Load:
    """Batches with many splits, added one after another."""

    def __init__(self, splits: int) -> None:
        topics = {(f"cluster-{one}", f"topic-{other}"): splits // 100 for one in range(10) for other in range(10)}
        self._ends = states(topics, READERS, 3 * BATCHES + 1, lambda key, batch: 10 + key.partition + batch)
        self._reports = [behind(end, lambda key: key.partition * 17) for end in self._ends]
        self._left = list(enumerate(pairwise(self._ends)))
        self.recorder = Recorder()
        self.add()

    def add(self) -> float:
        """Add the next batch, and return the milliseconds it took."""
        number, (start, end) = self._left.pop(0)
        batch = self._batch(number, start, end, self._reports[number + 1])
        document = encode(end)
        began_s = time.perf_counter()
        self.recorder.add(batch, document)
        return 1000 * (time.perf_counter() - began_s)

    def _batch(self, number: int, start: EnumeratorState, end: EnumeratorState, report: Report) -> Batch:
        return Batch(Source("bench"), number, start, end, report, PLANNED_MS + 1_000 * number, "run", 10, 900)


def wait(page: Page, condition: str) -> None:
    """Wait until something is true of the page, whose content policy forbids it to evaluate that itself."""
    deadline_s = time.monotonic() + WAIT_S
    while not page.evaluate(condition):
        if time.monotonic() > deadline_s:
            sys.exit(f"nothing came within {WAIT_S:.0f} s: {condition}")
        time.sleep(0.02)


def first_paint(page: Page, url: str) -> float:
    """Milliseconds from requesting the page to its first paint."""
    page.goto(url)
    wait(page, "performance.getEntriesByName('first-contentful-paint').length > 0")
    return float(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))


def measure(splits: int) -> dict[str, Sequence[float]]:
    """Run the measurements; in milliseconds."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        sys.exit("There is no Chromium on PATH; Debian, Ubuntu: apt-get install chromium")
    load = Load(splits)
    found: dict[str, Sequence[float]] = {"a batch, no dashboard": [load.add() for _ in range(BATCHES)]}
    with Dashboard(load.recorder, port=0) as served:
        found["a batch, a dashboard at which nobody looks"] = [load.add() for _ in range(BATCHES)]
        with sync_playwright() as driver:
            arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = driver.chromium.launch(executable_path=path, args=arguments)
            paints = []
            for _ in range(5):
                page = browser.new_page()
                paints.append(first_paint(page, served.url))
                page.close()
            found["first paint"] = paints
            page = browser.new_page()
            page.goto(served.url)
            page.evaluate(WATCH)
            costs = []
            for done in range(BATCHES):
                costs.append(load.add())
                wait(page, f"window.updates.length > {done}")
            found["a batch, a browser that looks"] = costs
            found["an update in the page"] = page.evaluate("window.updates")
            elements = page.evaluate("document.querySelectorAll('*').length")
            browser.close()
    found["elements of the page"] = [elements]
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=10_000)
    splits = parser.parse_args().splits
    table = Table(title=f"{splits:,} splits, {READERS} readers", box=box.SIMPLE)
    for name in ("what", "median", "worst", "goal"):
        table.add_column(name, justify="left" if name == "what" else "right")
    goals = {"first paint": PAINT_GOAL_MS, "an update in the page": UPDATE_GOAL_MS}
    for name, values in measure(splits).items():
        if name.startswith("elements"):
            table.add_row(name, f"{values[0]:,.0f}", "", "")
            continue
        goal = f"{goals[name]:,.0f} ms" if name in goals else ""
        table.add_row(name, f"{statistics.median(values):,.1f} ms", f"{max(values):,.1f} ms", goal)
    Console().print(table)


if __name__ == "__main__":
    main()
