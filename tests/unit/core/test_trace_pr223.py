"""The trace of PR 223: clusters are added, removed and added again over 7 readers, which then become 5.

The peer is policy `global`, its counter: an owner is the number of known splits modulo the readers, and nobody moves.
It is driven through the same enumerator, beside the project's own policy. The owners that the PR shows, one by one, are
in test_assign_pr223.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evensplit.core.machine.events import (
    ClustersListed,
    ListedCluster,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    TimePassed,
)
from evensplit.core.model import SplitId
from evensplit.core.state.settings import Settings
from tests.support.assignments import moves
from tests.support.enumeration import Enumeration, listed

TOPIC = "example-topic"
LOCAL = [ListedCluster(f"local-{number}", (f"local-{number}:9092",)) for number in range(4)]
STEPS: Sequence[tuple[str, int, tuple[int, ...]]] = (
    ("start", 7, (0, 1, 2)),
    ("add local-3", 7, (0, 1, 2, 3)),
    ("remove local-2", 7, (0, 1, 3)),
    ("add local-2 again", 7, (0, 1, 2, 3)),
    ("rescale to 5", 5, (0, 1, 2, 3)),
)
Owners = Mapping[SplitId, int]


class Trace:
    """One enumerator that goes through the steps; `owners` before and after each of them."""

    def __init__(self, settings: Settings) -> None:
        self._one = Enumeration(7, settings)
        self._now_ms = 0
        self._one.tell(TimePassed(0))
        self.before: list[Owners] = []
        self.after: list[Owners] = []
        for number, (_, readers, clusters) in enumerate(STEPS):
            self.before.append(self._owners())
            if self._one.state.readers != readers:
                self._one.tell(ParallelismChanged(readers))
            self._show(clusters)
            if number == 0:
                self._one.register()
            self.after.append(self._owners())
            self._one.commit()

    def _show(self, clusters: tuple[int, ...]) -> None:
        wanted = ClustersListed(tuple(LOCAL[number] for number in clusters))
        # Twice, an interval apart: what is left out is removed with the second listing.
        self._one.tell(wanted, TimePassed(self._now_ms + 30_000), wanted)
        self._now_ms += 30_000
        for number in clusters:
            self._one.tell(PartitionsListed(f"local-{number}", listed(TOPIC, 4)))
        new = [key for key, split in self._one.state.splits.items() if split.position is None]
        self._one.tell(OffsetsResolved(dict.fromkeys(new, 0)))

    def _owners(self) -> Owners:
        splits = self._one.state.splits
        return {key: split.owner for key, split in splits.items() if split.owner is not None and split.active}


def loads(owners: Owners, readers: int) -> list[int]:
    """How many splits each reader has, most first."""
    return sorted((list(owners.values()).count(reader) for reader in range(readers)), reverse=True)


def least(before: Owners, splits: Sequence[SplitId], readers: int) -> int:
    """The fewest moves for the most even loads, by the closed form."""
    quota, extra = divmod(len(splits), readers)
    had = [sum(before.get(key) == reader for key in splits) for reader in range(readers)]
    return sum(max(0, load - quota) for load in had) - min(extra, sum(load > quota for load in had))


def test_the_trace_beside_the_peer() -> None:
    peer, ours = Trace(Settings(policy="global", rebalance="never")), Trace(Settings())
    shown = [f"{'':18} {'peer':28} {'ours':28}"]
    for number, (name, readers, _) in enumerate(STEPS):
        theirs, own = peer.after[number], ours.after[number]
        splits = sorted(own)
        assert sorted(theirs) == splits
        shown.append(
            f"{name:18} {loads(theirs, readers)!s:24} {moves(peer.before[number], theirs, readers):3} "
            f"{loads(own, readers)!s:24} {moves(ours.before[number], own, readers):3}"
        )
        quota, extra = divmod(len(splits), readers)
        assert loads(own, readers) == [quota + 1] * extra + [quota] * (readers - extra)
        assert moves(ours.before[number], own, readers) == least(ours.before[number], splits, readers)
    print(*shown, sep="\n")
    assert sum(moves(ours.before[step], ours.after[step], 7) for step in range(4)) <= 1


def test_under_never_nothing_moves_where_the_peer_does_not() -> None:
    ours = Trace(Settings(rebalance="never"))
    for number, (_, readers, _) in enumerate(STEPS):
        assert moves(ours.before[number], ours.after[number], readers) == 0


def test_a_rescale_of_the_peer_cuts_the_lists_of_all_seven_readers_anew() -> None:
    for rebalance in ("on-rescale", "always"):
        peer = Trace(Settings(policy="global", rebalance=rebalance))
        prior, after = peer.before[-1], peer.after[-1]
        behind = sorted(prior, key=lambda key: (prior[key], key))
        assert [after[key] for key in behind] == [0] * 4 + [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3
