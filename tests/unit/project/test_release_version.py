"""Which version a checkout is, and how it gets into what is built from it."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

import evensplit
from evensplit.cli.group import evensplit as command
from tools.environments import ROOT
from tools.release.version import NoVersion, Version, export, find, for_cargo, sources, written, wrong

CARGO = '[workspace]\nmembers = ["native/kernel"]\n\n[workspace.package]\nedition = "2021"\nversion = "0.3.0"\n'
LOCK = """version = 4

[[package]]
name = "evensplit-kernel"
version = "0.3.0"
dependencies = [
 "snap",
]

[[package]]
name = "snap"
version = "0.3.0"
source = "registry"
"""


class Repository:
    """A small checkout with a history."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "src" / "evensplit").mkdir(parents=True)
        files = {"Cargo.toml": CARGO, "Cargo.lock": LOCK, "src/evensplit/__init__.py": "", "notes": ""}
        for name, text in files.items():
            (root / name).write_text(text)
        self("init", "--quiet")
        self.commit()

    def __call__(self, *arguments: str) -> str:
        who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *who, *arguments], cwd=self.root, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self) -> None:
        self("add", ".")
        self("commit", "--quiet", "--allow-empty", "--message", "a change")

    @property
    def head(self) -> str:
        return self("rev-parse", "--short", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_a_checkout_is_the_version_that_its_tags_say(repository: Repository) -> None:
    seen = [find(repository.root).text]
    first = repository.head
    repository("tag", "v0.4.0rc1")
    repository("tag", "nightly")
    repository("tag", "v0.04.0")
    seen.append(find(repository.root).text)
    repository("tag", "v0.4.9")
    seen.append(find(repository.root).text)
    (repository.root / "notes").write_text("changed")
    seen.append(find(repository.root).text)
    repository.commit()
    seen.append(find(repository.root).text)
    (repository.root / "not-added").touch()
    seen.append(find(repository.root).text)
    (repository.root / "notes").write_text("changed again")
    seen.append(find(repository.root).text)
    later = f"0.4.10.dev1+g{repository.head}"
    assert seen == ["0.3.0", "0.3.0", "0.4.9", f"0.4.10.dev0+g{first}.dirty", later, later, f"{later}.dirty"]


def test_what_is_no_repository_is_the_version_that_is_written(repository: Repository) -> None:
    """As in an unpacked sdist, also below somebody else's repository."""
    repository("tag", "v9.9.9")
    inner = repository.root / "unpacked"
    export(repository.root, inner, "0.4.1.dev7+gabc12")
    assert find(inner) == Version("0.4.1.dev7+gabc12", "Cargo.toml; this is no git repository")


def test_a_shallow_clone_is_refused_unless_it_is_a_release(repository: Repository, tmp_path: Path) -> None:
    repository("tag", "v0.4.0")
    repository.commit()
    shallow = tmp_path / "shallow"
    repository("clone", "--quiet", "--depth=1", f"file://{repository.root}", str(shallow))
    with pytest.raises(NoVersion, match="git fetch --unshallow --tags"):
        find(shallow)
    subprocess.run(["git", "tag", "v0.5.0"], cwd=shallow, check=True)
    assert find(shallow).text == "0.5.0"


def test_a_repository_that_git_cannot_read_is_no_reason_to_guess(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with pytest.raises(NoVersion, match="its tags decide the version, but: "):
        find(tmp_path)


def test_the_version_is_written_into_a_copy(repository: Repository, tmp_path: Path) -> None:
    place = tmp_path / "copy"
    (repository.root / "src" / "evensplit" / "__init__.py").write_text("changed = True\n")
    (repository.root / "src" / "evensplit" / "_kernel.abi3.so").touch()
    (repository.root / ".gitignore").write_text("*.so\n")
    export(repository.root, place, "0.4.1.dev7+gabc12.dirty")
    assert written(place) == "0.4.1.dev7+gabc12.dirty"
    lock = tomllib.loads((place / "Cargo.lock").read_text())
    assert {each["name"]: each["version"] for each in lock["package"]} == {
        "evensplit-kernel": "0.4.1-dev7+gabc12.dirty",
        "snap": "0.3.0",
    }
    assert (place / "src" / "evensplit" / "__init__.py").read_text() == "changed = True\n"
    assert (repository.root / "Cargo.toml").read_text() == CARGO
    assert sources(place) == sources(repository.root) == ["Cargo.lock", "Cargo.toml", "src/evensplit/__init__.py"]


def test_a_file_without_a_place_for_the_version_is_named(repository: Repository, tmp_path: Path) -> None:
    (repository.root / "Cargo.toml").write_text(CARGO.replace("[workspace.package]", "[workspace.metadata]"))
    with pytest.raises(ValueError, match=r"Cargo\.toml: expected one place"):
        export(repository.root, tmp_path / "copy", "1.0.0")


def test_the_projects_own_files_have_their_places(tmp_path: Path) -> None:
    export(ROOT, tmp_path, "7.8.9")
    assert written(tmp_path) == "7.8.9"
    assert (tmp_path / "Cargo.lock").read_text().count('version = "7.8.9"') == 2
    assert for_cargo(written(ROOT)) in (ROOT / "Cargo.toml").read_text()


def test_a_release_is_what_was_asked_for_and_has_its_changelog(repository: Repository) -> None:
    root = repository.root
    (root / "changelog.d").mkdir()
    (root / "changelog.d" / "README.md").touch()
    (root / "CHANGELOG.md").write_text("# Changelog\n\n## [0.3.0] - 2026-01-02\n")
    later = Version("0.4.1.dev1+gabc12", "1 commits after the tag v0.4.0")
    assert wrong(root, later, None) == []
    (said,) = wrong(root, later, "v0.4.0")
    assert "--tag v0.4.0 was asked for, and this is 0.4.1.dev1+gabc12" in said
    assert wrong(root, Version("0.3.0", "the tag v0.3.0", released=True), "v0.3.0") == []
    (root / "changelog.d" / "+pins.fixed.md").touch()
    part, left, cargo = wrong(root, Version("0.4.0", "the tag v0.4.0", released=True), "v0.4.0")
    assert "no part `## [0.4.0] - DATE`" in part
    assert left.endswith("+pins.fixed.md")
    assert "Write 0.4.0 there" in cargo


def test_the_package_says_its_version() -> None:
    said = CliRunner().invoke(command, ["--version"], prog_name="evensplit").output
    assert said == f"evensplit {evensplit.__version__}\n"
    assert re.match(r"\d+\.\d+\.\d+", evensplit.__version__)
