"""Each cluster on its own, and what readers have elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from evensplit import Cluster, SplitId, Topic, assign
from evensplit.core.assign import assign_by_cluster, by_cluster, owners
from evensplit.core.assign.terms import Reader
from evensplit.errors import AssignmentInputError
from tests.support.assignments import partitions


def clusters(*sizes: int) -> list[SplitId]:
    """Clusters a, b, c, … of so many splits each."""
    return [split for name, size in zip("abcdefgh", sizes, strict=False) for split in partitions("t", size, name)]


def totals(owner: Mapping[SplitId, Reader], readers: int) -> list[int]:
    counts = Counter(owner.values())
    return [counts[reader] for reader in range(readers)]


def test_the_extra_seats_go_round_from_cluster_to_cluster() -> None:
    assert totals(by_cluster(clusters(4, 4, 4), 7), 7) == [2, 2, 2, 2, 2, 1, 1]
    assert totals(by_cluster(clusters(1, 1, 1, 1, 1), 3), 3) == [2, 2, 1]
    assert totals(by_cluster(clusters(8, 2, 9), 7), 7) == [3, 3, 3, 3, 3, 2, 2]


def test_a_cluster_that_is_added_goes_to_those_that_have_least_wherever_its_name_stands() -> None:
    before = by_cluster(clusters(0, 4, 4), 7)
    assert totals(before, 7) == [2, 1, 1, 1, 1, 1, 1]
    after = by_cluster(clusters(4, 4, 4), 7, previous=before)
    assert all(after[split] == owner for split, owner in before.items())
    assert totals(after, 7) == [2, 2, 2, 2, 2, 1, 1]


def test_moves_come_before_ties() -> None:
    """Both clusters have their seats with readers 0 and 1, and each is as even as can be: nothing moves for the sum."""
    before = {split: split.partition for split in clusters(2, 2)}
    assert by_cluster(clusters(2, 2), 4, previous=before) == before
    proven = assign_by_cluster(clusters(2, 2), 4, previous=before)
    assert [one.certificate.statement() for one in proven.values()] == [
        "as even as possible; no partition moved that could have stayed"
    ] * 2


def test_who_would_lose_a_split_gets_a_seat_first_and_the_others_by_what_they_have() -> None:
    splits = partitions("t", 5)
    found = assign(splits, 3, previous={splits[0]: 2, splits[1]: 2}, base={0: 5, 2: 9})
    assert dict(found.loads) == {0: 1, 1: 2, 2: 2}
    assert (found.moved, found.verify()) == (0, True)


def test_restricted_readers_that_can_stand_in_for_each_other() -> None:
    """Who may read only one topic takes it, so that a reader of both is free for the other one."""
    splits = [*partitions("x", 1), *partitions("y", 1)]
    eligible = {"p": [Topic("c", "x")], "q": [Topic("c", "x"), Topic("c", "y")], "r": [Topic("c", "y")]}
    for base, idle in (({"p": 3}, "p"), ({"q": 3}, "q"), ({"r": 3}, "r"), ({"p": 3, "q": 1, "r": 2}, "p")):
        found = assign(splits, ["p", "q", "r"], eligible=eligible, base=base)
        assert [reader for reader, load in found.loads.items() if not load] == [idle]
        assert found.verify()


def test_what_others_have_is_theirs_only_if_they_may_keep_it() -> None:
    splits = clusters(1, 2)
    previous: dict[SplitId, Reader] = {splits[1]: 0, splits[2]: 0}
    assert by_cluster(splits, 2, previous=previous)[splits[0]] == 1
    eligible = {0: [Cluster("a")]}
    assert by_cluster(splits, 2, previous=previous, eligible=eligible)[splits[0]] == 0
    assert by_cluster(splits, 2, previous=previous, policy="fair")[splits[0]] == 0


def test_after_keeps_what_readers_have_elsewhere() -> None:
    splits = partitions("t", 2)
    found = assign(splits, 3, base={0: 1})
    assert dict(found.loads) == {0: 0, 1: 1, 2: 1}
    assert dict(found.after(removed=[splits[0]]).after(added=[splits[0]]).loads) == {0: 0, 1: 1, 2: 1}


def test_no_splits_are_no_clusters() -> None:
    assert by_cluster([], 3) == {}
    assert assign_by_cluster([], ["a"]) == {}


@pytest.mark.parametrize(
    "base, told",
    [
        ({5: 1}, "base names reader 5, which is not among the readers"),
        ({0: -1}, "base of reader 0 is -1; expected a whole number of splits, at least 0"),
        ({0: True}, "base of reader 0 is True; expected a whole number of splits, at least 0"),
        ({1: 0.5}, "base of reader 1 is 0.5; expected a whole number of splits, at least 0"),
    ],
)
def test_a_base_that_cannot_be(base: dict[int, int], told: str) -> None:
    for solve in (assign, owners):
        with pytest.raises(AssignmentInputError) as error:
            solve(partitions("t", 1), 2, base=base)
        assert error.value.problems == (told,)


def test_clusters_are_dealt_only_from_ids_to_readers() -> None:
    with pytest.raises(AssignmentInputError, match="is no split"):
        by_cluster(["a"], 2)  # type: ignore[list-item]
    with pytest.raises(AssignmentInputError, match="expected at least one reader"):
        by_cluster([], 0)
    with pytest.raises(AssignmentInputError, match="base is 3; expected a mapping"):
        assign([], 1, base=3)  # type: ignore[arg-type]
