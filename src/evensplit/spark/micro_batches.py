"""The batches of one stream, on the driver: each of Spark's calls is answered from offsets alone."""

from __future__ import annotations

import gc
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from evensplit.core.state.codec import encode, revision_of
from evensplit.core.state.observation import encode_report
from evensplit.core.state.offset_strategies import Latest
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.driver.change_log import show_log
from evensplit.spark.driver.coordinator import Coordinator, connect_client
from evensplit.spark.driver.foreign_checkpoint import read_state
from evensplit.spark.driver.group_commits import GroupCommitter
from evensplit.spark.options.parse import SourceOptions
from evensplit.spark.slots.reader_number import asked_slots
from evensplit.spark.task.partition import ReaderPartition
from evensplit.spark.task.receiving import Receive, Receiver, receive_beside
from evensplit.spark.task.telling import Destination, Telling


def coordinate(options: SourceOptions, readers_default: int, ask: Destination | None = None) -> Coordinator:
    """Make the coordinator of a stream, in a process that is there for its reader alone.

    `ask`: where the session's slots are asked for, if the number of readers follows them.
    """
    show_log()
    # All objects that are loaded by now stay. Otherwise garbage collection walks through them again and again: a third
    # of the time of a batch of 10,000 partitions.
    gc.collect()
    gc.freeze()
    slots = asked_slots(options.readers, ask)
    return Coordinator(options, readers_default=readers_default, starting_default=Latest(), slots=slots)


class MicroBatches:
    """Plans one batch after the other.

    `is_available_now`: partitions and ends are those of the first `latest_offset`.
    """

    def __init__(
        self,
        options: SourceOptions,
        coordinator: Coordinator,
        counts_to: Destination | None = None,
        receive: Receive = receive_beside,
    ) -> None:
        """`counts_to`: where tasks tell what they count. `receive`: begins to receive what they have read."""
        self._options = options
        self._coordinator = coordinator
        self._counts_to = counts_to if options.reading.counts else None
        self._beside = counts_to
        self._receive = receive
        self._sizes: Receiver | None = None
        """Takes what tasks tell of the bytes that they have read, where a limit is in bytes."""
        # Names this source of this run, for the listener that explains its batches.
        self._stream = "" if self._counts_to is None else secrets.token_hex(8)
        self.is_available_now = False
        self._commits: GroupCommitter | None = None
        self._idle_at: dict[str, Any] | None = None
        self._known: tuple[tuple[dict[str, Any], EnumeratorState], ...] = ()
        self._reported: dict[str, Any] | None = None
        self._late: Mapping[str, str] | None = None
        self._repeated: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def latest_offset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch; `start` itself, byte for byte, where nothing has changed.

        Spark calls this only when the batch that ended at `start` is in its commit log: the moment to commit its
        positions to the consumer groups, too, if that is wanted.

        Nothing has changed only if polls that are sent after this call say so: otherwise `processAllAvailable` would
        return before records are read that existed when it was called. The pauses between polls are kept, so that may
        take up to `clusterWait`. A cluster that takes longer, or is unreachable, is not read until it answers.
        """
        coordinator = self._coordinator
        wait = coordinator.new_wait()
        # An idle query asks again and again: without news from a cluster, there is nothing to decode or plan.
        while start != self._idle_at or coordinator.await_news(wait):
            end = self._plan(start, limit)
            if end is not start or wait.is_over:
                return end
        if self._commits is not None:
            self._commits.retry()
        return start

    def _plan(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """As `latest_offset`, by the last polls, which may be from before the call."""
        coordinator = self._coordinator
        self._reported = None
        before = self._state(start)
        limited = not isinstance(limit, ReadAllAvailable)
        repeated, self._repeated = [self._batch(*one) for one in self._repeated], []
        after = coordinator.plan(before, limited=limited, fix_ends=self.is_available_now, repeated=repeated)
        self._commit(before, last=after is before and self.is_available_now)
        self._idle_at = start if after is before else None
        end = start if after is before else encode(after)
        self._known = ((start, before), (end, after))
        return end

    def report_latest_offset(self) -> dict[str, Any] | None:
        """Return the ends of the logs as last seen, for Spark's progress events; None before there are any."""
        # Spark asks after each `latest_offset`, also when idle, and there can be many thousand ends.
        if self._reported is None or self._coordinator.late is not self._late:
            self._late = self._coordinator.late
            self._reported = encode_report(replace(self._coordinator.report(), counts=self._stream))
        return self._reported

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[ReaderPartition]:
        """One input partition for each reader that has work: a function of the two offsets (law S11).

        A batch that another process planned is noted for the next `latest_offset`, since Spark does not tell which
        batches it runs again, and only this process knows that its tasks have read it. That changes no later result of
        this call.
        """
        found = self._coordinator.partitions(*self._batch(start, end))
        if all(document != end for document, _ in self._known) and (start, end) not in self._repeated:
            self._repeated.append((start, end))
        if self._counts_to is not None:
            telling = Telling(self._counts_to, self._stream, revision_of(end), len(found))
            for one in found:
                one.telling = telling
        if self._options.limits.bytes:
            if self._sizes is None:
                self._sizes = self._receive(self._coordinator.sizes, self._beside)
            for one in found:
                one.sizes_to = None if self._sizes is None else self._sizes.destination
        return found

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has kept the offset `end` for good, and goes back to none before it.

        It says so one batch late; with asynchronous progress tracking, only of the offsets that it logs.
        """
        self._coordinator.kept(revision_of(end))

    def stop(self) -> None:
        """Drop all connections. Spark calls it after an error only."""
        self._coordinator.close()
        if self._sizes is not None:
            self._sizes.close()
            self._sizes = None
        if self._commits is not None:
            self._commits.close()

    def _commit(self, state: EnumeratorState, *, last: bool) -> None:
        """Commit the positions of `state` to the consumer groups, in the background.

        Args:
            last: the process may end when this call is over, so wait for the commits.
        """
        if not self._options.commit_group or not state.begun:
            return
        if self._commits is None:
            self._commits = GroupCommitter(self._options.commit_group, connect_client)
        self._commits.offer(state, self._coordinator.cluster)
        if last:
            self._commits.flush(max(1.0, self._options.cluster_wait_ms / 1000))

    def _state(self, offset: dict[str, Any], start: EnumeratorState | None = None) -> EnumeratorState:
        """Return the state in `offset`. Those of the last batch need not be decoded.

        Args:
            start: the state at which the batch begins that ends at `offset`, if it is the end of one.
        """
        for document, state in self._known:
            if document == offset:
                return state
        return read_state(offset, self._options, start)

    def _batch(self, start: dict[str, Any], end: dict[str, Any]) -> tuple[EnumeratorState, EnumeratorState]:
        before = self._state(start)
        return before, self._state(end, before)
