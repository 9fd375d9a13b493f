"""The changelog's fragments: those that are here are well formed, and those that are not are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.environments import ROOT
from tools.release.fragments import DIRECTORY, fragments, kinds, problems, unreleased

KINDS = ["added", "changed", "deprecated", "removed", "fixed", "security"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one good fragment, and a release 0.1.0."""
    types = "".join(f'[[tool.towncrier.type]]\ndirectory = "{kind}"\n' for kind in KINDS)
    (tmp_path / "pyproject.toml").write_text(types)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [0.1.0] - 2026-01-02\n")
    (tmp_path / DIRECTORY).mkdir()
    (tmp_path / DIRECTORY / "README.md").write_text("# How\n")
    (tmp_path / DIRECTORY / "+pins.fixed.md").write_text("Readers that are pinned\nmay be idle.\n")
    return tmp_path


def test_the_fragments_that_are_here_are_well_formed() -> None:
    assert problems(ROOT) == []
    assert kinds(ROOT) == KINDS


def test_a_good_fragment(project: Path) -> None:
    assert [path.name for path in fragments(project)] == ["+pins.fixed.md"]
    assert problems(project) == []


@pytest.mark.parametrize("name", ["pins.fixed.md", "+pins.feature.md", "+pins.fixed", "+pins.fixed.rst", "notes.md"])
def test_a_name_that_towncrier_would_not_take_is_told(project: Path, name: str) -> None:
    (project / DIRECTORY / name).write_text("A change.\n")
    (said,) = problems(project)
    assert said.startswith(f"{DIRECTORY}/{name}: expected +WORDS-OF-YOURS.KIND.md")


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "expected text"),
        ("No end", "a line feed at its end"),
        ("\nA change.\n", "from its first character on"),
        ("- A change.\n", "without a mark of a list"),
        ("# A change\n", "or a heading"),
        ("x" * 121 + "\n", "at most 120 characters"),
    ],
)
def test_a_text_that_would_look_bad_is_told(project: Path, text: str, said: str) -> None:
    (project / DIRECTORY / "+pins.fixed.md").write_text(text)
    assert any(said in problem for problem in problems(project))


def test_a_release_has_its_part_and_leaves_no_fragment(project: Path) -> None:
    missing, left = unreleased(project, "0.2.0")
    assert "no part `## [0.2.0] - DATE`" in missing
    assert left.endswith("+pins.fixed.md")
    (project / DIRECTORY / "+pins.fixed.md").unlink()
    assert unreleased(project, "0.1.0") == []
