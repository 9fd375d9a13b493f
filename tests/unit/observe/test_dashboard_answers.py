"""The dashboard's answers: addresses of no page, headers, assets; nothing from elsewhere, and nothing to change."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from evensplit.observe.dashboard.app import ASSETS
from evensplit.observe.dashboard.rendering import HERE
from evensplit.observe.recorder import Recorder
from evensplit.observe.web.guard import HEADERS
from tests.support.browsers import client, shown
from tests.support.views import recorder_of, small


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return recorder_of(small, 12)


def test_a_query_that_is_not_known() -> None:
    answer = client(Recorder()).get("/?source=0:gone")
    assert answer.status_code == 404
    assert "There is no such query here" in answer.text


@pytest.mark.parametrize(
    "query, said",
    [
        ("what=1", "'what': expected one of"),
        ("by=colour", "by='colour': expected one of lag, rate"),
        ("reader=-3", "reader='-3': expected a number"),
        ("page=99999999999999999999999", "expected a number"),
        ("kind=<b>", "kind='<b>': expected one of started"),
        ("page=1&page=2", "page: expected once, found 2 times"),
        ("split=a&split=b", "expected cluster, topic and partition, found 2 parts"),
        ("source=x", "source='x': expected a number"),
    ],
)
def test_an_address_of_no_page(recorder: Recorder, query: str, said: str) -> None:
    answer = client(recorder).get(f"/?{query}")
    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/plain")
    assert said in answer.text


def test_every_answer_is_strict(recorder: Recorder) -> None:
    for path in ("/", "/assets/dashboard.js", "/nothing", "/?what=1", "/?source=0:gone"):
        answer = client(recorder).get(path)
        for name, value in HEADERS.items():
            assert answer.headers[name] == (
                "no-cache" if (path, name) == ("/assets/dashboard.js", "Cache-Control") else value
            )
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_nothing_is_loaded_from_elsewhere(recorder: Recorder) -> None:
    for tag, found in shown(recorder).elements:
        for name in ("src", "href", "action", "hx-get", "sse-connect"):
            if found.get(name):
                assert re.match(r"/(?!/)|#", found[name] or ""), (tag, found)
    css = (HERE / "assets" / "dashboard.css").read_text()
    assert "url(" not in css
    assert "@import" not in css


# What npm has under these names and versions; the licence of all three is 0BSD.
VENDORED = {
    "htmx.min.js": ("htmx.org", "2.0.11", "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"),
    "htmx-ext-sse.min.js": (
        "htmx-ext-sse",
        "2.2.4",
        "98a46496de0c3605fbffdce9167ba427bdd9553184f83f149c261891a92c0136",
    ),
    "idiomorph-ext.min.js": ("idiomorph", "0.8.0", "5811b9a7eda14878b7dab4378bf60432e1bb6f11fcfb970cc26540642650181e"),
}


@pytest.mark.parametrize("name", VENDORED)
def test_what_others_wrote_is_as_they_published_it(name: str) -> None:
    package, version, digest = VENDORED[name]
    assert hashlib.sha256((HERE / "assets" / name).read_bytes()).hexdigest() == digest
    notice = (HERE / "assets" / "NOTICE.md").read_text()
    assert f"| {name} | {package} | {version} | 0BSD | {digest} |" in notice


@pytest.mark.parametrize("name", ASSETS)
def test_assets_are_there(recorder: Recorder, name: str) -> None:
    answer = client(recorder).get(f"/assets/{name}")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(ASSETS[name])
    assert (HERE / "assets" / name).read_bytes() == answer.content


@pytest.mark.parametrize("path", ["/assets/NOTICE.md", "/assets/..%2fapp.py", "/assets/%2e%2e/app.py", "/app.py"])
def test_other_files_are_not_answered(recorder: Recorder, path: str) -> None:
    assert client(recorder).get(path).status_code == 404


def test_nothing_can_be_changed(recorder: Recorder) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client(recorder).request(method, "/").status_code == 405


@pytest.mark.parametrize("path", sorted((HERE / "templates").iterdir()), ids=lambda path: path.name)
def test_templates_leave_escaping_on_and_quote_attributes(path: Path) -> None:
    text = path.read_text()
    assert "|safe" not in text.replace(" ", "")
    assert "autoescape false" not in text
    assert not re.search(r"\s[\w-]+=\{\{", text)
    assert not re.search(r"<[^>]*\s(style|on\w+)=", text)
