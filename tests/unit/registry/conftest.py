"""What tests of the client of schema registries share: a process that has seen no schema."""

from __future__ import annotations

import pytest

from evensplit.registry.kept import KEPT, MISSED


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports come again, and with them the URLs of other tests' registries."""
    monkeypatch.setenv("no_proxy", "*")
    KEPT.clear()
    MISSED.clear()
