"""Which versions of packages are installed here."""

from __future__ import annotations

import re
from importlib import metadata
from typing import NamedTuple


class PySpark(NamedTuple):
    """PySpark, or the part of it that talks to a server alone, which can be there in its place."""

    name: str
    version: str

    @property
    def release(self) -> tuple[int, int]:
        """The first two numbers of the version."""
        found = re.match(r"([0-9]*)\.?([0-9]*)", self.version)
        return (int(found[1] or 0), int(found[2] or 0)) if found else (0, 0)


def version_of(name: str) -> str | None:
    """The version of a package; None: it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def pyspark_here() -> PySpark | None:
    """PySpark as it is installed; None: it is not."""
    for package, name in (("pyspark", "PySpark"), ("pyspark-client", "pyspark-client")):
        found = version_of(package)
        if found is not None:
            return PySpark(name, found)
    return None
