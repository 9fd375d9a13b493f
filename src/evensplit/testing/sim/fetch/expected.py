"""What has to come out of a read, by the model alone, and which errors are right."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evensplit.core.model import Range, RangeEpochs, SplitId
from evensplit.errors import BatchTooLarge, BrokerError, ClusterUnreachable, DataLossError, EvenSplitError
from evensplit.kafka.options.client import ClientSettings
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.fetch.cluster import Cluster
from evensplit.testing.sim.fetch.log import Log, Record

CLUSTER = "east"
_WANTED = re.compile(r"offsets (\d+) to (\d+) were to be read")


class Expected:
    """One split of a read: the ranges, and the log that they were planned for."""

    def __init__(
        self,
        cluster: Cluster,
        split: SplitId,
        topic_id: uuid.UUID,
        log: Log,
        ranges: Sequence[Range],
        epochs: RangeEpochs,
        settings: ClientSettings,
    ) -> None:
        self._cluster = cluster
        self.split = split
        self.topic_id = topic_id
        self.log = log
        self.ranges = ranges
        self.epochs = epochs
        self._committed = settings.read_committed
        self._versions = len(cluster.logs[split[1:]])
        self._heard = cluster.logs_heard(*split[1:])
        self.planned = {at: log.records[at] for at in self._offsets(0) if at in log.records}
        self.epochs_known = self.id_known = self.by_id = False
        self._last = -1
        self._passed: set[int] = set()
        self._foreign = 0
        """Rows that are of no planned record."""

    def _offsets(self, start: int) -> Iterator[int]:
        return (at for part in self.ranges for at in range(max(start, part.start), part.end))

    def _due(self, begin: int, end: int) -> Iterator[int]:
        """The planned records from `begin` up to `end` that have to come, if they are there."""
        for at in self.planned:
            if begin <= at < end and not (self._committed and self.log.is_aborted(at)):
                yield at

    @property
    def now(self) -> Log | None:
        """The log of that topic id as it is now; None if there is none."""
        topic = self._cluster.view.get(self.split.topic)
        return None if topic is None or topic.id != self.topic_id else topic.partitions[self.split.partition].log

    @property
    def loose(self) -> bool:
        """Whether the reader cannot know that its log became another one: nobody told it what was there."""
        return self._may_be_another or self._may_be_former or (self._is_cut and not self.epochs_known)

    @property
    def _may_be_another(self) -> bool:
        """Whether a broker may have another topic of that name, and the reader was not told the id."""
        return not self.id_known and any(log.name != self.log.name for log in self._cluster.logs[self.split[1:]])

    @property
    def _may_be_former(self) -> bool:
        """Whether a broker had not heard of the planned log then, and the reader was not told what was there."""
        return not self.epochs_known and self._parts(self._heard, self._versions)

    @property
    def _is_cut(self) -> bool:
        """Whether another log, since the read was planned, parts from the planned one before the ranges' end."""
        return self._parts(self._versions)

    def _parts(self, begin: int, end: int | None = None) -> bool:
        """Whether one of these logs parts from the one before it before the ranges' end."""
        logs = self._cluster.logs[self.split[1:]][begin:end]
        return any(log.name == self.log.name and 0 <= log.parts_at < self.ranges[-1].end for log in logs)

    def take(self, offset: int, row: tuple[Any, ...], batch_bytes_max: int) -> None:
        """A row comes. Laws F1, F2, F6."""
        split = self.split
        if offset <= self._last:
            raise Broken("F1", f"{split}: offset {offset} came after {self._last}")
        if not any(part.start <= offset < part.end for part in self.ranges):
            raise Broken("F2", f"{split}: offset {offset} came, of which nothing was asked")
        if offset in self._passed:
            raise Broken("F3", f"{split}: offset {offset} came, and is said to be skipped")
        record, batch = self.planned.get(offset, (None, None))
        if record is None or _row(record) != row:
            self._take_foreign(offset, row)
        elif self._committed and (self.log.is_aborted(offset) or self.log.is_open(offset)):
            raise Broken("F2", f"{split}: offset {offset} came, whose transaction is not committed")
        elif batch is not None and len(batch.raw) > batch_bytes_max:
            raise Broken("F6", f"{split}: offset {offset} came, in a record batch of {len(batch.raw)} bytes")
        self._check_missing(self._last + 1, offset)
        self._last = offset

    def _take_foreign(self, offset: int, row: tuple[Any, ...]) -> None:
        others = self._cluster.logs[self.split[1:]]
        is_other = any(offset in log.records and _row(log.records[offset][0]) == row for log in others)
        self._foreign += 1
        # By name, a reader finds out only afterwards; `finish` is strict.
        if not is_other or not (self.loose or (self.id_known and not self.by_id)):
            raise Broken("F2", f"{self.split}: offset {offset} came as {row}, expected {self.planned.get(offset)}")

    def _check_missing(self, begin: int, end: int) -> None:
        if self.loose or self._foreign:
            return
        missing = [at for at in self._due(begin, end) if at not in self._passed]
        if missing:
            raise Broken("F1", f"{self.split}: the offsets {missing} did not come, and offset {end} or the end did")

    def skip(self, found: str, skipped: int) -> None:
        """The reader says that it skips so many offsets. Law F3."""
        wanted = _WANTED.search(found)
        if wanted is None:
            raise Broken("F3", f"{self.split}: it is not said what is skipped: {found}")
        passed = list(self._offsets(int(wanted[1])))[:skipped]
        if len(passed) < skipped:
            raise Broken("F3", f"{self.split}: {skipped} offsets from {wanted[1]} on are skipped, of {len(passed)}")
        there = [at for at in passed if at in self.planned and self._is_there(self.planned[at][0])]
        if there and not (self._may_be_another or self._may_be_former):
            raise Broken("F3", f"{self.split}: the offsets {there} are said to be lost, and are there: {found}")
        self._passed.update(passed)

    def _is_there(self, record: Record) -> bool:
        now = self.now
        return now is not None and now.has(record)

    def finish(self) -> None:
        """The read has ended as if all was well. Laws F1, F2."""
        if self._foreign and not self.loose:
            raise Broken("F2", f"{self.split}: {self._foreign} rows of another topic or log came, and no error")
        self._check_missing(self._last + 1, 2**63)

    def is_lost(self, error: DataLossError) -> bool:
        """Whether something from the offset on that the error names is not there any more."""
        wanted, now = _WANTED.search(error.detail), self.now
        if now is None or self._is_cut or self._may_be_another or self._may_be_former:
            return True
        return wanted is not None and now.start > int(wanted[1])

    def has_longer_batch(self, offset: int, batch_bytes_max: int) -> bool:
        """Whether the first record batch at or after `offset` is longer than that."""
        first = [log.batches[log.from_offset(offset) :] for log in self._cluster.logs[self.split[1:]]]
        return any(next((len(one.raw) for one in left if one.raw), 0) > batch_bytes_max for left in first)


def _row(record: Record) -> tuple[Any, ...]:
    return record.timestamp_ms * 1000, record.timestamp_type, record.key, record.value, record.headers


def is_right(
    error: EvenSplitError, expected: Mapping[SplitId, Expected], batch_bytes_max: int, *, skip_lost: bool
) -> bool | None:
    """Whether the truth is what an error says; None if that is for the time to tell. Laws F3, F4."""
    if isinstance(error, DataLossError):
        one = expected[SplitId(error.cluster, error.topic, error.partition)]
        if "while it was read" in error.detail:
            return one.now is None or one.now is not one.log
        return not skip_lost and one.is_lost(error)
    if isinstance(error, BatchTooLarge):
        one = expected[SplitId(error.cluster, error.topic, error.partition)]
        return one.has_longer_batch(error.offset, batch_bytes_max)
    return None if type(error) in (ClusterUnreachable, BrokerError) else False


def is_overdue_right(error: EvenSplitError, begun_us: int, now_us: int, settings: ClientSettings) -> bool:
    """Whether the reader has waited for as long as it has to."""
    return now_us - begun_us >= 1000 * min(settings.progress_timeout_ms, settings.request_timeout_ms) - 1000
