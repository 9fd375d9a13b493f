"""Offset documents that are damaged, newer or of another source: an error that says what to do, never another state."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evensplit.core.model import Held, SplitId
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import READERS_MAX, EnumeratorState
from evensplit.errors import CheckpointCorrupt, CheckpointForeign, CheckpointVersionUnknown
from tests.support.offset_states import example, through_json, unusual, unusual_now, usual, usual_now

GOLDEN = Path(__file__).parents[2] / "data" / "checkpoints"


def counted() -> EnumeratorState:
    """`example` after 9 batches, of which the last was read in a run that declares losses."""
    splits = {key: split._replace(epoch=key.partition, read_from=5) for key, split in example().splits.items()}
    for key in (SplitId("east", "returns", 5), SplitId("west", "orders", 0)):
        splits[key] = example().splits[key]
    new = SplitId("east", "orders", 2)
    splits[new] = splits[new]._replace(since=8)
    return replace(example(), splits=splits, revision=9)


@pytest.mark.parametrize("place", ["revision", "since", "epoch", "read"])
def test_damage_in_what_counts_batches_and_epochs_is_noticed(place: str) -> None:
    text = json.dumps(encode(counted()))
    at = next(index for index in range(text.index(f'"{place}": ') + len(place) + 4, len(text)) if text[index].isdigit())
    with pytest.raises(CheckpointCorrupt, match="Restore the file"):
        decode(json.loads(text[:at] + ("1" if text[at] != "1" else "2") + text[at + 1 :]))


@pytest.mark.parametrize(
    "name, value",
    [
        *(("since", value) for value in (-1, "8", [8, 8], [None, None, -8], {"x": [2]}, {"8": [9]}, True, 9)),
        *(("epoch", value) for value in (-1, "0", [0, 1], [0, 1, -2], [0, True, 2], {"0": [9]}, {"0": [0], "1": [1]})),
        *(("read", value) for value in (121, [115, 93, 8], [115, 93], {"5": [3]}, "5", None)),
        ("since", [8, 8, 8]),
        ("first", {"0": [2]}),
    ],
)
def test_counts_and_epochs_that_do_not_fit_are_damage(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    monkeypatch.setattr("evensplit.core.state.codec._check", lambda text: "same")
    bad = through_json(encode(counted()))
    assert decode(bad) == counted()
    bad["clusters"]["east"]["topics"]["orders"][name] = value
    with pytest.raises(CheckpointCorrupt, match="content is not what its format asks for"):
        decode(bad)


@pytest.mark.parametrize("value", [2**63, 10**400], ids=["2**63", "10**400"])
@pytest.mark.parametrize(
    "place",
    [
        *("revision", "generation", "retentionMs", "tasksMin", "reachedMs", "ratedMs"),
        *("next", "first", "stop", "epoch", "read", "rate", "recordBytes", "removedAtMs"),
    ],
)
def test_a_number_that_is_too_large_is_damage(monkeypatch: pytest.MonkeyPatch, place: str, value: int) -> None:
    monkeypatch.setattr("evensplit.core.state.codec._check", lambda text: "same")
    bad = through_json(encode(replace(counted(), reached_ms=1, rated_ms=1)))
    columns = bad["clusters"]["east"]["topics"]["orders"]
    within = (
        columns if place in ("next", "first", "stop", "epoch", "read", "rate", "recordBytes", "removedAtMs") else bad
    )
    within.pop({"first": "sinceFirst", "stop": "toStop"}.get(place, ""), None)
    within[place] = [value] * 3 if place == "next" else value
    with pytest.raises(CheckpointCorrupt, match="content is not what its format asks for"):
        decode(bad)


@pytest.mark.parametrize("held", [[["b"], ["a"]], [["a"], ["a"]], [["a", "y"], ["a", "x"]]])
def test_limits_that_are_not_in_order_are_damage(monkeypatch: pytest.MonkeyPatch, held: list[list[str]]) -> None:
    monkeypatch.setattr("evensplit.core.state.codec._check", lambda text: "same")
    good = through_json(encode(replace(counted(), held=(Held("a", "x"), Held("a", "y")))))
    assert decode(good).held == (Held("a", "x"), Held("a", "y"))
    with pytest.raises(CheckpointCorrupt, match="held are not in order"):
        decode({**good, "held": held})


def test_a_number_of_batches_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evensplit.core.state.codec._check", lambda text: "same")
    good = encode(usual())
    for value in (-1, None, "3", True, 1.0):
        with pytest.raises(CheckpointCorrupt, match="content is not what its format asks for"):
            decode({**good, "revision": value})
    without = {name: value for name, value in good.items() if name != "revision"}
    with pytest.raises(CheckpointCorrupt, match="content is not what its format asks for"):
        decode(without)
    assert decode({**without, "evensplit": 3}) == usual()


@pytest.mark.parametrize(
    "place",
    [
        *("readers", "clusters", "check", "next", "owner", "discovered", "generation", "begun", "dealtTo"),
        *("sinceFirst", "first", "toStop", "stop", "removedAtMs", "losses", "kafkaId"),
    ],
)
def test_damage_anywhere_is_noticed(place: str) -> None:
    usually = json.dumps(encode(usual_now()))
    text = usually if f'"{place}": ' in usually else json.dumps(encode(unusual_now()))
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
    monkeypatch.setattr("evensplit.core.state.codec._check", lambda text: "same")
    good = encode(example())
    for path, value in [
        (("readers",), -1),
        (("readers",), READERS_MAX + 1),
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
        (("clusters", "east", "kafkaId"), 7),
        (("clusters", "east", "kafkaId"), None),
        (("losses",), [["east", "orders", 0, "mislaid", 5, None, None]]),
        (("losses",), [["east", "orders", 0, "deleted", -5, None, None]]),
        (("losses",), [["east", "orders", 0, "deleted", None, None, None]]),
        (("losses",), [["east", "orders", 0, "deleted", 5, "9", None]]),
        (("losses",), [["east", "orders", 0, "deleted", 5, 9, -4]]),
        (("losses",), [["east", "orders", 0, "deleted", 5, 9]]),
        (("losses",), [["east", "orders", "0", "deleted", 5, 9, 4]]),
        (("losses",), [["east", 7, 0, "deleted", 5, 9, 4]]),
        (("losses",), [[None, "orders", 0, "deleted", 5, 9, 4]]),
        (("losses",), [["east", "orders", 0, ["deleted"], 5, 9, 4]]),
        (("losses",), ["abcdefg"]),
        (("losses",), 5),
    ]:
        bad = through_json(good)
        target = bad
        for name in path[:-1]:
            target = target[name]
        target[path[-1]] = value
        with pytest.raises(CheckpointCorrupt, match="content is not what its format asks for"):
            decode(bad)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there is a value within `value`: names and numbers that lead to it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield (*path, name)
        yield from places(one, (*path, name))


@pytest.mark.parametrize("file", ["v5/usual.json", "v5/unusual.json"])
def test_nonsense_anywhere_is_damage_or_the_state_that_is_written_so(
    monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.setattr("evensplit.core.state.codec._check", lambda text: "same")
    good = {**json.loads((GOLDEN / file).read_text()), "check": "same"}
    nonsense: tuple[object, ...] = (
        None,
        True,
        -1,
        0,
        1.5,
        "",
        "x",
        [],
        [None],
        [0],
        [[1]],
        [[2, 1], [1, 1]],
        {},
        {"x": 1},
    )
    read = 0
    for *path, last in places(good):
        for value in nonsense:
            bad = through_json(good)
            target: Any = bad
            for name in path:
                target = target[name]
            target[last] = value
            try:
                state = decode(bad)
            except (CheckpointCorrupt, CheckpointForeign):
                continue
            read += 1
            assert through_json(encode(state)) == bad, f"{[*path, last]} is {value}"
    assert read > 0


def test_clusters_and_topics_that_are_not_in_order_are_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evensplit.core.state.codec._check", lambda text: "same")
    good = encode(usual())
    clusters = dict(reversed(good["clusters"].items()))
    east = {**clusters["east"], "topics": dict(reversed(clusters["east"]["topics"].items()))}
    for bad in (clusters, {**good["clusters"], "east": east}):
        with pytest.raises(CheckpointCorrupt, match="are not in order"):
            decode({**good, "clusters": bad})


@pytest.mark.parametrize("version", [0, -1, True, "4", None])
def test_a_version_that_never_was_is_damage(version: object) -> None:
    with pytest.raises(CheckpointCorrupt, match="expected a number from 1 to 6"):
        decode({**encode(usual()), "evensplit": version})


def test_a_newer_version_says_what_to_upgrade() -> None:
    with pytest.raises(CheckpointVersionUnknown, match=r"written in format 99.*Upgrade evensplit"):
        decode({**encode(example()), "evensplit": 99})


def test_an_offset_of_sparks_own_source_says_how_to_go_on() -> None:
    with pytest.raises(CheckpointForeign, match=r"Spark's own Kafka source.*evensplit migrate FROM TO --cluster ID"):
        decode({"orders": {"0": 23, "1": 42}})


def test_an_offset_of_sparks_own_source_may_have_a_topic_of_our_name() -> None:
    for document in ({"evensplit": {"0": 5}}, {"evensplit": {"0": 5}, "orders": {"1": 42}}):
        with pytest.raises(
            CheckpointForeign, match=r"Spark's own Kafka source.*evensplit migrate FROM TO --cluster ID"
        ):
            decode(document)


def test_a_state_in_another_form_than_its_own_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """One state, one document: what is not written cannot be read either."""
    monkeypatch.setattr("evensplit.core.state.codec._check", lambda text: "same")
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
    for bad in (
        {**good, "pins": {"0": []}},
        {**good, "pins": [[[-1], []]]},
        {**good, "pins": [[[0], [[]]]]},
        {**good, "pins": [[[0], [["east", "orders", "x"]]]]},
        {**good, "pins": [[[1], []], [[0], []]]},
        {**good, "pins": [[[0], []], [[1], []]]},
        {**good, "tasksMin": 0},
        {**good, "taskOffsetsMax": "many"},
    ):
        with pytest.raises(CheckpointCorrupt, match="content is not what its format asks for"):
            decode(bad)
    nameless = {name: {**one, "kafkaId": ""} for name, one in encode(usual())["clusters"].items()}
    for bad in (
        {**good, "bootstrap": []},
        {**encode(usual()), "rebalance": Settings().rebalance},
        {**encode(usual()), "losses": []},
        {**encode(usual()), "clusters": nameless},
    ):
        with pytest.raises(CheckpointCorrupt, match="another form than the one"):
            decode(bad)


@pytest.mark.parametrize("document", [{}, {"logOffset": 3}, {"a": {"x": 1}}, 5, None, [], "text"])
def test_any_other_offset_is_an_error_and_never_an_empty_state(document: object) -> None:
    with pytest.raises(
        CheckpointForeign, match=re.escape(f"not written by this source: {json.dumps(document)}. Start")
    ):
        decode(document)
