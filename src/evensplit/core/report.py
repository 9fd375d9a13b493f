"""What is known beside the state when a batch is planned: the ends of the logs, and which clusters answer.

It travels in Spark's progress events (as the source's latest offset) and is never needed to go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evensplit.core.codec import SIGNATURE
from evensplit.core.model import SplitId
from evensplit.core.state import EnumeratorState

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Report:
    """`latest`: split -> the end of its log. `unreachable`: cluster -> why it does not answer."""

    latest: Mapping[SplitId, int] = field(default_factory=dict)
    unreachable: Mapping[str, str] = field(default_factory=dict)


def encode_report(report: Report) -> dict[str, Any]:
    """The report as JSON's own types, in the order of the splits."""
    latest: dict[str, dict[str, dict[str, int]]] = {}
    for split in sorted(report.latest):
        by_topic = latest.setdefault(split.cluster, {})
        by_topic.setdefault(split.topic, {})[str(split.partition)] = report.latest[split]
    return {
        SIGNATURE: _VERSION,
        "latest": latest,
        "unreachable": {name: report.unreachable[name] for name in sorted(report.unreachable)},
    }


def decode_report(document: Mapping[str, Any]) -> Report:
    """The report that `document` was made from. Raises ValueError where it is not one of ours."""
    if document.get(SIGNATURE) != _VERSION or "latest" not in document:
        raise ValueError(f"not a report of this source: {str(document)[:200]}")
    latest = {
        SplitId(cluster, topic, int(partition)): int(end)
        for cluster, topics in document["latest"].items()
        for topic, ends in topics.items()
        for partition, end in ends.items()
    }
    return Report(latest, dict(document.get("unreachable", {})))


def lag(state: EnumeratorState, report: Report) -> dict[SplitId, int | None]:
    """Offsets between each split's position and the end of its log; None where the end is not known."""
    return {
        key: report.latest[key] - split.position if key in report.latest and split.position is not None else None
        for key, split in state.splits.items()
    }
