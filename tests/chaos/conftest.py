"""Queries and driver processes that end with their test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.driver import Drivers


@pytest.fixture(autouse=True)
def _queries_end(no_query_left: None) -> None:
    return


@pytest.fixture
def drivers(tmp_path: Path) -> Iterator[Drivers]:
    """Starts driver processes; what is left of them is killed at the end."""
    started = Drivers(tmp_path)
    yield started
    started.close()
