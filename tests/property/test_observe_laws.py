"""What is known from the batch before, and so not found out anew, is what would be found out."""

from __future__ import annotations

from itertools import pairwise
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.model import Cluster, ClusterState, Readable, Split, SplitId
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.observation import Report, decode_report, encode_report
from evensplit.core.state.settings import ALWAYS, PER_CLUSTER, Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CheckpointError
from evensplit.explain.batch import explain
from evensplit.observe.source_view import Batch, Source, View, advance

READERS = 3
KEYS = [SplitId(cluster, "t", partition) for cluster in ("east", "west") for partition in range(4)]
PINS: dict[int, tuple[Readable, ...]] = {1: (Cluster("east"),)}


@st.composite
def ends(draw: st.DrawFn) -> list[EnumeratorState]:
    """States, one after the other: most splits stay as they are, and some come, go, move, end or have no start yet."""
    scope = draw(st.sampled_from([PER_CLUSTER, Settings().scope]))
    found = [EnumeratorState()]
    splits: dict[SplitId, Split] = {}
    for turn in range(draw(st.integers(2, 5))):
        changing = draw(st.sets(st.sampled_from(KEYS), max_size=3)) if turn else set(KEYS)
        for key in sorted(changing):
            splits[key] = draw(st.one_of(st.none(), some(key, splits.get(key)))) or splits.get(key, Split(key, "id"))
        more = draw(st.integers(0, 2))
        splits = {key: _read(splits[key], more) for key in sorted(splits)}
        pins = draw(st.sampled_from([{}, {}, PINS]))
        found.append(
            EnumeratorState(
                READERS,
                MappingProxyType({name: ClusterState(name, ("h:1",), False, True) for name in ("east", "west")}),
                MappingProxyType(splits),
                Settings(scope=scope, rebalance=ALWAYS),
                turn,
                True,
                draw(st.sampled_from([(0, 1, 2), (0, 1, 2), (0, 2)])),
                (),
                MappingProxyType(pins),
            )
        )
    return found


def some(key: SplitId, before: Split | None) -> st.SearchStrategy[Split]:
    """Any split of this id that can follow."""
    at = before.position if before is not None and before.position is not None else 5
    active = st.builds(lambda owner: Split(key, "id", at, None, owner), st.integers(0, READERS - 1))
    gone = st.just(Split(key, "id", at, None, None, None, False, 7))
    done = st.just(Split(key, "id", at, None, None, at, True))
    return st.one_of(active, active, gone, done, st.just(Split(key, "id", None, None, None)))


def _read(split: Split, more: int) -> Split:
    """The same after a batch in which so many offsets of it were read."""
    if split.position is None or split.owner is None:
        return split
    return split._replace(position=split.position + more)


@given(ends())
def test_a_view_explains_each_batch_as_if_it_were_the_only_one(states: list[EnumeratorState]) -> None:
    view: View | None = None
    for number, (start, end) in enumerate(pairwise(states)):
        report = Report({key: (split.position or 0) + 1 for key, split in end.splits.items()})
        try:
            expected = explain(start, end, report)
        except CheckpointError:
            with pytest.raises(CheckpointError):
                advance(view, Batch(Source("q"), number, start, end, report))
            return
        view = advance(view, Batch(Source("q"), number, start, end, report))
        assert view.explanation == expected
        alone = advance(None, Batch(Source("q"), number, start, end, report))
        assert view.read[-1] == alone.read[-1]


@given(ends())
def test_what_is_decoded_beside_what_is_known_is_the_same(states: list[EnumeratorState]) -> None:
    for start, end in pairwise(states):
        document = encode(end)
        found = decode(document, start)
        assert found == decode(document) == end
        assert list(found.splits) == list(end.splits)
        same = [key for key, split in end.splits.items() if start.splits.get(key) == split]
        assert all(found.splits[key] is start.splits[key] for key in same)
        assert all(key is split.id for key, split in found.splits.items())
        report = Report(dict.fromkeys(KEYS, 3))
        again = decode_report(encode_report(report), found.splits)
        assert again == report
        assert all(key is found.splits[key].id for key in again.latest if key in found.splits)
