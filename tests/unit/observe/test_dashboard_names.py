"""Names of clusters, topics and queries stay names on the dashboard's page, whatever is in them."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from evensplit.core.state.observation import Report
from evensplit.observe.recorder import Recorder
from evensplit.observe.source_view import Source
from tests.support.browsers import client, shown
from tests.support.views import NASTY, feed, states


def nasty_names() -> list[str]:
    return [
        NASTY,
        "a" * 249,
        "'\"><img src=x onerror=alert(1)>",
        "{{ 7 * 7 }}",
        "x\ny\r\nz",
        "</script>",
        "data: x\n\n",
    ]


def test_names_stay_names() -> None:
    recorder = Recorder()
    names = nasty_names()
    topics = {(name, name): 2 for name in names}
    source = Source(NASTY, 0, f"query {NASTY}")
    feed(recorder, states(topics, 2, 2, lambda key, batch: 5), [Report(unreachable={NASTY: NASTY})] * 2, source)
    plain = Recorder()
    feed(plain, states({(f"c{n}", f"t{n}"): 2 for n in range(len(names))}, 2, 2, lambda key, batch: 5), source=source)
    page = shown(recorder, "/?find=&kind=discovered")
    tags = {tag for tag, _ in page.elements}
    assert tags <= {tag for tag, _ in shown(plain).elements} | {"p", "span"}
    for tag, found in page.elements:
        assert not [name for name in found if name.startswith("on") or name == "style"]
        if tag == "script":
            assert (found["src"] or "").startswith("/assets/")
    assert "49" not in [found["title"] for tag, found in page.elements if found.get("class") == "label"]
    for name in names:
        cells = [
            one for one in page.cells() if parse_qs(urlsplit(one["href"] or "").query).get("split", [""])[0] == name
        ]
        assert [parse_qs(urlsplit(one["href"] or "").query)["split"] for one in cells] == [
            [name, name, "0"],
            [name, name, "1"],
        ]
        assert all(re.fullmatch(r"c[0-9a-f]+", one["id"] or "") for one in cells)
        story = shown(recorder, cells[0]["href"] or "", **{"HX-Request": "true", "HX-Target": "story"})
        assert " ".join(f"{name}/{name}/0".split()) in story.text
        assert not [tag for tag, _ in story.elements if tag in ("script", "img")]


def test_names_with_halves_of_characters() -> None:
    recorder = Recorder()
    source = Source("\udcff", 0, "q\udc80")
    feed(recorder, states({("c\ud800", "t\udfff"): 2}, 2, 2, lambda key, batch: 5), source=source)
    page = shown(recorder)
    assert len(page.cells()) == 2
    assert "q\\udc80" in page.text
    assert shown(recorder, "/?find=t").cells()
    answer = client(recorder).get(page.cells()[0]["href"] or "", headers={"HX-Request": "true", "HX-Target": "story"})
    assert answer.status_code in (200, 404)


def test_carriage_returns_in_names_come_back() -> None:
    found = Recorder()
    feed(found, states({("a\rb", "t"): 2}, 1, 2, lambda key, batch: 5))
    text = client(found).get("/?cluster=a%0Db").text
    assert 'name="cluster" value="a&#13;b"' in text
