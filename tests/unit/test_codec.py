"""The offset document: what it looks like, what it is read back as, and how small it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from evensplit.core.codec import decode, encode, same
from evensplit.core.model import ClusterState, Split, SplitId
from evensplit.core.report import Report, decode_report, encode_report, lag
from evensplit.core.state import EnumeratorState, Session
from tests.support.offset_states import LOSSES, example, through_json, unusual, unusual_now, usual, usual_now

GOLDEN = Path(__file__).parent.parent / "data" / "checkpoints"


@pytest.mark.parametrize("state", [example(), usual(), unusual(), usual_now(), unusual_now(), EnumeratorState()])
def test_there_and_back(state: EnumeratorState) -> None:
    document = through_json(encode(state))
    assert decode(document) == state
    assert json.dumps(encode(decode(document))) == json.dumps(encode(state))


@pytest.mark.parametrize(
    "file, state",
    [
        ("v1/everything.json", example()),
        ("v2/usual.json", usual()),
        ("v2/unusual.json", unusual()),
        ("v3/usual.json", usual_now()),
        ("v3/unusual.json", unusual_now()),
    ],
)
def test_every_version_that_was_ever_written_is_still_read(file: str, state: EnumeratorState) -> None:
    assert decode(json.loads((GOLDEN / file).read_text())) == state


@pytest.mark.parametrize("file, state", [("v3/usual.json", usual_now()), ("v3/unusual.json", unusual_now())])
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


def test_first_positions_belong_to_the_batch_and_not_to_the_world() -> None:
    one = example()
    splits = {key: Split(key, split.topic_id, split.position, None, split.owner) for key, split in one.splits.items()}
    assert same(one, replace(one, splits=splits))
    assert not same(one, replace(one, splits=splits, readers=3))


def test_a_loss_is_news_of_the_batch_in_which_it_was_noticed() -> None:
    """An offset with a loss in it is another one than that before it; the one after it is the same, if nothing else."""
    lossy = replace(usual(), losses=LOSSES)
    assert not same(lossy, usual())
    assert not same(lossy, lossy)
    assert same(usual(), lossy)


def test_a_report_there_and_back_and_the_lag_in_it() -> None:
    state = example()
    report = Report({SplitId("east", "orders", 0): 130, SplitId("east", "orders", 1): 98}, {"west": "refused"})
    assert decode_report(through_json(encode_report(report))) == report
    assert lag(state, report)[SplitId("east", "orders", 0)] == 10
    assert lag(state, report)[SplitId("east", "orders", 2)] is None
    with pytest.raises(ValueError, match="not a report"):
        decode_report({"orders": {"0": 5}})
