"""Offsets as values: `KafkaSourceOffsetSuite`, of the states that are offsets here."""

from __future__ import annotations

import json

import pytest

from evensplit.core.model import ClusterState, Split, SplitId
from evensplit.core.state.codec import decode, encode, same
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CheckpointForeign

Positions = dict[tuple[str, int], int]


def offset(positions: Positions) -> EnumeratorState:
    """The state at these positions: (topic, partition) -> next offset."""
    splits = {SplitId("c", *key): Split(SplitId("c", *key), "", at, None, 0) for key, at in positions.items()}
    return EnumeratorState(
        1,
        {"c": ClusterState("c", ("host:1",), False, True)},
        {key: splits[key] for key in sorted(splits)},
        generation=1,
        begun=True,
        assigned_readers=(0,),
    )


@pytest.mark.parametrize(
    "one, other",
    [
        ({("t", 0): 1}, {("t", 0): 2}),
        ({("t", 0): 1, ("t", 1): 0}, {("t", 0): 2, ("t", 1): 1}),
        ({("t", 0): 1, ("T", 0): 0}, {("t", 0): 2, ("T", 0): 1}),
        ({("t", 0): 1}, {("t", 0): 2, ("t", 1): 1}),
        ({("t", 0): 1}, {("T", 0): 1}),
    ],
    ids=["one partition", "several partitions", "topics in two cases", "a new partition", "another case"],
)
def test_offsets_are_equal_only_to_themselves(one: Positions, other: Positions) -> None:
    for positions in (one, other):
        assert same(offset(positions), offset(dict(reversed(positions.items()))))
        assert json.dumps(encode(offset(positions))) == json.dumps(encode(offset(dict(reversed(positions.items())))))
    assert not same(offset(one), offset(other))
    assert json.dumps(encode(offset(one))) != json.dumps(encode(offset(other)))


def test_there_and_back() -> None:
    """Through the text that Spark keeps, and equal to what it was."""
    state = offset({("t", 0): 1, ("t", 1): 2, ("T", 0): 3})
    written = json.dumps(encode(state))
    assert decode(json.loads(written)) == state
    assert json.dumps(encode(decode(json.loads(written)))) == written


@pytest.mark.parametrize(
    "text", ['{"topic1":{"0":456,"1":789},"topic2":{"0":0}}', '{"t":{"0":1}}'], ids=["as Spark 2.1.0 wrote it", "now"]
)
def test_the_offsets_of_sparks_own_source_are_told_from_ours(text: str) -> None:
    """They are never taken for an empty state; docs/beside-spark.md says how such a checkpoint goes on."""
    with pytest.raises(CheckpointForeign, match="Spark's own Kafka source"):
        decode(json.loads(text))
