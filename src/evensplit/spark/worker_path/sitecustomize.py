"""Has Spark's Python processes load PySpark from its files, not from an archive. Python runs this when it starts.

Spark puts `pyspark.zip` first on the path of its Python processes. It has sources only, and what comes out of an
archive is compiled again by each process: 0.4 s of 0.5 s. The same modules, compiled, are beside the archive.
`register` puts this file's directory on the path of the processes of this source, and of no others.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import PathFinder
from pathlib import Path

ARCHIVE = ("python", "lib", "pyspark.zip")


def without_archive(path: list[str]) -> list[str]:
    """The path without the archive, if that leads to the same PySpark; otherwise `path`.

    Spark's home is either the installed package `pyspark`, whose directory is on the path anyway, or that of a
    distribution, which has the package in `python`.
    """
    place = next((number for number, entry in enumerate(path) if Path(entry).parts[-3:] == ARCHIVE), None)
    if place is None:
        return path
    home = Path(path[place]).parents[2]
    parent = home / "python"
    for package, instead in ((home, []), (parent / "pyspark", [str(parent)])):
        found = [*path[:place], *instead, *path[place + 1 :]]
        spec = PathFinder.find_spec("pyspark", found)
        if spec is not None and spec.origin == str(package / "__init__.py"):
            return found
    return path


def run_next(path: list[str]) -> None:
    """Run the next `sitecustomize` on the path, in whose place Python has run this one."""
    here = Path(__file__).resolve().parent
    spec = PathFinder.find_spec("sitecustomize", [entry for entry in path if Path(entry).resolve() != here])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if __name__ == "sitecustomize":
    sys.path[:] = without_archive(sys.path)
    run_next(sys.path)
