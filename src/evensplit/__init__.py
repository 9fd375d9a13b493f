"""Kafka for PySpark: decides, provably well, which reader reads what, and writes exactly once.

`spark.readStream.format("evensplit")` and `df.writeStream.format("evensplit")` work without importing this package.
`register(spark)` lets the source know how many tasks a session runs at once. `assign` gives splits to readers, with
a proof, wherever that is needed. Errors are in `evensplit.errors`, a broker for tests in `evensplit.testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evensplit.core.assign import Assignment, Certificate, assign
    from evensplit.core.model import Cluster, SplitId, Topic
    from evensplit.spark.session import register

__version__: str
"""The version that is installed; `0+unknown` for sources that are on the path without having been installed."""

__all__ = ["Assignment", "Certificate", "Cluster", "SplitId", "Topic", "assign", "register"]


def __getattr__(name: str) -> Any:
    # PySpark is an extra, and numpy takes time to load: importing this package must need neither.
    if name == "register":
        from evensplit.spark.session import register

        return register
    if name == "__version__":
        return _installed_version()
    if name in __all__:
        from evensplit.core import assign, model

        return getattr(assign, name, None) or getattr(model, name)
    raise AttributeError(f"module 'evensplit' has no attribute {name!r}")


def _installed_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("evensplit")
    except PackageNotFoundError:
        return "0+unknown"
