"""The offset document: what it looks like, and what happens to a bad one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from evensplit.core.codec import decode, encode, same
from evensplit.core.model import ClusterState, Split, SplitId
from evensplit.core.report import Report, decode_report, encode_report, lag
from evensplit.core.state import EnumeratorState
from evensplit.errors import CheckpointCorrupt, CheckpointForeign, CheckpointVersionUnknown, TransitionError

GOLDEN = Path(__file__).parent.parent / "data" / "checkpoints"


def example() -> EnumeratorState:
    """A state with everything in it that a state can have."""
    splits = [
        Split(SplitId("east", "orders", 0), "id-1", 120, None, 0),
        Split(SplitId("east", "orders", 1), "id-1", 98, None, 1),
        Split(SplitId("east", "orders", 2), "id-1", 7, 0, 0),
        Split(SplitId("east", "returns", 5), "", 0, None, 1),
        Split(SplitId("west", "orders", 0), "id-2", None, None, None),
    ]
    clusters = {
        "east": ClusterState("east", ("10.0.0.1:9092", "10.0.0.2:9092"), initial=False, discovered=True),
        "north": ClusterState("north", ("10.2.0.1:9092",), initial=True),
        "west": ClusterState("west", ("10.1.0.1:9092",), initial=False, discovered=True),
    }
    by_id = MappingProxyType({split.id: split for split in splits})
    return EnumeratorState(2, MappingProxyType(clusters), by_id, begun=True)


def through_spark(document: dict[str, Any]) -> dict[str, Any]:
    """What Spark does with it: to JSON and back."""
    found = json.loads(json.dumps(document))
    assert isinstance(found, dict)
    return found


def test_there_and_back() -> None:
    assert decode(through_spark(encode(example()))) == example()


def test_every_version_that_was_ever_written_is_still_read() -> None:
    assert decode(json.loads((GOLDEN / "v1" / "everything.json").read_text())) == example()


def test_the_format_has_not_changed_unnoticed() -> None:
    assert json.dumps(encode(example())) == (GOLDEN / "v1" / "everything.json").read_text().strip()


def test_starts_that_are_not_final_are_not_written() -> None:
    with pytest.raises(TransitionError, match="before its first batch was planned"):
        encode(replace(example(), begun=False))


def test_it_is_small() -> None:
    splits = {
        (key := SplitId("default", "events", partition)): Split(key, "a" * 36, 10**9 + partition, None, partition % 500)
        for partition in range(10_000)
    }
    clusters = {"default": ClusterState("default", ("broker:9092",), initial=False, discovered=True)}
    size = len(json.dumps(encode(EnumeratorState(500, clusters, splits, begun=True))))
    assert size / len(splits) <= 24


@pytest.mark.parametrize("place", ["readers", "clusters", "check", "next", "owner", "discovered", "first"])
def test_damage_anywhere_is_noticed(place: str) -> None:
    text = json.dumps(encode(example()))
    where = text.index(f'"{place}": ') + len(place) + 4
    digit = next(index for index in range(where, len(text)) if text[index].isalnum())
    damaged = text[:digit] + ("1" if text[digit] != "1" else "2") + text[digit + 1 :]
    try:
        document = json.loads(damaged)
    except ValueError:
        return
    with pytest.raises(CheckpointCorrupt, match="Restore the file"):
        decode(document)


def test_content_that_does_not_fit_is_damage_even_with_a_right_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evensplit.core.codec._check", lambda body: "same")
    good = encode(example())
    for path, value in [
        (("readers",), -1),
        (("policy",), "magic"),
        (("clusters", "east", "discovered"), "yes"),
        (("clusters", "east", "topics", "orders", "next"), [1, 2]),
        (("clusters", "east", "topics", "orders", "owner"), [0, 1, 2]),
        (("clusters", "east", "topics", "orders", "next"), [1, True, 2]),
        (("clusters", "east", "topics", "orders", "first"), {"9": 1}),
        (("clusters", "east", "topics", "returns", "partitions"), ["5"]),
        (("clusters", "east", "bootstrap"), [7]),
    ]:
        bad = through_spark(good)
        target = bad
        for name in path[:-1]:
            target = target[name]
        target[path[-1]] = value
        with pytest.raises(CheckpointCorrupt, match="content is not what its format asks for"):
            decode(bad)


def test_a_newer_version_says_what_to_upgrade() -> None:
    with pytest.raises(CheckpointVersionUnknown, match=r"written in format 99.*Upgrade evensplit"):
        decode({**encode(example()), "evensplit": 99})


def test_an_offset_of_sparks_own_source_says_how_to_go_on() -> None:
    with pytest.raises(CheckpointForeign, match=r"Spark's own Kafka source.*startingOffsets"):
        decode({"orders": {"0": 23, "1": 42}})


@pytest.mark.parametrize("document", [{}, {"logOffset": 3}, {"a": {"x": 1}}, 5, None, [], "text"])
def test_any_other_offset_is_an_error_and_never_an_empty_state(document: object) -> None:
    with pytest.raises(CheckpointForeign, match="not written by this source"):
        decode(document)


def test_first_positions_belong_to_the_batch_and_not_to_the_world() -> None:
    one = example()
    splits = {key: Split(key, split.topic_id, split.position, None, split.owner) for key, split in one.splits.items()}
    assert same(one, EnumeratorState(2, one.clusters, splits, begun=True))
    assert not same(one, EnumeratorState(3, one.clusters, splits, begun=True))


def test_a_report_there_and_back_and_the_lag_in_it() -> None:
    state = example()
    report = Report({SplitId("east", "orders", 0): 130, SplitId("east", "orders", 1): 98}, {"west": "refused"})
    assert decode_report(through_spark(encode_report(report))) == report
    assert lag(state, report)[SplitId("east", "orders", 0)] == 10
    assert lag(state, report)[SplitId("east", "orders", 2)] is None
    with pytest.raises(ValueError, match="not a report"):
        decode_report({"orders": {"0": 5}})
