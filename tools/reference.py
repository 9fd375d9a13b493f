"""Write the reference of the public Python API as web pages into the directory that is given."""

from __future__ import annotations

import pkgutil
import sys
from pathlib import Path

import pdoc

import evensplit


def main(directory: Path) -> int:
    """A page for each module of the package, and `index.html` to begin with."""
    # They come through the package's `__getattr__`, where pdoc does not look.
    for name in evensplit.__all__:
        setattr(evensplit, name, getattr(evensplit, name))
    # Named here: where a package says what it exports, pdoc leaves its modules out.
    rooms = [room.name for room in pkgutil.iter_modules(evensplit.__path__, "evensplit.") if "._" not in room.name]
    pdoc.pdoc("evensplit", *rooms, output_directory=directory)
    print(directory / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
