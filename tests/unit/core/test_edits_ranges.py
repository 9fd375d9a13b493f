"""Edits of a checkpoint that skip several ranges, of one partition or of many."""

from __future__ import annotations

import pytest

from evensplit.core.batch.plan import batch_ranges
from evensplit.core.model import Range, Split, SplitId
from evensplit.core.repair import edit, places
from evensplit.core.repair.edit import OpenBatch, Told, open_batch, rewind, skip
from evensplit.core.repair.past import past
from evensplit.core.repair.proof import check_edit, consequences, edits_made
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.edits import Jump
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import EditRefused
from tests.unit.core.test_edits import DONE, END, OPEN, TOLD, A, C, ranges, state


def test_several_ranges_are_left_out_at_once() -> None:
    told = Told("skip", "three ranges", 1)
    after = skip(DONE, [Range(C, 9, 11), Range(A, 230, 240), Range(A, 210, 215)], told)
    assert ranges(DONE, after) == [Range(A, 200, 210), Range(A, 215, 230)]
    assert (after.splits[A].position, after.splits[C].position) == (240, 11)
    assert [edit.jumps for edit in after.edits] == [(Jump(A, 210, 215), Jump(C, 9, 11)), (Jump(A, 230, 240),)]
    assert {edit.line for edit in after.edits} == {"evensplit skip three ranges"}
    assert check_edit(DONE, after) == ()
    assert decode(encode(after)) == after
    assert [
        (one.split, one.never, one.now, one.before, one.after)
        for one in consequences(DONE, after, past([DONE.start], after))
    ] == [
        (A, 15, 25, 200, 240),
        (C, 2, 0, 9, 11),
    ]
    assert edits_made(DONE, after) == after.edits


def test_ranges_that_meet_are_one() -> None:
    after = skip(OPEN, [Range(A, 195, 200), Range(A, 200, 220), Range(A, 120, 130), Range(A, 125, 127)], TOLD)
    assert [one[1:] for one in ranges(OPEN, after) if one.split == A] == [(100, 120), (130, 195)]
    assert [edit.jumps for edit in after.edits] == [(Jump(A, 120, 130),), (Jump(A, 195, 220),)]
    assert after.splits[A].epoch is None
    assert check_edit(OPEN, after) == ()


def test_many_ranges_take_no_longer_than_they_are_many() -> None:
    """The parts that are left of a batch doubled with each range, empty ones among them."""
    after = skip(DONE, [Range(A, offset, offset + 1) for offset in range(201, 401, 2)], TOLD)
    assert len(ranges(DONE, after)) == 100
    assert check_edit(DONE, after) == ()


def test_one_range_that_cannot_be_skipped_refuses_all() -> None:
    with pytest.raises(EditRefused, match="offset 150 was read by an earlier batch"):
        skip(DONE, [Range(A, 210, 215), Range(A, 150, 151)], TOLD)
    with pytest.raises(EditRefused, match="would have to read what is unread before offset 250"):
        skip(OPEN, [Range(A, 190, 220), Range(A, 250, 260)], TOLD)


def test_the_end_of_the_batch_is_named_and_what_is_left_out_behind_it() -> None:
    with pytest.raises(
        EditRefused, match=r"ends at offset 200, and what is left out goes on to 219\. It would have to"
    ):
        skip(OPEN, [Range(A, 190, 220), Range(A, 250, 260)], TOLD)
    with pytest.raises(
        EditRefused, match=r"ends at offset 200\. It would have to read what is unread before offset 250"
    ):
        skip(OPEN, [Range(A, 120, 130), Range(A, 250, 260)], TOLD)


def test_too_many_ranges_of_one_partition_are_refused() -> None:
    with pytest.raises(EditRefused, match="east/orders/0: 101 ranges are to be skipped at once; expected 100 at most"):
        skip(DONE, [Range(A, offset, offset + 1) for offset in range(201, 403, 2)], TOLD)
    assert len(skip(DONE, [Range(A, 201, 404)], TOLD).edits) == 1


def test_many_partitions_take_no_longer_than_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is between the two ends of the batch was worked out anew for each of them."""
    worked_out: list[object] = []

    def counting(start: EnumeratorState, end: EnumeratorState) -> tuple[Range, ...]:
        worked_out.append(end)
        return batch_ranges(start, end)

    for module in (edit, places):
        monkeypatch.setattr(module, "batch_ranges", counting)
    keys = [SplitId("east", "orders", number) for number in range(50)]
    wide = state(8, *(Split(key, "t", 10, owner=0) for key in keys))
    batch = open_batch(wide, wide, done=True)
    skip(batch, [Range(key, 11, 12) for key in keys], TOLD)
    back = rewind(batch, dict.fromkeys(keys, 3), TOLD)
    jumps = [jump for one in back.edits for jump in one.jumps]
    assert len(places.not_read_again(jumps, [back], open_batch(batch.start, back, done=True))) == 50
    assert len(worked_out) <= 4


def test_a_second_skip_behind_the_first_is_told_to_come_with_it() -> None:
    once = skip(DONE, [Range(A, 210, 215)], Told("skip", "east/orders/0:210-214", 1))
    with pytest.raises(EditRefused, match="there only by `evensplit skip east/orders/0:210-214`, take that back with"):
        skip(OpenBatch(END, once, False), [Range(A, 230, 240)], TOLD)
