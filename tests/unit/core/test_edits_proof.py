"""The laws R1 to R7: each is broken once by a state that no edit makes, and says so."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from evensplit.core.batch.plan import plan_batch
from evensplit.core.model import Cause, ClusterState, Held, Loss, Range, Split, SplitId, Topic
from evensplit.core.repair.edit import OpenBatch, Told, drop, open_batch, rename_cluster, rewind, skip
from evensplit.core.repair.proof import check_edit
from evensplit.core.state.codec import decode
from evensplit.core.state.edits import Edit, Jump
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import EditRefused

A, B, C = SplitId("east", "orders", 0), SplitId("east", "orders", 1), SplitId("west", "clicks", 0)
TOLD = Told("rewind", "--to 2h", 1_700_000_000_000)


def state(revision: int, *splits: Split) -> EnumeratorState:
    return EnumeratorState(
        2,
        {name: ClusterState(name, ("host:9092",), False, True) for name in ("east", "west")},
        MappingProxyType({split.id: split for split in splits}),
        begun=True,
        assigned_readers=(0, 1),
        revision=revision,
        losses=(Loss(A, Cause.AGED_OUT, 5, 10, 5),),
        reached_ms=1_600_000_000_000,
        held=(Held("maxOffsetsPerTrigger", "east/orders"),),
        eligible=MappingProxyType({1: (Topic("east", "orders"), C)}),
    )


START = state(7, Split(A, "t", 100, owner=0), Split(B, "t", 50, owner=1), Split(C, "u", 5, owner=0))
END = state(8, Split(A, "t", 200, owner=0), Split(B, "t", 50, owner=1), Split(C, "u", 9, owner=0))
OPEN = open_batch(START, END, done=False)


def with_split(of: EnumeratorState, key: SplitId, **change: Any) -> EnumeratorState:
    return replace(of, splits=MappingProxyType({**of.splits, key: of.splits[key]._replace(**change)}))


def laws_broken(batch: OpenBatch, after: EnumeratorState) -> list[str]:
    return sorted({said.partition(":")[0] for said in check_edit(batch, after)})


@pytest.mark.parametrize(
    "after",
    [
        rewind(OPEN, {A: 20, C: 0}, TOLD),
        skip(OPEN, [Range(A, 150, 260)], TOLD),
        skip(OPEN, [Range(A, 150, 160), Range(A, 180, 260), Range(C, 6, 7)], TOLD),
        drop(OPEN, Topic("west", "clicks"), TOLD),
        rename_cluster(OPEN, "east", "north", TOLD),
    ],
    ids=["rewind", "skip", "skips", "drop", "rename"],
)
def test_what_the_edits_make_breaks_none(after: EnumeratorState) -> None:
    assert check_edit(OPEN, after) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"clusters": {"east": END.clusters["east"]}},
        {"clusters": {**END.clusters, "east": replace(END.clusters["east"], kafka_id="x")}},
        {"losses": ()},
        {"held": ()},
        {"reached_ms": 7},
        {"eligible": MappingProxyType({})},
        {"readers": 3},
        {"rated_ms": 7},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_the_edit_does_not_name_is_as_it_was(change: dict[str, Any]) -> None:
    after = replace(rewind(OPEN, {A: 20}, TOLD), **change)
    assert "R1" in laws_broken(OPEN, after)
    (name,) = change
    assert any(said.startswith(f"R1: {name} is ") for said in check_edit(OPEN, after))


def test_a_split_that_the_edit_does_not_name_is_as_it_was() -> None:
    after = with_split(rewind(OPEN, {A: 20}, TOLD), B, owner=0)
    assert check_edit(OPEN, after) == (f"R1: {B} changed, and the edit does not name it",)


@pytest.mark.parametrize(
    "change",
    [
        {"owner": 1},
        {"owner": None},
        {"topic_id": "v"},
        {"stop": 900},
        {"epoch": 7},
        {"rate": 5},
        {"read_from": 3},
        {"record_bytes": 8},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "after", [rewind(OPEN, {A: 20}, TOLD), skip(OPEN, [Range(A, 150, 260)], TOLD)], ids=["rewind", "skip"]
)
def test_of_a_split_that_moves_the_position_changes_alone(after: EnumeratorState, change: dict[str, Any]) -> None:
    assert check_edit(OPEN, with_split(after, A, **change)) == (f"R1: {A} changed, and the edit does not name it",)


def test_an_edit_that_nobody_gave_is_seen() -> None:
    after = rewind(OPEN, {A: 20}, TOLD)
    said = check_edit(OPEN, replace(after, edits=(Edit("fork", "", 1), *after.edits)))
    assert [one.partition(" is ")[0] for one in said] == ["R1: edits"]


def test_a_name_that_is_left_behind_is_seen() -> None:
    after = replace(rename_cluster(OPEN, "east", "north", TOLD), held=END.held, losses=END.losses)
    said = check_edit(OPEN, after)
    assert [one.split(" is ")[0] for one in said if one.startswith("R1")] == ["R1: losses", "R1: held"]


def test_the_batch_reads_what_it_was_to_read() -> None:
    after = skip(OPEN, [Range(A, 150, 260)], TOLD)
    less = replace(after, edits=(replace(after.edits[-1], jumps=(after.edits[-1].jumps[0]._replace(at=140),)),))
    assert "R2" not in laws_broken(OPEN, after)
    assert "R2" in laws_broken(OPEN, with_split(after, A, position=270))
    assert laws_broken(OPEN, less) == [], "an edit that says so may leave out more"
    assert "R2" in laws_broken(OPEN, with_split(rewind(OPEN, {A: 20}, TOLD), C, position=8))


def test_of_several_ranges_none_is_read_and_nothing_else_is_left_out() -> None:
    ahead = open_batch(END, END, done=True)
    after = skip(ahead, [Range(A, 210, 220), Range(A, 240, 250)], TOLD)
    first, second = after.edits
    assert laws_broken(ahead, after) == []
    assert laws_broken(ahead, replace(after, edits=(first,))) == ["R2", "R4"]
    assert "R4" in laws_broken(ahead, with_split(after, A, position=251))
    assert laws_broken(ahead, replace(after, edits=(first, replace(second, at_ms=5)))) == ["R1"]


def test_nothing_is_skipped_beyond_where_a_partition_ends() -> None:
    ends = open_batch(START, with_split(END, A, stop=300), done=False)
    with pytest.raises(EditRefused, match="ends at offset 300; expected a last offset before that"):
        skip(ends, [Range(A, 150, 301)], TOLD)
    after = skip(ends, [Range(A, 150, 300)], TOLD)
    assert (after.splits[A].position, after.splits[A].finished, after.splits[A].owner) == (300, True, None)
    assert check_edit(ends, after) == ()


def test_both_ends_of_a_range_are_offsets() -> None:
    for first, to in ((-1, 150), (150, 2**63)):
        with pytest.raises(EditRefused, match="is not an offset; expected a number from 0 to"):
            skip(OPEN, [Range(A, first, to)], TOLD)


def test_what_is_dropped_has_no_jump_any_more() -> None:
    back = OpenBatch(START, rewind(OPEN, {A: 20, C: 0}, TOLD), False)
    after = drop(back, Topic("west", "clicks"), TOLD)
    assert [edit.jumps for edit in after.edits] == [(Jump(A, 200, 20),), ()]
    assert check_edit(back, after) == ()


def test_a_rewind_keeps_what_is_not_compared_before_its_target_only() -> None:
    held = open_batch(START, with_split(END, A, read_from=90), done=False)
    assert rewind(held, {A: 95}, TOLD).splits[A].read_from == 90
    assert rewind(held, {A: 90}, TOLD).splits[A].read_from is None


def test_no_offset_is_read_twice_in_a_batch() -> None:
    assert "R3" in laws_broken(OPEN, with_split(rewind(OPEN, {A: 150}, TOLD), A, position=180))


def test_splits_go_on_where_the_edit_says() -> None:
    assert "R4" in laws_broken(OPEN, with_split(rewind(OPEN, {A: 20}, TOLD), A, position=21))
    dropped = drop(OPEN, Topic("west", "clicks"), TOLD)
    back = replace(dropped, splits=MappingProxyType({**dropped.splits, C: END.splits[C]}))
    assert "R4" in laws_broken(OPEN, back)


def test_each_offset_is_in_one_task(monkeypatch: pytest.MonkeyPatch) -> None:

    def short(start: EnumeratorState, end: EnumeratorState) -> Any:
        found = plan_batch(start, end)
        return replace(found, readers=found.readers[:1])

    monkeypatch.setattr("evensplit.core.repair.proof.plan_batch", short)
    two = open_batch(START, with_split(END, B, position=60), done=False)
    assert laws_broken(two, rewind(two, {A: 20}, TOLD)) == ["R5"]


def test_what_is_written_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evensplit.core.repair.proof.decode", lambda body: replace(decode(body), revision=9))
    assert laws_broken(OPEN, rewind(OPEN, {A: 20}, TOLD)) == ["R6"]


def test_no_law_of_states_is_broken_that_was_not_before() -> None:
    after = with_split(rewind(OPEN, {A: 20}, TOLD), A, read_from=30)
    assert "R7" in laws_broken(OPEN, after)
    broken = with_split(END, B, read_from=60)
    batch = OpenBatch(START, broken, False)
    assert laws_broken(batch, rewind(batch, {A: 20}, TOLD)) == []
