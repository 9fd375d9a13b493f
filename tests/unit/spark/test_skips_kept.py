"""What tasks may have skipped is kept in the state until it was compared, over any number of batches and restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evensplit.core.model import Cause, HandedOut, Loss, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable, DataLossError
from evensplit.spark.driver import coordinator
from evensplit.spark.poll import cluster_poller
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock
from tests.support.hosts import NONE, Source, restored

EAST, WEST = SplitId("east", "t", 0), SplitId("west", "t", 0)
AGED = Loss(EAST, Cause.AGED_OUT, 0, 7, 7, HandedOut.BEFORE_RESTART)


# Restarts


class Runs:
    """A query over two clusters, one process of it after the other. Tasks have skipped the first 7 records of `east`.

    `losses`: all that was declared. `repeated`: batches of the last process that this one has done again.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.east, self.west = FakeKafka("east"), FakeKafka("west")
        for cluster in (self.east, self.west):
            cluster.create_topic("t")
            cluster.append("t", 0, 10)
        self.losses: list[Loss] = []
        self.repeated: list[tuple[EnumeratorState, EnumeratorState]] = []
        self.end = NONE
        self.start()
        self.batch()
        self.east.delete_records("t", 0, 7)

    def start(self, fail: str = "false") -> None:
        """Another process begins with what the last one has left. `fail`: on losses."""
        self.source = Source(
            self.east,
            self.west,
            clock=self.clock,
            failOnDataLoss=fail,
            clusterWait="2s",
            discoveryInterval="30s",
            readers="1",
        )
        self.end = restored(self.end)

    def away(self) -> None:
        """`east` does not answer for now."""
        self.east.fail_with(ClusterUnreachable("east", "away"))

    def batch(self) -> None:
        """The next batch, with a record of `west`."""
        self.clock.now_s += 1
        self.west.append("t", 0, 1)
        before, self.end = self.end, self.source.plan(self.end, repeated=self.repeated)
        self.repeated.clear()
        assert self.end is not before
        self.source.coordinator.kept(before.revision)
        self.losses.extend(loss for loss in self.end.losses if loss not in before.losses)

    @property
    def read_from(self) -> tuple[int | None, int | None]:
        return self.end.splits[EAST].read_from, self.end.splits[WEST].read_from


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setattr(cluster_poller, "REFRESH_INTERVAL_S", 0.0)
    monkeypatch.setattr(cluster_poller, "REST_FACTOR", 0.0)
    monkeypatch.setattr(coordinator, "POLL_AGAIN_S", 0.01)
    return Runs()


@pytest.mark.parametrize("restarts", [1, 2, 3])
def test_what_was_skipped_is_declared_when_its_cluster_is_back_however_many_restarts_later(
    runs: Runs, restarts: int
) -> None:
    runs.away()
    for number in range(restarts):
        runs.batch()
        assert runs.read_from == (0, 10 + 2 * number + 1)
        runs.batch()
        assert runs.read_from == (0, 10 + 2 * number + 2)
        runs.start()
    runs.east.recover()
    runs.batch()
    assert runs.losses == [AGED]
    assert runs.read_from[0] is None
    runs.start()
    runs.batch()
    assert runs.losses == [AGED]


def test_a_topic_that_was_created_anew_meanwhile_is_declared_with_what_was_handed_out_of_it(runs: Runs) -> None:
    runs.away()
    runs.batch()
    runs.east.recreate_topic("t")
    runs.east.append("t", 0, 3)
    runs.start()
    runs.east.recover()
    for _ in range(3):
        runs.clock.now_s += 31
        runs.batch()
    skipped = Loss(EAST, Cause.RECREATED, 0, None, 10, HandedOut.BEFORE_RESTART)
    assert runs.losses == [Loss(EAST, Cause.RECREATED, 10), skipped]
    assert (runs.end.splits[EAST].position, runs.read_from[0]) == (3, None)


def test_without_discovery_a_topic_that_was_read_to_its_stop_and_is_deleted_then_is_declared() -> None:
    """Nothing is left to be read of it, so only what was read asks for a second listing that confirms the first."""
    clock, east = Clock(), FakeKafka("east")
    for topic in ("t", "u"):
        east.create_topic(topic)
        east.append(topic, 0, 10)

    def start() -> Source:
        return Source(
            east,
            clock=clock,
            subscribePattern="t|u",
            stop="latest",
            discoveryInterval="0",
            failOnDataLoss="false",
            readers="1",
        )

    end = start().plan(NONE)
    assert end.splits[EAST].finished
    east.delete_topic("t")
    source, end = start(), restored(end)
    losses: list[Loss] = []
    for _ in range(3):
        clock.now_s += 31
        before, end = end, source.plan(end)
        losses.extend(loss for loss in end.losses if loss not in before.losses)
    assert losses == [Loss(EAST, Cause.DELETED, 0, None, 10, HandedOut.BEFORE_RESTART)]


def test_a_batch_that_is_done_again_is_declared_once_beside_what_was_not_compared_before_it(runs: Runs) -> None:
    """`east` comes back with more records and goes again; the process dies before its batch is done."""
    runs.away()
    runs.batch()
    runs.start()
    before = runs.end
    splits = {**before.splits, EAST: before.splits[EAST]._replace(position=15, read_from=0)}
    runs.east.append("t", 0, 5)
    runs.end = replace(before, splits=splits, revision=before.revision + 1)
    runs.repeated.append((before, runs.end))
    runs.east.recover()
    runs.east.delete_records("t", 0, 12)
    runs.batch()
    assert runs.losses == [
        Loss(EAST, Cause.AGED_OUT, 10, 12, 2, HandedOut.EARLIER),
        Loss(EAST, Cause.AGED_OUT, 0, 12, 10, HandedOut.BEFORE_RESTART),
    ]


def test_what_was_skipped_by_the_word_of_then_is_declared_by_a_run_that_fails_on_losses(runs: Runs) -> None:
    runs.start(fail="true")
    runs.batch()
    assert runs.losses == [AGED]
    assert runs.read_from == (None, None)
    runs.batch()
    runs.start()
    runs.batch()
    assert runs.losses == [AGED]


def test_it_is_kept_for_as_long_as_its_cluster_is_away_whatever_the_option_is(runs: Runs) -> None:
    runs.away()
    for fail in ("true", "false", "true"):
        runs.start(fail=fail)
        runs.batch()
        assert runs.read_from[0] == 0
    runs.east.recover()
    runs.batch()
    assert runs.losses == [AGED]


def test_a_batch_that_fails_on_losses_and_is_done_again_without_is_not_forgotten_by_the_next_process(
    runs: Runs,
) -> None:
    """Its offset does not say what it reads, since nothing was to be skipped when it was planned."""
    runs.start(fail="true")
    runs.batch()
    before, runs.losses = runs.end, []
    runs.east.append("t", 0, 5)
    end = runs.source.plan(before)
    assert end.splits[EAST].position == 15
    runs.end = end
    runs.start()
    runs.east.delete_records("t", 0, 12)
    runs.away()
    runs.clock.now_s += 1
    after = runs.source.plan(runs.end, repeated=[(restored(before), runs.end)])
    assert (after.splits[EAST].position, after.splits[EAST].read_from) == (15, 10)
    assert runs.source.plan(after) is after, "once"
    runs.end = after
    runs.start()
    runs.east.recover()
    runs.batch()
    assert runs.losses == [Loss(EAST, Cause.AGED_OUT, 10, 12, 2, HandedOut.BEFORE_RESTART)]


@pytest.mark.parametrize("how", ["answers", "is away", "is removed"])
def test_what_another_cluster_does_not_say_keeps_nothing_from_being_settled(how: str) -> None:
    """Otherwise what was compared long ago would be declared as lost when retention has removed it."""
    clock, east, north = Clock(), FakeKafka("east"), FakeKafka("north")
    for one in (east, north):
        one.create_topic("t")
        one.append("t", 0, 10)
    options = {"failOnDataLoss": "false", "allowUnreachable": "true"}
    state = Source(east, north, clock=clock, **options).plan(NONE)  # type: ignore[arg-type]
    for _ in range(3):
        if how == "is away":
            east.fail_with(ClusterUnreachable("east", "away"))
        clusters = (north,) if how == "is removed" else (east, north)
        source = Source(*clusters, clock=clock, **options)  # type: ignore[arg-type]
        north.append("t", 0, 10)
        state, ended = restored(state), False
        while not ended:
            before, clock.now_s = state, clock.now_s + 1
            state = source.plan(before, fix_ends=True)
            source.coordinator.kept(before.revision)
            ended = state is before
        assert state.losses == ()
        north.delete_records("t", 0, state.splits[SplitId("north", "t", 0)].position or 0)


def test_a_run_to_the_end_that_fails_on_losses_leaves_behind_that_all_was_compared(runs: Runs) -> None:
    runs.start(fail="true")
    last = runs.source.plan(runs.end, fix_ends=True)
    assert last.losses == (AGED,)
    assert runs.source.plan(last, fix_ends=True) is last
    assert [split.read_from for split in last.splits.values()] == [None, None]


def test_what_was_not_handed_out_ends_a_run_that_fails_on_losses_as_ever(runs: Runs) -> None:
    runs.east.append("t", 0, 5)
    runs.east.delete_records("t", 0, 12)
    runs.start(fail="true")
    with pytest.raises(DataLossError, match="begins at offset 12"):
        runs.batch()
    runs.start()
    runs.batch()
    assert runs.losses == [
        Loss(EAST, Cause.AGED_OUT, 10, 12, 2),
        Loss(EAST, Cause.AGED_OUT, 0, 12, 10, HandedOut.BEFORE_RESTART),
    ]


def test_where_all_runs_fail_on_losses_nothing_is_compared(runs: Runs) -> None:
    runs.end, runs.losses = NONE, []
    runs.start(fail="true")
    runs.batch()
    assert runs.read_from == (None, None)
    runs.east.delete_records("t", 0, 10)
    runs.start(fail="true")
    runs.batch()
    assert runs.losses == []
