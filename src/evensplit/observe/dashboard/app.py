"""The answers of the dashboard: the page, its changing part, the history of a split, the news, and assets."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from evensplit.observe.dashboard.feed import Feed
from evensplit.observe.dashboard.rendering import HERE, render
from evensplit.observe.dashboard.stories import Stories, Told
from evensplit.observe.dashboard.view import page
from evensplit.observe.dashboard.view.history import make_history
from evensplit.observe.dashboard.view.overview import overview
from evensplit.observe.dashboard.view.query import BadPageQuery, PageQuery, Show
from evensplit.observe.dashboard.view.sources import choices, find
from evensplit.observe.health.advice import advice_of
from evensplit.observe.health.rules import NOT_RUNNING, PAGES, WHEN
from evensplit.observe.health.unreadable import Unreadable
from evensplit.observe.recorder import Begun, Recorder, SourceStatus
from evensplit.observe.recorder_group import RecorderGroup
from evensplit.observe.sinks import SinkStatus

ASSETS = {
    "dashboard.css": "text/css",
    "dashboard.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "htmx-ext-sse.min.js": "text/javascript",
    "idiomorph-ext.min.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}

RENDERED_AT_ONCE_MAX = 2
"""How many pages are made at a time. The driver has other things to do."""

PAGES_MAX = 32
"""How many pages made from the latest news are kept, for all browsers that ask for the same."""

Answer = tuple[bytes, int]
"""A page and its status code."""


class Pages:
    """The pages of recorders, each for as long as it lives: they are held weakly.

    `overview`: an address that names no source is that of all queries.
    """

    def __init__(self, *, overview: bool = False) -> None:
        self._overview = overview
        self._group = RecorderGroup()
        self._feed = Feed()
        self._unsubscribe: WeakKeyDictionary[Recorder, Callable[[], object]] = WeakKeyDictionary()
        self._notes: dict[str | None, tuple[str, ...]] = {}
        self._passing: dict[str | None, tuple[str, ...]] = {}
        self._awaited: frozenset[str | None] = frozenset()
        self._unreadable: tuple[Unreadable, ...] = ()
        self._splits = page.Splits()
        self._slots = asyncio.Semaphore(RENDERED_AT_ONCE_MAX)
        self._stories = Stories(self._group)
        self._revision = ""
        self._made: OrderedDict[tuple[str, str], asyncio.Task[Answer]] = OrderedDict()
        self.routes = (
            Route("/", self.show, methods=["GET"]),
            Route("/news", self.news, methods=["GET"]),
            Route("/assets/{name}", self.asset, methods=["GET"]),
        )

    def watch(self, recorder: Recorder) -> None:
        """Show what `recorder` hears as well. Adding one again changes nothing."""
        if self._group.add(recorder):
            ends = (
                recorder.subscribe(self._feed.heard, lambda _: self._feed.news()),
                recorder.sinks.subscribe(lambda _: self._feed.news()),
            )
            self._unsubscribe[recorder] = lambda: [end() for end in ends]
            self._feed.news()

    def note(
        self,
        notes: Sequence[str],
        query_id: str | None = None,
        passing: Sequence[str] = (),
        *,
        awaited: bool = False,
    ) -> None:
        """Show these sentences above everything, in place of the earlier ones; of one query, above its page.

        `passing`: what is as it should be, and is not told among all queries. `awaited`: clusters were asked for the
        lag of the query, and have not answered yet.
        """
        before = (self._notes.get(query_id, ()), self._passing.get(query_id, ()), query_id in self._awaited)
        if (tuple(notes), tuple(passing), awaited) != before:
            self._notes = {**self._notes, query_id: tuple(notes)}
            self._passing = {**self._passing, query_id: tuple(passing)}
            self._awaited = (self._awaited - {query_id}) | ({query_id} if awaited else frozenset())
            self._feed.news()

    def unreadable(self, ones: Sequence[Unreadable]) -> None:
        """Show these checkpoints among all queries, with what is wrong with them, in place of the earlier ones."""
        if tuple(ones) != self._unreadable:
            self._unreadable = tuple(ones)
            self._feed.news()

    def close(self) -> None:
        """Let go of all browsers and recorders."""
        for unsubscribe in list(self._unsubscribe.values()):
            unsubscribe()
        self._feed.close()

    async def show(self, request: Request) -> Response:
        """The page, or the part of it that htmx asks for."""
        try:
            params = PageQuery.of(request.query_params.multi_items())
        except BadPageQuery as error:
            return PlainTextResponse(f"No page has this address: {error}.\n", 400)
        part = request.headers.get("hx-target", "") if request.headers.get("hx-request") == "true" else ""
        if part == "story":
            return await self._told(request, params)
        text, code = await self._shared(params, "live" if part == "live" else "")
        return HTMLResponse(text, code)

    async def _told(self, request: Request, params: PageQuery) -> Response:
        """The history of a split, made only while its browser waits for it."""
        watched = find(self._group, params)
        told: Told | None = Told()
        if isinstance(watched, SourceStatus) and params.split is not None:
            told = await self._stories.tell(request, watched, params.split)
        if told is None:
            return PlainTextResponse("The browser has gone.\n", 503)
        text = render("story.html", {"split": params.split, "told": told})
        return HTMLResponse(text, 404 if watched is None and params.source is not None else 200)

    async def _shared(self, params: PageQuery, part: str) -> Answer:
        """A page that is made once for all browsers that ask for the same, until there is news."""
        if self._revision != self._feed.revision:
            self._revision = self._feed.revision
            self._made.clear()
        key = (params.address(), part)
        task = self._made.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._made[key] = asyncio.ensure_future(self._one_of_few(params, part))
            if len(self._made) > PAGES_MAX:
                self._made.popitem(last=False)
        # A browser that goes does not cancel it for the others.
        return await asyncio.shield(task)

    async def _one_of_few(self, params: PageQuery, part: str) -> Answer:
        async with self._slots:
            return await run_in_threadpool(self.make, params, part, self._revision)

    async def news(self, request: Request) -> Response:
        """The stream of news for one browser."""
        if self._feed.full:
            return PlainTextResponse("Too many browsers show this dashboard. Close some of them.\n", 503)
        frames = self._feed.frames(request.query_params.get("since", ""))
        return StreamingResponse(frames, media_type="text/event-stream")

    async def asset(self, request: Request) -> Response:
        """A style sheet, a script or an icon."""
        name = request.path_params["name"]
        if name not in ASSETS:
            return PlainTextResponse("No such file.\n", 404)
        # Browsers ask each time whether it has changed, as it does with another version of the package.
        return FileResponse(HERE / "assets" / name, media_type=ASSETS[name], headers={"Cache-Control": "no-cache"})

    def make(self, params: PageQuery, part: str, revision: str) -> Answer:
        """Make the page, or its changing part, from the news `revision` or later."""
        found: dict[str, Any] = {"revision": revision, "split": None, "told": Told(), "source": None}
        if params.show is Show.ADVICE:
            found |= {"body": "advice.html", "params": params, "rules": [(one, WHEN[one], PAGES[one]) for one in WHEN]}
            return render("advice.html" if part else "page.html", found), 200
        if params.show is Show.ALL or (self._overview and params.source is None):
            found |= {"body": "overview.html", "notes": list(self._notes.get(None, ()))}
            found |= overview(
                self._group,
                params,
                now_ms=now_ms(),
                notes=self._notes,
                unreadable=self._unreadable,
                awaited=self._awaited,
            )
            return render("overview.html" if part else "page.html", found), 200
        return self._one(params, part, found)

    def _one(self, params: PageQuery, part: str, found: dict[str, Any]) -> Answer:
        """The page of one source."""
        known = find(self._group, params)
        watched = known if isinstance(known, SourceStatus) else None
        code = 404 if known is None and params.source is not None else 200
        chosen = choices(self._group, known)
        found |= {"watched": watched, "begun": None, "written": None, "params": params, "body": "live.html"}
        found |= {"notes": list(self._notes.get(None, ())), "choices": chosen}
        found |= {"all": len(chosen) + sum(not one.other for one in self._unreadable)}
        if watched is not None:
            query_id = watched.view.source.query_id
            sink = self._group.sink(query_id)
            advice = advice_of(watched, now_ms(), sink)
            stopped = any(one.rule in NOT_RUNNING for one in advice)
            found |= page.live(watched, params, self._splits, sink, stopped=stopped)
            found |= {"history": make_history(watched, awaited=query_id in self._awaited), "advice": advice}
            found["notes"] += (*self._notes.get(query_id, ()), *self._passing.get(query_id, ()))
        elif isinstance(known, Begun):
            found |= page.begun(known, params, self._group.sink(known.source.query_id))
        elif isinstance(known, SinkStatus):
            found |= page.writing(known, params)
        if part != "live":
            awaited = None if watched is None or params.split is None else params.at(watched.view.source)
            found |= {"split": params.split, "told": Told(awaited=awaited)}
        return render("live.html" if part else "page.html", found), code


def now_ms() -> int:
    """The wall clock's time."""
    return round(time.time() * 1000)
