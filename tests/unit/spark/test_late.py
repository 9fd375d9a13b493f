"""Bounds that are looked up where they are read."""

from __future__ import annotations

from collections.abc import Mapping

from evensplit.core.batch.plan import ReaderPlan
from evensplit.core.model import Range, Split, SplitId
from evensplit.core.state.offset_strategies import EARLIEST, LATEST
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.options.parse import parse_options
from evensplit.spark.task.deferred_bounds import DeferredBounds, bind, carry, late_bounds

A, B, C = (SplitId("default", "t", partition) for partition in range(3))


def bounds(**options: str) -> DeferredBounds:
    """What is late of three partitions at 5, 6 and 7 that are read to 10, 6 and 9."""
    given = {"kafka.bootstrap.servers": "host:9092", "subscribe": "t", **options}
    start = EnumeratorState(splits={key: Split(key, "", 5 + key.partition) for key in (A, B, C)})
    return late_bounds(parse_options(given).clusters, start, {A: 10, B: 6, C: 9})


def test_earliest_and_latest_are_late_said_or_not() -> None:
    assert bounds() == DeferredBounds({A: 5, B: 6, C: 7}, {A: 10, B: 6, C: 9})
    assert bounds(startingOffsets="earliest", endingOffsets="latest") == bounds()
    some = {
        "startingOffsets": '{"t": {"0": -2, "1": 6, "2": -2}}',
        "endingOffsets": '{"t": {"0": 10, "1": -1, "2": -1}}',
    }
    assert bounds(**some) == DeferredBounds({A: 5, C: 7}, {B: 6, C: 9})
    assert bounds(startingTimestamp="1", endingTimestamp="2") == DeferredBounds()
    assert bounds(start="-3", stop="latest") == DeferredBounds({}, {A: 10, B: 6, C: 9})


class Logs:
    """Where logs begin and end; asked for, it notes what."""

    def __init__(self, logs: Mapping[SplitId, tuple[int, int]]) -> None:
        self.logs = logs
        self.asked: list[tuple[str, int]] = []

    def __call__(self, cluster: str, wanted: Mapping[tuple[str, int], int]) -> Mapping[tuple[str, int], int]:
        self.asked.extend((cluster, marker) for marker in sorted(set(wanted.values())))
        return {
            key: self.logs[SplitId(cluster, *key)][0 if marker == EARLIEST else 1]
            for key, marker in wanted.items()
            if SplitId(cluster, *key) in self.logs
        }


def test_what_is_not_late_asks_nobody() -> None:
    logs = Logs({})
    assert bind([Range(A, 5, 10)], DeferredBounds(), logs) == (Range(A, 5, 10),)
    assert logs.asked == []


def test_the_last_range_goes_on_and_none_begins_before_its_log() -> None:
    logs = Logs({A: (7, 20), B: (6, 9), C: (7, 8)})
    parts = [Range(A, 5, 6), Range(A, 6, 8), Range(A, 8, 10), Range(B, 6, 6), Range(C, 7, 9)]
    late = DeferredBounds({A: 5, B: 6, C: 7}, {A: 10, B: 6, C: 9})
    # A log that is shorter than it was is for the read to tell.
    assert bind(parts, late, logs) == (Range(A, 7, 8), Range(A, 8, 20), Range(B, 6, 9), Range(C, 7, 9))
    assert logs.asked == [("default", EARLIEST), ("default", LATEST)]
    assert bind(parts, late, Logs({})) == (*parts[:3], parts[4])


def test_a_log_that_begins_earlier_than_it_did_is_another_one_for_the_read_to_tell() -> None:
    emptied = DeferredBounds({A: 100}, {A: 100})
    assert bind([Range(A, 100, 100)], emptied, Logs({A: (0, 50)})) == (Range(A, 0, 100),)
    # What is not read from its beginning says nothing about where that is.
    assert bind([Range(A, 100, 120)], DeferredBounds({}, {}), Logs({A: (0, 50)})) == (Range(A, 100, 120),)
    pieces = [Range(A, 5, 6), Range(A, 6, 8)]
    assert bind(pieces, DeferredBounds({A: 5}, {}), Logs({A: (2, 9)})) == (Range(A, 2, 6), Range(A, 6, 8))


def test_a_log_that_was_cut_off_behind_the_end_has_nothing() -> None:
    assert bind([Range(A, 5, 10)], DeferredBounds({A: 5}, {}), Logs({A: (12, 15)})) == ()
    assert bind([Range(A, 5, 10)], DeferredBounds({A: 5}, {A: 10}), Logs({A: (12, 15)})) == (Range(A, 12, 15),)


def test_splits_without_a_record_are_carried_by_their_owners() -> None:
    end = EnumeratorState(3, splits={key: Split(key, "", 6, None, owner) for key, owner in ((A, 1), (B, 1), (C, 2))})
    late = DeferredBounds({}, {A: 10, B: 6, C: 9})
    tasks = [ReaderPlan(1, (Range(A, 5, 10),))]
    assert carry(tasks, late, end) == (
        ReaderPlan(1, (Range(A, 5, 10), Range(B, 6, 6))),
        ReaderPlan(2, (Range(C, 9, 9),)),
    )
    assert carry([], DeferredBounds({}, {B: 6}), end) == (ReaderPlan(1, (Range(B, 6, 6),)),)
    assert carry(tasks, DeferredBounds(), end) == tuple(tasks)


def test_a_task_is_told_of_its_own_ranges_only() -> None:
    late = DeferredBounds({A: 5, B: 6}, {B: 6, C: 9})
    assert late.among([Range(B, 6, 6)]) == DeferredBounds({B: 6}, {B: 6})
