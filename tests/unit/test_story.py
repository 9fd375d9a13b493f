"""What happened, told from two states."""

from __future__ import annotations

from evensplit.core.model import Split, SplitId
from evensplit.core.state import EnumeratorState
from evensplit.core.story import changes, loads


def state(readers: int, **owners: int) -> EnumeratorState:
    splits = [Split(SplitId("c", name[0], int(name[1:])), "", 5, None, owner) for name, owner in sorted(owners.items())]
    return EnumeratorState(readers, {}, {split.id: split for split in splits})


def test_discoveries_and_moves_with_their_reasons() -> None:
    found = changes(state(2, a0=0, a1=0, a2=1), state(2, a0=0, a1=1, a2=1, b0=0, b1=1))
    assert [str(one.split) for one in found.discoveries] == ["c/b/0", "c/b/1"]
    assert found.sentences() == (
        "discovered c/b: partition 0 → reader 0, 1 → reader 1",
        "moved c/a/1 from reader 0 to reader 1: 2 new splits made the readers uneven",
    )


def test_a_change_of_readers_is_the_reason() -> None:
    (move,) = changes(state(1, a0=0, a1=0), state(2, a0=0, a1=1)).moves
    assert move.reason == "the number of readers went from 1 to 2"


def test_nothing_happened() -> None:
    assert changes(state(2, a0=0), state(2, a0=0)).sentences() == ()


def test_loads_are_by_reader() -> None:
    assert loads(state(3, a0=0, a1=0, a2=2)) == [2, 0, 1]
