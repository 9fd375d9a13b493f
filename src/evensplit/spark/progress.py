"""What one of Spark's progress events says about this source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evensplit.core.codec import SIGNATURE, decode
from evensplit.core.plan import ReaderPlan, plan_batch
from evensplit.core.report import Report, decode_report
from evensplit.core.state import EnumeratorState
from evensplit.core.story import Changes, changes


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One batch of one source: from which state to which, and what the world looked like."""

    start: EnumeratorState
    end: EnumeratorState
    report: Report

    def changes(self) -> Changes:
        """What was discovered and what moved in this batch."""
        return changes(self.start, self.end)

    def plans(self) -> tuple[ReaderPlan, ...]:
        """Which reader read what."""
        return plan_batch(self.start, self.end)


def batch_progress(progress: Mapping[str, Any]) -> Iterator[BatchProgress]:
    """The batches of this package's sources in a progress event, as `StreamingQuery.lastProgress` has it.

    Sources of other kinds are passed over.
    """
    for source in progress["sources"]:
        end = _document(source.get("endOffset"))
        if SIGNATURE not in end:
            continue
        start, report = _document(source.get("startOffset")), _document(source.get("latestOffset"))
        yield BatchProgress(
            decode(start) if start else EnumeratorState(), decode(end), decode_report(report) if report else Report()
        )


def _document(offset: object) -> Mapping[str, Any]:
    """An offset as an object: PySpark hands some over as JSON text, some as objects, and the first as None or null."""
    found = json.loads(offset) if isinstance(offset, str) else offset
    return found if isinstance(found, dict) else {}
