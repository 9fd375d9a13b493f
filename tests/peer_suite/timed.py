"""A topic whose records have timestamps of their own: two of them, a second apart."""

from __future__ import annotations

import time

from tests.support.records import spread

FIRST_MS = int(time.time() * 1000) - 3_600_000
"""An hour ago: nothing has expired, and nothing is in the future."""
SECOND_MS = FIRST_MS + 1000

FIRST = {0: [-20], 1: [-10], 2: [0, 1], 3: [10, 11], 4: [20, 21, 22]}
SECOND = {0: [-21, -22], 1: [-11, -12], 2: [2], 3: [12]}
"""Partition -> values. The last of five partitions has none of the second time."""


def write_timed(bootstrap: str, topic: str) -> None:
    """Write the records of the first time, then those of the second, to a topic of five partitions."""
    spread(bootstrap, topic, FIRST, timestamp_ms=FIRST_MS)
    spread(bootstrap, topic, SECOND, timestamp_ms=SECOND_MS)
