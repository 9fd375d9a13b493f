"""Assignment problems as hypothesis makes them."""

from __future__ import annotations

from hypothesis import strategies as st

from evensplit import Cluster, SplitId, Topic
from evensplit.core.assign.terms import Reader
from tests.support.assignments import Instance

split_ids = st.builds(SplitId, st.sampled_from(["c0", "c1"]), st.sampled_from(["t0", "t1", "t2"]), st.integers(0, 4))
scopes = st.one_of(
    st.builds(Cluster, st.sampled_from(["c0", "c1", "gone"])),
    st.builds(Topic, st.sampled_from(["c0", "c1"]), st.sampled_from(["t0", "t1", "t2", "gone"])),
    split_ids,
)


@st.composite
def instances(draw: st.DrawFn, splits_max: int = 16, weighted: bool = False, restricted: bool = True) -> Instance:
    """Small problems, which hypothesis makes smaller still when one of them fails."""
    readers: list[Reader] = list(range(draw(st.integers(1, 6))))
    if draw(st.booleans()):
        readers = [f"r{number}" for number in readers]
    splits = draw(st.lists(split_ids, unique=True, max_size=splits_max))
    anybody = st.sampled_from([*readers, 77 if isinstance(readers[0], int) else "gone"])
    return Instance(
        tuple(splits),
        tuple(readers),
        draw(st.dictionaries(split_ids, anybody, max_size=30)),
        draw(st.dictionaries(st.sampled_from(readers), st.frozensets(scopes, max_size=5))) if restricted else {},
        {split: draw(st.integers(1, 12)) for split in splits} if weighted else None,
    )
