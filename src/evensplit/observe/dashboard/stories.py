"""The histories of splits. Each takes long, so they are made one at a time, while their browsers wait."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from evensplit.core.model import SplitId
from evensplit.errors import CheckpointError
from evensplit.observe.dashboard.view import page
from evensplit.observe.dashboard.view.query import PageQuery
from evensplit.observe.recorder import SourceStatus
from evensplit.observe.recorder_group import RecorderGroup
from evensplit.observe.source_view import Source

STORIES_MAX = 64
"""How many of the latest histories are kept."""


@dataclass(frozen=True, slots=True)
class Told:
    """A history as it is shown, or why there is none."""

    story: Mapping[str, Any] | None = None
    problem: str = ""
    awaited: PageQuery | None = None
    """The params to ask for it with, if it is still to be made."""


class Stories:
    """Makes the histories of the splits in `group`."""

    def __init__(self, group: RecorderGroup) -> None:
        self._shelf = group
        self._slot = asyncio.Semaphore(1)
        self._told: OrderedDict[tuple[Source, SplitId, str, int], Told] = OrderedDict()

    async def tell(self, request: Request, watched: SourceStatus, split: SplitId) -> Told | None:
        """The history of `split` up to the last batch of `watched`; None if the browser of `request` has gone."""
        last = watched.view.last
        key = (last.source, split, last.run_id, last.number)
        if key in self._told:
            return self._told[key]
        gone = threading.Event()
        waits = asyncio.create_task(_until_gone(request, gone))
        try:
            async with self._slot:
                told = self._told.get(key)
                if told is None and not gone.is_set():
                    told = await run_in_threadpool(self._tell, last.source, split, gone)
        finally:
            waits.cancel()
        if told is None or gone.is_set():
            return None
        self._told[key] = told
        if len(self._told) > STORIES_MAX:
            self._told.popitem(last=False)
        return told

    def _tell(self, source: Source, split: SplitId, gone: threading.Event) -> Told:
        try:
            found = self._shelf.story(source, split, lambda: not gone.is_set())
        except CheckpointError as error:
            return Told(problem=str(error))
        return Told(problem="None of the batches that are kept has it.") if found is None else Told(page.story(found))


async def _until_gone(request: Request, gone: threading.Event) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    gone.set()
