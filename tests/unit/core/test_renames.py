"""A cluster under another name is known by what it calls itself, and goes on with all that was known of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from evensplit.core.batch.plan import batch_ranges, plan_batch
from evensplit.core.machine.effects import Assign, Effect, Forget, RefuseCluster, ReportLoss, ResolveStart, Revoke
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClusterPollFailed,
    ClustersListed,
    ListedCluster,
    LogsObserved,
    OffsetsResolved,
    PartitionsListed,
    SettingsChanged,
    TimePassed,
)
from evensplit.core.model import EpochStart, Range, SplitId, Topics
from evensplit.core.repair.places import targets_of_batch
from evensplit.core.state.codec import decode, same
from evensplit.core.state.settings import DECLARE, NEVER, Settings
from evensplit.core.state.state import EnumeratorState, as_named, renamed_clusters
from evensplit.errors import EditRefused
from evensplit.explain.changes import changes, happened
from evensplit.explain.evenness import ownership
from tests.support.enumeration import DAY_MS, EAST, INTERVAL_MS, ONE, TWO, WEST, Enumeration, listed, running
from tests.support.renames import N_ONE, N_THREE, N_TWO, NORTH, W_ONE, answer, known_as_east

CHECKPOINTS = Path(__file__).parents[2] / "data" / "checkpoints"


def refused(effects: Sequence[Effect]) -> list[str]:
    return [effect.cluster for effect in effects if isinstance(effect, RefuseCluster)]


def standing(state: EnumeratorState) -> dict[str, tuple[str, int | None, int | None]]:
    """Split -> topic id, position and owner."""
    return {str(key): (split.topic_id, split.position, split.owner) for key, split in state.splits.items()}


# A name instead of another


def test_what_is_not_wanted_under_the_new_name_is_retained_at_once() -> None:
    """As it is under the old name, where a process begins with other options."""
    one = known_as_east()
    one.restart(one.commit())
    listing = ClustersListed((ListedCluster("north", ("n:9092",), subscription=Topics(("u",))),), confirmed=True)
    one.tell(TimePassed(200_000), listing, PartitionsListed("north", listed("u", 1, "id-u"), kafka_id="K"))
    assert one.lives() == {"north/t/0": "retained", "north/t/1": "retained", "north/u/0": "unassigned"}


def test_what_a_batch_reads_is_kept_to_be_looked_for_also_where_the_cluster_says_who_it_is_and_is_renamed() -> None:
    one = running(1, 1, loss=DECLARE)
    one.tell(BatchPlanned({ONE: 20}))
    assert one.state.splits[ONE].read_from == 10
    one.tell(BatchOpened(), answer("east", count=1), ClustersListed((NORTH,)), answer("north", count=1))
    assert one.state.splits[N_ONE].read_from == 10


def test_everything_is_kept_under_the_new_name() -> None:
    one = known_as_east()
    before = one.checkpoint()
    effects = one.tell(BatchOpened(), ClustersListed((NORTH,)), answer("north"), BatchPlanned({}))
    assert not any(isinstance(effect, (Forget, ReportLoss, ResolveStart, RefuseCluster)) for effect in effects)
    assert standing(one.state) == {key.replace("east", "north"): what for key, what in standing(before).items()}
    cluster = one.state.clusters["north"]
    assert (cluster.bootstrap_servers, cluster.kafka_id, cluster.discovered) == (("n:9092",), "K", True)
    assert list(one.state.clusters) == ["north"]


def test_readers_are_told_the_new_names() -> None:
    one = known_as_east()
    owner = {key.partition: split.owner or 0 for key, split in one.state.splits.items()}
    effects = one.tell(ClustersListed((NORTH,)), answer("north"))
    assert {effect for effect in effects if isinstance(effect, Revoke)} == {
        Revoke(ONE, owner[0]),
        Revoke(TWO, owner[1]),
    }
    assert [(effect.split, effect.reader, effect.position) for effect in effects if isinstance(effect, Assign)] == [
        (N_ONE, owner[0], 20),
        (N_TWO, owner[1], 20),
    ]


def test_a_batch_goes_on_over_a_rename() -> None:
    one = known_as_east()
    before = one.checkpoint()
    one.tell(BatchOpened(), ClustersListed((NORTH,)), answer("north", count=3), OffsetsResolved({N_THREE: 5}))
    one.tell(BatchPlanned({N_ONE: 30, N_THREE: 8}))
    after = one.checkpoint()
    assert dict(renamed_clusters(before.clusters, after.clusters)) == {"east": "north"}
    assert {key.cluster for key in as_named(before, after)} == {"north"}
    assert batch_ranges(before, after) == (Range(N_ONE, 20, 30), Range(N_THREE, 5, 8))
    plans = {part.split: plan.reader for plan in plan_batch(before, after).readers for part in plan.ranges}
    assert plans[N_ONE] == after.splits[N_ONE].owner
    assert ownership(before, after).previous[:2] == [before.splits[key].owner for key in (ONE, TWO)]


def test_the_last_range_of_a_finished_split_is_of_its_owner_under_the_old_name() -> None:
    one = known_as_east(settings=Settings(bounded=True))
    before = one.checkpoint()
    (end,) = ({key._replace(cluster="north"): 25} for key, split in before.splits.items() if split.owner == 1)
    one.tell(BatchOpened(), ClustersListed((NORTH,)), answer("north"), OffsetsResolved({}, end), BatchPlanned(end))
    assert [(plan.reader, plan.offsets) for plan in plan_batch(before, one.checkpoint()).readers] == [(1, 5)]


def test_the_story_tells_the_rename_and_nothing_of_what_is_kept() -> None:
    one = known_as_east()
    before = one.checkpoint()
    one.tell(BatchOpened(), ClustersListed((NORTH,)), answer("north"), BatchPlanned({}))
    found = changes(before, one.state)
    assert found.renamed == (("east", "north"),)
    assert found.sentences() == (
        "cluster east is now called north: it is the same Kafka cluster, so its positions and owners are kept",
    )
    assert happened(N_ONE, before, one.state) == (
        "was called east/t/0 before: the query found cluster east under the name north, by Kafka's cluster id",
    )
    assert not same(one.state, before)


@pytest.mark.parametrize("in_batch", [False, True])
def test_what_was_seen_of_the_old_name_is_known_of_the_new_one(in_batch: bool) -> None:
    """How far its logs reach, and which ids its topics had; not what was missing from it or in doubt."""
    one = known_as_east(loss="declare")
    one.observe({ONE: 25})
    one.hear_twice(answer("east", topic_id="id-2"))
    one.tell(OffsetsResolved({ONE: 0, TWO: 0}), LogsObserved("east", {ONE: 7, TWO: 0}, answer=99))
    one.tell(answer("east", topic_id="id-3"))
    one.tell(*([BatchOpened()] if in_batch else []), ClustersListed((NORTH,)), answer("north", topic_id="id-2"))
    session = one.state.session
    assert (session.ends, session.id_conflicts) == ({"north": {N_ONE: 7, N_TWO: 0}}, {})
    assert session.former_topic_ids == {("north", "t"): ("id-t",)}
    one.hear_twice(answer("north"))
    assert {split.topic_id for split in one.state.splits.values()} == {"id-2"}
    now_ms = session.now_ms or 0
    less = answer("north", count=0)
    effects = one.tell(less, TimePassed(now_ms + INTERVAL_MS), less)
    assert [effect.loss for effect in effects if isinstance(effect, ReportLoss)] == []


def test_what_was_missing_or_short_under_the_old_name_is_looked_at_anew() -> None:
    one = known_as_east(loss="declare")
    one.tell(answer("east", count=1), LogsObserved("east", {ONE: 5}, answer=90))
    one.tell(
        LogsObserved("east", {ONE: 5}, answer=91, epochs={ONE: (EpochStart(3, 0),)}), ClusterPollFailed("east", "-")
    )
    one.tell(TimePassed(9 * INTERVAL_MS), ClustersListed((NORTH,)), answer("north"), answer("north", count=1))
    one.tell(LogsObserved("north", {N_ONE: 5}, answer=92))
    assert one.lives() == {"north/t/0": "assigned", "north/t/1": "assigned"}
    session = one.state.session
    assert {key: seen.answers for key, seen in session.truncation_observations.items()} == {N_ONE: 1}
    assert (list(session.missing_since), one.state.losses) == ([N_TWO], ())
    assert list(session.leader_epochs) == list(session.listings) == ["north"]


def test_what_was_retained_before_the_rename_and_returns_after_it_in_one_batch_keeps_its_owner() -> None:
    one = running(6, 3)
    one.tell(answer("east", count=6))
    before = list(standing(one.state).values())
    less = answer("east", count=1)
    one.tell(BatchOpened(), less, TimePassed(1000 + INTERVAL_MS), less)
    one.tell(ClustersListed((NORTH,)), answer("north", count=6), BatchPlanned({}))
    assert list(standing(one.state).values()) == before


def test_a_split_that_is_another_one_under_the_new_name_keeps_its_owner() -> None:
    """As a new one, it would go to the other reader."""
    one = Enumeration(2, Settings(rebalance=NEVER))
    one.tell(TimePassed(1000), SettingsChanged(Settings(rebalance=NEVER), {1: ()}, loss=DECLARE))
    one.discover(EAST, t=2)
    one.register()
    one.tell(SettingsChanged(Settings(rebalance=NEVER), loss=DECLARE), answer("east"), BatchPlanned({}), BatchOpened())
    assert one.loads() == [2, 0]
    # The new topic's second partition has no leader yet.
    one.hear_twice(PartitionsListed("east", listed("t", 1, "id-2"), seen=listed("t", 2, "id-2")[1:], kafka_id="K"))
    one.tell(OffsetsResolved({ONE: 0}), BatchPlanned({}))
    assert [split.topic_id for split in one.state.splits.values()] == ["id-2", "id-t"]
    one.tell(BatchOpened(), ClustersListed((NORTH,)), PartitionsListed("north", listed("t", 2, "id-2"), kafka_id="K"))
    assert [split.topic_id for split in one.state.splits.values()] == ["id-2", "id-2"]
    one.tell(OffsetsResolved({N_TWO: 0}), BatchPlanned({}))
    assert one.loads() == [2, 0]


def test_a_checkpoint_of_one_cluster_goes_on_when_that_is_given_a_name() -> None:
    before = decode(json.loads((CHECKPOINTS / "v3" / "default.json").read_text()))
    one = Enumeration(2)
    one.restart(before)
    partitions = (*listed("clicks", 1, "id-2"), *listed("orders", 3, "id-1"))
    kafka_id = before.clusters["default"].kafka_id
    one.tell(BatchOpened(), TimePassed(1_700_000_001_000), ClustersListed((NORTH,)))
    effects = one.tell(PartitionsListed("north", partitions, kafka_id=kafka_id))
    assert effects == ()
    one.register()
    one.tell(BatchPlanned({SplitId("north", "orders", 0): 130}))
    kept = {str(key): split for key, split in before.splits.items()}
    assert one.lives() == {key.replace("default", "north"): str(split.lifecycle) for key, split in kept.items()}
    assert batch_ranges(before, one.checkpoint()) == (Range(SplitId("north", "orders", 0), 120, 130),)
    assert [split.owner for split in one.state.splits.values()] == [1, None, 0, 1, 0]


def test_a_cluster_that_says_who_it_is_and_is_renamed_in_one_batch_goes_on() -> None:
    """The state before does not have its id, so the one after has to say where each split begins."""
    one = running(2, 2)
    before = one.checkpoint()
    assert before.clusters["east"].kafka_id == ""
    one.tell(BatchOpened(), answer("east"), ClustersListed((NORTH,)), answer("north"), BatchPlanned({N_ONE: 12}))
    assert dict(renamed_clusters(before.clusters, one.state.clusters)) == {}
    assert batch_ranges(before, one.checkpoint()) == (Range(N_ONE, 10, 12),)
    before = one.checkpoint()
    one.tell(BatchOpened(), ClustersListed((EAST,)), answer("east"), BatchPlanned({ONE: 14}))
    assert batch_ranges(before, one.checkpoint()) == (Range(ONE, 12, 14),)
    assert one.state.splits[ONE].first is None


def test_a_cluster_that_says_who_it_is_and_is_renamed_in_a_gap_goes_on() -> None:
    one = running(2, 2)
    before = one.checkpoint()
    one.tell(BatchOpened(before.revision), answer("east"), BatchPlanned({}))
    one.tell(BatchOpened(before.revision), ClustersListed((NORTH,)), answer("north"), BatchPlanned({N_ONE: 14}))
    assert batch_ranges(before, one.checkpoint()) == (Range(N_ONE, 10, 14),)


def test_what_was_read_in_a_gap_before_the_rename_is_read_again() -> None:
    """The stored state has the cluster's id, so a batch that begins there finds its positions under the new name."""
    one = running(2, 2)
    durable = one.state.revision
    one.tell(BatchOpened(durable), answer("east"), BatchPlanned({ONE: 20}))
    stored = one.checkpoint()
    one.tell(BatchOpened(durable), BatchPlanned({ONE: 30, TWO: 12}))
    one.tell(BatchOpened(durable), ClustersListed((NORTH,)), answer("north"), BatchPlanned({N_ONE: 40}))
    assert batch_ranges(stored, one.checkpoint()) == (Range(N_ONE, 20, 40), Range(N_TWO, 10, 12))


def test_what_began_in_a_gap_before_the_rename_is_read_from_where_it_began() -> None:
    one = running(1, 1)
    stored = one.checkpoint()
    one.tell(BatchOpened(stored.revision), ClustersListed((EAST, WEST)), answer("west", "W", 1))
    one.tell(OffsetsResolved({W_ONE: 5}), BatchPlanned({W_ONE: 8}))
    one.tell(BatchOpened(stored.revision), BatchPlanned({W_ONE: 12}))
    one.tell(BatchOpened(stored.revision), ClustersListed((EAST, NORTH)), answer("north", "W", 1))
    one.tell(BatchPlanned({N_ONE: 20}))
    assert batch_ranges(stored, one.checkpoint()) == (Range(N_ONE, 5, 20),)


def test_the_old_name_may_be_given_to_another_cluster_in_the_same_batch() -> None:
    one = known_as_east()
    before = one.commit()
    one.tell(BatchOpened(), ClustersListed((NORTH,)), answer("north"), ClustersListed((EAST, NORTH)))
    one.tell(answer("east", "other"), OffsetsResolved({ONE: 3, TWO: 3}), BatchPlanned({N_ONE: 22, ONE: 5}))
    assert batch_ranges(before, one.checkpoint()) == (Range(ONE, 3, 5), Range(N_ONE, 20, 22))


def test_a_name_of_one_that_is_forgotten_in_the_same_batch_is_not_that_one() -> None:
    """Where it had been read to says nothing of the one that has its name now."""
    one = known_as_east(settings=Settings(retention_ms=0))
    one.tell(ClustersListed((EAST, WEST)), answer("west", "W", count=1), OffsetsResolved({W_ONE: 90}), BatchPlanned({}))
    before = one.commit()
    gone = ClustersListed((EAST,), confirmed=True)
    one.tell(BatchOpened(), gone, TimePassed(900_000), gone, ClustersListed((WEST,)), answer("west", "K"))
    one.tell(BatchPlanned({W_ONE: 30}))
    after = one.checkpoint()
    assert as_named(before, after)[W_ONE].position == 20
    assert batch_ranges(before, after) == (Range(W_ONE, 20, 30),)
    assert targets_of_batch(1, {0: before, 1: after}, [W_ONE]) == {W_ONE: 20}


@pytest.mark.parametrize(
    "number, kept, said",
    [
        (5, (0, 3, 7), "Spark has not kept where the one before it ended, but 4 and 8 can be rewound to"),
        (
            9,
            (0, 3, 7),
            "of the batches that Spark has kept, the first one that can be rewound to is 0, and the last 4",
        ),
        (3, (3, 7), "of the batches that Spark has kept, the first one that can be rewound to is 4"),
    ],
)
def test_batches_whose_begin_is_not_kept(number: int, kept: tuple[int, ...], said: str) -> None:
    with pytest.raises(EditRefused) as refused:
        targets_of_batch(number, dict.fromkeys(kept, EnumeratorState()), [])
    assert f"where batch {number} began is not known: {said}. For others, say a time or offsets" in str(refused.value)


# A name next to another, and back


def test_two_names_at_once_are_refused_until_the_old_one_goes() -> None:
    """Metadata often lists the new name before the old one is gone."""
    one = known_as_east()
    before = standing(one.state)
    for _ in range(2):
        assert refused(one.tell(ClustersListed((EAST, NORTH)), answer("east"), answer("north"))) == ["north"]
    assert standing(one.state) == before
    assert refused(one.tell(ClustersListed((NORTH,)), answer("north"))) == []
    assert list(standing(one.state).values()) == list(before.values())
    assert {key.cluster for key in one.state.splits} == {"north"}


def test_back_to_the_old_name_and_there_again() -> None:
    one = known_as_east()
    before = standing(one.state)
    for cluster in (NORTH, EAST, NORTH, EAST):
        one.tell(ClustersListed((cluster,)), answer(cluster.id))
        assert list(one.state.clusters) == [cluster.id]
    assert standing(one.state) == before


@pytest.mark.parametrize("retention_ms", [0, DAY_MS])
def test_back_to_the_old_name_before_that_has_answered_again(retention_ms: int) -> None:
    """What it answered under this name before does not count: it may be the one that is about to be removed."""
    one = known_as_east(settings=Settings(retention_ms=retention_ms))
    one.tell(ClustersListed((NORTH,)), answer("north"))
    owners = standing(one.state)
    one.tell(ClustersListed((EAST,)), TimePassed(50_000), ClustersListed((EAST,)))
    assert one.lives() == {"north/t/0": "assigned", "north/t/1": "assigned"}
    one.tell(answer("east"))
    assert standing(one.state) == {key.replace("north", "east"): what for key, what in owners.items()}


def test_there_and_back_within_one_batch_is_no_rename() -> None:
    one = known_as_east()
    before = one.checkpoint()
    one.tell(BatchOpened())
    for cluster in (NORTH, EAST):
        one.tell(ClustersListed((cluster,)), answer(cluster.id))
    one.tell(BatchPlanned({}))
    assert one.state.splits == before.splits
    assert not changes(before, one.state)
    assert batch_ranges(before, one.state) == ()


def test_two_clusters_may_take_each_others_place_one_by_one() -> None:
    """Each is known by its own id: one that takes a name which another has is refused, as another cluster."""
    one = known_as_east()
    one.tell(ClustersListed((EAST, WEST)), answer("west", "W", count=1), OffsetsResolved({W_ONE: 7}))
    assert refused(one.tell(ClustersListed((EAST, WEST)), answer("east", "W"), answer("west", "K"))) == ["east", "west"]
    one.tell(ClustersListed((NORTH,)), answer("north", "W", count=1))
    assert one.state.splits[SplitId("north", "t", 0)].position == 7
    assert set(one.state.clusters) == {"east", "north"}


def test_the_one_of_several_earlier_names_that_was_there_last_is_taken() -> None:
    one = known_as_east()
    one.tell(ClustersListed((EAST, WEST)), answer("west", "", count=1), OffsetsResolved({W_ONE: 7}))
    one.tell(ClustersListed((WEST,)), TimePassed(90_000), ClustersListed((WEST,)), answer("west", "K", count=1))
    assert (one.lives()["east/t/0"], one.lives()["west/t/0"]) == ("retained", "assigned")
    one.tell(ClustersListed((NORTH,)), answer("north", count=1))
    assert one.state.splits[N_ONE].position == 7
    assert one.lives()["east/t/0"] == "retained"


@pytest.mark.parametrize(
    "name, listed_now, now_ms, old, begins",
    [
        ("renamed-to-cloud", "cloud", 8 * DAY_MS, None, 80),
        ("renamed-to-east", "east", 8 * DAY_MS, None, 80),
        ("renamed-and-behind", "cloud", 8 * DAY_MS, None, 40),
        ("renamed-to-cloud", "blue", 200_000, "cloud", 80),
        ("renamed-to-east", "brand-new", 200_000, "east", 80),
    ],
)
def test_checkpoints_with_two_names_of_one_cluster_go_on_where_it_was_read_last(
    name: str, listed_now: str, now_ms: int, old: str | None, begins: int
) -> None:
    """Up to format 3, a new name was another cluster, and the old one was retained; here at offset 50."""
    before = decode(json.loads((CHECKPOINTS / "v3" / f"{name}.json").read_text()))
    one = Enumeration(2)
    one.restart(before)
    one.tell(BatchOpened(), TimePassed(100_000 + now_ms), ClustersListed((ListedCluster(listed_now, ("e:9092",)),)))
    one.tell(answer(listed_now, "KX"))
    one.register()
    splits = [SplitId(listed_now, "t", partition) for partition in range(2)]
    one.tell(BatchPlanned(dict.fromkeys(splits, 90)))
    after = one.checkpoint()
    assert batch_ranges(before, after) == tuple(Range(split, begins, 90) for split in splits)
    assert dict(renamed_clusters(before.clusters, after.clusters)) == ({} if old is None else {old: listed_now})
    assert ("default" in after.clusters) == (old is not None), "it is forgotten after a week"
