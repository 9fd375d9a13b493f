"""The offset document: what it looks like, what it is read back as, and how small it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

import pytest

from evensplit.core.model import Cause, ClusterState, Held, Loss, Split, SplitId, Topic
from evensplit.core.state.codec import SIGNATURE, decode, encode, revision_of, same
from evensplit.core.state.edits import Edit, Jump
from evensplit.core.state.observation import Report, decode_report, encode_report, lag
from evensplit.core.state.state import EnumeratorState, Session
from tests.support.offset_states import LOSSES, example, through_json, unusual, unusual_now, usual, usual_now

GOLDEN = Path(__file__).parents[2] / "data" / "checkpoints"


def usual_v4() -> EnumeratorState:
    """The same as `usual_now` with what version 4 has: batches are counted, and leader epochs are known."""
    splits = {key: split._replace(epoch=3 if split.position else None) for key, split in usual_now().splits.items()}
    new = SplitId("east", "orders", 2)
    splits[new] = splits[new]._replace(since=17)
    return replace(usual_now(), splits=MappingProxyType(splits), revision=17)


def unusual_v4() -> EnumeratorState:
    """The same as `unusual_now`, where splits began in several batches, and losses are declared."""
    splits = dict(unusual_now().splits)
    for key, split in splits.items():
        since = {"payments": (15, 16, 17, 18)[key.partition % 4], "returns": 16, "users": 17}.get(key.topic, 17)
        reads = key.topic in ("returns", "users") and key.partition != 2
        splits[key] = split._replace(
            epoch=None if split.position is None or key.topic == "payments" else 7 + key.partition % 2,
            since=0 if split.first is None else since,
            read_from=(split.position or 0) - 1 - key.partition % 2 if reads else None,
        )
    losses = (*LOSSES, Loss(SplitId("west", "users", 0), Cause.REPLACED, 9, 7))
    return replace(unusual_now(), splits=MappingProxyType(splits), losses=losses, revision=17)


def of_one_cluster() -> EnumeratorState:
    """What version 3 has of one cluster that is named by no option, so that it is called `default`."""
    splits = [
        Split(SplitId("default", "clicks", 0), "id-2", 40, None, 1),
        Split(SplitId("default", "clicks", 1), "id-2", 41, removed_at_ms=1_700_000_000_000),
        Split(SplitId("default", "orders", 0), "id-1", 120, None, 0),
        Split(SplitId("default", "orders", 1), "id-1", 98, None, 1),
        Split(SplitId("default", "orders", 2), "id-1", 7, 0, 0),
    ]
    cluster = ClusterState("default", ("10.0.0.1:9092",), False, True, kafka_id="WGmXqK1vTOSsXh7hk2P9zQ")
    by_id = {split.id: split for split in splits}
    return EnumeratorState(2, {"default": cluster}, by_id, generation=3, begun=True, assigned_readers=(0, 1))


def usual_v5() -> EnumeratorState:
    """The same as `usual_v4` of a query with `alignment` and a limit in bytes."""
    splits = {
        key: split._replace(record_bytes=312 if split.position else 0) for key, split in usual_v4().splits.items()
    }
    held = (Held("alignment", "east/orders/0"), Held("maxBytesPerTrigger", ""))
    return replace(usual_v4(), splits=MappingProxyType(splits), reached_ms=1_700_000_000_000, held=held)


def unusual_v5() -> EnumeratorState:
    """The same as `unusual_v4` with owners by work: some splits have rates and sizes, and some have moved for them."""
    splits = {
        key: split._replace(
            rate=(0, 1_000, 1_008, 31)[(key.partition + len(key.topic)) % 4],
            record_bytes=(96, 0, 102_400)[key.partition % 3],
        )
        for key, split in unusual_v4().splits.items()
    }
    settings = replace(
        unusual_v4().settings,
        policy="sticky",
        balance="rate",
        gain_percent=0,
        moves_per_hour=7,
        capacities=((0, 2), (2, 1_000)),
    )
    return replace(
        unusual_v4(),
        splits=MappingProxyType(splits),
        settings=settings,
        reached_ms=0,
        held=(Held("alignment", "west"), Held("maxOffsetsPerTrigger", "east/orders")),
        rated_ms=1_700_000_000_007,
        rate_moves=((28_333_330, 2), (28_333_333, 1)),
    )


def usual_v6() -> EnumeratorState:
    """The same as `usual_v5` in which something was edited."""
    key = SplitId("east", "orders", 0)
    rewound = Edit("rewind", "--to 2h", 1_700_000_000_000, (Jump(key, 120, 60),))
    dropped = Edit("drop", "east/clicks", 1_700_000_000_001, dropped=(Topic("east", "clicks"),))
    renamed = Edit("rename-cluster", "eu west", 1_700_000_000_002, renamed=(("eu", "west"),))
    splits = dict(usual_v5().splits)
    splits[key] = splits[key]._replace(position=60)
    return replace(usual_v5(), splits=MappingProxyType(splits), edits=(rewound, dropped, renamed))


NOW = [
    ("v4/usual.json", usual_v4()),
    ("v4/unusual.json", unusual_v4()),
    ("v5/usual.json", usual_v5()),
    ("v5/unusual.json", unusual_v5()),
    ("v6/usual.json", usual_v6()),
]
ONLY_IN_V5 = (
    *("reachedMs", "held", "balance", "rebalanceGain", "movesPerHour", "capacities", "ratedMs", "rateMoves"),
    *("rate", "recordBytes"),
)


@pytest.mark.parametrize(
    "state",
    [example(), usual(), unusual(), usual_now(), unusual_now(), *(state for _, state in NOW), EnumeratorState()],
)
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
        ("v3/default.json", of_one_cluster()),
        *NOW,
    ],
)
def test_every_version_that_was_ever_written_is_still_read(file: str, state: EnumeratorState) -> None:
    found = decode(json.loads((GOLDEN / file).read_text()))
    assert found == state
    assert (found.revision > 0) == file.startswith(("v4", "v5", "v6")), "no version before counted batches"


@pytest.mark.parametrize("file, state", NOW)
def test_the_format_has_not_changed_unnoticed(file: str, state: EnumeratorState) -> None:
    assert json.dumps(encode(state)) == (GOLDEN / file).read_text().strip()


@pytest.mark.parametrize("file, state", NOW)
def test_the_format_is_the_earliest_that_has_all_of_it(file: str, state: EnumeratorState) -> None:
    """Earlier releases read format 4; a golden file of format 5 has all that only this format has."""
    assert f"v{encode(state)[SIGNATURE]}" == file.partition("/")[0]
    found = [name for name in ONLY_IN_V5 if f'"{name}":' in (GOLDEN / file).read_text()]
    assert found == {
        "v5/usual.json": ["reachedMs", "held", "recordBytes"],
        "v5/unusual.json": [*ONLY_IN_V5],
        "v6/usual.json": ["reachedMs", "held", "recordBytes"],
    }.get(file, [])


def test_what_lives_as_long_as_the_process_is_not_written() -> None:
    session = Session(now_ms=5, assigned=True, unreachable={"east": "the password is hunter2"})
    assert encode(replace(usual(), session=session)) == encode(usual())


@cache
def many(topics: int, each: int) -> EnumeratorState:
    """That many topics with that many splits each, with offsets of 11 digits, for 500 readers."""
    splits = {
        (key := SplitId("default", f"events-{topic:04}", partition)): Split(
            key, "a" * 22, 10**10 + 7 * partition, None, partition % 500
        )
        for topic in range(topics)
        for partition in range(each)
    }
    clusters = {"default": ClusterState("default", ("broker:9092",), initial=False, discovered=True)}
    return EnumeratorState(500, clusters, splits, begun=True, assigned_readers=tuple(range(500)))


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
    "all began at 0, in several batches": (24, lambda split: split._replace(first=0, since=1 + scattered(split, 9999))),
    "all of one epoch": (18, lambda split: split._replace(epoch=12)),
    "epochs of their own": (24, lambda split: split._replace(epoch=scattered(split, 9999))),
    "all were read, as much of each": (18, lambda split: split._replace(read_from=at(split) - 5000)),
    "a few thousand of each were read": (
        24,
        lambda split: split._replace(read_from=at(split) - 1000 - scattered(split, 8999)),
    ),
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


@pytest.mark.parametrize("name", SIZES)
def test_it_is_small(name: str) -> None:
    check_size(name, 10, 1_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, topics",
    [*((name, 100) for name in SIZES), *((name, topics) for topics in (1, 1000) for name in (USUAL, SOON, HALF))],
)
def test_it_is_small_at_100_000_splits(name: str, topics: int) -> None:
    check_size(name, topics, 100_000 // topics)


def check_size(name: str, topics: int, each: int) -> None:
    """At most 24 bytes for a split; what takes more is said in the format's description."""
    bytes_max, change = SIZES[name]
    state = many(topics, each)
    splits = {key: change(split) for key, split in state.splits.items()}
    document = json.dumps(encode(replace(state, splits=splits)))
    assert len(document) / len(splits) <= bytes_max


def test_first_positions_belong_to_the_batch_and_not_to_the_world() -> None:
    one = example()
    splits = {key: Split(key, split.topic_id, split.position, None, split.owner) for key, split in one.splits.items()}
    assert same(one, replace(one, splits=splits))
    assert not same(one, replace(one, splits=splits, readers=3))


def test_a_document_tells_its_revision_undecoded() -> None:
    """Older formats have none, and what others wrote has none of ours."""
    assert revision_of(encode(unusual_v4())) == 17
    assert [revision_of(document) for document in ({}, {"revision": 17}, {"evensplit": 3}, {"evensplit": "4"})] == [
        0
    ] * 4


def test_how_many_batches_there_were_and_what_the_last_one_read_is_no_news() -> None:
    one = usual_v4()
    splits = {key: split._replace(first=None, since=0) for key, split in one.splits.items()}
    read = {key: split._replace(read_from=0 if split.position else None) for key, split in one.splits.items()}
    later = {key: split._replace(since=18 if split.first is not None else 0) for key, split in one.splits.items()}
    for other in (splits, read, later):
        assert same(replace(one, splits=other, revision=18), one)
        assert same(one, replace(one, splits=other, revision=16))
    elsewhere = {key: split._replace(epoch=9) for key, split in one.splits.items()}
    assert not same(replace(one, splits=elsewhere), one)


def test_a_loss_is_news_of_the_batch_in_which_it_was_noticed() -> None:
    """An offset with a loss in it is another one than that before it; those after it are the same, if nothing else,
    as long as the loss is kept in them and after that.
    """
    lossy = replace(usual(), losses=LOSSES)
    assert not same(lossy, usual())
    assert same(lossy, lossy)
    assert same(usual(), lossy)
    assert not same(replace(lossy, losses=(*LOSSES, LOSSES[0])), lossy), "the same twice is two"
    assert not same(replace(lossy, losses=LOSSES[:1]), replace(lossy, losses=LOSSES[1:]))


def test_a_report_there_and_back_and_the_lag_in_it() -> None:
    state = example()
    report = Report({SplitId("east", "orders", 0): 130, SplitId("east", "orders", 1): 98}, {"west": "refused"})
    assert decode_report(through_json(encode_report(report))) == report
    assert lag(state, report)[SplitId("east", "orders", 0)] == 10
    assert lag(state, report)[SplitId("east", "orders", 2)] is None
    with pytest.raises(ValueError, match="not a report"):
        decode_report({"orders": {"0": 5}})
