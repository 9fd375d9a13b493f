"""Transactions by the headers of a log: where they begin, how they end, and what compaction has removed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.cli.audit.markers import LogParts, Outcome, Part
from tests.support.census import Header, census, data, marker, plain


def taken(*headers: Header, cuts: tuple[int, ...] = ()) -> LogParts:
    """The headers, in one part or in several."""
    parts = LogParts(0)
    for begin, end in zip((0, *cuts), (*cuts, len(headers)), strict=True):
        parts.take(census(*headers[begin:end]))
    parts.seal()
    return parts


INTERLEAVED = (
    data(0, 4, 7),
    data(5, 5, 8, 3),
    plain(6, 8),
    data(9, 10, 7),
    marker(11, 7),
    data(12, 13, 7, 1),
    marker(14, 8, 4, commit=False),
    data(15, 19, 9),
    marker(20, 7, 1),
)


@pytest.mark.parametrize("cuts", [(), (1,), (4,), (3, 5), tuple(range(1, 9))])
def test_interleaved_transactions(cuts: tuple[int, ...]) -> None:
    parts = taken(*INTERLEAVED, cuts=cuts)
    assert parts.parts == [
        Part(7, 0, 0, 10, 7, Outcome.COMMITTED),
        Part(8, 3, 5, 5, 1, Outcome.ABORTED),
        Part(7, 1, 12, 13, 2, Outcome.COMMITTED),
    ]
    assert parts.open == [Part(9, 0, 15, 19, 5, Outcome.OPEN)]
    assert (parts.plain, parts.plain_last, parts.end) == (3, 8, 21)
    assert not parts.compacted(0, 20)


def test_a_marker_without_records_and_an_empty_batch_say_nothing() -> None:
    parts = taken(marker(0, 7), data(1, 5, 7, records=0), Header(6, 6, 7, 0, -1, 0, 3, -1))
    assert (parts.parts, parts.open) == ([], [])
    assert parts.compacted(1, 5)


def test_a_later_epoch_begins_another_transaction() -> None:
    parts = taken(data(0, 1, 7, 0), data(2, 3, 7, 1), marker(4, 7, 1))
    assert [(one.epoch, one.outcome) for one in parts.parts] == [(0, Outcome.OPEN), (1, Outcome.COMMITTED)]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=12))
def test_where_compaction_has_been(batches: list[tuple[int, int, int]]) -> None:
    """Batches of some offsets, gaps between them, and records that are gone within."""
    headers: list[Header] = []
    whole: set[int] = set()
    at = 0
    for offsets, gap, lacking in batches:
        records = max(0, offsets - lacking)
        headers.append(data(at, at + offsets - 1, 7, records=records))
        if records == offsets:
            whole.update(range(at, at + offsets))
        at += offsets + gap
    parts = taken(*headers)
    for first in range(parts.end):
        for last in range(first, parts.end):
            assert parts.compacted(first, last) == any(one not in whole for one in range(first, last + 1))
