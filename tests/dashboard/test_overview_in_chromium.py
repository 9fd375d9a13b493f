"""The page of all queries in a real browser: in light, in the dark and on a phone, and without a reload."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from evensplit.core.model import SplitId
from evensplit.core.state.codec import encode
from evensplit.observe.dashboard import Dashboard
from evensplit.observe.health.unreadable import Unreadable
from evensplit.observe.recorder import QueryStatus, Recorder
from evensplit.observe.source_view import Source
from tests.dashboard.test_in_chromium import CONTRAST_MIN, CONTRASTS
from tests.support.batches import Script, orders
from tests.support.views import NASTY

pytestmark = pytest.mark.slow

Opened = Callable[..., Page]


def script(name: str, batches: int = 12) -> Script:
    found = orders({"east": 4, "west": 2}, query=f"id-{name}", name=name)  # type: ignore[arg-type]
    found.at_ms = round(time.time() * 1000) - 10_000 * (batches + 2)
    return found


def play(recorder: Recorder, one: Script, batches: int = 12, read: int | None = None) -> None:
    for _ in range(batches):
        one.write(100)
        one.read(read)
        batch = one.batch()
        recorder.add(batch, encode(batch.end), heard_ms=batch.at_ms)


@pytest.fixture
def recorder() -> Recorder:
    """Queries that are well, one that lost records, one that waits and one that has failed."""
    found = Recorder()
    for name in ("well", NASTY):
        play(found, script(name))
    play(found, script("behind"), read=30)
    lossy = script("lossy")
    lossy.discover("east", "orders", 0)
    lossy.lose(SplitId("east", "orders", 1), 7)
    play(found, lossy)
    play(found, script("failed"))
    said = "ES-301: records of east/orders/3 are gone, which were to be read.\nSet failOnDataLoss=false to go on"
    found.query("id-failed", QueryStatus.FAILED, 5, failure="DataLossError", said=said)
    servers = tuple(f"kafka-{number}.a-rather-long-name.of.some.cloud.example:9092" for number in range(3))
    found.begin(Source("id-new", 0, "new"), 5, run_id="run-1", awaited={"east": servers})
    return found


@pytest.fixture
def served(recorder: Recorder) -> Iterator[Dashboard]:
    with Dashboard(recorder, port=0, overview=True) as found:
        why = "/data/checkpoints/broken/offsets/17: line 3: it is not JSON. Restore the file from a copy"
        found.unreadable([Unreadable("team/broken", why), Unreadable("other", "has no batch yet", True)])
        yield found


def test_all_queries_are_there_and_lead_to_their_pages(opened: Opened, served: Dashboard) -> None:
    page = opened(served.url)
    expect(page.locator("h1")).to_have_text("All queries")
    expect(page.locator(".queries tbody tr")).to_have_count(7)
    # What needs attention is above what does not.
    names = [one.split("\n")[0] for one in page.locator(".queries tbody th").all_inner_texts()]
    assert names.index("failed") < names.index("well")
    assert names.index("lossy") < names.index("behind") < names.index("well")
    assert names.index("team/broken") < names.index("well")
    page.get_by_role("link", name="behind").click()
    expect(page.locator("h1")).to_have_text("behind")
    expect(page.locator("#history figure")).to_have_count(3)
    page.locator("#all").click()
    expect(page.locator("h1")).to_have_text("All queries")
    page.get_by_role("link", name="lossy").click()
    expect(page.locator("ul.advice li").first).to_contain_text("of 1 partition in east")
    page.locator("#all").click()
    expect(page.locator("h1")).to_have_text("All queries")
    page.locator("ul.advice a").first.click()
    expect(page.locator("h1")).to_have_text("When which advice is given")
    assert page.url.split("#")[1].startswith("rule-")
    assert page.locator(f"#{page.url.split('#')[1]}").is_visible()


def test_it_changes_without_a_reload(opened: Opened, served: Dashboard, recorder: Recorder) -> None:
    page = opened(served.url)
    page.evaluate("window.stays = true")
    row = page.locator(".queries tbody tr", has=page.get_by_role("link", name="late", exact=True))
    expect(row).to_have_count(0)
    late = script("late", 3)
    play(recorder, late, 3)
    expect(row.locator("td").nth(0)).to_contain_text("2")
    expect(row.locator("td").nth(0)).to_contain_text("s ago")
    play(recorder, late, 1)
    expect(row.locator("td").nth(0)).to_contain_text("3")
    recorder.query("id-late", QueryStatus.FAILED, 5, failure="SomeError")
    expect(row).to_contain_text("failed")
    served.unreadable([])
    expect(page.locator(".queries")).not_to_contain_text("team/broken")
    assert page.evaluate("window.stays") is True


def test_one_of_many_is_found_by_its_name(opened: Opened, served: Dashboard, recorder: Recorder) -> None:
    page = opened(served.url)
    page.locator("#find").fill("lossy")
    page.locator("#find").press("Enter")
    expect(page.locator(".queries tbody tr")).to_have_count(1)
    assert "find=lossy" in page.url
    # What comes is news of the same part.
    play(recorder, script("another"), 1)
    expect(page.locator("#counts")).to_contain_text("8 queries")
    expect(page.locator(".queries tbody tr")).to_have_count(1)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_it_is_legible_in_every_size_and_colour(opened: Opened, served: Dashboard, width: int, dark: bool) -> None:
    for address in ("", "?show=advice", "?source=0:id-behind", "?source=0:id-lossy"):
        page = opened(f"{served.url}{address}", width=width, dark=dark)
        assert page.evaluate("document.documentElement.scrollWidth") == width, address
        ratio, where = min(page.evaluate(CONTRASTS))
        assert ratio >= CONTRAST_MIN, (address, where)
        for one in page.locator(".queries td, .queries th").all():
            box = one.bounding_box()
            assert box is None or box["x"] + box["width"] <= width


def test_names_are_text_here_too(opened: Opened, served: Dashboard) -> None:
    page = opened(served.url)
    assert page.evaluate("document.querySelectorAll('main script, main img:not(.brand img)').length") == 0
    page.get_by_role("link", name="<script>").click()
    expect(page.locator("h1")).to_contain_text("<script>alert(1)</script>")


def test_a_hundred_queries_fit(opened: Opened) -> None:
    made = script("x", 1).batch()
    recorders = [Recorder() for _ in range(100)]
    with Dashboard(Recorder(), port=0, overview=True) as served:
        for number, one in enumerate(recorders):
            batch = replace(made, source=Source(f"q{number}", 0, f"query {number}"))
            one.add(batch, encode(batch.end), heard_ms=batch.at_ms)
            served.watch(one)
        page = opened(served.url, width=390)
        expect(page.locator(".queries tbody tr")).to_have_count(100)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert page.evaluate("document.querySelectorAll('*').length") < 4_000
