"""A real browser, and pages in it that must not complain about anything."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Error, Page, Playwright, expect, sync_playwright

from evensplit.observe.dashboard import Dashboard
from evensplit.observe.recorder import Recorder
from tests.support.views import small

log = logging.getLogger(__name__)

# On a busy machine, 5 s are soon over.
expect.set_options(timeout=60_000)

Opened = Callable[..., Page]

GONE = re.compile(
    r"error: (\[object Event\]|Failed to load resource: net::ERR_"
    r"(CONNECTION_(REFUSED|RESET|CLOSED|ABORTED)|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING))"
)
"""Pages outlive the servers of these tests, of which they complain: in words that depend on when they ask."""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The machine's own Chromium, without a window.

    Where there is none, tests are skipped; but not where `.ci/run` installs it.
    """
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as driver:
        browser = started(driver, root)
        if browser is None:
            missing = "no Chromium on PATH that starts; Debian: apt-get install chromium, elsewhere also google-chrome"
            installed = os.environ.get("CI") and root and shutil.which("apt-get")
            (pytest.fail if installed else pytest.skip)(missing)
        yield browser
        browser.close()


def started(driver: Playwright, root: bool) -> Browser | None:
    """The first one on PATH that starts: some systems have a script of that name, which says what to install."""
    for path in filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        try:
            # Root, which tests in containers are, has no sandbox.
            return driver.chromium.launch(executable_path=path, args=["--no-sandbox"] if root else [], timeout=120_000)
        except Error as error:
            log.warning("%s does not start: %s", path, error)
    return None


@pytest.fixture
def opened(chromium: Browser) -> Iterator[Opened]:
    """Opens a page, and fails the test for anything that the browser complains about, or that is asked of elsewhere."""
    complaints: list[str] = []
    contexts = []

    def open_page(url: str, *, width: int = 1280, height: int = 900, dark: bool = False, quiet: bool = False) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            # Colours that are on their way to others have contrasts of their own.
            reduced_motion="reduce",
            timezone_id="Asia/Tokyo",
            locale="en-GB",
        )
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        if not quiet:
            page.on("console", lambda one: complaints.append(f"{one.type}: {one.text}"))
            page.on("pageerror", lambda error: complaints.append(str(error)))
        host = url.split("/")[2]
        page.on("request", lambda one: complaints.append(one.url) if one.url.split("/")[2] != host else None)
        page.on("dialog", lambda one: complaints.append(f"dialog: {one.message}"))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [one for one in complaints if not GONE.fullmatch(one)] == []


@pytest.fixture
def recorder() -> Recorder:
    """With a small query in it."""
    found = Recorder()
    small(found)
    return found


@pytest.fixture
def served(recorder: Recorder) -> Iterator[Dashboard]:
    """Its dashboard."""
    with Dashboard(recorder, port=0) as found:
        yield found
