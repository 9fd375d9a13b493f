"""Positions of another source: there and back without a change, also through what the next batch does with them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.batch.plan import batch_ranges, plan_batch
from evensplit.core.import_spark_offsets import (
    begins,
    firsts_between,
    lost_between,
    positions_of_state,
    state_of_positions,
)
from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    Event,
    ListedCluster,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderRegistered,
)
from evensplit.core.machine.invariants import check, check_step
from evensplit.core.model import Cause, ListedPartition, SplitId
from evensplit.core.state.codec import decode, encode, same
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.state.spark_offsets import format_positions, parse_positions
from evensplit.core.state.state import EnumeratorState

SERVERS = ("host:9092",)
topics = st.sampled_from(["orders", "clicks", "evensplit", "a.b_c-d"])
keys = st.tuples(topics, st.integers(0, 12))
offsets = st.integers(0, 2**63 - 1)
positions = st.dictionaries(keys, offsets, min_size=1, max_size=12)
small = st.dictionaries(keys, st.integers(0, 50), min_size=1, max_size=12)


def feed(state: EnumeratorState, *events: Event) -> EnumeratorState:
    for event in events:
        after = step(state, event)
        assert check(after.state) == ()
        assert check_step(state, event, after.state) == ()
        state = after.state
    return state


def dealt(state: EnumeratorState, readers: int) -> EnumeratorState:
    return feed(state, ParallelismChanged(readers), *map(ReaderRegistered, range(readers)))


def ranges(start: EnumeratorState, end: EnumeratorState) -> dict[TopicPartition, tuple[int, int]]:
    return {part.split[1:]: (part.start, part.end) for part in batch_ranges(start, end)}


def as_spark_reads(
    before: dict[TopicPartition, int], after: dict[TopicPartition, int]
) -> dict[TopicPartition, tuple[int, int]]:
    """What new partitions begin at is 0; what has gone back is left out."""
    return {key: (before.get(key, 0), end) for key, end in after.items() if before.get(key, 0) < end}


@given(positions)
def test_positions_there_and_back(found: dict[TopicPartition, int]) -> None:
    text = format_positions(found)
    parsed = parse_positions(json.loads(text))
    assert parsed == found
    assert list(parsed) == sorted(found)
    state = state_of_positions("east", SERVERS, found)
    assert check(state) == ()
    again = decode(json.loads(json.dumps(encode(state))))
    assert again == state
    assert positions_of_state(again) == {"east": parsed}
    assert format_positions(positions_of_state(again)["east"]) == text


@given(positions)
def test_the_state_is_what_the_table_makes_of_such_a_batch(found: dict[TopicPartition, int]) -> None:
    """But for how many batches there were, which another source does not count as this one does."""
    told = feed(
        EnumeratorState(),
        ClustersListed((ListedCluster("east", SERVERS),)),
        PartitionsListed("east", tuple(ListedPartition(*key) for key in found)),
        OffsetsResolved({SplitId("east", *key): offset for key, offset in found.items()}),
        BatchPlanned({}),
        BatchOpened(),
    )
    made = state_of_positions("east", SERVERS, found)
    assert encode(replace(made, revision=0)) == encode(replace(told, revision=0))


@given(positions, st.integers(1, 5))
def test_the_next_batch_keeps_them_and_its_discovery_tells_topic_ids(
    found: dict[TopicPartition, int], readers: int
) -> None:
    start = state_of_positions("east", SERVERS, found)
    new = ListedPartition("new", 0, "id-new")
    listed = (*(ListedPartition(*key, f"id-{key[0]}") for key in found), new)
    end = feed(
        start,
        BatchOpened(),
        ParallelismChanged(readers),
        ClustersListed((ListedCluster("east", SERVERS),)),
        PartitionsListed("east", listed, kafka_id="kafka-1"),
        OffsetsResolved({SplitId("east", "new", 0): 3}),
        *map(ReaderRegistered, range(readers)),
        BatchPlanned({}),
    )
    assert positions_of_state(end) == {"east": {**found, ("new", 0): 3}}
    assert {split.topic_id for key, split in end.splits.items() if key.topic != "new"} == {
        f"id-{topic}" for topic, _ in found
    }
    assert all(split.owner is not None for split in end.splits.values())
    assert batch_ranges(start, end) == ()
    assert not same(end, start)
    assert lost_between(start, end) == ()


@given(positions)
def test_what_is_new_to_a_foreign_start_begins_at_earliest(found: dict[TopicPartition, int]) -> None:
    start = state_of_positions("east", SERVERS, found)
    events = (
        BatchOpened(),
        ClustersListed((ListedCluster("east", SERVERS, starts_by_strategy=True),)),
        PartitionsListed("east", (ListedPartition("new", 0),), complete=False),
    )
    for event in events:
        after = step(start, event)
        start = after.state
    (order,) = after.effects
    assert getattr(order, "by", None) == "earliest"


@given(small, small, st.integers(1, 4))
def test_a_batch_is_planned_again_as_spark_would(
    before: dict[TopicPartition, int], after: dict[TopicPartition, int], readers: int
) -> None:
    start = state_of_positions("east", SERVERS, before)
    end = state_of_positions("east", SERVERS, after, firsts_between(before, after))
    expected = as_spark_reads(before, after)
    assert ranges(start, end) == expected
    again = decode(encode(end))
    plan = plan_batch(start, dealt(again, readers))
    assert {part.split[1:]: part[1:] for one in plan.readers for part in one.ranges} == expected
    assert begins(start, end) == {"east": {key: expected.get(key, (end, end))[0] for key, end in after.items()}}
    lost = {loss.split[1:]: loss.cause for loss in lost_between(start, end)}
    gone = {key: Cause.DELETED for key in before if key not in after}
    back = {key: Cause.TRUNCATED for key in before if key in after and after[key] < before[key]}
    assert lost == {**gone, **back}


def test_what_was_not_to_be_read_is_not_lost() -> None:
    start = state_of_positions("east", SERVERS, {("orders", 0): 5, ("orders", 1): 6})
    first, second = start.splits.values()
    splits = {first.id: first._replace(removed_at_ms=1_700_000_000_000), second.id: second._replace(position=None)}
    before = EnumeratorState(0, start.clusters, splits, begun=True)
    assert lost_between(before, state_of_positions("east", SERVERS, {("clicks", 0): 1})) == ()
    assert positions_of_state(before) == {}


@given(small, small)
def test_a_first_batch_is_planned_again_from_where_it_began(
    initial: dict[TopicPartition, int], added: dict[TopicPartition, int]
) -> None:
    ends = {key: offset + added.get(key, 0) for key, offset in initial.items()}
    end = state_of_positions("east", SERVERS, ends, initial)
    assert ranges(EnumeratorState(), dealt(end, 2)) == {
        key: (initial[key], at) for key, at in ends.items() if initial[key] < at
    }
    assert begins(EnumeratorState(), end) == {"east": dict(sorted(initial.items()))}


@pytest.mark.parametrize(
    "document",
    [
        None,
        5,
        "latest",
        [],
        {},
        {"orders": {}},
        {"orders": 5},
        {"orders": {"0": 5}, "readers": 3},
        {"orders": {"x": 5}},
        {"orders": {"00": 5}},
        {"orders": {"-1": 5}},
        {"orders": {"²": 5}},
        {"orders": {"2147483648": 5}},
        {"orders": {"0": -1}},
        {"orders": {"0": 2**63}},
        {"orders": {"0": True}},
        {"orders": {"0": 5.0}},
        {"orders": {"0": "5"}},
        {"orders": {0: 5}},
        {"logOffset": 4},
        encode(EnumeratorState()),
    ],
)
def test_what_has_another_form_is_no_position(document: object) -> None:
    assert parse_positions(document) is None
