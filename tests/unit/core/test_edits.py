"""Edits of a checkpoint: what each makes of a batch, what it refuses, and how it is told."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType

import pytest

from evensplit.core.batch.plan import batch_ranges, plan_batch
from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import BatchOpened
from evensplit.core.model import Cluster, ClusterState, Held, Lifecycle, Range, Split, SplitId, Topic
from evensplit.core.repair.edit import OpenBatch, Told, drop, note, open_batch, rename_cluster, rewind, skip
from evensplit.core.repair.past import past
from evensplit.core.repair.proof import check_edit, consequences
from evensplit.core.state.codec import decode, encode, same
from evensplit.core.state.edits import Edit, Jump, pieces
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CheckpointCorrupt, CheckpointError, EditRefused
from evensplit.explain.changes import changes, happened
from evensplit.explain.split_history import BatchEnd, split_history

A, B, C = SplitId("east", "orders", 0), SplitId("east", "orders", 1), SplitId("west", "clicks", 0)
TOLD = Told("rewind", "--to 2h", 1_700_000_000_000)


def state(revision: int, *splits: Split) -> EnumeratorState:
    clusters = {name: ClusterState(name, ("host:9092",), False, True) for name in ("east", "west")}
    return EnumeratorState(
        2,
        clusters,
        MappingProxyType({split.id: split for split in splits}),
        begun=True,
        assigned_readers=(0, 1),
        revision=revision,
    )


START = state(7, Split(A, "t", 100, owner=0), Split(B, "t", 50, owner=1), Split(C, "u", 5, owner=0))
END = state(8, Split(A, "t", 200, owner=0, epoch=3), Split(B, "t", 50, owner=1), Split(C, "u", 9, owner=0))
DONE, OPEN = open_batch(START, END, done=True), open_batch(START, END, done=False)


def ranges(batch: OpenBatch, after: EnumeratorState) -> list[Range]:
    return list(batch_ranges(batch.start, after))


def test_after_a_batch_that_is_done_the_edit_has_one_of_its_own() -> None:
    assert DONE.is_new
    assert DONE.start is END
    assert DONE.end.revision == 9
    assert ranges(DONE, DONE.end) == []
    assert not OPEN.is_new
    assert (OPEN.start, OPEN.end) == (START, END)


def test_rewind_reads_nothing_in_its_own_batch_and_goes_on_there() -> None:
    after = rewind(DONE, {A: 150, B: 60}, TOLD)
    assert ranges(DONE, after) == []
    assert after.splits[A].position == 150
    assert after.splits[A].epoch is None
    assert after.splits[B] == END.splits[B]
    assert after.edits[-1].jumps == (Jump(A, 200, 150),)
    assert check_edit(DONE, after) == ()
    assert [
        (one.split, one.before, one.after, one.again) for one in consequences(DONE, after, past([DONE.start], after))
    ] == [(A, 200, 150, 50)]


def test_rewind_leaves_a_batch_that_is_planned_as_it_is() -> None:
    after = rewind(OPEN, {A: 20, C: 0}, TOLD)
    assert ranges(OPEN, after) == ranges(OPEN, END)
    assert after.splits[A].position == 20
    assert after.splits[C].position == 0
    assert check_edit(OPEN, after) == ()
    following = step(after, BatchOpened()).state
    assert following.edits == ()
    assert same(following, after)


def test_rewind_lets_a_finished_split_be_read_again() -> None:
    ended = state(8, Split(A, "t", 200, stop=200, finished=True), Split(B, "t", 50, owner=1))
    batch = open_batch(START, ended, done=True)
    after = rewind(batch, {A: 120}, TOLD)
    assert after.splits[A].lifecycle is Lifecycle.UNASSIGNED
    assert after.splits[A].stop == 200
    assert check_edit(batch, after) == ()


def test_a_batch_in_which_the_split_began_may_go_back_below_that() -> None:
    begun = state(8, Split(A, "t", 200, owner=0, first=150, since=8), Split(B, "t", 50, owner=1))
    batch = open_batch(state(7, Split(B, "t", 50, owner=1)), begun, done=False)
    after = rewind(batch, {A: 10}, TOLD)
    assert ranges(batch, after) == [Range(A, 150, 200)]
    assert check_edit(batch, after) == ()
    assert step(after, BatchOpened()).state.splits[A].first is None


@pytest.mark.parametrize(
    "first, to, read, position",
    [
        (100, 110, [(110, 200)], 200),
        (150, 151, [(100, 150), (151, 200)], 200),
        (190, 230, [(100, 190)], 230),
        (200, 210, [(100, 200)], 210),
    ],
)
def test_skip_leaves_out_a_range_of_a_batch_that_is_not_done(
    first: int, to: int, read: list[tuple[int, int]], position: int
) -> None:
    after = skip(OPEN, [Range(A, first, to)], TOLD)
    assert [(start, stop) for key, start, stop in ranges(OPEN, after) if key == A] == read
    assert after.splits[A].position == position
    assert (after.splits[A].epoch == 3) == (position == 200)
    assert check_edit(OPEN, after) == ()
    assert decode(encode(after)) == after


def test_a_record_of_the_last_batch_of_a_split_that_ends_can_be_skipped() -> None:
    ended = state(8, END.splits[A]._replace(stop=200, finished=True, owner=None), END.splits[B])
    batch = open_batch(START, ended, done=False)
    after = skip(batch, [Range(A, 150, 151)], TOLD)
    assert [one[1:] for one in ranges(batch, after)] == [(100, 150), (151, 200)]
    assert after.splits[A].finished
    assert check_edit(batch, after) == ()


def test_skip_after_a_batch_that_is_done_reads_up_to_it() -> None:
    after = skip(DONE, [Range(A, 230, 240)], TOLD)
    assert ranges(DONE, after) == [Range(A, 200, 230)]
    assert after.splits[A].position == 240
    (one,) = consequences(DONE, after, past([DONE.start], after))
    assert (one.never, one.now, one.again) == (10, 30, 0)


def test_skip_up_to_the_stop_ends_the_split() -> None:
    batch = open_batch(START, state(8, END.splits[A]._replace(stop=220), END.splits[B]), done=True)
    after = skip(batch, [Range(A, 200, 220)], TOLD)
    assert after.splits[A].finished
    assert check_edit(batch, after) == ()


def test_two_skips_of_one_range_are_one() -> None:
    once = skip(OPEN, [Range(A, 110, 120)], TOLD)
    after = skip(OpenBatch(START, once, False), [Range(A, 105, 130)], TOLD)
    assert [one[1:] for one in ranges(OPEN, after) if one.split == A] == [(100, 105), (130, 200)]


def test_drop_forgets_and_reads_nothing_of_it() -> None:
    after = drop(OPEN, Topic("east", "orders"), TOLD)
    assert list(after.splits) == [C]
    assert ranges(OPEN, after) == [Range(C, 5, 9)]
    assert check_edit(OPEN, after) == ()
    assert [(one.split, one.after) for one in consequences(OPEN, after, past([OPEN.start], after))] == [
        (A, None),
        (B, None),
    ]
    gone = drop(OPEN, Cluster("west"), TOLD)
    assert list(gone.clusters) == ["east"]
    assert changes(START, gone).forgotten == ()
    assert happened(C, START, gone) == ("was forgotten: `evensplit rewind --to 2h`",)


def test_a_new_name_keeps_positions_owners_pins_and_limits() -> None:
    pinned = {0: (Cluster("west"), Topic("east", "orders"), A), 1: (C, Topic("west", "clicks"))}
    held = (Held("maxOffsetsPerTrigger", "west/clicks"), Held("maxOffsetsPerTrigger"))
    end = replace(END, eligible=pinned, held=tuple(sorted(held)))
    batch = OpenBatch(START, end, False)
    skipped = skip(batch, [Range(C, 6, 7)], TOLD)
    after = rename_cluster(OpenBatch(START, skipped, False), "west", "north", TOLD)
    moved = C._replace(cluster="north")
    assert after.splits[moved] == END.splits[C]._replace(id=moved)
    assert after.eligible[0] == (Cluster("north"), Topic("east", "orders"), A)
    assert after.eligible[1] == (moved, Topic("north", "clicks"))
    assert [one.scope for one in after.held] == ["", "north/clicks"]
    assert [one[1:] for one in ranges(batch, after) if one.split == moved] == [(5, 6), (7, 9)]
    assert check_edit(OpenBatch(START, skipped, False), after) == ()
    assert changes(START, after).renamed == (("west", "north"),)
    assert happened(moved, START, after)[-1] == "was called west/clicks/0 before: `evensplit rewind --to 2h`"
    assert happened(B, START, after) == ()


def test_a_cluster_that_a_command_renamed_is_told_once() -> None:
    after = rename_cluster(OPEN, "west", "north", TOLD)
    assert changes(START, after).renamed == (("west", "north"),)
    assert [line for line in changes(START, after).sentences() if "north" in line] == [
        "`evensplit rewind --to 2h`: cluster west is called north"
    ]


def test_what_was_dropped_before_its_cluster_got_a_new_name_is_told_as_dropped() -> None:
    dropped = OpenBatch(START, drop(OPEN, A, TOLD), False)
    after = rename_cluster(dropped, "east", "north", TOLD)
    assert changes(START, after).forgotten == ()
    assert check_edit(dropped, after) == ()


def test_a_copy_says_that_it_is_one() -> None:
    after = note(DONE, Told("fork", "/new", 1))
    assert ranges(DONE, after) == []
    assert happened(A, END, after) == ("goes on in a copy of the checkpoint: `evensplit fork /new`",)
    assert changes(END, after).sentences() == (
        "`evensplit fork /new`: the checkpoint is a copy; nothing else is changed",
    )


@pytest.mark.parametrize(
    "edit, said",
    [
        (lambda: rewind(DONE, {A: 200}, TOLD), "nothing goes back: east/orders/0 is at 200; expected at least one"),
        (lambda: rewind(DONE, {}, TOLD), "nothing goes back: no partition is meant; expected at least one partition"),
        (lambda: rewind(DONE, {A: -1}, TOLD), "east/orders/0: -1 is not an offset; expected a number from 0 to"),
        (
            lambda: skip(DONE, [Range(A, 150, 160)], TOLD),
            "offset 150 was read by an earlier batch, so the sink has it; expected",
        ),
        (lambda: skip(OPEN, [Range(A, 90, 120)], TOLD), "offset 90 was read by an earlier batch.* from 100 on"),
        (
            lambda: skip(OPEN, [Range(A, 250, 260)], TOLD),
            "ends at offset 200. It would have to read what is unread before offset 250",
        ),
        (lambda: skip(OPEN, [Range(A, 120, 120)], TOLD), "at or before the last one; found 120 and 119"),
        (
            lambda: skip(OPEN, [Range(A._replace(partition=9), 1, 2)], TOLD),
            "there is no partition east/orders/9 in the checkpoint; it has east/orders/0, east/orders/1",
        ),
        (lambda: drop(OPEN, Topic("east", "order"), TOLD), r"no east/order .* did you mean east/orders\?"),
        (lambda: drop(OPEN, Cluster("north"), TOLD), "there is no north in the checkpoint; it has east, west"),
        (lambda: rename_cluster(OPEN, "west", "east", TOLD), "there is a cluster east in the checkpoint already"),
        (lambda: rename_cluster(OPEN, "nort", "s", TOLD), "there is no cluster nort in the checkpoint; it has east"),
        (
            lambda: rename_cluster(OpenBatch(START, drop(OPEN, Cluster("west"), TOLD), False), "east", "west", TOLD),
            "cluster west is still there where the batch begins",
        ),
        (lambda: open_batch(EnumeratorState(), EnumeratorState(), done=True), "has planned no batch yet"),
    ],
)
def test_what_cannot_be_done_is_refused(edit: Callable[[], object], said: str) -> None:
    with pytest.raises(EditRefused, match=said):
        edit()


def test_nothing_left_is_refused() -> None:
    only = state(8, END.splits[A])
    batch = OpenBatch(START, only, False)
    with pytest.raises(EditRefused, match="without east/orders, no partition is left"):
        drop(batch, Topic("east", "orders"), TOLD)


def test_what_is_not_read_cannot_be_skipped_and_does_not_go_back() -> None:
    away = state(8, END.splits[A]._replace(owner=None, removed_at_ms=5), END.splits[B])
    batch = open_batch(START, away, done=True)
    with pytest.raises(EditRefused, match="east/orders/0 is retained: nothing is read of it"):
        skip(batch, [Range(A, 210, 220)], TOLD)
    with pytest.raises(EditRefused, match="nothing goes back"):
        rewind(batch, {A: 3}, TOLD)


def test_a_range_beyond_where_a_rewind_led_is_skipped_before_the_rewind() -> None:
    """The batch fails at offset 150, so the query cannot do it first."""
    back = OpenBatch(START, rewind(OPEN, {A: 20}, Told("rewind", "--to 2h", 1)), False)
    with pytest.raises(EditRefused, match="Take `evensplit rewind --to 2h` back with `evensplit undo`, skip, and go"):
        skip(back, [Range(A, 150, 151)], TOLD)
    assert check_edit(OPEN, skipped := skip(OPEN, [Range(A, 150, 151)], TOLD)) == ()
    assert rewind(OpenBatch(START, skipped, False), {A: 20}, TOLD).splits[A].position == 20
    with pytest.raises(EditRefused, match="Let the query do it first"):
        skip(OPEN, [Range(A, 250, 260)], TOLD)
    # Earlier batches have read that, so without the rewind it could not be skipped any more.
    with pytest.raises(EditRefused, match="Let the query do it first"):
        skip(back, [Range(A, 50, 51)], TOLD)


def test_no_offset_is_read_twice_in_one_batch() -> None:
    ahead = skip(DONE, [Range(A, 250, 260)], TOLD)
    back = rewind(OpenBatch(DONE.start, ahead, True), {A: 100}, TOLD)
    with pytest.raises(EditRefused, match="reads offset 200 already, before it goes back; let the query run once"):
        skip(OpenBatch(DONE.start, back, True), [Range(A, 220, 230)], TOLD)


def test_an_end_that_cannot_be_reached_is_an_error() -> None:
    with pytest.raises(ValueError, match="was to go back from offset 5 to 1, and was at 7 by then"):
        pieces(7, 9, [Jump(A, 5, 1)])
    after = skip(OPEN, [Range(A, 150, 160)], TOLD)
    behind = MappingProxyType({**after.splits, A: after.splits[A]._replace(position=120)})
    with pytest.raises(CheckpointError, match="edited on the way: it was to go on at offset 160, and ends at 120"):
        plan_batch(START, replace(after, splits=behind))


def test_why_tells_what_was_left_out() -> None:
    after = skip(OPEN, [Range(A, 150, 160)], Told("skip", "east/orders/0:150-159", 1))
    story = split_history(A, [BatchEnd(7, None, START), BatchEnd(8, None, after)])
    assert story is not None
    assert story.chapters[-1].sentences() == (
        "offsets 150 to 159 are never read: `evensplit skip east/orders/0:150-159`",
        "offsets 100 to 149 and 160 to 199 read by reader 0",
    )
    assert story.to_json()["chapters"][-1]["reading"]["leftOut"] == [[150, 160]]


def test_the_document_has_edits_in_a_format_of_their_own() -> None:
    document = encode(skip(OPEN, [Range(A, 150, 160)], Told("skip", "a", 5)))
    assert document["evensplit"] == 6
    assert document["edits"] == [
        {"command": "skip", "said": "a", "atMs": 5, "jumps": {"east": {"orders": [[0, 150, 160]]}}}
    ]
    assert encode(END)["evensplit"] == 4


@pytest.mark.parametrize("wrong", [[{}], [{"command": "x", "said": "y", "atMs": -1}], {}, [7], "x"])
def test_nonsense_in_edits_is_damage(wrong: object) -> None:
    import json
    import zlib

    document = {key: value for key, value in encode(skip(OPEN, [Range(A, 150, 160)], TOLD)).items() if key != "check"}
    document["edits"] = wrong
    text = json.dumps(document, separators=(",", ":"))
    with pytest.raises(CheckpointCorrupt):
        decode({**document, "check": f"{zlib.crc32(text.encode()):08x}"})


def test_the_last_line_of_the_log() -> None:
    found = changes(END, rewind(DONE, {A: 150, C: 3}, TOLD))
    assert found.sentences() == ("`evensplit rewind --to 2h`: 2 partitions go back by 56 offsets in all",)
    assert re.match("went back from offset 200 to 150", happened(A, END, rewind(DONE, {A: 150}, TOLD))[0])


def test_a_batch_that_reads_nothing_after_an_edit_has_no_part_in_it() -> None:
    """As one that only moves a watermark, or reads another source of the query: both its ends are one state."""
    back = rewind(DONE, {A: 150}, TOLD)
    assert batch_ranges(back, back) == ()
    assert happened(A, back, back) == ()
    assert changes(back, back).sentences() == ()
    idle = open_batch(back, back, done=False)
    assert not idle.is_new
    after = rewind(idle, {A: 120}, TOLD)
    assert not check_edit(idle, after)
    assert ranges(idle, after) == []
    assert after.edits == (Edit(TOLD.command, TOLD.said, TOLD.at_ms, (Jump(A, 150, 120),)),)


def test_what_is_read_to_its_stop_in_a_batch_that_is_not_done_goes_back() -> None:
    end = state(8, END.splits[A]._replace(owner=None, stop=200, finished=True), END.splits[B])
    batch = open_batch(START, end, done=False)
    after = rewind(batch, {A: 150}, TOLD)
    assert not check_edit(batch, after)
    assert ranges(batch, after) == [Range(A, 100, 200)]
    assert after.splits[A].lifecycle is Lifecycle.UNASSIGNED


def test_the_name_of_a_cluster_that_was_renamed_and_dropped_is_not_free_yet() -> None:
    """Both would be found by it in the state where the batch begins."""
    north = rename_cluster(OPEN, "east", "north", TOLD)
    gone = drop(OpenBatch(START, north, False), Cluster("north"), TOLD)
    with pytest.raises(EditRefused, match="cluster north is still there where the batch begins; let the query run"):
        rename_cluster(OpenBatch(START, gone, False), "west", "north", TOLD)
