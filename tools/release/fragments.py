"""The changelog's fragments: one file for each change in changelog.d, which towncrier puts together for a release."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

DIRECTORY = "changelog.d"
README = "README.md"
LINE_LENGTH = 120


def kinds(root: Path) -> list[str]:
    """The kinds of changes, as pyproject.toml names them to towncrier."""
    configured = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
    return [str(kind["directory"]) for kind in configured]


def fragments(root: Path) -> list[Path]:
    """All of them, in the order of their names."""
    return sorted(path for path in (root / DIRECTORY).iterdir() if path.name != README)


def problems(root: Path) -> list[str]:
    """What is wrong with them: one sentence for each. Towncrier would leave some out, or write them badly."""
    allowed = kinds(root)
    found = []
    for path in fragments(root):
        name = f"{DIRECTORY}/{path.name}"
        match = re.fullmatch(r"\+[a-z0-9][a-z0-9-]*\.([a-z]+)\.md", path.name)
        if match is None or match[1] not in allowed or not path.is_file():
            found.append(f"{name}: expected +WORDS-OF-YOURS.KIND.md, where KIND is {', '.join(allowed)}")
            continue
        content = path.read_text()
        if not content.strip() or not content.endswith("\n") or content.startswith((" ", "\n")):
            found.append(f"{name}: expected text from its first character on, and a line feed at its end")
        if re.match(r"[-*#]", content):
            found.append(f"{name}: expected a sentence without a mark of a list or a heading; they are added")
        if any(len(line) > LINE_LENGTH for line in content.splitlines()):
            found.append(f"{name}: expected lines of at most {LINE_LENGTH} characters")
    return found


def unreleased(root: Path, version: str) -> list[str]:
    """Why the changelog is not that of the release `version`: it has no part for it, or fragments are left."""
    found = []
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", (root / "CHANGELOG.md").read_text(), re.M):
        found.append(
            f"CHANGELOG.md has no part `## [{version}] - DATE`. `make changelog ARGS='--version {version}'` writes it; "
            "commit that, and tag that commit."
        )
    if left := fragments(root):
        found.append(f"{DIRECTORY} still holds changes that are in no release: {', '.join(path.name for path in left)}")
    return found
