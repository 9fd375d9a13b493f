"""Pages whose examples need neither Spark nor a broker; and how examples are found on a page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support.pages import (
    DOCS,
    PLAIN,
    ROOT,
    Block,
    anchors,
    blocks,
    pages_with_examples,
    prints_like,
    run_page,
    strangers,
)

SLOW = ("explanation/laws",)


@pytest.mark.parametrize("page", [pytest.param(page, marks=pytest.mark.slow if page in SLOW else ()) for page in PLAIN])
def test_every_block_of_the_page_does_what_it_says(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Put back as it was, whatever the page makes of it.
    monkeypatch.setenv("KAFKA_EU", "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    run_page(DOCS / f"{page}.md", {"__name__": "page"})


def test_pages_with_examples_are_found() -> None:
    assert {*PLAIN, "tutorial", "howto/regions"} <= set(pages_with_examples())


def test_no_block_is_left_out_for_the_name_of_its_language(tmp_path: Path) -> None:
    pages = [page for page in DOCS.rglob("*.md") if "_build" not in page.parts]
    assert {str(page): found for page in pages if (found := strangers(page))} == {}
    page = tmp_path / "page.md"
    page.write_text(
        "```py\nx\n```\n\n<!-- not run here: it is long -->\n```shell\nx\n```\n\n```text\nx\n```\n\n"
        "```{toctree}\nx\n```\n\n```console\nx\n```\n"
    )
    assert strangers(page) == ["py, line 1", "console, line 18"]


def test_every_link_to_a_heading_leads_to_one() -> None:
    """By the names that both GitHub and MyST give to headings."""
    missing: list[str] = []
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    for page in pages:
        for target, anchor in re.findall(r"\]\(([^)#:\s]*\.md|)#([^)\s]+)\)", page.read_text()):
            to = page.parent / target if target else page
            if "_build" not in page.parts and anchor not in anchors(to):
                missing.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert missing == []


def test_every_link_to_a_file_leads_to_one() -> None:
    """Also in a web view of the repository, and from pages that are not part of the site."""
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "examples" / "README.md", *DOCS.rglob("*.md")]
    links = [
        (page, target)
        for page in pages
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
        if "_build" not in page.parts
    ]
    assert len(links) > 100
    assert [(str(page), target) for page, target in links if not (page.parent / target).exists()] == []


def test_blocks_are_what_the_page_shows(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- file: a.py -->\n```python\nx = 1\n```\n\n"
        "<!-- not run here: it takes too long -->\n```sh\nmake\n```\n\n```text\nnothing\n```\n\n"
        "```sh\necho 1\n```\n\n```text\n1\n```\n\nWords.\n\n```text\nnot its output\n```\n"
        "```python\nprint(3)  # 3\n```\n"
    )
    assert blocks(page) == [
        Block("python", "x = 1\n", 3, "a.py"),
        Block("sh", "echo 1\n", 16, "", "1\n"),
        Block("python", "print(3)  # 3\n", 29, "", "3"),
    ]


def test_dots_stand_for_anything() -> None:
    assert prints_like("a 1 b\nc  \n", "a ... b\nc\n")
    assert not prints_like("a 1 b\nd\n", "a ... b\nc\n")
    page = Block("python", "", 1).prints
    assert page is None
