"""The table of the package says where each of Spark's tests is; it names what there is, and all of it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.named import is_there, names_in

HERE = Path(__file__).parent
SCENARIOS = 25
NONE = "none: "


def rows() -> list[tuple[str, str, str]]:
    """Number or suite, Spark's test, and what there is here."""
    text = ast.get_docstring(ast.parse((HERE / "__init__.py").read_text())) or ""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    assert all(len(row) == 3 for row in cells)
    return [(row[0], row[1], row[2]) for row in cells if row[0] and not row[0].startswith("-")]


ROWS = rows()


def named() -> list[str]:
    """The tests in the table, as `module::name`."""
    return sorted({one for *_, here in ROWS for one in here.split() if "::" in one})


@pytest.mark.parametrize("test", named())
def test_what_is_named_exists(test: str) -> None:
    assert is_there(test)


def test_every_row_has_a_test_or_a_reason() -> None:
    assert [row for row in ROWS if "::" not in row[2] and not row[2].startswith(NONE)] == []


def test_every_scenario_has_a_row_with_a_test() -> None:
    numbers = {int(number) for number, _, here in ROWS if number.isdigit() and "::" in here}
    assert numbers == set(range(1, SCENARIOS + 1))


def test_every_test_of_the_package_is_in_the_table() -> None:
    ours = {
        f"{HERE.name}/{path.name}::{name}"
        for path in sorted(HERE.glob("test_*.py"))
        if path != Path(__file__)
        for name in names_in(path)
    }
    assert sorted(ours - set(named())) == []
