"""A browser that looks at the dashboard, without a network."""

from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient

from evensplit.observe.dashboard.app import make_app
from evensplit.observe.dashboard.feed import Feed
from evensplit.observe.recorder import Recorder
from evensplit.observe.recorder_group import RecorderGroup
from tests.support.markup import Page


def client(recorder: Recorder, **more: Any) -> TestClient:
    return TestClient(make_app(RecorderGroup(recorder), Feed(), **more), base_url="http://127.0.0.1:4848")


def shown(recorder: Recorder, address: str = "/", **headers: str) -> Page:
    answer = client(recorder).get(address, headers=headers)
    assert answer.status_code == 200
    return Page(answer.text)
