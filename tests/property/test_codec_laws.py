"""Law S10: what is written is read back, equal states give equal bytes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.assign.policies import POLICIES
from evensplit.core.codec import decode, encode
from evensplit.core.model import ClusterState, Split, SplitId
from evensplit.core.settings import REBALANCES, SCOPES, Settings
from evensplit.core.state import EnumeratorState
from evensplit.errors import CheckpointError

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
offsets = st.integers(0, 2**63 - 1)


times = st.none() | st.integers(0, 2**42)


@st.composite
def splits_of(draw: st.DrawFn, key: SplitId, readers: int) -> Split:
    """Any split that can be."""
    topic_id = draw(st.sampled_from(["", "id-1", "id-2"]))
    position, stop = draw(st.none() | offsets), draw(st.none() | offsets)
    removed_at_ms = draw(times)
    if position is None:
        return Split(key, topic_id, stop=stop, removed_at_ms=removed_at_ms, initial=draw(st.booleans()))
    first = draw(st.none() | offsets)
    if draw(st.booleans()):
        return Split(key, topic_id, position, first, stop=stop, finished=True)
    owner = draw(st.none() | st.integers(0, readers - 1)) if readers and removed_at_ms is None else None
    return Split(key, topic_id, position, first, owner, stop, removed_at_ms=removed_at_ms)


@st.composite
def states(draw: st.DrawFn) -> EnumeratorState:
    """Any state that can be."""
    readers = draw(st.integers(0, 50))
    clusters = {
        name: ClusterState(
            name, tuple(draw(st.lists(names, max_size=2))), draw(st.booleans()), draw(st.booleans()), draw(times)
        )
        for name in sorted(draw(st.sets(names, max_size=3)))
    }
    splits = [
        draw(splits_of(SplitId(cluster, topic, partition), readers))
        for cluster in clusters
        for topic in draw(st.sets(names, max_size=3))
        for partition in draw(st.sets(st.integers(0, 40), min_size=1, max_size=6))
    ]
    by_id = {split.id: split for split in sorted(splits, key=lambda one: one.id)}
    settings = Settings(
        draw(st.sampled_from(POLICIES)),
        draw(st.sampled_from(REBALANCES)),
        draw(st.sampled_from(SCOPES)),
        retention_ms=draw(st.integers(0, 10**10)),
        bounded=draw(st.booleans()),
    )
    dealt_to = tuple(sorted(draw(st.sets(st.integers(0, 50)))))
    return EnumeratorState(
        readers, clusters, by_id, settings, draw(st.integers(0, 10**6)), draw(st.booleans()), dealt_to
    )


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
