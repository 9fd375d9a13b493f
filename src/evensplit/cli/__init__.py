"""The command `evensplit`."""

from __future__ import annotations

import sys

NEEDED = frozenset({"click", "rich"})


def main() -> None:
    """Run the command line of this process, and end it."""
    try:
        from evensplit.cli.group import evensplit

        evensplit()
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in NEEDED:
            raise
        sys.exit(f"evensplit: the command line needs {name}: pip install 'evensplit[cli]'")
    except KeyboardInterrupt:
        sys.exit(1)


__all__ = ["main"]
