"""How large the dashboard's page is, whatever there is, and that what many look at is made once."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from evensplit.explain.written import ClusterWritten
from evensplit.observe.dashboard.app import PAGES_MAX, Pages
from evensplit.observe.dashboard.view import page as page_module
from evensplit.observe.dashboard.view.query import PageQuery
from evensplit.observe.recorder import Recorder, SourceStatus
from evensplit.observe.source_view import Source
from tests.support.browsers import client, shown
from tests.support.views import dealt, feed, keys_of, large, recorder_of, small, state, states
from tests.support.write_reports import report, writes

ELEMENTS_MAX = 1_500


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return recorder_of(small, 12)


@pytest.fixture(scope="module")
def crowded() -> Recorder:
    found = recorder_of(large, 2)
    clusters = {f"cluster-{number}": ClusterWritten(number, 1, lost=1, strays=1) for number in range(99)}
    writes(found, *(report(batch, clusters=clusters, query="query-2") for batch in range(3)))
    return found


@pytest.mark.lengthy
def test_ten_thousand_splits_in_few_elements(crowded: Recorder) -> None:
    page = shown(crowded)
    assert len(page.elements) < ELEMENTS_MAX
    counted = sum(int((one["data-v"] or "").split(" ")[0].replace(",", "")) for one in page.cells())
    assert counted == 10_000
    seen: set[str] = set()
    todo = [one["href"] or "" for one in page.cells()[:2]]
    while todo:
        inner = shown(crowded, todo.pop())
        assert len(inner.elements) < ELEMENTS_MAX
        for one in inner.cells():
            label = one["aria-label"] or ""
            (seen.add(label.split(",")[0]) if "split=" in (one["href"] or "") else todo.append(one["href"] or ""))
    end = crowded.watched()[0].view.last.end
    readers = {re.search(r"reader (\d+)", one["aria-label"] or "")[1] for one in page.cells()[:2]}  # type: ignore[index]
    wanted = {str(key) for key, split in end.splits.items() if str(split.owner) in readers}
    clusters = {tuple(parse_qsl(urlsplit(one["href"] or "").query)) for one in page.cells()[:2]}
    named = {dict(pairs)["cluster"] for pairs in clusters}
    assert seen == {one for one in wanted if one.split("/")[0] in named}


@pytest.mark.lengthy
@pytest.mark.parametrize("topics, readers", [(1, 1), (1, 300), (1_500, 3), (30, 50)])
def test_few_elements_whatever_there_is(topics: int, readers: int) -> None:
    recorder = Recorder()
    keys = keys_of({("east", f"topic-{one}"): 1_500 // topics for one in range(topics)})
    owners = dealt(keys, readers)
    end = state(owners, dict.fromkeys(keys, 7), readers)
    feed(recorder, [state(owners, dict.fromkeys(keys, 5), readers), end], first=5)
    for address in ("/", "/?by=rate&page=1", "/?reader=0", "/?reader=0&cluster=east", "/?find=topic-0"):
        page = shown(recorder, address)
        assert len(page.elements) < ELEMENTS_MAX, address
        assert page.cells()


def test_all_pages_of_one_topic_together_have_all_its_splits() -> None:
    recorder = Recorder()
    keys = keys_of({("east", "orders"): 1_000})
    feed(recorder, [state(dealt(keys, 1), dict.fromkeys(keys, at), 1) for at in (5, 7)], first=5)
    labels: list[str] = []
    for number in range(3):
        labels += [(one["aria-label"] or "").split(",")[0] for one in shown(recorder, f"/?page={number}").cells()]
    assert labels == [str(key) for key in keys]


def test_what_many_look_at_is_made_once(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[PageQuery] = []
    live = page_module.live

    def counted(watched: SourceStatus, params: PageQuery, *arguments: Any, **options: Any) -> dict[str, Any]:
        made.append(params)
        return live(watched, params, *arguments, **options)

    monkeypatch.setattr(page_module, "live", counted)
    pages = Pages()
    pages.watch(recorder)

    async def look() -> None:
        answers = await asyncio.gather(*(pages._shared(PageQuery(), "live") for _ in range(10)))
        assert len(set(answers)) == 1
        assert len(made) == 1
        await pages._shared(PageQuery(), "live")
        await asyncio.gather(*(pages._shared(PageQuery(page=one), "live") for one in range(1, 100)))
        assert len(made) == 100
        assert len(pages._made) <= PAGES_MAX
        pages._feed.news()
        await pages._shared(PageQuery(), "live")
        assert len(made) == 101

    asyncio.run(look())


def test_splits_of_several_sources_are_made_once() -> None:
    found = Recorder()
    for number in range(page_module.VIEWS_MAX + 1):
        feed(found, states({("east", "t"): 2}, 1, 2, lambda key, batch: 5), source=Source(f"query-{number}"))
    views = [one.view for one in found.watched()]
    splits = page_module.Splits()
    first, second = splits.of(views[0]), splits.of(views[1])
    assert (splits.of(views[0]) is first, splits.of(views[1]) is second) == (True, True)
    for view in views[2:]:
        splits.of(view)
    assert splits.of(views[1]) is second
    assert splits.of(views[0]) is not first


def test_a_story_is_kept_until_there_is_another_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    found, told = Recorder(), []
    small(found, 2)
    story = Recorder.story

    def counted(*arguments: Any) -> Any:
        told.append(arguments)
        return story(*arguments)

    monkeypatch.setattr(Recorder, "story", counted)
    browser, asked = client(found), {"HX-Request": "true", "HX-Target": "story"}
    address = "/?split=east&split=orders&split=1"
    texts = {browser.get(address, headers=asked).text for _ in range(3)}
    assert (len(texts), len(told)) == (1, 1)
    assert "east/orders/1" in texts.pop()
    small(found, 3)
    browser.get(address, headers=asked)
    assert len(told) == 2
