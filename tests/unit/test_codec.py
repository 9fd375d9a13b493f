"""The offset document: what it looks like, and what happens to a bad one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
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
        *(
            Split(SplitId("west", "payments", partition), "id-3", 70 + partition, 70, stop=80, removed_at_ms=time)
            for partition, time in enumerate([1_700_000_000_007, None, 1_700_000_000_000, 1_700_000_000_007])
        ),
        *(
            Split(SplitId("west", "returns", partition), "id-4", position, first, stop=90 + position % 10)
            for partition, (position, first) in enumerate([(70, 68), (81, 79), (82, None), (83, 79), (84, 82)])
        ),
        *(
            Split(SplitId("west", "users", partition), "id-5", 7, 5, stop=stop)
            for partition, stop in enumerate([16, None, None, None, 9, None, None, 9])
        ),
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


@cache
def many(topics: int) -> EnumeratorState:
    """100,000 splits with offsets of 11 digits, for 500 readers."""
    splits = {
        (key := SplitId("default", f"events-{topic:04}", partition)): Split(
            key, "a" * 22, 10**10 + 7 * partition, None, partition % 500
        )
        for topic in range(topics)
        for partition in range(100_000 // topics)
    }
    clusters = {"default": ClusterState("default", ("broker:9092",), initial=False, discovered=True)}
    return EnumeratorState(500, clusters, splits, begun=True, dealt_to=tuple(range(500)))


def at(split: Split) -> int:
    """Where a split of `many` stands."""
    return split.position or 0


def scattered(split: Split, below: int) -> int:
    """Another number for every split."""
    return split.id.partition * 7919 % below


def removed(split: Split, time: int) -> Split:
    return split._replace(owner=None, removed_at_ms=1_700_000_000_000 + time)


USUAL = "as usual"
SOON = "all have read a few thousand"
HALF = "half of them removed, those of a topic at as many as 500 times"
SIZES: dict[str, tuple[float, Callable[[Split], Split]]] = {
    USUAL: (18, lambda split: split),
    "all begin where they stand": (18, lambda split: split._replace(first=at(split))),
    "all began at 0": (18, lambda split: split._replace(first=0)),
    "all have read as much": (18, lambda split: split._replace(first=at(split) - 123_456_789)),
    SOON: (24, lambda split: split._replace(first=at(split) - 1000 - scattered(split, 8999))),
    "half of them are new": (24, lambda split: split._replace(first=at(split) if split.id.partition % 2 else None)),
    "all stop at one offset": (18, lambda split: split._replace(stop=10**11)),
    "all have ended": (18, lambda split: split._replace(stop=at(split), owner=None, finished=True)),
    "all stop soon": (24, lambda split: split._replace(stop=at(split) + scattered(split, 9999))),
    "all removed at once": (18, lambda split: removed(split, 0)),
    "all removed, at two times": (24, lambda split: removed(split, split.id.partition % 2 * 86_400_000)),
    HALF: (24, lambda split: removed(split, split.id.partition % 1000) if split.id.partition % 2 else split),
    # What is far away and different everywhere has to be written out.
    "stops of their own, far away": (31, lambda split: split._replace(stop=9 * 10**10 + scattered(split, 99_991))),
    "first offsets and stops of their own, far away": (
        44,
        lambda split: split._replace(
            first=5 * 10**9 + scattered(split, 99_991), stop=9 * 10**10 + scattered(split, 99_991)
        ),
    ),
}


@pytest.mark.parametrize(
    "name, topics",
    [*((name, 100) for name in SIZES), *((name, topics) for topics in (1, 1000) for name in (USUAL, SOON, HALF))],
)
def test_it_is_small(name: str, topics: int) -> None:
    """At most 24 bytes for a split, at 100,000 of them; what takes more is said in the format's description."""
    bytes_max, change = SIZES[name]
    splits = {key: change(split) for key, split in many(topics).splits.items()}
    document = json.dumps(encode(replace(many(topics), splits=splits)))
    assert len(document) / len(splits) <= bytes_max


@pytest.mark.parametrize(
    "place",
    [
        *("readers", "clusters", "check", "next", "owner", "discovered", "generation", "begun", "dealtTo"),
        *("sinceFirst", "first", "toStop", "stop", "removedAtMs"),
    ],
)
def test_damage_anywhere_is_noticed(place: str) -> None:
    usually = json.dumps(encode(usual()))
    text = usually if f'"{place}": ' in usually else json.dumps(encode(unusual()))
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
    monkeypatch.setattr("evensplit.core.codec._check", lambda text: "same")
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
        (("clusters", "east", "topics", "orders", "removedAtMs"), {"9": {"1": [9]}}),
        (("clusters", "east", "topics", "orders", "removedAtMs"), {"9": [0, 1]}),
        (("clusters", "east", "topics", "orders", "removedAtMs"), {"1": [0, 0, None], "2": [None, None, 0]}),
        (("clusters", "east", "topics", "orders", "removedAtMs"), {}),
        (("clusters", "east", "topics", "orders", "removedAtMs"), {"-9": [0, 1, 2]}),
        (("clusters", "east", "topics", "orders", "removedAtMs"), True),
        (("clusters", "east", "topics", "orders", "stop"), {"x": [1]}),
        (("clusters", "east", "topics", "orders", "stop"), {"1": 1}),
        (("clusters", "east", "topics", "orders", "stop"), [1, 2]),
        (("clusters", "east", "topics", "orders", "stop"), [1, 2, -1]),
        (("clusters", "east", "topics", "orders", "stop"), [1, 2, True]),
        (("clusters", "east", "topics", "orders", "stop"), "9"),
        (("clusters", "east", "topics", "orders", "stop"), None),
        (("clusters", "east", "topics", "orders", "toStop"), -8),
        (("clusters", "east", "topics", "orders", "sinceFirst"), 8),
        (("clusters", "east", "topics", "orders", "finished"), [9]),
        (("clusters", "east", "topics", "orders", "initial"), ["1"]),
        (("clusters", "east", "topics", "orders", "partitions"), [0, 2, 1]),
        (("clusters", "east", "topics", "orders", "next"), [1, -1, 2]),
        (("clusters", "east", "discovered"), "yes"),
        (("clusters", "east", "topics", "orders", "next"), [1, 2]),
        (("clusters", "east", "topics", "orders", "owner"), [0, 1, 2]),
        (("clusters", "east", "topics", "orders", "next"), [1, True, 2]),
        (("clusters", "east", "topics", "orders", "first"), {"1": [9]}),
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
    monkeypatch.setattr("evensplit.core.codec._check", lambda text: "same")
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


def test_an_offset_of_sparks_own_source_may_have_a_topic_of_our_name() -> None:
    for document in ({"evensplit": {"0": 5}}, {"evensplit": {"0": 5}, "orders": {"1": 42}}):
        with pytest.raises(CheckpointForeign, match=r"Spark's own Kafka source.*startingOffsets"):
            decode(document)


def test_a_state_in_another_form_than_its_own_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """One state, one document: what is not written cannot be read either."""
    monkeypatch.setattr("evensplit.core.codec._check", lambda text: "same")
    good = encode(unusual())
    orders, west = good["clusters"]["east"]["topics"]["orders"], good["clusters"]["west"]
    topics = west["topics"]
    for others in [
        {"orders": {**orders, "finished": [1, 1]}},
        {"orders": {**orders, "toStop": {"0": [1], "380": [0]}}},
        {"orders": {**orders, "removedAtMs": {"1699999999999": {"1": [2]}}}},
        {"orders": {**orders, "id": "id-1", "initial": []}},
        {"orders": dict(reversed(orders.items()))},
        {"payments": {**topics["payments"], "partitions": [0, 1, 2, 3]}},
        {"payments": {**topics["payments"], "owner": [None, None, None, None]}},
        {"payments": {**topics["payments"], "first": [70, 70, 70, 70]}},
        {"payments": {**topics["payments"], "sinceFirst": [0, 1, 2, 3]}},
        {"payments": {**topics["payments"], "toStop": [10, 9, 8, 7]}},
        {"users": {**topics["users"], "sinceFirst": {"2": list(range(8))}}},
        {"users": {**topics["users"], "toStop": [9, None, None, None, 2, None, None, 2]}},
        {"users": {**topics["users"], "toStop": {"+2": [4, 7], "9": [0]}}},
        {"users": {**topics["users"], "toStop": {"9": [0], "2": [4, 7]}}},
        {"users": {**topics["users"], "lag": 7}},
    ]:
        bad = {**good, "clusters": {**good["clusters"], "west": {**west, "topics": {**topics, **others}}}}
        with pytest.raises(CheckpointCorrupt, match="content is not what its format asks for"):
            decode(bad)
    for bad in ({**good, "bootstrap": []}, {**encode(usual()), "rebalance": Settings().rebalance}):
        with pytest.raises(CheckpointCorrupt, match="another form than the one"):
            decode(bad)


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
