"""Writes the document, or checks it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools import promises
from tools.promises.api import python_api
from tools.promises.compare import broken
from tools.promises.shapes import json_shapes
from tools.promises.surface import surface

FILE = Path(__file__).resolve().parents[2] / "tests" / "data" / "promised.json"


def promised() -> dict[str, Any]:
    """What was promised so far."""
    found = json.loads(FILE.read_text())
    assert isinstance(found, dict)
    return found


def current() -> dict[str, Any]:
    """What the code has."""
    return {**surface(), "python": python_api(), "json": json_shapes()}


def main(arguments: Sequence[str] | None = None) -> int:
    """0: the file is what the code has. 1: it is not, or something would be broken. Each line says what."""
    parser = argparse.ArgumentParser(prog="python -m tools.promises", description=promises.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--break", action="store_true", dest="breaks", help="take away and change what was promised")
    how = parser.parse_args(arguments)
    now = current()
    lost = broken(promised(), now) if FILE.exists() else []
    for line in lost:
        print(line)
    if lost and not how.breaks:
        return 1
    if how.check:
        return 1 if lost or _text(now) != FILE.read_text() else 0
    FILE.write_text(_text(now))
    return 0


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main())
