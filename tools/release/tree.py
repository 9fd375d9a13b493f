"""The sources that a release is built from: a copy of what git tracks, with the version written into it.

A copy, because the version must not be written into anybody's checkout; and outside of it, because maturin and cargo
leave out what the repository around them ignores.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

from tools.release.version import for_cargo, git

# All that a build reads.
INPUTS = ("Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "native", "pyproject.toml", "src")
# Where there is no git to say what is a source: what a build leaves behind.
MADE = ("__pycache__", ".DS_Store", "_kernel*.so")


def sources(root: Path) -> list[str]:
    """The files of INPUTS, as paths relative to `root`: those that git tracks and that are there; all, without git."""
    if (root / ".git").exists():
        names = git(root, "ls-files", "-z", "--", *INPUTS).split("\0")
        return sorted(name for name in names if name and (root / name).is_file())
    found = [path for name in INPUTS for path in (root / name, *(root / name).rglob("*"))]
    relative = [path.relative_to(root) for path in found if path.is_file()]
    return sorted(
        str(path) for path in relative if not any(Path(part).match(made) for part in path.parts for made in MADE)
    )


def export(root: Path, place: Path, version: str) -> None:
    """Copy the sources of `root`, with changes that are not committed, to `place`, and write `version` there."""
    for name in sources(root):
        copy = place / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, copy)
    stamp(place, version)


def stamp(place: Path, version: str) -> None:
    """Write `version` into the Cargo.toml and the Cargo.lock of `place`: maturin takes it from there."""
    number = for_cargo(version)
    replace(place / "Cargo.toml", r'(?ms)(^\[workspace\.package\]$[^\[]*?^version = ")[^"\n]*', number)
    lock = place / "Cargo.lock"
    # Those without a source are the crates of the workspace; cargo refuses a lock that has another version for them.
    own = [package["name"] for package in tomllib.loads(lock.read_text())["package"] if "source" not in package]
    for name in own:
        replace(lock, rf'(?m)(^name = "{re.escape(name)}"\nversion = ")[^"\n]*', number)


def replace(path: Path, pattern: str, number: str) -> None:
    """Put `number` behind the group of `pattern`, which has to be there once."""
    changed, count = re.subn(pattern, lambda match: match[1] + number, path.read_text())
    if count != 1:
        raise ValueError(f"{path}: expected one place for the version, `{pattern}`, found {count}")
    path.write_text(changed)
