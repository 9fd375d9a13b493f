"""Law S10: what is written is read back, equal states give equal bytes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.model import Cause, Cluster, ClusterState, HandedOut, Held, Loss, Split, SplitId, Topic
from evensplit.core.policies import BY_RATE, POLICIES
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.reader_schema import ReaderSchema
from evensplit.core.state.settings import BALANCES, PLANS, REBALANCES, SCOPES, Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CheckpointCorrupt, CheckpointError

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
offsets = st.integers(0, 2**63 - 1)
revisions = st.integers(0, 9)
pairs = st.dictionaries(st.integers(0, 99), st.integers(1, 99), max_size=3).map(lambda one: tuple(sorted(one.items())))

schemas = st.just(ReaderSchema()) | st.builds(
    ReaderSchema,
    st.sampled_from(["", '["long"]', '["struct",[["id",["long"]]]]']),
    names,
    st.just("") | names,
    st.just("") | names,
)

times = st.none() | st.integers(0, 2**42)
numbers = st.sets(st.integers(0, 40), min_size=1, max_size=9) | st.integers(1, 12).map(lambda count: set(range(count)))
losses = st.lists(
    st.builds(
        Loss,
        st.builds(SplitId, names, names, st.integers(0, 40)),
        st.sampled_from(Cause),
        offsets,
        st.none() | offsets,
        st.none() | offsets,
        st.none() | st.sampled_from(HandedOut),
    ),
    max_size=3,
).map(tuple)


@st.composite
def alike(draw: st.DrawFn, values: st.SearchStrategy[int]) -> st.SearchStrategy[int | None]:
    """What the splits of one topic can have: a value each, or some few or one among all, with or without none."""
    few = st.sampled_from(draw(st.lists(values, min_size=1, max_size=3)))
    return draw(st.sampled_from([st.none() | values, st.none(), few, st.none() | few]))


@st.composite
def splits_of(draw: st.DrawFn, keys: Sequence[SplitId], readers: int) -> list[Split]:
    """Any splits of one topic that can be; those that are the same, or equally far away, throughout not seldom."""
    positions, firsts, stops = (draw(alike(offsets)) for _ in range(3))
    back, ahead = draw(alike(st.integers(0, 10**4))), draw(alike(st.integers(0, 10**4)))
    near_first, near_stop = draw(st.booleans()), draw(st.booleans())
    removals = draw(alike(st.integers(0, 2**42)))
    splits = []
    for key in keys:
        topic_id, position = draw(st.sampled_from(["", "id-1", "id-2"])), draw(positions)
        first, stop, removed_at_ms = draw(firsts), draw(stops), draw(removals)
        if position is not None and near_first:
            first = None if (distance := draw(back)) is None else max(0, position - distance)
        if near_stop:
            stop = None if (distance := draw(ahead)) is None else min((position or 0) + distance, 2**63 - 1)
        if position is None:
            splits.append(Split(key, topic_id, stop=stop, removed_at_ms=removed_at_ms, initial=draw(st.booleans())))
        elif draw(st.booleans()):
            splits.append(Split(key, topic_id, position, first, stop=stop, finished=True))
        else:
            owner = draw(st.none() | st.integers(0, readers - 1)) if readers and removed_at_ms is None else None
            settled = removed_at_ms is not None and draw(st.booleans())
            splits.append(
                Split(key, topic_id, position, first, owner, stop, removed_at_ms=removed_at_ms, settled=settled)
            )
    rates, sizes = draw(alike(st.integers(1, 10**12))), draw(alike(st.integers(1, 10**9)))
    epochs, sinces, reads = draw(alike(st.integers(0, 2**31 - 1))), draw(alike(revisions)), draw(alike(offsets))
    near_read = draw(alike(st.integers(1, 10**4)))
    return [
        split._replace(
            epoch=draw(epochs),
            since=0 if split.first is None else draw(sinces) or 0,
            read_from=_read_from(split.position, draw(near_read), draw(reads)),
            rate=draw(rates) or 0,
            record_bytes=draw(sizes) or 0,
        )
        for split in splits
    ]


def _read_from(position: int | None, size: int | None, at: int | None) -> int | None:
    """Where the last batch began, `size` before the position or at `at`, if either can be."""
    if position is None:
        return None
    if size is not None and size <= position:
        return position - size
    return at if at is not None and at < position else None


@st.composite
def states(draw: st.DrawFn) -> EnumeratorState:
    """Any state that can be."""
    readers = draw(st.integers(0, 50))
    clusters = {
        name: ClusterState(
            name,
            tuple(draw(st.lists(names, max_size=2))),
            draw(st.booleans()),
            draw(st.booleans()),
            draw(times),
            draw(st.just("") | names),
        )
        for name in sorted(draw(st.sets(names, max_size=3)))
    }
    splits = [
        split
        for cluster in clusters
        for topic in draw(st.sets(names, max_size=3))
        for split in draw(splits_of([SplitId(cluster, topic, number) for number in sorted(draw(numbers))], readers))
    ]
    by_id = {split.id: split for split in sorted(splits, key=lambda one: one.id)}
    settings = Settings(
        draw(st.sampled_from(POLICIES)),
        draw(st.sampled_from(REBALANCES)),
        draw(st.sampled_from(SCOPES)),
        draw(st.sampled_from(PLANS)),
        retention_ms=draw(st.integers(0, 10**10)),
        bounded=draw(st.booleans()),
        tasks_min=draw(st.none() | st.integers(1, 10**6)),
        task_offsets_max=draw(st.none() | st.integers(1, 10**12)),
        value_schema=draw(schemas),
        key_schema=draw(schemas),
        gain_percent=draw(st.integers(0, 100)),
        moves_per_hour=draw(st.none() | st.integers(0, 10**6)),
        capacities=draw(pairs),
    )
    if settings.policy in BY_RATE:
        settings = replace(settings, balance=draw(st.sampled_from(BALANCES)))
    pinned = st.builds(SplitId, names, names, st.integers(0, 999))
    readable = st.builds(Cluster, names) | st.builds(Topic, names, names) | pinned
    pins = draw(st.dictionaries(st.integers(0, 50), st.lists(readable, max_size=3).map(tuple), max_size=3))
    pins = {reader: pins[reader] for reader in sorted(pins)}
    assigned_readers = tuple(sorted(draw(st.sets(st.integers(0, 50)))))
    generation, begun = draw(st.integers(0, 10**6)), draw(st.booleans())
    lost, revision = draw(losses), draw(revisions)
    held = tuple(sorted(draw(st.sets(st.builds(Held, names, st.just("") | names), max_size=3))))
    until = generation, begun, assigned_readers, lost, pins, revision, draw(times), held, draw(times)
    return EnumeratorState(readers, clusters, by_id, settings, *until, draw(st.none() | pairs))


@given(states())
def test_there_and_back(state: EnumeratorState) -> None:
    text = json.dumps(encode(state))
    found = decode(json.loads(text))
    assert found == state
    assert json.dumps(encode(found)) == text


@given(states(), st.data())
def test_damaged_text_is_an_error_and_never_another_state(state: EnumeratorState, data: st.DataObject) -> None:
    text = json.dumps(encode(state))
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.sampled_from(["", "0", "1", '"', "a", "]"])) + text[at + 1 :]
    try:
        document = json.loads(damaged)
    except ValueError:
        return
    try:
        found = decode(document)
    except CheckpointError:
        return
    assert found == state


def forms(partitions: Sequence[int], column: Sequence[int | None]) -> list[Any]:
    """All ways in which a column can be put."""
    grouped: dict[str, list[int]] = {}
    for partition, value in zip(partitions, column, strict=True):
        if value is not None:
            grouped.setdefault(str(value), []).append(partition)
    return [list(column), grouped, dict(reversed(grouped.items())), column[0]]


def _value(split: Split, name: str) -> int | None:
    """What stands for a split in one of the columns of numbers."""
    if name == "epoch":
        return split.epoch
    if name == "since":
        return None if split.first is None else split.since
    return None if split.read_from is None else (split.position or 0) - split.read_from


@pytest.mark.lengthy
@given(states().filter(lambda state: bool(state.splits)), st.data())
def test_no_state_can_be_read_from_two_documents(state: EnumeratorState, data: st.DataObject) -> None:
    """A document with one column in another form is another state's, or damage, however right its checksum is."""
    text = json.dumps(encode(state))
    document = json.loads(text)
    key = data.draw(st.sampled_from(list(state.splits)))
    splits = [split for split in state.splits.values() if split.id[:2] == key[:2]]
    columns = document["clusters"][key.cluster]["topics"][key.topic]
    partitions = [split.id.partition for split in splits]
    name = data.draw(
        st.sampled_from(["first", "sinceFirst", "stop", "toStop", "removedAtMs", "since", "epoch", "read"])
    )
    if name in ("since", "epoch", "read"):
        columns[name] = data.draw(st.sampled_from(forms(partitions, [_value(split, name) for split in splits])))
    elif name == "removedAtMs":
        earliest = min((split.removed_at_ms for split in splits if split.removed_at_ms is not None), default=0)
        earliest -= data.draw(st.integers(0, min(1, earliest)))
        later = [None if split.removed_at_ms is None else split.removed_at_ms - earliest for split in splits]
        columns[name] = {str(earliest): data.draw(st.sampled_from(forms(partitions, later)))}
    else:
        at = [split.first if name in ("first", "sinceFirst") else split.stop for split in splits]
        away = [
            None if offset is None else abs(offset - (split.position or 0))
            for offset, split in zip(at, splits, strict=True)
        ]
        columns[name] = data.draw(st.sampled_from(forms(partitions, at if name in ("first", "stop") else away)))
        if data.draw(st.booleans()):
            columns.pop({"first": "sinceFirst", "sinceFirst": "first", "stop": "toStop", "toStop": "stop"}[name], None)
    del document["check"]
    document["check"] = f"{zlib.crc32(json.dumps(document, separators=(',', ':')).encode()):08x}"
    if json.dumps(document) == text:
        assert decode(document) == state
        return
    try:
        found = decode(document)
    except CheckpointCorrupt:
        return
    assert found != state
    assert json.dumps(encode(found)) == json.dumps(document)


@given(states())
def test_how_many_batches_there_were_is_kept_with_what_each_split_began_in(state: EnumeratorState) -> None:
    found = decode(json.loads(json.dumps(encode(state))))
    assert found.revision == state.revision
    for key, split in state.splits.items():
        again = found.splits[key]
        assert (again.epoch, again.since, again.read_from) == (split.epoch, split.since, split.read_from)


@given(states(), states())
def test_what_is_read_with_a_known_state_is_the_same(state: EnumeratorState, known: EnumeratorState) -> None:
    """Splits are taken from there only where nothing of them is another."""
    document = json.loads(json.dumps(encode(state)))
    splits = {key: split._replace(epoch=None, since=0, read_from=None) for key, split in state.splits.items()}
    for other in (known, state, replace(state, splits=splits)):
        assert decode(document, other) == state


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_document_of_no_splits_is_read_in_every_version(version: int) -> None:
    document = {**encode(EnumeratorState()), "evensplit": version}
    del document["check"]
    if version < 4:
        del document["revision"]
    document["check"] = f"{zlib.crc32(json.dumps(document, separators=(',', ':')).encode()):08x}"
    assert decode(document) == EnumeratorState()
