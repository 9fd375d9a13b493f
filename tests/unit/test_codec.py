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
from evensplit.core.settings import Settings
from evensplit.core.state import EnumeratorState, Session
from evensplit.errors import CheckpointCorrupt, CheckpointForeign, CheckpointVersionUnknown

GOLDEN = Path(__file__).parent.parent / "data" / "checkpoints"


def example() -> EnumeratorState:
    """A state with everything in it that one of version 1 could have."""
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
    return EnumeratorState(2, MappingProxyType(clusters), by_id, begun=True, dealt_to=(0, 1))


def usual() -> EnumeratorState:
    """The same as it is written now: with a generation."""
    return replace(example(), generation=3)


def unusual() -> EnumeratorState:
    """A state with everything in it that is usually left out."""
    splits = [
        Split(SplitId("east", "orders", 0), "id-1", 120, None, 0, stop=500),
        Split(SplitId("east", "orders", 1), "id-1", 98, stop=98, finished=True),
        Split(SplitId("east", "orders", 2), "id-0", 7, removed_at_ms=1_700_000_000_000),
        Split(SplitId("east", "orders", 4), "id-1", initial=True),
        Split(SplitId("west", "orders", 0), "id-2", 4, removed_at_ms=1_700_000_000_007),
        Split(SplitId("west", "orders", 1), "id-2", 5, removed_at_ms=1_700_000_000_007),
    ]
    clusters = {
        "east": ClusterState("east", ("10.0.0.1:9092",), initial=True),
        "west": ClusterState("west", (), initial=False, discovered=True, removed_at_ms=1_700_000_000_007),
    }
    by_id = MappingProxyType({split.id: split for split in splits})
    settings = Settings("hash", "on-rescale", "per-cluster", retention_ms=5, bounded=True)
    return EnumeratorState(3, MappingProxyType(clusters), by_id, settings, 12, begun=False, dealt_to=(0, 2))


def through_spark(document: dict[str, Any]) -> dict[str, Any]:
    """What Spark does with it: to JSON and back."""
    found = json.loads(json.dumps(document))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("state", [example(), usual(), unusual(), EnumeratorState()])
def test_there_and_back(state: EnumeratorState) -> None:
    document = through_spark(encode(state))
    assert decode(document) == state
    assert json.dumps(encode(decode(document))) == json.dumps(encode(state))


@pytest.mark.parametrize(
    "file, state",
    [("v1/everything.json", example()), ("v2/usual.json", usual()), ("v2/unusual.json", unusual())],
)
def test_every_version_that_was_ever_written_is_still_read(file: str, state: EnumeratorState) -> None:
    assert decode(json.loads((GOLDEN / file).read_text())) == state


@pytest.mark.parametrize("file, state", [("v2/usual.json", usual()), ("v2/unusual.json", unusual())])
def test_the_format_has_not_changed_unnoticed(file: str, state: EnumeratorState) -> None:
    assert json.dumps(encode(state)) == (GOLDEN / file).read_text().strip()


def test_what_lives_as_long_as_the_process_is_not_written() -> None:
    session = Session(now_ms=5, assigned=True, unreachable={"east": "the password is hunter2"})
    assert encode(replace(usual(), session=session)) == encode(usual())


@pytest.mark.parametrize("topics", [1, 100, 1000])
def test_it_is_small(topics: int) -> None:
    """At most 24 bytes for a split, at 100,000 of them."""
    splits = {
        (key := SplitId("default", f"events-{topic:04}", partition)): Split(
            key, "a" * 22, 10**10 + 7 * partition, None, partition % 500
        )
        for topic in range(topics)
        for partition in range(100_000 // topics)
    }
    clusters = {"default": ClusterState("default", ("broker:9092",), initial=False, discovered=True)}
    state = EnumeratorState(500, clusters, splits, begun=True, dealt_to=tuple(range(500)))
    assert len(json.dumps(encode(state))) / len(splits) <= 24
    away = {key: split._replace(owner=None, removed_at_ms=1_700_000_000_000) for key, split in splits.items()}
    assert len(json.dumps(encode(replace(state, splits=away)))) / len(splits) <= 24


@pytest.mark.parametrize(
    "place", ["readers", "clusters", "check", "next", "owner", "discovered", "first", "generation", "dealtTo", "stop"]
)
def test_damage_anywhere_is_noticed(place: str) -> None:
    state = unusual() if place in ("dealtTo", "stop") else usual()
    text = json.dumps(encode(state))
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
        (("generation",), -1),
        (("bounded",), 1),
        (("begun",), None),
        (("dealtTo",), [1, 0]),
        (("dealtTo",), ["0"]),
        (("retentionMs",), "long"),
        (("clusters", "east", "removedAtMs"), -1),
        (("clusters", "east", "topics", "orders", "id"), 7),
        (("clusters", "east", "topics", "orders", "removedAtMs"), {"9": 1}),
        (("clusters", "east", "topics", "orders", "removedAtMs"), True),
        (("clusters", "east", "topics", "orders", "stop"), {"1": "x"}),
        (("clusters", "east", "topics", "orders", "finished"), [9]),
        (("clusters", "east", "topics", "orders", "initial"), ["1"]),
        (("clusters", "east", "topics", "orders", "partitions"), [0, 2, 1]),
        (("clusters", "east", "topics", "orders", "next"), [1, -1, 2]),
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


def test_clusters_and_topics_that_are_not_in_order_are_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evensplit.core.codec._check", lambda body: "same")
    good = encode(usual())
    clusters = dict(reversed(good["clusters"].items()))
    east = {**clusters["east"], "topics": dict(reversed(clusters["east"]["topics"].items()))}
    for bad in (clusters, {**good["clusters"], "east": east}):
        with pytest.raises(CheckpointCorrupt, match="are not in order"):
            decode({**good, "clusters": bad})


@pytest.mark.parametrize("version", [0, -1, True, "2", None])
def test_a_version_that_never_was_is_damage(version: object) -> None:
    with pytest.raises(CheckpointCorrupt, match="expected a number from 1 to 2"):
        decode({**encode(usual()), "evensplit": version})


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
    assert same(one, replace(one, splits=splits))
    assert not same(one, replace(one, splits=splits, readers=3))


def test_a_report_there_and_back_and_the_lag_in_it() -> None:
    state = example()
    report = Report({SplitId("east", "orders", 0): 130, SplitId("east", "orders", 1): 98}, {"west": "refused"})
    assert decode_report(through_spark(encode_report(report))) == report
    assert lag(state, report)[SplitId("east", "orders", 0)] == 10
    assert lag(state, report)[SplitId("east", "orders", 2)] is None
    with pytest.raises(ValueError, match="not a report"):
        decode_report({"orders": {"0": 5}})
