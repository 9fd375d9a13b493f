"""Records that tasks skipped are inferred from a poll that is sent when they have read (S9)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    ListedCluster,
    LogsObserved,
    OffsetsResolved,
    PartitionsListed,
    ReadLogsPolled,
    TimePassed,
)
from evensplit.core.machine.skipped_records import uncompared
from evensplit.core.model import Cause, ListedPartition, Loss, SplitId, Topics
from evensplit.core.state.open_questions import DUE_INTERVAL_MS, next_due_ms, open_since_ms, unsure_clusters
from evensplit.core.state.settings import DECLARE, FAIL, Settings
from tests.support.enumeration import EAST, INTERVAL_MS, ONE, THREE, TWO, WEST, Enumeration, listed, running
from tests.support.skips import EARLIER, GONE, aged, at, has_read, lost, polled, reading


@pytest.fixture
def done() -> Enumeration:
    return has_read()


# What a poll says


def test_what_is_still_there_was_read(done: Enumeration) -> None:
    assert lost(done, polled(10, 0, 15)) == []
    assert not done.state.session.read


def test_what_is_gone_may_have_been_skipped(done: Enumeration) -> None:
    assert lost(done, polled(14, 50, 15)) == [aged(ONE, 10, 14, 4), aged(TWO, 10, 50, 20)]
    assert lost(done, polled(14, 50, 15, number=7)) == [], "once"
    assert done.commit().losses == (aged(ONE, 10, 14, 4), aged(TWO, 10, 50, 20))


@pytest.mark.parametrize("known, found, is_another", [("id-t", "id-2", True), ("", "id-2", False), ("id-t", "", False)])
def test_a_topic_that_is_another_one(known: str, found: str, is_another: bool) -> None:
    one = running(3, 1, loss=DECLARE)
    one.state = replace(
        one.state, splits={key: split._replace(topic_id=known) for key, split in one.state.splits.items()}
    )
    one.tell(BatchOpened(), BatchPlanned({ONE: 20, TWO: 30}), BatchOpened())
    losses = [Loss(key, Cause.RECREATED, 10, None, size, EARLIER) for key, size in ((ONE, 10), (TWO, 20))]
    assert lost(one, polled(10, 10, 10, topic_id=found)) == (losses if is_another else [])


def test_once_another_id_was_named_one_poll_with_the_known_one_says_nothing() -> None:
    """It may come from a broker that lags: where the topic was created anew, its starts are those of the new one."""
    one = has_read()
    one.tell(polled(10, 10, 10, topic_id="id-2"), BatchPlanned({ONE: 23}), BatchOpened(polls=6))
    assert lost(one, polled(10, 10, number=7)) == []
    assert unsure_clusters(one.state.session) == ["east"], "another broker is to be asked"
    recreated = Loss(ONE, Cause.RECREATED, 20, None, 3, EARLIER)
    assert lost(one, polled(10, 10, number=8, topic_id="id-2")) == [recreated]
    assert unsure_clusters(one.state.session) == []
    assert not one.state.session.read


def test_two_polls_in_a_row_with_the_known_id_say_that_it_counts() -> None:
    """A broker that lags may give both, if no other one answers: so they come some time apart."""
    one = has_read()
    one.tell(polled(10, 10, 10, topic_id="id-2"), BatchPlanned({ONE: 23}), BatchOpened(polls=6))
    assert lost(one, polled(10, 10, number=7), at(1.9), polled(21, 10, number=8)) == []
    assert lost(one, at(2), polled(21, 10, number=9, turned=False)) == []
    assert lost(one, polled(21, 10, number=10)) == [aged(ONE, 20, 21, 1)]
    one.tell(BatchPlanned({ONE: 29}), BatchOpened(polls=10))
    assert lost(one, polled(24, 10, number=11)) == [aged(ONE, 23, 24, 1)], "it counts from then on"


def test_a_poll_that_lacks_the_topic_ends_the_row_of_those_with_the_known_id() -> None:
    """It may be the one that is right: the topic was deleted, and the broker that lags is asked again."""
    one = has_read()
    one.tell(polled(10, 10, 10, topic_id="id-2"), BatchPlanned({ONE: 23}), BatchOpened(polls=6))
    assert lost(one, polled(10, 10, number=7), at(1), polled(number=8), at(2), polled(10, 10, number=9)) == []
    assert open_since_ms(one.state.session) == (1000,), "the time that a run waits does not begin anew"
    assert lost(one, polled(21, 10, number=10)) == [aged(ONE, 20, 21, 1)]


def test_polls_of_a_broker_that_may_be_the_same_do_not_count() -> None:
    one = has_read()
    one.tell(polled(10, 10, 10, topic_id="id-2"), BatchPlanned({ONE: 23}), BatchOpened(polls=6))
    assert lost(one, polled(21, 10, number=7, turned=False), at(2), polled(21, 10, number=8)) == []
    assert lost(one, polled(21, 10, number=9)) == [aged(ONE, 20, 21, 1)]


def test_polls_with_the_known_id_need_be_no_more_than_an_interval_apart() -> None:
    one = reading()
    settings = replace(one.state.session, discovery_interval_ms=500)
    one.state = replace(one.state, session=settings)
    one.tell(BatchOpened(polls=5), polled(10, 10, 10, topic_id="id-2"), BatchPlanned({ONE: 23}), BatchOpened(polls=6))
    assert lost(one, polled(21, 10, number=7), at(0.4), polled(21, 10, number=8)) == []
    assert lost(one, at(0.5), polled(21, 10, number=9)) == [aged(ONE, 20, 21, 1)]


def test_a_cluster_that_comes_back_is_asked_anew_which_id_it_names() -> None:
    one = has_read()
    one.tell(polled(10, 10, 10, topic_id="id-2"), BatchPlanned({ONE: 23}), BatchOpened(polls=6))
    assert lost(one, polled(10, 10, number=7)) == []
    away = ClustersListed((WEST,), confirmed=True)
    one.tell(away, at(40), away)
    assert one.state.clusters["east"].removed_at_ms is not None
    assert open_since_ms(one.state.session) == ()
    one.tell(at(80), ClustersListed((EAST, WEST), confirmed=True))
    assert lost(one, polled(21, 10, number=8)) == []


def test_polls_with_the_known_id_begin_anew_when_one_names_another_id() -> None:
    one = has_read()
    one.tell(polled(10, 10, 10, topic_id="id-2"), BatchPlanned({ONE: 23}), BatchOpened(polls=6))
    assert lost(one, polled(10, 10, number=7), at(1), polled(None, None, number=8, topic_id="id-2")) == []
    assert lost(one, at(2), polled(21, 10, number=9), at(3), polled(21, 10, number=10)) == []
    assert lost(one, at(4), polled(21, 10, number=11)) == [aged(ONE, 20, 21, 1)]


def test_what_discovery_has_to_decide_is_left_to_it() -> None:
    """Of one partition the known id is a former one; of the others of its topic, polls name two."""
    one = has_read()
    one.tell(polled(None, None, None, topic_id="id-2"))
    assert one.state.session.read_conflicts
    session = replace(one.state.session, former_topic_ids={("east", "t"): ("id-t",)})
    done = one.state.splits[ONE]._replace(finished=True, stop=one.state.splits[ONE].position, owner=None)
    one.state = replace(one.state, session=session, splits={**one.state.splits, ONE: done})
    assert lost(one, polled(10, 10, 10, number=7)) == []
    assert not one.state.session.read_conflicts
    assert [part.split for noted in one.state.session.read["east"] for part in noted.ranges] == [TWO]


def test_nothing_waits_for_another_broker_when_nothing_is_left_to_compare() -> None:
    one = has_read()
    one.tell(polled(10, 10, 10, topic_id="id-2"), BatchPlanned({ONE: 23}), BatchOpened(polls=6))
    assert lost(one, polled(10, 10, number=7)) == []
    assert open_since_ms(one.state.session) == (1000,)
    lost(one, at(1), polled(number=8), at(40), polled(number=9))
    assert not one.state.session.read
    assert open_since_ms(one.state.session) == ()


def test_what_two_complete_polls_lack_is_gone(done: Enumeration) -> None:
    assert lost(done, polled(10)) == []
    assert done.state.session.read_missing == {TWO: 1000}
    assert next_due_ms(done.state) == 1000 + INTERVAL_MS, "time will tell"
    assert lost(done, at(29), polled(10, number=7)) == []
    assert lost(done, at(30), replace(polled(10, number=8), discovery=7)) == [], "it looked for nothing else"
    assert lost(done, polled(10, number=9, turned=False)) == [], "the broker that said it before"
    assert lost(done, polled(10, number=10)) == [GONE]
    assert not done.state.session.read
    assert not done.state.session.read_missing


def test_a_cluster_that_is_removed_is_not_asked_for_what_was_read_of_it(done: Enumeration) -> None:
    lost(done, polled(10))
    assert next_due_ms(done.state) == 1000 + INTERVAL_MS
    done.tell(ClustersListed(()), at(30), ClustersListed(()))
    assert done.state.session.read_missing == {TWO: 1000}
    assert next_due_ms(done.state) == 1000 + INTERVAL_MS + done.state.settings.retention_ms
    done.tell(ClustersListed((EAST,)))
    assert next_due_ms(done.state) == 1000 + INTERVAL_MS + DUE_INTERVAL_MS


def test_what_one_stale_poll_lacks_was_read(done: Enumeration) -> None:
    assert lost(done, polled(10), at(10), polled(10, 10, number=7)) == []
    assert not done.state.session.read
    assert not done.state.session.read_missing


def test_a_poll_with_gaps_does_not_say_what_is_deleted(done: Enumeration) -> None:
    for seconds in (0, 30, 60):
        assert lost(done, at(seconds), polled(10, number=6 + seconds, complete=False)) == []
    assert not done.state.session.read_missing
    assert lost(done, polled(10, 17, number=99)) == [aged(TWO, 10, 17, 7)]


def test_where_a_log_begins_is_not_known_without_a_leader(done: Enumeration) -> None:
    assert lost(done, polled(10, None, complete=False)) == []
    assert [part.split for one in done.state.session.read["east"] for part in one.ranges] == [TWO]
    assert lost(done, polled(10, 17, number=7)) == [aged(TWO, 10, 17, 7)]


def test_what_a_log_has_that_ends_before_its_position_is_not_known_yet(done: Enumeration) -> None:
    """The topic was created anew, and a broker that lags names its former id: the log is that of the new one."""
    short = LogsObserved("east", {ONE: 5, TWO: 30, THREE: 10}, {ONE: 0, TWO: 0, THREE: 0}, answer=6)
    assert lost(done, short, polled(0, 0, 0)) == []
    assert [part.split for noted in done.state.session.read["east"] for part in noted.ranges] == [ONE]
    assert lost(done, polled(0, 0, 0, number=7, topic_id="id-2")) == [Loss(ONE, Cause.RECREATED, 10, None, 10, EARLIER)]


def test_what_is_not_asked_for_any_more_was_not_deleted(done: Enumeration) -> None:
    def subscribed(topic: str) -> ClustersListed:
        return ClustersListed((ListedCluster("east", ("e:9092",), subscription=Topics((topic,))),))

    assert lost(done, polled(10), subscribed("u"), at(30), polled(10, number=7)) == []
    assert not done.state.session.read
    assert not done.state.session.read_missing


def test_of_what_is_missing_all_that_was_read_is_gone() -> None:
    one = reading()
    one.tell(BatchOpened(polls=4), BatchPlanned({TWO: 35}), BatchOpened(polls=5))
    assert lost(one, polled(10), at(30), polled(10, number=7)) == [GONE, Loss(TWO, Cause.DELETED, 30, None, 5, EARLIER)]


def test_a_poll_from_before_the_reading_says_nothing() -> None:
    one = reading()
    assert lost(one, polled(14, 10, 10, number=9)) == [], "tasks are reading"
    one.tell(BatchOpened(polls=9))
    assert lost(one, polled(14, 10, 10, number=9)) == []
    assert lost(one, ReadLogsPolled("west", {}, {}, 10)) == [], "of another cluster"
    assert lost(one, polled(14, 10, 10, number=10)) == [aged(ONE, 10, 14, 4)]


def test_a_poll_that_was_told_before_is_ignored(done: Enumeration) -> None:
    assert lost(done, polled(None, 10)) == []
    before = done.state.session
    assert lost(done, polled(14, 10), polled(14, 10, number=5)) == []
    assert done.state.session.read == before.read
    assert lost(done, polled(14, 10, number=7)) == [aged(ONE, 10, 14, 4)]


def test_where_losses_end_the_run_nothing_is_compared() -> None:
    one = reading(FAIL)
    one.tell(BatchOpened())
    assert not one.state.session.read
    assert lost(one, polled(99, 99)) == []


def test_a_host_that_opens_no_batches_has_readers_that_know_what_they_skip() -> None:
    one = running(1, 1, loss=DECLARE)
    one.tell(BatchPlanned({ONE: 20}))
    assert not one.state.session.read


def test_of_a_cluster_that_stays_away_the_next_batch_is_compared_as_well(done: Enumeration) -> None:
    done.tell(BatchPlanned({THREE: 19}), BatchOpened(polls=8))
    assert lost(done, polled(14, 10, 15, number=9)) == [aged(ONE, 10, 14, 4), aged(THREE, 10, 15, 5)]


def test_what_is_being_read_waits_for_the_next_poll(done: Enumeration) -> None:
    done.tell(BatchPlanned({THREE: 19}))
    assert lost(done, polled(14, 10, 15, number=9)) == [aged(ONE, 10, 14, 4)]
    done.tell(BatchOpened(polls=9))
    assert lost(done, polled(14, 10, 15, number=10)) == [aged(THREE, 10, 15, 5)]


# A topic that is created anew


def test_of_a_split_that_was_read_to_its_stop_a_poll_says_that_its_topic_was_created_anew() -> None:
    """It keeps its id, which is a former one as soon as another split of its topic has the new one."""
    one = running(2, 1, Settings(bounded=True), loss=DECLARE)
    one.tell(OffsetsResolved({}, stops={ONE: 20, TWO: 50}))
    one.tell(BatchOpened(), BatchPlanned({ONE: 20}), BatchOpened(polls=5))
    assert one.state.splits[ONE].finished
    anew = PartitionsListed("east", listed("t", 2, "id-2"))
    assert lost(one, anew, at(2), anew) == []
    assert one.state.session.former_topic_ids == {("east", "t"): ("id-t",)}
    found = Loss(ONE, Cause.RECREATED, 10, None, 10, EARLIER)
    assert lost(one, polled(0, 0, number=7, topic_id="id-2")) == [found]
    assert not one.state.session.read


def test_of_a_topic_that_was_created_anew_all_is_said_at_once(done: Enumeration) -> None:
    """The poll by which that is known can be from before the reading, and the state has no place for it."""
    anew = PartitionsListed("east", (ListedPartition("t", 0, "id-2"), ListedPartition("t", 2, "id-2")))
    found = Loss(ONE, Cause.RECREATED, 10, None, 10, EARLIER)
    losses = [loss for event in (anew, at(2), anew) for loss in lost(done, event)]
    assert found in losses
    assert [part.split for one in done.state.session.read["east"] for part in one.ranges] == [TWO]
    assert uncompared(done.state) == {TWO: 10}
    done.tell(OffsetsResolved({ONE: 0, THREE: 0}))
    assert found not in lost(done, polled(0, 0, 0, topic_id="id-2"))


def test_what_is_being_read_of_a_topic_is_not_lost_yet_when_it_is_created_anew() -> None:
    one = reading()
    anew = PartitionsListed("east", listed("t", 3, "id-2"))
    losses = [loss for event in (anew, at(2), anew) for loss in lost(one, event)]
    assert all(loss.handed_out is None for loss in losses)
    assert uncompared(one.state) == {}, "of another incarnation, the state cannot say it"
    one.tell(BatchOpened(polls=5))
    assert lost(one, replace(anew, answer=9)) == [
        Loss(ONE, Cause.RECREATED, 10, None, 10, EARLIER),
        Loss(TWO, Cause.RECREATED, 10, None, 20, EARLIER),
    ]


def test_of_a_topic_that_may_be_another_one_nothing_is_said_yet(done: Enumeration) -> None:
    done.tell(PartitionsListed("east", listed("t", 3, "id-2")))
    assert done.state.session.id_conflicts
    assert lost(done, polled(99, 99, 99, topic_id="id-2")) == []
    done.tell(PartitionsListed("east", listed("t", 3, "id-t")), at(2), PartitionsListed("east", listed("t", 3, "id-t")))
    assert not done.state.session.id_conflicts
    assert lost(done, polled(14, 10, 10, number=8)) == [aged(ONE, 10, 14, 4)]


def test_a_broker_that_still_names_a_former_id_does_not_say_what_its_logs_have(done: Enumeration) -> None:
    """Another partition is known by the new id, and those that were read have no leader yet."""
    new = ListedPartition("t", 3, "id-2")
    listed_so = PartitionsListed("east", (new,), complete=False, seen=listed("t", 3, "id-2"))
    done.tell(listed_so, TimePassed(INTERVAL_MS), listed_so, OffsetsResolved({SplitId("east", "t", 3): 0}))
    assert lost(done, polled(0, 0, 0)) == []
    found = lost(done, PartitionsListed("east", (*listed("t", 3, "id-2"), new)))
    assert [loss for loss in found if loss.handed_out] == [
        Loss(ONE, Cause.RECREATED, 10, None, 10, EARLIER),
        Loss(TWO, Cause.RECREATED, 10, None, 20, EARLIER),
    ]


# Clusters under other names


def renamed(one: Enumeration, name: str = "north") -> None:
    """East is called so now: the clusters are told apart by the ids that Kafka gives them."""
    one.tell(
        ClustersListed((ListedCluster(name, ("e:9092",)),)),
        PartitionsListed(name, listed("t", 3, "id-t"), kafka_id="k"),
    )


def with_id() -> Enumeration:
    one = running(3, 1, loss=DECLARE)
    one.tell(PartitionsListed("east", listed("t", 3, "id-t"), kafka_id="k"))
    one.tell(BatchOpened(), BatchPlanned({ONE: 20, TWO: 30}), BatchOpened())
    return one


def test_what_was_read_of_a_renamed_cluster_is_compared_under_its_new_name() -> None:
    one = with_id()
    renamed(one)
    assert list(one.state.session.read) == ["north"]
    keys = {key._replace(cluster="north"): "id-t" for key in (ONE, TWO, THREE)}
    found = lost(one, ReadLogsPolled("north", keys, dict.fromkeys(keys, 14), 9, 9))
    assert found == [aged(key._replace(cluster="north"), 10, 14, 4) for key in (ONE, TWO)]


def test_since_when_something_is_missing_is_counted_anew_under_another_name() -> None:
    one = with_id()
    one.tell(polled(10))
    assert list(one.state.session.read_missing) == [TWO]
    renamed(one)
    assert not one.state.session.read_missing


def test_of_a_cluster_that_is_forgotten_nothing_is_compared() -> None:
    one = running(3, 1, Settings(retention_ms=0), loss=DECLARE)
    one.tell(BatchOpened(), BatchPlanned({ONE: 20, TWO: 30}), BatchOpened(), polled(10))
    one.tell(ClustersListed((WEST,)), TimePassed(1000 + INTERVAL_MS), ClustersListed((WEST,)))
    assert "east" not in one.state.clusters
    assert not one.state.session.read
    assert not one.state.session.read_missing
