"""A browser that looks at the dashboard, without a network."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from evensplit.observe.dashboard.app import Pages
from evensplit.observe.recorder import Recorder
from evensplit.observe.web.guard import Guard
from tests.support.markup import Page


def guarded(*recorders: Recorder, loopback: bool = True, token: str | None = None) -> ASGIApp:
    """The dashboard of these recorders, as the server has it."""
    pages = Pages()
    for recorder in recorders:
        pages.watch(recorder)
    return Guard(Starlette(routes=pages.routes), loopback=loopback, token=token)


def client(
    *recorders: Recorder, loopback: bool = True, token: str | None = None, base: str = "http://127.0.0.1:4848"
) -> TestClient:
    return TestClient(guarded(*recorders, loopback=loopback, token=token), base_url=base)


def shown(recorder: Recorder, address: str = "/", **headers: str) -> Page:
    answer = client(recorder).get(address, headers=headers)
    assert answer.status_code == 200
    return Page(answer.text)
