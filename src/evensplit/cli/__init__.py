"""The command `evensplit`."""

from __future__ import annotations

import sys

NEEDED = frozenset({"click", "rich"})


def main() -> None:
    """Run the command line of this process, and end it."""
    try:
        from evensplit.cli.group import evensplit
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        sys.exit(f"evensplit: the command line needs {error.name}: pip install 'evensplit[cli]'")
    evensplit()


__all__ = ["main"]
