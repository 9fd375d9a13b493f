"""The tutorial, done as it says: in an empty directory, block after block, in one shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pages import DOCS, blocks, prints_like, run_in_one_shell

# A busy machine takes minutes for what an idle one does in forty seconds.
pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900)]


def test_the_tutorial_prints_what_it_says(tmp_path: Path) -> None:
    steps = blocks(DOCS / "tutorial.md")
    assert sum(step.prints is not None for step in steps) >= 5
    for step, output in zip(steps, run_in_one_shell(steps, tmp_path), strict=True):
        if step.prints is not None:
            assert prints_like(output, step.prints), f"line {step.line}:\n{output}"
