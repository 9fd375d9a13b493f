"""Edits of a checkpoint, made at random: what is read after them is what they say, offset by offset."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from evensplit.core.batch.plan import batch_ranges, beginnings
from evensplit.core.model import Cluster, ClusterState, Range, Readable, Split, SplitId, Topic
from evensplit.core.repair.edit import OpenBatch, Told, drop, note, open_batch, rename_cluster, rewind, skip
from evensplit.core.repair.past import past
from evensplit.core.repair.proof import check_edit, consequences, edits_made
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import EditRefused

KEYS = [
    SplitId("east", "clicks", 0),
    SplitId("east", "orders", 0),
    SplitId("east", "orders", 1),
    SplitId("west", "u", 7),
]
LOGS_END = 64
"""Reading goes on to this offset in each split after the edits: none of them goes beyond it."""

SCOPES: list[Readable] = [Cluster("east"), Cluster("west"), Topic("east", "orders"), *KEYS]

Order = tuple[str, Any]


def state(positions: dict[SplitId, int], *, revision: int, firsts: dict[SplitId, int]) -> EnumeratorState:
    splits = {
        key: Split(
            key, "id", at, owner=number % 2, first=firsts.get(key), since=revision if key in firsts else 0, epoch=3
        )
        for number, (key, at) in enumerate(sorted(positions.items()))
    }
    clusters = {name: ClusterState(name, ("host:9092",), False, True) for name in ("east", "west")}
    return EnumeratorState(
        2, clusters, MappingProxyType(splits), begun=True, assigned_readers=(0, 1), revision=revision, generation=1
    )


@st.composite
def batches(draw: st.DrawFn) -> OpenBatch:
    begins = {key: draw(st.integers(0, 30)) for key in KEYS}
    ends = {key: at + draw(st.integers(0, 15)) for key, at in begins.items()}
    new = draw(st.sets(st.sampled_from(KEYS), max_size=2))
    start = state({key: at for key, at in begins.items() if key not in new}, revision=4, firsts={})
    end = state(ends, revision=5, firsts={key: begins[key] for key in sorted(new)})
    return open_batch(start, end, done=draw(st.booleans()))


orders = st.lists(
    st.one_of(
        st.tuples(st.just("rewind"), st.dictionaries(st.sampled_from(KEYS), st.integers(0, 40), min_size=1)),
        st.tuples(
            st.just("skip"),
            st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 50), st.integers(0, 12)), min_size=1, max_size=4),
        ),
        st.tuples(st.just("drop"), st.sampled_from(SCOPES)),
        st.tuples(st.just("rename"), st.sampled_from([("east", "north"), ("north", "east"), ("west", "south")])),
        st.tuples(st.just("note"), st.none()),
    ),
    max_size=6,
)


def made(batch: OpenBatch, order: Order) -> EnumeratorState:
    kind, what = order
    told = Told(kind, "--as-said", 1_700_000_000_000)
    if kind == "rewind":
        return rewind(batch, what, told)
    if kind == "skip":
        return skip(batch, [Range(key, first, first + size) for key, first, size in what], told)
    if kind == "drop":
        return drop(batch, what, told)
    return note(batch, told) if kind == "note" else rename_cluster(batch, what[0], what[1], told)


def expected_after(reads: Counter[tuple[SplitId, int]], before: EnumeratorState, order: Order) -> Counter[Any]:
    """What is read from the batch on, once `order` is carried out, by the words of the manual."""
    kind, what = order
    if kind == "skip":
        gone = {(key, offset) for key, first, size in what for offset in range(first, first + size)}
        return Counter({one: n for one, n in reads.items() if one not in gone})
    if kind == "rewind":
        again = Counter(
            (key, offset)
            for key, to in what.items()
            if key in before.splits
            for offset in range(to, before.splits[key].position or 0)
        )
        return reads + again
    if kind == "drop":
        dropped = [key for key in before.splits if what in (key, Topic(*key[:2]), Cluster(key[0]))]
        return Counter({one: n for one, n in reads.items() if one[0] not in dropped})
    if kind == "rename":
        former, name = what
        return Counter(
            {((key._replace(cluster=name) if key.cluster == former else key), at): n for (key, at), n in reads.items()}
        )
    return reads


def read_from(batch: OpenBatch) -> Counter[tuple[SplitId, int]]:
    """How often each offset is read, from the batch on, if reading goes on to the ends of the logs."""
    found = Counter(
        (part.split, offset) for part in batch_ranges(batch.start, batch.end) for offset in range(part.start, part.end)
    )
    for key, split in batch.end.splits.items():
        found.update((key, offset) for offset in range(split.position or 0, LOGS_END))
    return found


@settings(deadline=None)
@given(batches(), orders)
def test_what_is_read_after_edits_is_what_they_say(batch: OpenBatch, said: list[Order]) -> None:
    expected = read_from(batch)
    for order in said:
        try:
            after = made(batch, order)
        except EditRefused:
            continue
        assert not check_edit(batch, after)
        expected = expected_after(expected, batch.end, order)
        batch = OpenBatch(batch.start, after, batch.is_new)
        assert read_from(batch) == expected
        assert len(after.edits) == len(batch.end.edits)


def read_before(batch: OpenBatch) -> Counter[tuple[SplitId, int]]:
    """What the batches before it have read, at most: all that lies before it."""
    begins = beginnings(batch.start, batch.end, batch.end.splits)
    return Counter((key, offset) for key, begin in begins.items() for offset in range(begin))


@settings(deadline=None)
@given(batches(), orders)
def test_consequences_count_what_is_read_again_and_never(batch: OpenBatch, said: list[Order]) -> None:
    """Of all reads, whatever edits were made before: what is read from there on, and was, or will be by this batch."""
    start = batch.start
    reads = read_before(batch) + read_from(batch)
    for order in said:
        try:
            after = made(batch, order)
        except EditRefused:
            continue
        reads = expected_after(reads, batch.end, order)
        found = {one.split: one for one in consequences(batch, after, past([start], after))}
        before, now = read_from(batch), read_from(OpenBatch(batch.start, after, batch.is_new))
        goes_back = {jump.split for edit in edits_made(batch, after) for jump in edit.jumps if jump.to < jump.at}
        for key, one in found.items():
            if one.after is None:
                assert key not in after.splits
                continue
            twice = sum(reads[key, offset] > 1 for offset in range(one.after, LOGS_END))
            assert one.again == (twice if key in goes_back else 0)
            assert one.never >= sum((before - now)[key, offset] for offset in range(LOGS_END))
        batch = OpenBatch(batch.start, after, batch.is_new)


@settings(deadline=None)
@given(batches(), orders)
def test_a_wrong_edit_is_noticed(batch: OpenBatch, said: list[Order]) -> None:
    for order in said:
        try:
            after = made(batch, order)
        except EditRefused:
            continue
        for key, split in after.splits.items():
            other = split._replace(position=(split.position or 0) + 1, owner=split.owner)
            wrong = replace(after, splits=MappingProxyType({**after.splits, key: other}))
            assert check_edit(batch, wrong), f"{key} is read one offset further, and nobody said so"
        batch = OpenBatch(batch.start, after, batch.is_new)
