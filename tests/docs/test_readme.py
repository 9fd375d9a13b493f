"""The README: what a stranger does who follows it from the top."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.pages import ROOT, Block, blocks, run_in_one_shell, strangers

README = ROOT / "README.md"


def section(heading: str, within: Path) -> list[Block]:
    """The blocks below a heading."""
    page = within / "section.md"
    page.write_text(README.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0])
    return blocks(page)


def test_what_it_needs_is_what_the_package_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = dict(re.findall(r"^\| (\w[\w ]*) \| ([0-9.]+) or newer", README.read_text(), re.M))
    assert f">={needs['Python']}" == project["requires-python"]
    assert [f"pyspark>={needs['PySpark']}"] == project["optional-dependencies"]["spark"]
    assert needs["Java"] == "17"


def test_every_block_in_python_is_python() -> None:
    found = [step for step in blocks(README) if step.language == "python"]
    assert len(found) >= 3
    for step in found:
        compile("\n" * (step.line - 1) + step.code, "README.md", "exec")
    assert strangers(README) == []


def test_the_first_screen_has_a_picture_and_one_command() -> None:
    """Before any list, and before the first heading."""
    screen = README.read_text().partition("\n## ")[0]
    assert len(screen.splitlines()) <= 20
    assert re.findall(r"^!\[.+\]\((.+)\)$", screen, re.M) == ["docs/pictures/overview.svg"]
    assert re.findall(r"^```\n(.*?)^```$", screen, re.M | re.S) == ["make demo\n"]
    assert not re.search(r"^([-*|] ?|[0-9]+\. )", screen, re.M)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_the_first_query_reads_what_was_written(tmp_path: Path) -> None:
    """As it stands there, from the top, in an empty directory."""
    steps = section("A first query", tmp_path)
    (program,) = (number for number, step in enumerate(steps) if step.code.startswith("python first.py"))
    printed = run_in_one_shell(steps, tmp_path, 540)[program]
    rows = re.findall(r"\|\s*([0-9]+)\|\s*([0-9]+)\|\s*(order [0-9]+)\|", printed)
    assert sorted(rows) == sorted((str(n % 4), str(n // 4), f"order {n}") for n in range(8)), printed
