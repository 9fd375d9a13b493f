"""The reference and the pictures are what the code gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from evensplit.spark.options.spec.all import DECLARED
from tools import pictures, reference
from tools.pictures import PICTURES


def test_the_committed_pages_are_what_the_code_gives() -> None:
    assert reference.stale() == [], "run: python -m tools.reference"
    assert reference.main(["--check"]) == 0


def test_commands_have_their_exit_codes_and_examples() -> None:
    page = reference.commands_page()
    parts = page.split("\n## ")[1:]
    assert len(parts) > 10
    for part in parts:
        assert "\nExit codes:\n  0  " in part, part.splitlines()[0]
        assert "\nExample" in part, part.splitlines()[0]


def test_a_page_that_is_not_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for page in reference.DIRECTORY.glob("*.md"):
        (tmp_path / page.name).write_text(page.read_text())
    assert reference.stale(tmp_path) == []
    (tmp_path / "options.md").write_text((tmp_path / "options.md").read_text().replace("`10s`", "`11s`"))
    (tmp_path / "errors.md").unlink()
    assert reference.stale(tmp_path) == ["options.md", "errors.md"]


def test_every_type_of_the_options_is_explained() -> None:
    assert {option.type.kind for option in DECLARED} == set(reference.KINDS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "spread.svg" else ()) for name in PICTURES]
)
def test_the_committed_picture_is_what_would_be_drawn(name: str) -> None:
    assert pictures.stale([name]) == [], "run: python -m tools.pictures"
