"""The batches of this source in one of Spark's progress events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evensplit.core.batch.plan import BatchPlan, plan_batch
from evensplit.core.import_spark_offsets import state_of_positions
from evensplit.core.json_text import parse_json
from evensplit.core.state.codec import SIGNATURE, decode
from evensplit.core.state.observation import Report, decode_report
from evensplit.core.state.spark_offsets import parse_positions
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import EvenSplitError, line_of
from evensplit.explain.batch import Explanation, explain
from evensplit.explain.changes import Changes, changes

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One batch of one source."""

    start: EnumeratorState
    """The state before it."""
    end: EnumeratorState
    """The state after it."""
    report: Report
    """What was known of the clusters when it was planned."""
    source: int = 0
    """Which of the query's sources it is, from 0."""

    def changes(self) -> Changes:
        """All that this batch changed."""
        return changes(self.start, self.end)

    def plan(self) -> BatchPlan:
        """The ranges of each reader."""
        return plan_batch(self.start, self.end)

    def explanation(self) -> Explanation:
        """The batch explained. Raises CheckpointError if the states are not the start and the end of one batch."""
        return explain(self.start, self.end, self.report)


Known = Mapping[int, tuple[object, EnumeratorState]]
"""Source -> the end of its last batch, as Spark wrote it, and decoded: the start of the next one."""


def batch_progress(
    progress: Mapping[str, Any], damaged: Callable[[int, Exception], None] | None = None, known: Known | None = None
) -> Iterator[BatchProgress]:
    """The batches of this package's sources in a progress event, as `StreamingQuery.lastProgress` has it.

    Other sources are passed over. For a source of this package that cannot be read, `damaged` is called with its number
    and the error; without `damaged` a warning is logged. States in `known` are not decoded again.
    """
    for number, source in enumerate(progress["sources"]):
        try:
            found = _batch(number, source, (known or {}).get(number))
        except (EvenSplitError, ValueError) as error:
            (damaged or _warn)(number, error)
        else:
            if found is not None:
                yield found


def _batch(
    number: int, source: Mapping[str, Any], known: tuple[object, EnumeratorState] | None
) -> BatchProgress | None:
    end = _document(source.get("endOffset"))
    # Where the offsets of Spark's own Kafka source have a topic of that name, it stands for partitions.
    if isinstance(end.get(SIGNATURE, {}), Mapping):
        return None
    report = _document(source.get("latestOffset"))
    if known is not None and _same(source.get("endOffset"), known[0]):
        after = known[1]
    else:
        after = decode(end, None if known is None else known[1])
    if not after.readers:
        # Another source planned it, so its readers are not in the checkpoint.
        return None
    if source.get("startOffset") == source.get("endOffset"):
        # There was nothing to do.
        before = after
    elif known is not None and _same(source.get("startOffset"), known[0]):
        before = known[1]
    else:
        start = _document(source.get("startOffset"))
        before = _start(start, after) if start else EnumeratorState()
    return BatchProgress(
        before,
        after,
        decode_report(report, after.splits) if report else Report(),
        number,
    )


def _start(document: Mapping[str, Any], end: EnumeratorState) -> EnumeratorState:
    """The state before a batch. Spark's own Kafka source may have written it, if there is one cluster."""
    positions = parse_positions(document)
    if positions is None or len(end.clusters) != 1:
        return decode(document)
    (cluster,) = end.clusters.values()
    return state_of_positions(cluster.id, cluster.bootstrap_servers, positions)


def _document(offset: object) -> Mapping[str, Any]:
    """An offset as an object. PySpark gives some as JSON text, some as objects, and the first as None or null."""
    try:
        found = parse_json(offset) if isinstance(offset, str) else offset
    except ValueError:
        if f'"{SIGNATURE}"' in str(offset):
            raise
        return {}
    return found if isinstance(found, dict) else {}


def _same(one: object, other: object) -> bool:
    """Whether two offsets are equal, even if one is text and the other an object."""
    if isinstance(one, str) is isinstance(other, str):
        return one == other
    return _document(one) == _document(other)


def _warn(number: int, error: Exception) -> None:
    log.warning("the progress of source %d of a query cannot be read and is skipped: %s", number, line_of(error))
