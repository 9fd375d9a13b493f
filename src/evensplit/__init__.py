"""A Kafka source for PySpark that decides, provably well, which reader reads what.

`spark.readStream.format("evensplit")` works without importing this package. `register(spark)` lets the source know
how many tasks a session runs at once. Errors are in `evensplit.errors`, a broker for tests in `evensplit.testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evensplit.spark.session import register

__all__ = ["register"]


def __getattr__(name: str) -> Any:
    # PySpark is an extra: importing this package must not need it.
    if name == "register":
        from evensplit.spark.session import register

        return register
    raise AttributeError(f"module 'evensplit' has no attribute {name!r}")
