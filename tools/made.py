"""Files of the documentation that are made by the code: written, or looked at whether they still are what it makes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

Makers = Mapping[str, Callable[[], str]]
"""Name of a file -> what makes its text."""


def stale(directory: Path, makers: Makers) -> list[str]:
    """The files in `directory` that are not what would be made."""
    return [
        name
        for name, make in makers.items()
        if not (directory / name).is_file() or (directory / name).read_text() != make()
    ]


def main(module: str, about: str | None, directory: Path, makers: Makers, arguments: list[str]) -> int:
    """Write the files, or check them with `--check`; the exit code of the tool `module`."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--check", action="store_true", help="only say whether they are up to date")
    if parser.parse_args(arguments).check:
        old = stale(directory, makers)
        if old:
            print(f"not what the code gives: {', '.join(old)}; run: python -m {module}", file=sys.stderr)
        return 1 if old else 0
    for name, make in makers.items():
        (directory / name).write_text(make())
    return 0
