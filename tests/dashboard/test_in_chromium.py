"""The dashboard in a real browser: that what it shows is what is true, and that everybody can use it."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from playwright.sync_api import Page, expect

from evensplit.core.model import SplitId
from evensplit.explain.written import ClusterWritten, WriteOutcome
from evensplit.observe.dashboard import Dashboard
from evensplit.observe.recorder import QueryStatus, Recorder
from evensplit.observe.source_view import Source
from tests.support.views import NASTY, PLANNED_MS, behind, dealt, feed, keys_of, large, state, states
from tests.support.write_reports import report, writes

pytestmark = pytest.mark.slow

Opened = Callable[..., Page]

CONTRAST_MIN = 4.5
"""WCAG 2.2, level AA, for text of ordinary size."""

CONTRASTS = """
() => {
  const parse = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return { rgb: found.slice(0, 3), alpha: found.length > 3 ? found[3] : 1 };
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((one) => {
      const part = one / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const found = parse(getComputedStyle(one).backgroundColor);
      if (found.alpha === 1) return found.rgb;
    }
    return [255, 255, 255];
  };
  const seen = [];
  for (const one of document.querySelectorAll("body *")) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !one.checkVisibility() || ["OPTION", "TITLE", "NOSCRIPT"].includes(one.tagName)) continue;
    if (one.closest(".skip, .hidden, svg")) continue;
    const [a, b] = [light(parse(getComputedStyle(one).color).rgb), light(behind(one))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    seen.push([ratio, `${one.tagName}.${one.className}: ${one.textContent.trim().slice(0, 30)}`]);
  }
  return seen;
}
"""


def cell(page: Page, split: str) -> str:
    """The id of a split's cell."""
    found = page.evaluate(
        "name => [...document.querySelectorAll('a.cell')].find(one => one.title.startsWith(name + ','))?.id", split
    )
    assert isinstance(found, str)
    return found


def test_what_is_shown_is_true(opened: Opened, served: Dashboard, recorder: Recorder) -> None:
    page, batch = opened(served.url), recorder.watched()[0].view.last
    ends, latest = batch.end.splits, batch.report.latest
    labels = page.evaluate("[...document.querySelectorAll('a.cell')].map(one => one.getAttribute('aria-label'))")
    assert len(labels) == len(ends)
    for key, split in ends.items():
        end = latest.get(key)
        lag = "unknown" if end is None else f"{max(0, end - (split.position or 0)):,} offset"
        assert any(one.startswith(f"{key}, reader {split.owner}, lag {lag}") for one in labels), key
    rows = page.locator(".row")
    for reader in range(4):
        owned = sum(split.owner == reader for split in ends.values())
        expect(rows.nth(reader)).to_contain_text(f"reader {reader}{owned} partitions")
        expect(rows.nth(reader).locator("a.cell")).to_have_count(owned)
    for cluster in ("east", "west"):
        known = [end - (ends[key].position or 0) for key, end in latest.items() if key.cluster == cluster]
        line = page.locator(".clusters tbody tr", has=page.get_by_role("link", name=cluster, exact=True))
        expect(line.locator("td").nth(0)).to_have_text(str(sum(key.cluster == cluster for key in ends)))
        expect(line.locator("td").nth(1)).to_contain_text(f"{sum(known):,}" if known else "unknown")
    expect(page.locator("#batch")).to_have_text(str(batch.number))
    # The reader's own zone, and UTC where one asks.
    times = page.locator("#status time")
    expect(times).to_have_attribute("title", "2026-09-21 14:13:31 UTC")
    expect(times).to_contain_text("23:13:31")


def test_a_new_batch_appears_by_itself(opened: Opened, served: Dashboard, recorder: Recorder) -> None:
    page = opened(served.url)
    page.get_by_text("As a table").click()
    chosen = cell(page, "east/orders/1")
    page.locator(f"#{chosen}").focus()
    view = recorder.watched()[0].view
    start = view.last.end
    end = state(
        {key: split.owner for key, split in start.splits.items()},
        {key: (split.position or 0) + 1_000 for key, split in start.splits.items()},
        start.readers,
    )
    feed(recorder, [start, end], [behind(end, lambda key: 4_321)], first=12)
    expect(page.locator("#batch")).to_have_text("12")
    expect(page.locator(f"#{chosen}")).to_have_attribute("title", re.compile("lag 4,321 offsets"))
    expect(page.locator(f"#{chosen}")).to_be_focused()
    expect(page.locator("#work-table")).to_have_attribute("open", "")
    recorder.query("query-1", QueryStatus.ENDED)
    expect(page.locator("#status")).to_contain_text("ended")


def test_a_story_by_mouse_and_by_keyboard(opened: Opened, served: Dashboard, recorder: Recorder) -> None:
    page = opened(served.url)
    told = recorder.story(recorder.watched()[0].view.source, SplitId("east", "orders", 3))
    assert told is not None
    page.locator(f"#{cell(page, 'east/orders/3')}").click()
    expect(page.locator("#story-title")).to_have_text("east/orders/3")
    expect(page.locator("#story-title")).to_be_focused()
    for chapter in told.chapters:
        for sentence in chapter.sentences():
            expect(page.locator("#story")).to_contain_text(sentence)
    assert "split=orders" in page.url
    page.keyboard.press("Escape")
    expect(page.locator("#story > *")).to_have_count(0)
    expect(page.locator(f"#{cell(page, 'east/orders/3')}")).to_be_focused()
    assert "split" not in page.url
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("End")
    page.keyboard.press("Home")
    expect(page.locator(f"#{cell(page, 'east/orders/0')}")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#story-title")).to_have_text("east/orders/0")
    page.reload()
    expect(page.locator("#story-title")).to_have_text("east/orders/0")


def test_the_tab_key_reaches_everything_and_shows_where_it_is(opened: Opened, served: Dashboard) -> None:
    page, seen = opened(served.url), []
    for _ in range(40):
        page.keyboard.press("Tab")
        found = page.evaluate(
            "() => { const one = document.activeElement, style = getComputedStyle(one);"
            "return [one.id || one.className || one.tagName, style.outlineStyle, parseFloat(style.outlineWidth)] }"
        )
        if found[0] == "BODY":
            break
        assert found[1] == "solid", found
        assert found[2] >= 2, found
        seen.append(found[0])
    for wanted in (
        "skip",
        "by-lag",
        "by-rate",
        "find",
        "kind-all",
        "kind-moved",
        "cluster-1",
        cell(page, "east/orders/0"),
    ):
        assert wanted in seen
    # The grid is one stop; inside of it the arrows go on.
    assert sum(bool(re.fullmatch(r"c[0-9a-f]{18}", one)) for one in seen) == 1


def test_the_switch_the_filters_and_the_way_back(opened: Opened, served: Dashboard) -> None:
    page = opened(served.url)
    page.locator("#by-rate").click()
    expect(page.locator(".legend")).to_contain_text("offsets/s")
    assert "by=rate" in page.url
    page.locator("#kind-moved").click()
    expect(page.locator(".timeline li.discovered")).to_have_count(0)
    expect(page.locator(".timeline li.moved")).to_have_count(1)
    expect(page.locator("#kind-moved")).to_have_attribute("aria-current", "true")
    page.locator("#find").fill("payments")
    page.locator("#find").press("Enter")
    expect(page.locator("a.cell")).to_have_count(6)
    expect(page.locator(".legend")).to_contain_text("offsets/s")
    page.get_by_role("link", name="all readers").click()
    expect(page.locator("a.cell")).to_have_count(28)
    page.go_back()
    expect(page.locator("a.cell")).to_have_count(6)


def test_names_with_markup_are_text(opened: Opened) -> None:
    recorder = Recorder()
    names = (NASTY, "a" * 249, '"><img src=x onerror=alert(1)>', "x\ny", "</script><script>alert(2)</script>")
    feed(
        recorder, states({(name, name): 2 for name in names}, 2, 2, lambda key, batch: 5), source=Source("q", 0, NASTY)
    )
    with Dashboard(recorder, port=0) as served:
        page = opened(served.url, width=375)
        assert page.evaluate("document.querySelectorAll('img:not(.brand img), main script').length") == 0
        for name in names:
            page.locator(f"#{cell(page, f'{name}/{name}/1')}").click()
            expect(page.locator("#story-title")).to_have_text(f"{name}/{name}/1")
            page.keyboard.press("Escape")
            expect(page.locator("#story > *")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") == 375


def test_a_wrong_token_shows_nothing(opened: Opened, recorder: Recorder) -> None:
    with Dashboard(recorder, port=0, token="correct-horse") as served:
        page = opened(f"{served.url}?token=wrong", quiet=True)
        assert page.locator("body").inner_text().strip() == "That is not the token of this server."
        page = opened(f"{served.url}?token=correct-horse&by=rate")
        expect(page.locator("#batch")).to_have_text("11")
        assert page.url == f"{served.url}?by=rate"
        assert "horse" not in page.evaluate("document.cookie + document.documentElement.outerHTML")
        recorder.query("query-1", QueryStatus.FAILED)
        expect(page.locator("#status")).to_contain_text("failed")


@pytest.mark.parametrize("width", [320, 375])
def test_a_phone_scrolls_one_way_only(opened: Opened, served: Dashboard, width: int) -> None:
    page = opened(served.url, width=width, height=700)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.locator("a.cell").nth(4).click()
    expect(page.locator("#story-title")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator("a.cell").first.bounding_box()["height"] >= 36  # type: ignore[index]
    expect(page.locator(".key > span:has(.swatch)")).to_have_count(3)
    for one in page.locator(".key > span:has(.swatch)").all():
        mark, text = one.locator(".swatch").bounding_box(), one.bounding_box()
        assert mark is not None
        assert text is not None
        assert text["height"] < 30, "a mark is on the line of what it means"
        assert text["width"] > 3 * mark["width"]


@pytest.mark.parametrize("width", [375, 1280])
def test_names_of_usual_length_are_shown_whole(opened: Opened, width: int) -> None:
    recorder = Recorder()
    key = ("west", "orders-express-returned")
    feed(recorder, states({key: 2}, 2, 2, lambda key, batch: 5), source=Source("q", 0, "orders"))
    with Dashboard(recorder, port=0) as served:
        page = opened(served.url, width=width)
        label = page.locator(".label").first
        expect(label).to_have_text("/".join(key))
        sizes = label.evaluate("one => [one.scrollWidth, one.clientWidth, one.scrollHeight, one.clientHeight]")
        assert sizes[0] <= sizes[1]
        assert sizes[2] <= sizes[3]


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_told_from_what_is_behind_it(opened: Opened, served: Dashboard, dark: bool) -> None:
    page = opened(served.url, dark=dark)
    page.locator("a.cell").nth(4).click()
    expect(page.locator("#story-title")).to_be_visible()
    low = [one for one in page.evaluate(CONTRASTS) if one[0] < CONTRAST_MIN]
    assert not low
    page_light = page.evaluate("parseInt(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
    assert page_light < 64 if dark else page_light > 200


@pytest.mark.parametrize("dark", [False, True])
def test_what_is_written_is_legible_on_a_phone(opened: Opened, recorder: Recorder, dark: bool) -> None:
    lost = {
        "eu": ClusterWritten(1_204, 80_000, committed=2),
        "us-east": ClusterWritten(30, 90_000, committed=1, lost=1),
    }
    writes(recorder, report(0), report(1, WriteOutcome.INCOMPLETE, lost, age_ms=50_000))
    with Dashboard(recorder, port=0) as served:
        page = opened(served.url, width=375, dark=dark)
        expect(page.locator("#written")).to_contain_text("decided, and 1 transaction lost")
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        assert not [one for one in page.evaluate(CONTRASTS) if one[0] < CONTRAST_MIN]
        # The page is told of what is new, and shows it.
        writes(recorder, report(2))
        expect(page.locator("#written")).to_contain_text("wrote 1,204 records in 2 transactions to eu")


@pytest.mark.parametrize("dark", [False, True])
def test_a_query_that_waits_or_failed_before_its_first_batch_is_legible_on_a_phone(opened: Opened, dark: bool) -> None:
    recorder = Recorder()
    servers = tuple(f"kafka-{number}.a-rather-long-name.of.some.cloud.example:9092" for number in range(3))
    recorder.begin(Source("query-1", 0, "orders"), PLANNED_MS, run_id="run-1", awaited={"east": servers})
    with Dashboard(recorder, port=0) as served:
        page = opened(served.url, width=320, height=700, dark=dark)
        expect(page.locator("#status")).to_contain_text("starting")
        recorder.begins("query-1", "run-1", QueryStatus.WAITING, PLANNED_MS)
        expect(page.locator("#status")).to_contain_text("waiting for east")
        for stage in ("waiting", "failed"):
            assert page.evaluate("document.documentElement.scrollWidth") == 320
            assert min(page.evaluate(CONTRASTS))[0] >= CONTRAST_MIN
            if stage == "waiting":
                said = "no broker could be asked: " + "; ".join(servers)
                recorder.query("query-1", QueryStatus.FAILED, PLANNED_MS, failure="ClusterUnreachable", said=said)
                expect(page.locator("#error")).to_contain_text("no broker could be asked")


def test_shades_go_one_way_in_lightness(opened: Opened, served: Dashboard) -> None:
    for dark in (False, True):
        page = opened(served.url, dark=dark)
        greys = page.evaluate(
            "[0, 1, 2, 3, 4, 5].map(step => { const one = document.createElement('i'); one.className = `q${step}`;"
            "document.body.append(one); const [r, g, b] = getComputedStyle(one).backgroundColor.match(/\\d+/g);"
            "return 0.2126 * r + 0.7152 * g + 0.0722 * b })"
        )
        assert all((b > a) if dark else (b < a) for a, b in pairwise(greys)), greys


def test_ten_thousand_splits(opened: Opened) -> None:
    recorder = Recorder()
    view = large(recorder)
    with Dashboard(recorder, port=0) as served:
        page = opened(served.url, width=375)
        assert page.evaluate("document.querySelectorAll('*').length") < 1_500
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        page.locator("a.cell", has_text="cluster-3").first.click()
        expect(page.locator(".crumbs")).to_contain_text(re.compile(r"reader 0.cluster-3"))
        wanted = sum(one.owner == 0 and key.cluster == "cluster-3" for key, one in view.last.end.splits.items())
        expect(page.locator(".legend")).to_contain_text(f"{wanted} partitions of 10,000")
        expect(page.locator("a.cell")).to_have_count(wanted)


def test_a_server_that_goes_away_and_comes_back(opened: Opened, recorder: Recorder) -> None:
    served = Dashboard(recorder, port=0)
    page = opened(served.url, quiet=True)
    expect(page.locator("#lost")).to_be_hidden()
    served.close()
    expect(page.locator("#lost")).to_be_visible()
    expect(page.locator("#lost")).to_contain_text("The server does not answer")
    recorder.query("query-1", QueryStatus.ENDED)
    with Dashboard(recorder, port=served.port):
        expect(page.locator("#lost")).to_be_hidden(timeout=60_000)
        expect(page.locator("#status")).to_contain_text("ended", timeout=60_000)


def test_a_page_stays_with_its_source(opened: Opened, served: Dashboard, recorder: Recorder) -> None:
    page = opened(served.url)
    expect(page.locator("h1")).to_have_text("orders")
    feed(recorder, states({("north", "a"): 2}, 1, 2, lambda key, batch: 5), first=99, source=Source("q", 0, "other"))
    expect(page.locator("#chooser option")).to_have_count(2)
    expect(page.locator("h1")).to_have_text("orders")
    expect(opened(served.url).locator("h1")).to_have_text("other")


def test_the_first_batch_of_all_appears_by_itself(opened: Opened) -> None:
    recorder = Recorder()
    with Dashboard(recorder, port=0) as served:
        page = opened(served.url)
        expect(page.locator("main")).to_contain_text("No query yet")
        keys = keys_of({("east", "orders"): 3})
        feed(recorder, [state(dealt(keys, 1), dict.fromkeys(keys, at), 1) for at in (5, 7)], first=5)
        expect(page.locator("a.cell")).to_have_count(3)
