"""Tests that are named in tables: whether they are there."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def names_in(path: Path) -> set[str]:
    """The names of the tests in a module."""
    nodes = ast.parse(path.read_text()).body
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def is_there(test: str) -> bool:
    """Whether there is such a test, as `module::name`, the module within `tests`."""
    module, _, name = test.partition("::")
    return (TESTS / module).is_file() and name in names_in(TESTS / module)
