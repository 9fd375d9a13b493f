"""Positions as Spark's own Kafka source writes them: `{"topic": {"0": 23}}`, the next offset of each partition to read.

Spark's options `startingOffsets` and `endingOffsets` have the same form, and so have the offsets of its checkpoints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.state.validation import is_count

_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_PARTITION_MAX = 2**31 - 1
_OFFSET_MAX = 2**63 - 1


def parse_positions(document: object) -> dict[TopicPartition, int] | None:
    """The positions in `document`, ascending; None if it has another form, or no positions in it.

    A topic may have any name: in an offset of this package, the same key stands for a number.
    """
    if not isinstance(document, Mapping) or not document:
        return None
    found: dict[TopicPartition, int] = {}
    for topic, offsets in document.items():
        if not isinstance(offsets, Mapping) or not offsets:
            return None
        for number, offset in offsets.items():
            if not isinstance(number, str) or not _PARTITION.fullmatch(number) or int(number) > _PARTITION_MAX:
                return None
            if not is_count(offset) or offset > _OFFSET_MAX:
                return None
            found[topic, int(number)] = offset
    return {key: found[key] for key in sorted(found)}


def format_positions(positions: Mapping[TopicPartition, int]) -> str:
    """The reverse, as JSON text without spaces, topics and partitions ascending."""
    document: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(positions):
        document.setdefault(topic, {})[str(partition)] = positions[topic, partition]
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)
