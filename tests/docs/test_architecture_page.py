"""docs/architecture.md: each path on it is there, and each package has its place on it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.pages import DOCS, ROOT

SOURCE = ROOT / "src" / "evensplit"
PAGE = (DOCS / "architecture.md").read_text()
TREE = PAGE.partition("```\nsrc/evensplit/\n")[2].partition("```")[0]
TEXT = PAGE.replace(TREE, "")


def tree() -> list[Path]:
    """The paths in the tree: what begins a line, by how far it is indented, and the modules that the line names."""
    found: list[Path] = []
    above: list[tuple[int, Path]] = [(0, SOURCE)]
    for line in TREE.splitlines():
        indent = len(line) - len(line.lstrip())
        first = line.split()[0]
        begins = re.fullmatch(r"[\w/]+(?:/|\.py)", first) is not None
        if begins and indent == 0:
            found.append(ROOT / first)
            continue
        if begins and indent < 12:
            while above[-1][0] >= indent:
                above.pop()
            place = above[-1][1]
            found.append(place / first)
            above.append((indent, place / first if first.endswith("/") else place))
        found += [_directory(above[-1][1]) / name for name in re.findall(r"\w+\.py\b", line)]
    return found


def _directory(path: Path) -> Path:
    return path.parent if path.suffix else path


def test_each_path_in_the_tree_is_there() -> None:
    paths = tree()
    assert len(paths) > 60
    assert [str(path.relative_to(ROOT)) for path in paths if not path.exists()] == []


def test_each_path_in_the_text_is_there() -> None:
    """As it is written from the root, from src/evensplit, or, where that is clear, by a module's name alone."""
    named = {one for quoted in re.findall(r"`([^`\n]+)`", TEXT) for one in re.findall(r"^[\w/]+(?:\.py|/)$", quoted)}
    assert len(named) > 15
    modules = {path.name for path in SOURCE.rglob("*.py")}
    there = {one for one in named if (ROOT / one).exists() or (SOURCE / one).exists() or one in modules}
    assert named - there == set()


def test_each_package_has_its_place() -> None:
    packages = {path.parent for path in SOURCE.rglob("__init__.py")} - {SOURCE}
    assert packages - set(tree()) == set()
