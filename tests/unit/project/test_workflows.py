"""The workflows: they run commands that there are, and only what was checked on both machines is published."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.environments import ROOT
from tools.release.__main__ import TARGETS

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def jobs(name: str) -> Any:
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())["jobs"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_they_run_commands_that_there_are_with_few_rights(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = [match for step in steps for match in re.findall(r"^make ([\w-]+)", step.get("run", ""))]
    assert commands
    assert all(re.search(rf"^{command}: setup ## ", (ROOT / "Makefile").read_text(), re.M) for command in commands)
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


def test_what_is_published_was_checked_on_both_machines_and_no_secret_is_kept() -> None:
    release = jobs("release.yml")
    assert release["publish"]["needs"] == ["build", "aarch64"]
    assert release["publish"]["permissions"] == {"id-token": "write"}
    assert "--check" in release["aarch64"]["steps"][-1]["run"]
    assert not [job for name, job in release.items() if name != "publish" and "permissions" in job]
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "secrets." not in text
    assert all(triple in text for triple in TARGETS.values())


def test_the_version_needs_the_whole_history() -> None:
    for job in ("build", "aarch64"):
        assert jobs("release.yml")[job]["steps"][0]["with"]["fetch-depth"] == 0
