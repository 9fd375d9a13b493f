"""The dashboard as a server: ports, hosts, news; and that nobody who looks, or does not, holds anything up."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
import urllib.request
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from evensplit.core.model import SplitId
from evensplit.core.state.observation import Report
from evensplit.errors import OptionError
from evensplit.observe.dashboard import Dashboard, server
from evensplit.observe.dashboard import feed as feed_module
from evensplit.observe.dashboard.feed import BROWSERS_MAX, Feed
from evensplit.observe.dashboard.view import page
from evensplit.observe.recorder import QueryStatus, Recorder
from evensplit.observe.source_view import Source
from tests.support.batches import orders
from tests.support.batches import taken as taken_in
from tests.support.views import feed, recorder_of, small, states
from tests.support.waiting import wait_for


@pytest.fixture
def recorder() -> Recorder:
    return recorder_of(small, 1)


@pytest.fixture
def served(recorder: Recorder) -> Iterator[Dashboard]:
    with Dashboard(recorder, port=0) as found:
        yield found


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.7", "example.org", "localhost.example.org"])
def test_other_machines_need_a_token(host: str) -> None:
    with pytest.raises(OptionError, match=r"other machines can reach it; expected a token with it, or 127.0.0.1"):
        Dashboard(Recorder(), host, 0)


@pytest.mark.parametrize("token", ["", "a b", "é", "x\n", "1234567", "correct+horse", "correct&horse", "correct#horse"])
def test_a_token_that_nobody_could_send(token: str) -> None:
    with pytest.raises(OptionError, match="token: expected at least 8 of the characters") as found:
        Dashboard(Recorder(), "0.0.0.0", 70_000, token)
    assert len(found.value.problems) == 2
    assert not token or repr(token) not in str(found.value)


def test_the_token_is_not_in_what_is_shown_of_it() -> None:
    with Dashboard(Recorder(), port=0, token="correct-horse") as served:
        assert "horse" not in served.url + repr(served)


def test_notes_stand_above_everything(served: Dashboard) -> None:
    served.note(["batch 3 is <b>left out</b>"])
    assert "batch 3 is &lt;b&gt;left out&lt;/b&gt;" in read(served.url)
    served.note([])
    assert "left out" not in read(served.url)


def listen(url: str) -> socket.socket:
    """A browser that has asked for the news and reads nothing of it."""
    host, port = url.removeprefix("http://").rstrip("/").split(":")
    browser = socket.create_connection((host, int(port)), timeout=30)
    browser.sendall(f"GET /news HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    return browser


def heard(browser: socket.socket, what: bytes, seen: bytes = b"") -> bytes:
    while what not in seen:
        more = browser.recv(65_536)
        assert more, seen
        seen += more
    return seen


def test_news_reach_a_browser(served: Dashboard, recorder: Recorder) -> None:
    with listen(served.url) as browser:
        first = heard(browser, b"event: batch\ndata: ")
        assert b"text/event-stream" in first
        assert b"retry: 2000\n\n" in first
        recorder.query("query-1", QueryStatus.ENDED)
        heard(browser, b"event: batch\ndata: ")
        assert "ended" in read(served.url)


def test_a_browser_that_is_slow_or_gone_holds_nothing_up(served: Dashboard, recorder: Recorder) -> None:
    slow, gone = listen(served.url), listen(served.url)
    wait_for(lambda: served._pages._feed.browsers == 2, what="two browsers")
    gone.close()
    began_s = time.perf_counter()
    for number in range(10_000):
        recorder.query("query-1", QueryStatus.RUNNING if number % 2 else QueryStatus.IDLE)
    assert time.perf_counter() - began_s < 10
    wait_for(lambda: served._pages._feed.browsers == 1, what="one browser left")
    with slow:
        heard(slow, b"event: batch")
    assert "orders" in read(served.url)


def test_closing_ends_what_browsers_wait_for(recorder: Recorder) -> None:
    served = Dashboard(recorder, port=0)
    with listen(served.url) as browser:
        wait_for(lambda: served._pages._feed.browsers == 1, what="a browser")
        served.close()
        assert not served._server._thread.is_alive()
        with pytest.raises((AssertionError, ConnectionError)):
            heard(browser, b"never")


async def taken(feed: Feed, count: int, since: str = "") -> list[str]:
    found: list[str] = []
    async for frame in feed.frames(since):
        found.append(frame)
        if len(found) == count:
            break
    return found


def test_what_came_meanwhile_is_one_piece_of_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "GAP_S", 0.0)
    news = Feed()

    async def run() -> list[str]:
        frames = news.frames(news.revision)
        found = [await anext(frames)]
        for _ in range(1_000):
            news.news()
        found.append(await anext(frames))
        news.news()
        found.append(await anext(frames))
        await frames.aclose()
        return found

    first, second, third = asyncio.run(run())
    assert first.startswith("retry")
    assert second.endswith("-1000\n\n")
    assert third.endswith("-1001\n\n")
    assert news.browsers == 0


def test_that_a_query_still_waits_is_no_news_but_what_it_sees_is() -> None:
    news, recorder, script = Feed(), Recorder(), orders({"east": 1})
    recorder.subscribe(news.heard)
    one = script.batch()
    taken_in(recorder, [one])
    revisions: list[str] = []

    def idle(report: Report) -> None:
        recorder.query("query-1", QueryStatus.IDLE, 2, run_id="run-1")
        recorder.look("query-1", "run-1", 0, one.end, report, 3)
        revisions.append(news.revision)

    away = replace(one.report, latest={}, unreachable={"east": "refused"})
    for report in (one.report, one.report, away, away, one.report):
        idle(report)
    assert [len(set(revisions[: place + 1])) for place in range(5)] == [1, 1, 2, 2, 3]


def test_a_page_of_an_earlier_server_is_made_anew() -> None:
    one, other = Feed(), Feed()
    assert one.revision != other.revision
    assert asyncio.run(taken(other, 2, one.revision))[1].startswith("event: batch")


def test_silence_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "BEAT_S", 0.01)
    news = Feed()
    assert asyncio.run(taken(news, 2, news.revision))[1].startswith("event: beat")


def test_so_many_browsers_and_no_more(served: Dashboard) -> None:
    browsers = [listen(served.url) for _ in range(BROWSERS_MAX)]
    wait_for(lambda: served._pages._feed.full, what="all browsers")
    with pytest.raises(urllib.error.HTTPError, match="503"):
        read(f"{served.url}news")
    for one in browsers:
        one.close()


def test_who_does_not_look_costs_nothing(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    live = page.live

    def counted(*arguments: Any, **options: Any) -> Any:
        made.append(arguments)
        return live(*arguments, **options)

    monkeypatch.setattr(page, "live", counted)
    with Dashboard(recorder, port=0) as served, listen(served.url) as browser:
        heard(browser, b"event: batch")
        before = served._pages._feed.revision
        feed(recorder, states({("north", "a"): 2}, 1, 2, lambda key, batch: 1), source=Source("query-2"))
        assert served._pages._feed.revision != before
        heard(browser, b"event: batch")
        assert not made
        read(served.url)
        assert len(made) == 1


def ask(served: Dashboard, path: str, headers: str = "") -> socket.socket:
    """A browser that has asked for something."""
    browser = socket.create_connection(("127.0.0.1", served.port), timeout=30)
    browser.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n{headers}\r\n".encode())
    return browser


def test_a_story_holds_no_page_up_and_ends_with_its_browser(served: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Semaphore(0), threading.Semaphore(0)
    at_once: list[int] = []
    all_of_them: list[int] = []

    def endless(_: Recorder, source: Source, split: SplitId, wanted: Callable[[], bool]) -> None:
        at_once.append(split.partition)
        all_of_them.append(split.partition)
        begun.release()
        wait_for(lambda: not wanted(), what="the browser to go")
        at_once.remove(split.partition)
        ended.release()

    monkeypatch.setattr(Recorder, "story", endless)
    address, part = "/?split=east&split=orders&split={}", "HX-Request: true\r\nHX-Target: story\r\n"
    browsers = [ask(served, address.format(one), part) for one in range(4)]
    assert begun.acquire(timeout=60)
    assert "orders" in read(served.url)
    assert "story-awaited" in read(served.url + address.format(1)[1:])
    assert len(at_once) == 1
    # Those that wait go first: nothing is begun for them.
    (telling,) = at_once
    for number, browser in enumerate(browsers):
        if number != telling:
            browser.close()
    wait_for(lambda: len(served._server._server.server_state.connections) <= 1, what="three to go")
    browsers[telling].close()
    assert ended.acquire(timeout=60)
    with ask(served, address.format(9), part):
        wait_for(lambda: 9 in all_of_them, what="the next story")
    wait_for(lambda: not at_once, what="its end")
    assert all_of_them == [telling, 9]


def test_a_story_that_nobody_wants_any_longer_is_left(recorder: Recorder) -> None:
    small(recorder, 8)
    asked: list[None] = []

    def wanted() -> bool:
        asked.append(None)
        return len(asked) < 3

    source, split = recorder.watched()[0].view.source, SplitId("east", "orders", 1)
    assert recorder.story(source, split, wanted) is None
    assert len(asked) == 4
    assert recorder.story(source, split, lambda: True) == recorder.story(source, split)


def test_recorders_are_not_kept(recorder: Recorder) -> None:
    with Dashboard(recorder, port=0) as served:
        other = Recorder()
        feed(other, states({("north", "a"): 2}, 1, 2, lambda key, batch: 1), source=Source("query-2"))
        served.watch(other)
        assert "query-2" in read(served.url)
        gone = weakref.ref(other)
        del other
        gc.collect()
        assert gone() is None
        assert len(served._pages._unsubscribe) == 1
        served.watch(recorder)
        recorder.query("query-1", QueryStatus.ENDED)
        assert "query-2" not in read(served.url)


@pytest.mark.usefixtures("closed")
def test_a_port_of_ours_with_another_token(recorder: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    url = server.serve(recorder, "127.0.0.1", 0, "correct-horse")
    assert url is not None
    port = int(url.rstrip("/").rsplit(":", 1)[1])
    assert server.serve(recorder, "127.0.0.1", port, "another-horse") is None
    assert f"port {port} of 127.0.0.1 is served with another token" in caplog.text
    assert "another program" not in caplog.text
    assert "horse" not in caplog.text
