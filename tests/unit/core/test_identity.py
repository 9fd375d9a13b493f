"""Whether a topic is the one that is read, by its id: one answer can be of a broker that lags behind."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from evensplit.core.machine.effects import Effect, ReportLoss, ResolveStart
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    Event,
    LogsObserved,
    OffsetsResolved,
    PartitionsListed,
    TimePassed,
)
from evensplit.core.model import Cause, EpochStart, ListedPartition, Loss, SplitId, StartBy
from evensplit.core.state.settings import Settings
from tests.support.enumeration import EAST, INTERVAL_MS, ONE, THREE, TWO, WEST, Enumeration, listed, resolved, running

OTHER = SplitId("east", "u", 0)
SOON, LATER = TimePassed(2_999), TimePassed(3_000)
"""Not long enough after `running` began for another id to be believed, and just long enough."""


def partitions(*named: tuple[int, str]) -> tuple[ListedPartition, ...]:
    """Partitions of the topic t, each with the id that it is listed with."""
    return tuple(ListedPartition("t", partition, topic_id) for partition, topic_id in named)


def anew(count: int = 2, *, number: int = 0, topic_id: str = "id-2", complete: bool = True) -> PartitionsListed:
    """An answer with another id of the topic than `running` has."""
    return PartitionsListed("east", listed("t", count, topic_id), complete, answer=number)


def as_known(count: int = 2, *, number: int = 0, complete: bool = True) -> PartitionsListed:
    return anew(count, number=number, topic_id="id-t", complete=complete)


def ids(one: Enumeration) -> dict[str, str]:
    return {str(key): split.topic_id for key, split in one.state.splits.items()}


def believed(one: Enumeration) -> bool:
    """Whether the topic is the new one by now."""
    return one.state.splits[ONE].topic_id == "id-2"


def reported(effects: Sequence[Effect]) -> list[tuple[Loss, bool]]:
    return [(effect.loss, effect.fatal) for effect in effects if isinstance(effect, ReportLoss)]


# When another id is believed


def test_one_answer_with_another_id_changes_nothing() -> None:
    one = running(end=11)
    before = one.state
    assert one.tell(anew(), TimePassed(1000 + INTERVAL_MS)) == ()
    assert one.state == before
    assert one.tell(as_known(), as_known()) == ()
    assert (one.state, one.state.session.id_conflicts) == (before, {})


@pytest.mark.parametrize(
    "told, by_now",
    [
        pytest.param([anew(number=5), LATER, anew(number=6)], True, id="two, 2 s apart"),
        pytest.param([anew(number=5), SOON, anew(number=6)], False, id="two, at once"),
        pytest.param([anew(number=5), SOON, anew(number=6), LATER, anew(number=7)], True, id="three in 2 s"),
        pytest.param([anew(number=5), LATER, anew(number=5)], False, id="the same again"),
        pytest.param([anew(number=5), LATER, anew(number=4)], False, id="an earlier one"),
        pytest.param([anew(number=5), LATER, anew(number=6, topic_id="id-3")], False, id="another id each"),
        pytest.param([anew(number=5), as_known(number=6), LATER, anew(number=7)], False, id="not in a row"),
        pytest.param([anew(number=5), LATER, anew(1, number=6, complete=False)], True, id="the second one in part"),
        pytest.param(
            [anew(number=5), as_known(number=6), LATER, anew(number=7), TimePassed(5_000), anew(number=8)],
            True,
            id="in a row after all",
        ),
    ],
)
def test_another_id_is_believed_when_two_brokers_in_a_row_name_it(told: list[Event], by_now: bool) -> None:
    one = running()
    one.tell(*told)
    assert believed(one) == by_now


def test_a_poll_that_names_the_known_id_counts_once_however_often_it_is_told() -> None:
    one = running()
    one.tell(anew(number=5), LATER, as_known(number=6), as_known(number=6))
    assert one.state.session.id_conflicts
    one.tell(as_known(number=7))
    assert not one.state.session.id_conflicts


@pytest.mark.parametrize("interval_ms, wait_ms", [(0, 0), (500, 500), (60_000, 2_000)])
def test_it_takes_no_longer_than_a_discovery_interval(interval_ms: int, wait_ms: int) -> None:
    one = running(discovery_interval_ms=interval_ms)
    one.tell(anew())
    if wait_ms:
        one.tell(TimePassed(1000 + wait_ms - 1), anew())
        assert not believed(one)
    one.tell(TimePassed(1000 + wait_ms), anew())
    assert believed(one)


def test_what_other_clusters_say_changes_no_doubt() -> None:
    one = running()
    one.discover(EAST, WEST, t=2)
    now_ms = one.state.session.now_ms or 0
    one.tell(anew(), PartitionsListed("west", listed("t", 2, "id-t")), TimePassed(now_ms + 2_000), anew())
    assert believed(one)
    assert one.state.splits[SplitId("west", "t", 0)].topic_id == "id-t"


def test_a_doubt_goes_with_its_cluster() -> None:
    one = running(2, 1)
    one.discover(EAST, WEST, at=10, t=2)
    one.tell(PartitionsListed("west", listed("t", 2, "id-2")))
    assert list(one.state.session.id_conflicts) == [("west", "t")]
    one.tell(ClustersListed((EAST,)), TimePassed(1000 + INTERVAL_MS), ClustersListed((EAST,)))
    assert (one.lives()["west/t/0"], one.state.session.id_conflicts) == ("retained", {})


def test_a_broker_that_knows_no_ids_raises_no_doubt() -> None:
    one = running()
    before = one.state
    one.tell(anew(topic_id=""), LATER, anew(topic_id=""))
    assert (one.state, one.state.session.id_conflicts) == (before, {})


def test_what_was_read_to_its_end_is_of_no_interest() -> None:
    one = running(settings=Settings(bounded=True))
    one.tell(OffsetsResolved({}, stops={ONE: 10, TWO: 10}), anew())
    assert (set(one.lives().values()), one.state.session.id_conflicts) == ({"finished"}, {})
    one.tell(LATER, anew())
    assert ids(one) == {"east/t/0": "id-t", "east/t/1": "id-t"}


def test_an_answer_that_comes_after_a_later_one_says_nothing() -> None:
    one = running()
    one.tell(PartitionsListed("east", listed("t", 3, "id-t"), answer=9), OffsetsResolved({THREE: 0}))
    before = one.state
    late = PartitionsListed("east", listed("u", 1, "id-u"), kafka_id="K", answer=8)
    assert one.tell(late, TimePassed(90_000), late) == ()
    assert (one.state, one.state.session.missing_since) == (before, {})


# What does not count until then


def test_new_partitions_of_a_doubted_topic_wait_and_those_of_others_do_not() -> None:
    one = running()
    more = PartitionsListed("east", (*listed("t", 3, "id-2"), *listed("u", 1, "id-u")))
    assert one.tell(more) == (ResolveStart("east", (OTHER,), StartBy.EARLIEST),)
    assert THREE not in one.state.splits
    one.tell(OffsetsResolved({OTHER: 0}), LATER, more)
    assert resolved(one) == [ResolveStart("east", (ONE, TWO, THREE), StartBy.EARLIEST)]
    assert set(ids(one).values()) == {"id-2", "id-u"}


def test_a_partition_of_a_doubted_topic_that_is_gone_does_not_return_with_it() -> None:
    one = running()
    one.tell(as_known(1), TimePassed(1000 + INTERVAL_MS), as_known(1), anew())
    assert one.lives()["east/t/1"] == "retained"
    one.tell(as_known(), as_known())
    assert one.lives()["east/t/1"] == "retained", "too soon for those that lag behind"
    one.tell(TimePassed(3000 + INTERVAL_MS), as_known())
    assert one.lives()["east/t/1"] == "assigned"


def test_what_is_seen_of_the_logs_of_a_doubted_topic_counts_for_nothing() -> None:
    """It may be of the new one, which ends and begins elsewhere; of other topics it counts."""
    one = running(loss="declare")
    one.discover(EAST, t=2, u=1)
    before = one.state
    both = (*listed("t", 2, "id-2"), *listed("u", 1, "id-u"))
    one.tell(PartitionsListed("east", both))
    for number in range(1, 6):
        ends, starts = {ONE: 3, TWO: 500, OTHER: 40 + number}, {TWO: 400}
        tables = {key: (EpochStart(9, 0),) for key in ends}
        assert one.tell(TimePassed(number * INTERVAL_MS), LogsObserved("east", ends, starts, number, tables)) == ()
    assert one.state == before
    session = one.state.session
    assert (session.truncation_observations, dict(session.leader_epochs["east"])) == ({}, {OTHER: (EpochStart(9, 0),)})
    assert session.ends["east"] == {ONE: 10, TWO: 10, OTHER: 45}
    effects = one.tell(PartitionsListed("east", both))
    assert reported(effects) == [], "it had been read to its end, as far as that is known of it"
    one.tell(OffsetsResolved({ONE: 0, TWO: 0}), LogsObserved("east", {ONE: 3}, answer=9))
    assert one.state.session.ends["east"] == {ONE: 3, OTHER: 45}


def test_a_partition_without_a_leader_doubts_its_topic_too() -> None:
    """It cannot be taken up, but what is seen of the logs of its topic may be about another topic by now."""
    one = running(end=11, loss="declare")
    before = one.state
    without_leader = PartitionsListed("east", (), complete=False, seen=listed("t", 1, "id-2"))
    other_log = LogsObserved("east", {ONE: 4}, epochs={ONE: (EpochStart(9, 3),)})
    one.tell(without_leader, other_log, LATER, without_leader, other_log)
    assert list(one.state.session.id_conflicts) == [("east", "t")]
    assert (one.state.splits, one.state.losses) == (before.splits, before.losses)
    one.tell(PartitionsListed("east", listed("t", 2, "id-2")))
    assert (believed(one), one.state.session.id_conflicts) == (True, {})


def test_a_partition_without_a_leader_ends_no_doubt() -> None:
    one = running(end=11)
    without_leader = PartitionsListed("east", (), complete=False, seen=listed("t", 2, "id-t"))
    one.tell(anew(), LATER, without_leader, without_leader)
    assert list(one.state.session.id_conflicts) == [("east", "t")]


def test_an_answer_without_a_doubted_topic_says_nothing_about_it() -> None:
    """Right after it was created anew, its partitions may have no leader."""
    one = running()
    without = PartitionsListed("east", (), complete=False, seen=listed("t", 2, "id-2"))
    one.tell(anew(), without, LogsObserved("east", {ONE: 15, TWO: 15}))
    assert reported(one.tell(LATER, anew(), TimePassed(9_000), anew())) == []
    assert believed(one)


def test_no_partition_of_a_doubted_topic_is_missing() -> None:
    one = running()
    one.tell(anew(1), TimePassed(1000 + INTERVAL_MS), anew(1, topic_id="id-3"))
    assert one.lives() == {"east/t/0": "assigned", "east/t/1": "assigned"}


# Ids that a topic had before


def recreated(loss: str = "fail") -> Enumeration:
    """The topic was created anew, and both are read from 0."""
    one = running(loss=loss)
    one.hear_twice(anew())
    one.tell(OffsetsResolved({ONE: 0, TWO: 0}))
    one.observe()
    return one


def test_an_id_that_was_replaced_never_comes_back() -> None:
    one = recreated()
    before = one.state
    for number in range(1, 6):
        assert one.tell(TimePassed(number * INTERVAL_MS), as_known()) == ()
    assert one.state == before
    assert one.state.session.former_topic_ids == {("east", "t"): ("id-t",)}
    assert one.tell(anew()) == ()
    assert one.state.session.id_conflicts == {}
    one.hear_twice(anew(topic_id="id-3"))
    assert set(ids(one).values()) == {"id-3"}
    one.tell(OffsetsResolved({ONE: 0, TWO: 0}))
    for topic_id in ("id-2", "id-t"):
        one.hear_twice(anew(topic_id=topic_id))
    assert set(ids(one).values()) == {"id-3"}


def test_partitions_without_a_leader_keep_a_former_id_and_their_logs_are_not_believed() -> None:
    """The only partition that is listed is new, and others are seen with the same id: the topic was created anew."""
    one = running(end=11, loss="declare")
    new = PartitionsListed("east", partitions((2, "id-2")), False, seen=partitions((0, "id-2"), (1, "id-2")))
    one.tell(new, LATER, new, OffsetsResolved({THREE: 0}))
    assert ids(one) == {"east/t/0": "id-t", "east/t/1": "id-t", "east/t/2": "id-2"}
    one.tell(LogsObserved("east", {ONE: 40, TWO: 3, THREE: 4}, {ONE: 30}))
    assert one.state.session.ends["east"] == {ONE: 11, TWO: 11, THREE: 4}
    assert (one.state.losses, one.state.session.truncation_observations) == ((), {})
    one.tell(as_known())
    assert one.state.session.id_conflicts["east", "t"].former
    effects = one.tell(anew(3))
    assert reported(effects) == [(Loss(key, Cause.RECREATED, 10, 11, 1), False) for key in (ONE, TWO)]
    assert set(ids(one).values()) == {"id-2"}


def test_a_new_process_does_not_believe_the_logs_of_partitions_without_a_leader_either() -> None:
    """They have a former id, as others of their topic show; which one is older takes a second answer."""
    one = running(end=11, loss="declare")
    new = PartitionsListed("east", partitions((2, "id-2")), False, seen=partitions((0, "id-2"), (1, "id-2")))
    logs = LogsObserved("east", {ONE: 40, TWO: 40, THREE: 4}, {})
    one.tell(new, LATER, new, OffsetsResolved({THREE: 0}))
    one.restart(one.checkpoint(), loss="declare")
    one.tell(LATER, ClustersListed((EAST,)), new, logs)
    assert one.state.session.ends["east"] == {}
    one.tell(TimePassed(LATER.now_ms + INTERVAL_MS), new, logs)
    assert one.state.session.ends["east"] == {THREE: 4}
    effects = one.tell(anew(3))
    assert reported(effects) == [(Loss(key, Cause.RECREATED, 10), False) for key in (ONE, TWO)]
    assert set(ids(one).values()) == {"id-2"}


def test_nor_where_the_new_one_has_no_start_yet() -> None:
    one = running()
    one.hear_twice(anew())
    one.hear_twice(as_known())
    assert set(ids(one).values()) == {"id-2"}
    assert resolved(one) == []


def test_an_answer_that_names_a_former_id_misses_nothing() -> None:
    """It is from before the topic was created anew, so what it lacks may have come since then."""
    one = recreated()
    one.tell(PartitionsListed("east", (*listed("t", 2, "id-2"), *listed("u", 1, "id-u"))), OffsetsResolved({OTHER: 0}))
    one.observe()
    answer = one.state.session.listings["east"]
    for number in range(2, 6):
        one.tell(TimePassed(number * INTERVAL_MS), as_known(1))
    assert set(one.lives().values()) == {"assigned"}
    assert (one.state.session.missing_since, one.state.session.listings["east"]) == ({}, answer)
    less = PartitionsListed("east", listed("t", 2, "id-2"))
    one.tell(less, TimePassed(9 * INTERVAL_MS), less)
    assert one.lives()["east/u/0"] == "retained", "one of today does"


def test_an_answer_that_names_a_former_id_is_no_first_discovery() -> None:
    one = recreated()
    one.tell(BatchPlanned({}))
    assert one.state.clusters["east"].discovered
    more = PartitionsListed("east", (*listed("t", 2, "id-t"), *listed("u", 1, "id-u")))
    one.tell(more)
    assert resolved(one) == [ResolveStart("east", (OTHER,), StartBy.EARLIEST)], "what it has can be added"


@pytest.mark.parametrize("loss", ["fail", "declare"])
def test_a_new_process_in_which_splits_of_one_topic_have_two_ids_waits_for_a_second_answer(loss: str) -> None:
    """The topic was created anew with fewer partitions, and what is not there any more is still to be removed."""
    one = running(2, 2, loss=loss)
    one.tell(BatchOpened())
    one.hear_twice(PartitionsListed("east", listed("t", 1, "id-new")))
    one.tell(OffsetsResolved({ONE: 0}), BatchPlanned({ONE: 5}))
    kept = one.checkpoint()
    assert ids(one) == {"east/t/0": "id-new", "east/t/1": "id-t"}
    one.restart(kept, loss=loss)
    one.tell(TimePassed(10_000), ClustersListed((EAST,)))
    assert reported(one.tell(PartitionsListed("east", listed("t", 2, "id-t")))) == []
    assert ids(one) == {"east/t/0": "id-new", "east/t/1": "id-t"}
    assert one.state.session.former_topic_ids == {}
    lost = reported(one.hear_twice(PartitionsListed("east", listed("t", 2, "id-new"))))
    assert lost == [(Loss(TWO, Cause.RECREATED, 10), loss == "fail")]
    assert ids(one) == {"east/t/0": "id-new", "east/t/1": "id-t" if loss == "fail" else "id-new"}
    assert one.state.session.id_conflicts == {}


def test_a_new_process_does_not_know_former_ids() -> None:
    one = recreated("declare")
    one.restart(one.commit(), loss="declare")
    one.hear_twice(as_known())
    assert set(ids(one).values()) == {"id-t"}


@pytest.mark.parametrize("loss", ["fail", "declare"])
def test_a_partition_that_was_retained_with_an_older_id_is_the_new_one_at_once(loss: str) -> None:
    """Its topic is known by the new id already, so nothing is in doubt, and its end was settled when it went."""
    one = running(loss=loss)
    one.tell(as_known(1), TimePassed(1000 + INTERVAL_MS), as_known(1))
    assert one.lives()["east/t/1"] == "retained"
    one.observe({TWO: 12})
    one.hear_twice(anew(1))
    one.tell(OffsetsResolved({ONE: 0}))
    effects = one.tell(anew(2))
    assert reported(effects) == [(Loss(TWO, Cause.RECREATED, 10, 12, 2), False)]
    assert resolved(one) == [ResolveStart("east", (TWO,), StartBy.EARLIEST)]
    assert set(ids(one).values()) == {"id-2"}


def retained_as_older() -> Enumeration:
    """Partition 0 was created anew while partition 1 was away."""
    one = running()
    one.tell(as_known(1), TimePassed(1000 + INTERVAL_MS), as_known(1))
    one.hear_twice(anew(1))
    one.tell(OffsetsResolved({ONE: 0}))
    return one


def test_a_partition_that_was_retained_with_an_older_id_does_not_return_with_that() -> None:
    one = retained_as_older()
    one.hear_twice(as_known(2))
    assert (one.lives()["east/t/1"], ids(one)) == ("retained", {"east/t/0": "id-2", "east/t/1": "id-t"})


@pytest.mark.parametrize("number", [1, 2], ids=["retained", "new"])
def test_not_even_where_nothing_else_of_the_topic_is_listed(number: int) -> None:
    """Partition 0 has no leader by that answer."""
    one = retained_as_older()
    one.tell(PartitionsListed("east", partitions((number, "id-t")), complete=False, seen=partitions((0, "id-t"))))
    assert {key: life for key, life in one.lives().items() if life != "retained"} == {"east/t/0": "assigned"}
