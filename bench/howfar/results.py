"""The figures of how far batches go: one file, with a part for each measurement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results" / "howfar.json"


def known(part: str) -> dict[str, Any]:
    """What was measured last of a part; nothing if it was not."""
    found: dict[str, Any] = _all().get(part, {})
    return found


def keep(part: str, figures: dict[str, Any]) -> None:
    """Write the figures of a part beside those of the others."""
    RESULTS.write_text(json.dumps({**_all(), part: figures}, indent=2, sort_keys=True) + "\n")


def _all() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found
