"""Law S10: what is written is read back, equal states give equal bytes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.codec import decode, encode
from evensplit.core.model import ClusterState, Split, SplitId
from evensplit.core.state import EnumeratorState

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
offsets = st.integers(0, 2**63 - 1)


@st.composite
def states(draw: st.DrawFn) -> EnumeratorState:
    readers = draw(st.integers(1, 50))
    clusters = {
        name: ClusterState(name, tuple(draw(st.lists(names, max_size=2))), draw(st.booleans()), draw(st.booleans()))
        for name in sorted(draw(st.sets(names, max_size=3)))
    }
    splits: list[Split] = []
    for cluster in clusters:
        for topic in draw(st.sets(names, max_size=3)):
            for partition in draw(st.sets(st.integers(0, 40), min_size=1, max_size=6)):
                known = draw(st.booleans())
                splits.append(
                    Split(
                        SplitId(cluster, topic, partition),
                        draw(st.sampled_from(["", "id-1", "id-2"])),
                        draw(offsets) if known else None,
                        draw(st.none() | offsets) if known else None,
                        draw(st.none() | st.integers(0, readers - 1)) if known else None,
                    )
                )
    by_id = {split.id: split for split in sorted(splits, key=lambda one: one.id)}
    return EnumeratorState(readers, clusters, by_id, begun=True)


@given(states())
def test_there_and_back(state: EnumeratorState) -> None:
    text = json.dumps(encode(state))
    found = decode(json.loads(text))
    assert found == state
    assert json.dumps(encode(found)) == text
