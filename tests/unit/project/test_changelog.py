"""The changelog's fragments are of the form that towncrier takes. It would leave some out, or write them badly."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tools.environments import ROOT
from tools.release.version import fragments

KINDS = [
    kind["directory"] for kind in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
]


@pytest.mark.parametrize("path", fragments(ROOT), ids=lambda path: path.name)
def test_a_fragment_is_well_formed(path: Path) -> None:
    """Named +WORDS-OF-YOURS.KIND.md, in lines of at most 120 characters, without the mark of a list or a heading."""
    assert re.fullmatch(rf"\+[a-z0-9][a-z0-9-]*\.({'|'.join(KINDS)})\.md", path.name)
    content = path.read_text()
    assert re.match(r"[^\s*#-]", content)
    assert content.endswith("\n")
    assert all(len(line) <= 120 for line in content.splitlines())
