"""The streaming reader: Spark's calls on the driver, each answered from offsets alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from evensplit.core.codec import decode, encode
from evensplit.core.plan import plan_batch
from evensplit.core.report import encode_report
from evensplit.core.starting import Latest
from evensplit.core.state import EnumeratorState
from evensplit.spark.coordinator import Coordinator
from evensplit.spark.options import SourceOptions
from evensplit.spark.partition import input_partitions
from evensplit.spark.read import read_partition


class EvenSplitStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches.

    Everything that must survive a crash is in the end offset of each batch (see `core.codec`), for nothing else
    does: Spark does not keep the initial offset, so a start that was resolved there would be resolved again, to
    something else, after a crash before the first commit. The initial offset is therefore a constant, and the first
    end offset carries where each split begins.

    An instance is made in several processes and pickled; it opens nothing until `latestOffset` is called.
    """

    def __init__(self, options: SourceOptions, readers_default: int) -> None:
        self._options = options
        self._readers_default = readers_default
        self._available_now = False
        self._coordinator: Coordinator | None = None
        self._idle_at: dict[str, Any] | None = None
        self._given: tuple[dict[str, Any], EnumeratorState] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_coordinator": None, "_idle_at": None, "_given": None}

    def initialOffset(self) -> dict[str, Any]:
        """A constant: no state yet."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """`maxOffsetsPerTrigger`, if there is one; Spark replaces it by no limit under Trigger.Once."""
        return ReadAllAvailable() if self._options.offsets_max is None else ReadMaxRows(self._options.offsets_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """From here on, partitions and ends are those of the first `latestOffset`."""
        self._available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; `start` itself, byte for byte, where nothing has changed."""
        coordinator = self._plans()
        # An idle query asks every 10 ms: as long as no cluster says anything new, there is nothing to decode or plan.
        if self._idle_at is not None and start == self._idle_at and not coordinator.has_news():
            return start
        # What was given out last need not be decoded to be understood.
        before = self._given[1] if self._given is not None and self._given[0] == start else _state(start)
        limited = not isinstance(limit, ReadAllAvailable)
        after = coordinator.plan(before, limited=limited, fix_ends=self._available_now)
        self._idle_at = start if after is before else None
        self._given = (start if after is before else encode(after), after)
        return self._given[0]

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ends of the logs as last seen, for Spark's progress events; None before there are any."""
        return None if self._coordinator is None else encode_report(self._coordinator.report())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One input partition for each reader that has work: a function of the two offsets (law S11)."""
        before, after = _state(start), _state(end)
        return input_partitions(plan_batch(before, after), after, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one reader, on an executor."""
        return read_partition(partition)

    def stop(self) -> None:
        """Drop all connections. Spark calls it after an error only."""
        if self._coordinator is not None:
            self._coordinator.close()

    def _plans(self) -> Coordinator:
        if self._coordinator is None:
            self._coordinator = Coordinator(
                self._options, readers_default=self._readers_default, starting_default=Latest()
            )
        return self._coordinator


def _state(offset: dict[str, Any]) -> EnumeratorState:
    return EnumeratorState() if offset == {} else decode(offset)
