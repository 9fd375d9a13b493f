"""The tutorial, done as it says: in an empty directory, block after block, in one shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.pages import DOCS, Block, as_a_user, blocks, prints_like
from tests.support.processes import kill_session

# A busy machine takes minutes for what an idle one does in forty seconds.
pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900)]

MARK = "--- block "


def script(steps: list[Block]) -> str:
    """All blocks, with a line before what each of them prints."""
    lines = ["set -euo pipefail"]
    for number, step in enumerate(steps):
        lines.append(f"echo '{MARK}{number}'")
        lines.append(f"cat > {step.file} <<'END OF FILE'\n{step.code}END OF FILE" if step.file else step.code)
    return "\n".join(lines) + "\n"


def test_the_tutorial_prints_what_it_says(tmp_path: Path) -> None:
    steps = blocks(DOCS / "tutorial.md")
    assert sum(step.prints is not None for step in steps) >= 5
    with (tmp_path / "errors").open("wb") as errors:
        shell = subprocess.Popen(
            ["/bin/bash", "-c", script(steps)],
            cwd=_empty(tmp_path),
            env=as_a_user(),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        try:
            printed, _ = shell.communicate(timeout=840)
        finally:
            kill_session(shell.pid)
    assert shell.returncode == 0, f"{printed[-2000:]}\n{(tmp_path / 'errors').read_text()[-4000:]}"
    outputs = printed.split(MARK)[1:]
    for number, (step, output) in enumerate(zip(steps, outputs, strict=True)):
        found = output.removeprefix(f"{number}\n")
        if step.prints is not None:
            assert prints_like(found, step.prints), f"line {step.line}:\n{found}"


def _empty(within: Path) -> Path:
    place = within / "empty"
    place.mkdir()
    return place
