"""The life of one split whose cluster got other names: it is one life, and that of no other split."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from evensplit.core.model import ClusterState, Split, SplitId
from evensplit.core.repair.edit import Told, drop, open_batch, rename_cluster
from evensplit.core.state.edits import Edit
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.split_history import BatchEnd, SplitHistory, split_histories, split_history

READERS = 2


def state(revision: int, edits: tuple[Edit, ...] = (), /, **clusters: tuple[str, int]) -> EnumeratorState:
    """Name of a cluster -> what Kafka calls it, and the position of its one partition, t/0."""
    keys = [SplitId(name, "t", 0) for name in sorted(clusters)]
    return EnumeratorState(
        READERS,
        {key.cluster: ClusterState(key.cluster, (), False, True, None, clusters[key.cluster][0]) for key in keys},
        {key: Split(key, "id", clusters[key.cluster][1], None, 0) for key in keys},
        begun=True,
        assigned_readers=(0, 1),
        revision=revision,
        edits=edits,
    )


def found_anew(end: EnumeratorState, cluster: str, first: int) -> EnumeratorState:
    """The same, where reading of a cluster began in this batch, at `first`."""
    split = end.splits[key(cluster)]._replace(first=first, since=end.revision)
    return replace(end, splits={**end.splits, split.id: split})


def ends(*states: EnumeratorState, first: int = 4) -> list[BatchEnd]:
    return [BatchEnd(batch, None, one) for batch, one in enumerate(states, start=first)]


def key(cluster: str) -> SplitId:
    return SplitId(cluster, "t", 0)


def told(found: SplitHistory | None) -> list[tuple[int, tuple[str, ...]]]:
    assert found is not None
    return [(chapter.first.batch, chapter.sentences()) for chapter in found.chapters]


def noticed(was: str, now: str) -> str:
    return f"was called {was}/t/0 before: the query found cluster {was} under the name {now}, by Kafka's cluster id"


def test_a_name_that_the_query_noticed_is_told_and_what_was_before_is_joined() -> None:
    found = ends(*(state(at, **{name: ("K", 10 * at)}) for at, name in enumerate(("east", "east", "north"), start=1)))
    story = split_history(key("north"), found)
    assert told(story) == [
        (5, ("offsets 10 to 19 read by reader 0",)),
        (6, (noticed("east", "north"), "offsets 20 to 29 read by reader 0")),
    ]
    assert story is not None
    assert (story.split, story.before, story.now) == (
        key("north"),
        found[0].state.splits[key("east")],
        found[-1].state.splits[key("north")],
    )
    assert story.to_json()["former"] == [{"split": "east/t/0", "until": 6}]
    assert split_history(key("east"), found) == story, "it goes on under the new name"
    assert split_history(key("west"), found) is None


def test_several_names_in_a_row_and_back() -> None:
    names = ("east", "north", "west", "east")
    found = ends(*(state(at, **{name: ("K", 10 * at)}) for at, name in enumerate(names, start=1)))
    story = split_history(key("east"), found)
    assert [one[0] for _, one in told(story)] == [
        noticed("east", "north"),
        noticed("north", "west"),
        noticed("west", "east"),
    ]
    assert split_histories("t", 0, found, "north") == (story,)
    assert story is not None
    assert [(one.split.cluster, one.until) for one in story.former] == [("east", 5), ("north", 6), ("west", 7)]


def test_a_name_that_another_cluster_has_now_has_two_histories() -> None:
    found = ends(
        state(1, east=("K", 10)),
        state(2, north=("K", 20)),
        found_anew(state(3, east=("other", 7), north=("K", 30)), "east", 3),
        first=0,
    )
    north, east = split_histories("t", 0, found, "east")
    assert (north.split, east.split) == (key("north"), key("east"))
    assert split_history(key("east"), found) == east, "that of today is meant where one is"
    assert split_histories("t", 0, found, "north") == (north,)
    assert [chapter.sentences()[0] for chapter in east.chapters] == ["was discovered"]
    assert (told(east)[0][0], east.former) == (2, ())
    assert [chapter.sentences()[-1] for chapter in north.chapters[1:]] == [
        "offsets 10 to 19 read by reader 0",
        "offsets 20 to 29 read by reader 0",
    ]
    assert split_histories("t", 0, found) == (north, east)


def test_a_name_that_is_given_away_in_the_batch_of_the_new_one() -> None:
    end = found_anew(state(2, east=("other", 7), north=("K", 20)), "east", 3)
    found = ends(state(1, east=("K", 10)), end)
    assert told(split_history(key("north"), found)) == [
        (5, (noticed("east", "north"), "offsets 10 to 19 read by reader 0"))
    ]
    assert [one[0] for _, one in told(split_history(key("east"), found))] == ["was discovered"]


def test_a_name_that_one_which_is_forgotten_had_before() -> None:
    """West is gone, and then east is called west: what was west before is another one."""
    found = ends(
        state(1, east=("K", 10), west=("W", 5)),
        state(2, east=("K", 20)),
        state(3, west=("K", 30)),
    )
    gone, west = split_histories("t", 0, found, "west")
    assert [one for _, one in told(gone)] == [("was forgotten: it was away for longer than positions are kept",)]
    assert (gone.split, gone.now) == (key("west"), None)
    assert told(west)[-1] == (6, (noticed("east", "west"), "offsets 20 to 29 read by reader 0"))
    assert split_history(key("east"), found) == split_history(key("west"), found) == west


def test_a_name_whose_former_owner_is_forgotten_in_the_same_batch() -> None:
    found = ends(state(1, east=("K", 10), west=("W", 5)), state(3, west=("K", 30)))
    gone, west = split_histories("t", 0, found, "west")
    assert [one for _, one in told(gone)] == [("was forgotten: it was away for longer than positions are kept",)]
    assert gone.now is None
    assert told(west) == [(5, (noticed("east", "west"), "offsets 10 to 29 read by reader 0"))]


def test_names_that_two_clusters_have_exchanged() -> None:
    found = ends(state(1, east=("K", 10), west=("W", 5)), state(3, east=("W", 7), west=("K", 30)))
    assert told(split_history(key("west"), found)) == [
        (5, (noticed("east", "west"), "offsets 10 to 29 read by reader 0"))
    ]
    assert told(split_history(key("east"), found)) == [
        (5, (noticed("west", "east"), "offsets 5 to 6 read by reader 0"))
    ]


def renamed(end: EnumeratorState, *names: str) -> EnumeratorState:
    """The end of the next batch, in which the first of `names` becomes the second one, and so on."""
    batch = open_batch(end, end, done=True)
    for before, after in pairwise(names):
        told = Told("rename-cluster", f"{before} {after}", 7)
        batch = replace(batch, end=rename_cluster(batch, before, after, told))
    return batch.end


def test_names_that_commands_gave_are_told_with_the_commands() -> None:
    """Whether Kafka's id is known or not."""
    for kafka_id in ("", "K"):
        first = state(1, east=(kafka_id, 10))
        found = ends(first, renamed(first, "east", "mid", "north"), state(3, north=(kafka_id, 20)))
        (story,) = split_histories("t", 0, found, "east")
        assert told(story) == [
            (
                5,
                (
                    "was called east/t/0 before: `evensplit rename-cluster east mid`",
                    "was called mid/t/0 before: `evensplit rename-cluster mid north`",
                ),
            ),
            (6, ("offsets 10 to 19 read by reader 0",)),
        ]
        assert split_histories("t", 0, found, "north") == (story,)


def test_a_name_that_a_command_gave_and_took_back_is_no_new_one() -> None:
    first = state(1, east=("", 10))
    (story,) = split_histories("t", 0, ends(first, renamed(first, "east", "mid", "east")), "east")
    assert story.former == ()
    assert [one for _, one in told(story)] == [
        (
            "was called east/t/0 before: `evensplit rename-cluster east mid`",
            "was called mid/t/0 before: `evensplit rename-cluster mid east`",
        )
    ]


def test_what_a_command_forgot_after_its_new_name() -> None:
    first = state(1, east=("K", 10), south=("S", 1))
    batch = open_batch(first, first, done=True)
    end = rename_cluster(batch, "east", "north", Told("rename-cluster", "east north", 7))
    after = drop(replace(batch, end=end), key("north"), Told("drop", "north/t/0", 8))
    (story,) = split_histories("t", 0, ends(first, after), "east")
    assert (story.split, story.now) == (key("north"), None)
    assert [one for _, one in told(story)] == [
        (
            "was called east/t/0 before: `evensplit rename-cluster east north`",
            "was forgotten: `evensplit drop north/t/0`",
        )
    ]


def test_the_last_range_of_one_that_is_finished_under_a_new_name_is_of_its_owner() -> None:
    before, after = state(1, east=("K", 10)), state(2, north=("K", 20))
    before = replace(before, splits={key("east"): before.splits[key("east")]._replace(owner=1)})
    done = after.splits[key("north")]._replace(owner=None, finished=True)
    found = ends(before, replace(after, splits={key("north"): done}))
    assert told(split_history(key("east"), found))[-1][1][-1] == "offsets 10 to 19 read by reader 1"
