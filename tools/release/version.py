"""Which version a checkout is: by the newest tag of a release, or as it is written where there is none.

On the tag `vX.Y.Z` it is X.Y.Z. N commits later it is X.Y.(Z+1).devN+gCOMMIT, the next patch before its time, since
what comes next is at least that. Changes that are not committed add `.dirty`, and are no release even on a tag. Without
any such tag, or without git, it is what Cargo.toml says. Versions are those of PEP 440; Cargo has another form of them.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

RELEASE = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
# Releases alone: neither v1.0.0rc1 nor v1.0, so that a tag for another purpose changes nothing.
TAGS = ("--match", "v[0-9]*.[0-9]*.[0-9]*", "--exclude", "*[!v0-9.]*")
COMMIT_DIGITS = 9


class NoVersion(Exception):
    """Which version this is cannot be told; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Described:
    """What git says of a checkout: the newest release before it, commits since, and whether all is committed."""

    tag: str
    since: int
    commit: str
    dirty: bool


@dataclass(frozen=True, slots=True)
class Version:
    """A version as PEP 440 writes it, and where it comes from, in words. `released`: exactly what a tag names."""

    text: str
    because: str
    released: bool = False


def version_of(described: Described) -> Version:
    """The rule. Raises `NoVersion` for a tag that is not vX.Y.Z."""
    match = RELEASE.fullmatch(described.tag.removeprefix("v"))
    if match is None:
        raise NoVersion(
            f"The tag {described.tag} is expected to be vX.Y.Z, numbers without leading zeros. Delete it "
            f"(`git tag -d {described.tag}`), and tag anew."
        )
    if described.since == 0 and not described.dirty:
        return Version(match[0], f"the tag {described.tag}", released=True)
    major, minor, patch = map(int, match.groups())
    number = f"{major}.{minor}.{patch + 1}.dev{described.since}+g{described.commit}"
    after = {0: "", 1: "1 commit after "}.get(described.since, f"{described.since} commits after ")
    because = f"{after}the tag {described.tag}"
    if described.dirty:
        return Version(f"{number}.dirty", f"{because}, and changes that are not committed")
    return Version(number, because)


def find(root: Path) -> Version:
    """The version of the checkout `root`. Raises `NoVersion`."""
    # Looked for here alone: sources that were unpacked inside somebody else's repository are none of its commits.
    if not (root / ".git").exists():
        return Version(written(root), "Cargo.toml; this is no git repository")
    described = describe(root)
    if described is None:
        return Version(written(root), "Cargo.toml; there is no tag vX.Y.Z before this commit")
    return version_of(described)


def describe(root: Path) -> Described | None:
    """What git says of the checkout, None where no commit before it has the tag of a release. Raises `NoVersion`."""
    commit = git(root, "rev-parse", "--verify", f"--short={COMMIT_DIGITS}", "HEAD")
    dirty = bool(git(root, "status", "--porcelain", "--untracked-files=no"))
    code, said, _ = ask_git(root, "describe", "--tags", "--long", *TAGS)
    tag, since = said.strip().rsplit("-", 2)[:2] if code == 0 else ("", "0")
    if (not tag or since != "0") and git(root, "rev-parse", "--is-shallow-repository") == "true":
        raise NoVersion(
            f"{root} is a shallow clone: tags and commits that decide the version may be missing. "
            "`git fetch --unshallow --tags` gets them."
        )
    return Described(tag, int(since), commit, dirty) if tag else None


def git(root: Path, *arguments: str) -> str:
    """What git says to that, without the white space around it. Raises `NoVersion` when it fails."""
    code, said, complaint = ask_git(root, *arguments)
    if code != 0:
        raise NoVersion(
            f"{root} is a git repository, so its tags decide the version, but `git {' '.join(arguments)}` failed: "
            f"{complaint.strip()}"
        )
    return said.strip()


def ask_git(root: Path, *arguments: str) -> tuple[int, str, str]:
    """Its exit code, what it says, and what it complains of; 127 where there is no git."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        return 127, "", str(error)
    return done.returncode, done.stdout, done.stderr


def written(root: Path) -> str:
    """What Cargo.toml says, as PEP 440 writes it."""
    text: str = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    return text.replace("-dev", ".dev")


def for_cargo(version: str) -> str:
    """The same version as Cargo writes it (SemVer); maturin translates it back.

    >>> for_cargo("0.1.1.dev3+gabc.dirty")
    '0.1.1-dev3+gabc.dirty'
    """
    return version.replace(".dev", "-dev", 1)
