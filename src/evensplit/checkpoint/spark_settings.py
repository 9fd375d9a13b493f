"""What Spark has written into its offset files besides offsets: the settings that it goes on with."""

from __future__ import annotations

from collections.abc import Mapping

from evensplit.checkpoint.offset_file import OffsetText

SINCE: Mapping[str, tuple[int, int]] = {
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": (4, 2),
    "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled": (4, 3),
}
"""Setting -> the version of Spark, of those that are supported, from which on every batch has it.

Looked up in what Spark 4.2.0 and 4.3.0 have written; no file of a checkpoint names the version.
"""


LATEST = max(SINCE.values())
"""The latest version that is told from the one before it."""


def settings_of(text: OffsetText) -> Mapping[str, str]:
    """Spark's settings in the file of a batch, by name, ascending; empty where it has none that can be read."""
    found = text.document.get("conf")
    return {name: str(found[name]) for name in sorted(found)} if isinstance(found, dict) else {}


def spark_of(settings: Mapping[str, str]) -> tuple[int, int] | None:
    """The latest version of those in `SINCE` whose settings are there; None: they are of an earlier one."""
    return max((version for name, version in SINCE.items() if name in settings), default=None)
