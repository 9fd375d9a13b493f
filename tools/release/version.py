"""The version of a checkout, by its tags, and a copy of its sources with that version written into it.

On the tag `vX.Y.Z` it is X.Y.Z. N commits later it is X.Y.(Z+1).devN+gCOMMIT, the least that comes next. Changes that
are not committed add `.dirty`, and are no release even on a tag. Without such a tag, or without git, it is what
Cargo.toml says. Versions are those of PEP 440; Cargo has another form of them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import dunamai

# Releases alone: a tag for another purpose changes nothing.
TAG = r"^v(?P<base>(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*))$"
NO_TAG = "0.0.0"
FRAGMENTS = "changelog.d"
# All that a build reads.
INPUTS = ("Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "native", "pyproject.toml", "src")
# A build leaves these, and where there is no git nothing else tells them from sources.
MADE = ("__pycache__", ".DS_Store", "_kernel*.so")


class NoVersion(Exception):
    """The version cannot be told; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version as PEP 440 writes it, and where it comes from."""

    text: str
    because: str
    released: bool = False
    """Whether it is exactly what a tag names."""


def find(root: Path) -> Version:
    """The version of the checkout `root`. Raises `NoVersion`."""
    # Only here: sources that were unpacked inside another repository do not belong to its commits.
    if not (root / ".git").exists():
        return Version(written(root), "Cargo.toml; this is no git repository")
    try:
        found = dunamai.Version.from_git(pattern=TAG, path=root, ignore_untracked=True)
    except (RuntimeError, ValueError) as error:
        raise NoVersion(f"{root} is a git repository, so its tags decide the version, but: {error}") from error
    if (found.base == NO_TAG or found.distance) and dunamai.Concern.ShallowRepository in found.concerns:
        raise NoVersion(
            f"{root} is a shallow clone: tags and commits that decide the version may be missing. "
            "`git fetch --unshallow --tags` gets them."
        )
    if found.base == NO_TAG:
        return Version(written(root), "Cargo.toml; there is no tag vX.Y.Z before this commit")
    if found.distance == 0 and not found.dirty:
        return Version(found.base, f"the tag v{found.base}", released=True)
    because = f"{found.distance} commits after the tag v{found.base}"
    text = f"{found.bump().base}.dev{found.distance}+g{found.commit}"
    if found.dirty:
        return Version(f"{text}.dirty", f"{because}, and changes that are not committed")
    return Version(text, because)


def written(root: Path) -> str:
    """The version in Cargo.toml, as PEP 440 writes it."""
    text: str = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    return text.replace("-dev", ".dev")


def wrong(root: Path, version: Version, tag: str | None) -> list[str]:
    """Why this is not the release `tag`. A release has its changelog and its version in Cargo.toml."""
    problems = []
    if tag is not None and tag != f"v{version.text}":
        problems.append(f"--tag {tag} was asked for, and this is {version.text}, by {version.because}.")
    if not version.released:
        return problems
    title = rf"^## \[{re.escape(version.text)}\] - \d{{4}}-\d\d-\d\d$"
    if not re.search(title, (root / "CHANGELOG.md").read_text(), re.M):
        problems.append(
            f"CHANGELOG.md has no part `## [{version.text}] - DATE`. `make changelog ARGS='--version {version.text}'` "
            "writes it; commit that, and tag that commit."
        )
    if left := fragments(root):
        problems.append(f"{FRAGMENTS} still holds changes that are in no release: {', '.join(p.name for p in left)}")
    if (said := written(root)) != version.text:
        problems.append(
            f"Cargo.toml says {said}: an archive of this tag without git would be that. Write {version.text} there, "
            "`cargo update --workspace` for the lock, commit, and tag that commit."
        )
    return problems


def fragments(root: Path) -> list[Path]:
    """The changes since the last release, one file each."""
    return sorted(path for path in (root / FRAGMENTS).iterdir() if path.name != "README.md")


def sources(root: Path) -> list[str]:
    """The files of INPUTS, relative to `root`: those that git tracks and that are there; without git, all."""
    if (root / ".git").exists():
        command = ["git", "-C", str(root), "ls-files", "-z", "--", *INPUTS]
        names = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\0")
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
    number = for_cargo(version)
    replace(place / "Cargo.toml", r'(?ms)(^\[workspace\.package\]$[^\[]*?^version = ")[^"\n]*', number)
    lock = place / "Cargo.lock"
    # Those without a source are the crates of the workspace; cargo refuses a lock that has another version for them.
    for package in tomllib.loads(lock.read_text())["package"]:
        if "source" not in package:
            replace(lock, rf'(?m)(^name = "{re.escape(package["name"])}"\nversion = ")[^"\n]*', number)


def replace(path: Path, pattern: str, number: str) -> None:
    """Put `number` after the group of `pattern`, which has to be there once."""
    changed, count = re.subn(pattern, lambda match: match[1] + number, path.read_text())
    if count != 1:
        raise ValueError(f"{path}: expected one place for the version, `{pattern}`, found {count}")
    path.write_text(changed)


def for_cargo(version: str) -> str:
    """The same version as Cargo writes it (SemVer); maturin translates it back.

    >>> for_cargo("0.1.1.dev3+gabc.dirty")
    '0.1.1-dev3+gabc.dirty'
    """
    return version.replace(".dev", "-dev", 1)
