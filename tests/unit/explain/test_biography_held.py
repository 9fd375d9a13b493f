"""What the life of one split says of limits: of batches that they held, and that read nothing of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from evensplit.core.model import Held, Split, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.split_history import BatchEnd, Entry, split_history

AHEAD, BEHIND = SplitId("us", "orders", 0), SplitId("eu", "orders", 0)
WAITS = Held("alignment", "eu/orders/0")
LIMIT = Held("maxOffsetsPerTrigger")


def end(batch: int, ahead: int, behind: int, *held: Held, reached_ms: int | None = 1_000) -> BatchEnd:
    splits = {BEHIND: Split(BEHIND, "id", behind, None, 1), AHEAD: Split(AHEAD, "id", ahead, None, 0)}
    state = EnumeratorState(
        2, {}, splits, begun=True, assigned_readers=(0, 1), revision=batch + 1, reached_ms=reached_ms, held=held
    )
    return BatchEnd(batch, 1_000 * batch, state)


def chapters(*ends: BatchEnd, split: SplitId = AHEAD) -> Sequence[Entry]:
    found = split_history(split, ends)
    assert found is not None
    return found.chapters


def told(*ends: BatchEnd, split: SplitId = AHEAD) -> list[tuple[int, int, str]]:
    return [(one.first.batch, one.last.batch, one.sentences()[-1]) for one in chapters(*ends, split=split)]


def test_batches_that_read_nothing_of_it_are_one_chapter_with_what_held_them() -> None:
    other = Held("alignment", "eu/clicks/1")
    ends = [
        end(3, 50, 0),
        end(4, 50, 100, WAITS),
        end(5, 50, 200, other),
        end(6, 50, 200, other),
        end(7, 50, 300, WAITS),
        end(8, 60, 400),
    ]
    assert told(*ends) == [
        (
            4,
            7,
            "nothing was read of it; the batches were held by alignment, which waits for eu/clicks/1, eu/orders/0",
        ),
        (8, 8, "offsets 50 to 59 read by reader 0"),
    ]
    assert told(*ends[:2]) == [
        (4, 4, "nothing was read of it; the batch was held by alignment, which waits for eu/orders/0")
    ]
    first, _ = chapters(*ends)
    assert first.to_json() == {
        "firstBatch": 4,
        "lastBatch": 7,
        "firstMs": 4_000,
        "lastMs": 7_000,
        "changes": [],
        "reading": None,
        "held": ["alignment, which waits for eu/clicks/1", "alignment, which waits for eu/orders/0"],
        "edits": [],
    }


def test_whom_the_others_wait_for_is_not_held() -> None:
    ends = [end(3, 50, 0), end(4, 50, 100, WAITS), end(5, 50, 200, WAITS)]
    assert told(*ends, split=BEHIND) == [(4, 5, "offsets 0 to 199 read by reader 1")]


def test_a_move_and_that_nothing_was_read_are_one_chapter() -> None:
    before, after = end(3, 50, 0), end(4, 50, 100, WAITS)
    moved = {**after.state.splits, AHEAD: Split(AHEAD, "id", 50, None, 1)}
    (chapter,) = chapters(before, replace(after, state=replace(after.state, splits=moved)))
    assert chapter.sentences() == (
        "moved from reader 0 to reader 1: the readers were uneven",
        "nothing was read of it; the batch was held by alignment, which waits for eu/orders/0",
    )


def test_a_batch_that_read_nothing_at_all_has_no_chapter() -> None:
    """Its state has what held the batch before."""
    assert told(end(3, 50, 0, WAITS), end(4, 50, 0, WAITS)) == []


@pytest.mark.parametrize(
    "ahead",
    [
        Split(AHEAD, "id", 50, stop=50, owner=0),
        Split(AHEAD, "id", 50, removed_at_ms=1),
        Split(AHEAD, "id", 50, finished=True),
        Split(AHEAD, "id", None, owner=0),
    ],
)
def test_what_is_not_to_be_read_was_not_held(ahead: Split) -> None:
    states = [
        replace(one.state, splits={**one.state.splits, AHEAD: ahead}) for one in (end(3, 0, 0), end(4, 0, 9, WAITS))
    ]
    assert told(*(BatchEnd(number, None, state) for number, state in enumerate(states, 3))) == []


def test_limits_alone_let_one_offset_of_each_be_read() -> None:
    """So what was not read was at its end, unless batches are aligned: then a limit can end them before that."""
    both = end(3, 50, 0, reached_ms=None), end(4, 50, 100, LIMIT, reached_ms=None)
    assert told(*both) == []
    aligned = end(3, 50, 0), end(4, 50, 100, LIMIT)
    assert told(*aligned) == [(4, 4, "nothing was read of it; the batch was held by maxOffsetsPerTrigger")]


def test_it_is_the_batch_that_was_held_and_by_limits_around_the_split() -> None:
    of_topic, of_other = Held("maxOffsetsPerTrigger", "us/orders"), Held("maxBytesPerTrigger", "eu")
    ends = end(3, 0, 0), end(4, 50, 450, of_other, LIMIT, of_topic)
    assert told(*ends) == [
        (4, 4, "offsets 0 to 49 read by reader 0; the batch was held by maxOffsetsPerTrigger of topic us/orders")
    ]
    assert told(*ends, split=BEHIND) == [
        (4, 4, "offsets 0 to 449 read by reader 1; the batch was held by maxBytesPerTrigger of cluster eu")
    ]


def test_reading_goes_on_in_one_chapter_whomever_alignment_waits_for() -> None:
    more = Held("alignment", "eu/clicks/1")
    assert told(end(3, 0, 0), end(4, 10, 10, WAITS), end(5, 20, 20, more), end(6, 30, 30, LIMIT), end(7, 40, 40)) == [
        (
            4,
            5,
            "offsets 0 to 19 read by reader 0; the batches were held by alignment, which waits for eu/clicks/1, "
            "eu/orders/0",
        ),
        (6, 6, "offsets 20 to 29 read by reader 0; the batch was held by maxOffsetsPerTrigger"),
        (7, 7, "offsets 30 to 39 read by reader 0"),
    ]
