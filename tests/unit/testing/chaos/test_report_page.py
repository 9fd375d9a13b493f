"""The report is one file that needs nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from evensplit.testing.chaos.checker.check import check
from evensplit.testing.chaos.history import events as ev
from evensplit.testing.chaos.page.report_page import report_page
from tests.support.chaos_histories import faultless


class _Balance(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_needs_nothing_else_and_escapes_names(tmp_path: Path) -> None:
    run = faultless()
    run.events.append(ev.FaultBegan(at_s=90, fault=9, nemesis="<script>", what="<b>x</b>"))
    run.events.append(ev.FaultEnded(at_s=95, fault=9))
    page = report_page(run.write(tmp_path), check(tmp_path)).decode()
    balance = _Balance()
    balance.feed(page)
    assert balance.open == []
    assert "<script" not in page
    assert "<b>x" not in page
    assert not re.search(r"(src|href)=|https?:|url\(|@import", page)
    assert page.index(">Held<") < page.index("Timeline")
    assert "evensplit chaos --minutes 5 --seed 7" in page
