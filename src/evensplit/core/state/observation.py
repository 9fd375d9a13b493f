"""The report of a batch: the ends of the logs, and which clusters answer, as they were when it was planned.

It is part of Spark's progress events (as the source's latest offset) and is never needed to go on.

    {"evensplit": 2,                               what this is, and the version of the format
     "latest": {"east": {"orders": {"0": 130}}},   cluster, topic, partition: the end of the log
     "unreachable": {"west": "…"}}                 cluster: why it does not answer

Empty parts are left out, of these as of "unreachableSinceMs" ({cluster: ms}), "notices" and "leftOut" (lists of text),
and "counts" (text).
Version 1 has "latest" and "unreachable", both always.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from evensplit.core.model import Split, SplitId
from evensplit.core.state.codec import SIGNATURE
from evensplit.core.state.state import EnumeratorState
from evensplit.core.state.validation import count, is_count, named

_VERSION = 2


@dataclass(frozen=True, slots=True)
class Report:
    """Clusters and logs as the source saw them when it planned a batch."""

    latest: Mapping[SplitId, int] = field(default_factory=dict)
    """Split -> the end of its log."""
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """Cluster -> why it does not answer."""
    notices: tuple[str, ...] = ()
    """Everything else that is not as it should be, a sentence each."""
    left_out: tuple[str, ...] = ()
    """Clusters that did not answer, and that a run to the end (AvailableNow) does without."""
    unreachable_since_ms: Mapping[str, int] = field(default_factory=dict)
    """Cluster -> since when it does not answer, where that is known."""
    counts: str = field(default="", compare=False)
    """The name under which the tasks of this run tell what they count; empty: they do not."""
    another: frozenset[str] = frozenset()
    """Those of `unreachable` at whose address another Kafka cluster answers. Of checkpoints only: it is not encoded, as
    a query that runs ends then."""


def encode_report(report: Report) -> dict[str, Any]:
    """Return the report in JSON's own types, in the order of the splits."""
    latest: dict[str, dict[str, dict[str, int]]] = {}
    for split in sorted(report.latest):
        by_topic = latest.setdefault(split.cluster, {})
        by_topic.setdefault(split.topic, {})[str(split.partition)] = report.latest[split]
    parts: dict[str, Any] = {
        "latest": latest,
        "unreachable": _by_name(report.unreachable),
        "unreachableSinceMs": _by_name(report.unreachable_since_ms),
        "notices": list(report.notices),
        "leftOut": list(report.left_out),
        "counts": report.counts,
    }
    return {SIGNATURE: _VERSION, **{name: part for name, part in parts.items() if part}}


def decode_report(document: Mapping[str, Any], known: Mapping[SplitId, Split] | None = None) -> Report:
    """Return the report that `document` was made from.

    Ids of `known` splits are taken from there, so that each is in memory once. Raises ValueError for another document,
    or a damaged one.
    """
    version = document.get(SIGNATURE)
    if not is_count(version) or not 1 <= version <= _VERSION or (version == 1 and "latest" not in document):
        raise ValueError(f"not a report of this source: {str(document)[:200]}")
    try:
        return _decode(document, known or {})
    except (TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"a damaged report of this source: {error!r}: {str(document)[:200]}") from error


def lag(state: EnumeratorState, report: Report) -> dict[SplitId, int | None]:
    """Return split -> the offsets between its position and the end of its log; None where the end is not known."""
    return {
        key: report.latest[key] - split.position if key in report.latest and split.position is not None else None
        for key, split in state.splits.items()
    }


def _decode(document: Mapping[str, Any], known: Mapping[SplitId, Split]) -> Report:
    latest: dict[SplitId, int] = {}
    for cluster, topics in document.get("latest", {}).items():
        for topic, ends in topics.items():
            counted = list(map(count, ends.values(), repeat("the end of a log")))
            keys = list(named(SplitId, zip(repeat(cluster), repeat(topic), map(int, ends), strict=False)))
            there = map(known.get, keys)
            ids = [key if split is None else split.id for key, split in zip(keys, there, strict=True)]
            latest.update(zip(ids, counted, strict=True))
    since_ms = {name: count(at, "a time") for name, at in document.get("unreachableSinceMs", {}).items()}
    unreachable = {name: str(why) for name, why in document.get("unreachable", {}).items()}
    notices, left_out = (tuple(map(str, document.get(name, ()))) for name in ("notices", "leftOut"))
    return Report(latest, unreachable, notices, left_out, since_ms, str(document.get("counts", "")))


def _by_name(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in sorted(values)}
