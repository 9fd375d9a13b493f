"""What tasks may have skipped is kept in the state until it was compared, over any number of batches and restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evensplit.spark.driver.skipped_records import SkippedRecords

from evensplit.core.machine.events import BatchOpened, BatchPlanned
from evensplit.core.model import Cause, HandedOut, Loss, Split, SplitId
from evensplit.core.state.settings import DECLARE, FAIL
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable, DataLossError
from evensplit.spark.driver import coordinator
from evensplit.spark.poll import cluster_poller
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock
from tests.support.enumeration import ONE, TWO, running
from tests.support.hosts import NONE, Source, restored
from tests.unit.spark.test_skips import KEYS, now, read, state, view

EAST, WEST = SplitId("east", "t", 0), SplitId("west", "t", 0)
AGED = Loss(EAST, Cause.AGED_OUT, 0, 7, 7, HandedOut.BEFORE_RESTART)


# What the core keeps


def test_what_is_not_compared_stays_in_the_state_whatever_is_read_after_it() -> None:
    one = running(2, 1, loss=DECLARE)

    def read_from() -> list[int | None]:
        return [split.read_from for split in one.state.splits.values()]

    one.tell(BatchPlanned({ONE: 20}))
    one.tell(BatchOpened(), BatchPlanned({TWO: 12}, {ONE: 10}))
    assert read_from() == [10, 10]
    one.tell(BatchOpened(), BatchPlanned({ONE: 25, TWO: 14}, {ONE: 10}))
    assert read_from() == [10, 12], "of the second, all was compared that had been read"
    one.tell(BatchOpened(), BatchPlanned({ONE: 30}, {ONE: 20, TWO: 12}))
    assert read_from() == [20, 12], "as much as was not"
    one.tell(BatchOpened(), BatchPlanned({}))
    assert read_from() == [None, None]


def test_what_is_not_compared_is_kept_by_a_run_that_fails_on_losses_and_nothing_else() -> None:
    one = running(2, 1, loss=DECLARE)
    one.tell(BatchPlanned({ONE: 20}))
    one.restart(one.checkpoint(), loss=FAIL)
    one.tell(BatchPlanned({ONE: 25, TWO: 15}, {ONE: 10}))
    assert [split.read_from for split in one.state.splits.values()] == [10, None]
    one.tell(BatchOpened(), BatchPlanned({ONE: 30, TWO: 20}))
    assert [split.read_from for split in one.state.splits.values()] == [None, None]


@pytest.mark.parametrize("end", [10, 12])
def test_what_is_beyond_the_position_was_handed_out_of_a_log_that_was_cut(end: int) -> None:
    one = running(1, 1, loss=FAIL)
    one.tell(BatchPlanned({ONE: end}, {ONE: 12, TWO: 3}))
    assert one.state.splits[ONE].read_from is None


def test_of_what_has_no_start_nothing_was_handed_out() -> None:
    one = running(1, 1, loss=DECLARE)
    unknown = Split(TWO, "id-t")
    one.state = replace(one.state, splits={**one.state.splits, TWO: unknown})
    one.tell(BatchPlanned({}, {TWO: 0}))
    assert one.state.splits[TWO] == unknown


# What the check tells


def test_what_is_not_compared_begins_with_the_oldest_range() -> None:
    one = SkippedRecords(skips=True)
    assert one.uncompared(state(0)) == {}
    one.add(state(0, 0), state(10, 10))
    one.add(state(10, 10), state(20, 10))
    assert one.uncompared(state(20, 10)) == {KEYS[0]: 0, KEYS[1]: 0}
    assert one.uncompared(state(20)) == {KEYS[0]: 0}, "what is forgotten is in no state"
    one.asked(0)
    one.add(state(20, 10), state(30, 10))
    one.losses({"east": view(0, 0)}, now(0))
    assert one.uncompared(state(30, 10)) == {KEYS[0]: 20}
    one.asked(1)
    one.losses({"east": view(0, 0, number=2)}, now(0))
    assert one.uncompared(state(30, 10)) == {}


def created_anew(position: int, topic_id: str = "other") -> EnumeratorState:
    """What is known of the cluster, with the first partition of another topic."""
    return replace(now(0), splits={KEYS[0]: Split(KEYS[0], topic_id, position)})


def test_of_a_topic_that_is_another_one_by_now_all_is_said_at_once() -> None:
    """The answer by which that is known can be from before the batch was read, and the state has no place for it."""
    one = SkippedRecords(skips=True)
    one.add(state(0, 0), state(10, 20))
    assert one.losses({}, created_anew(0)) == (), "it is still being read"
    assert one.uncompared(created_anew(5)) == {}
    one.asked(3)
    assert one.losses({}, created_anew(10, "")) == (), "nobody knows which one it is"
    lost = (Loss(KEYS[0], Cause.RECREATED, 0, None, 10, HandedOut.EARLIER),)
    assert one.losses({"east": view(0, 0, number=3)}, created_anew(5)) == lost
    assert one.losses({"east": view(0, 4, number=4)}, created_anew(5)) == (
        Loss(KEYS[1], Cause.AGED_OUT, 0, 4, 4, HandedOut.EARLIER),
    )
    assert not one.unchecked
    one.add(state(0), state(10))
    one.asked(4)
    assert one.losses({}, created_anew(5)) == lost
    assert not one.unchecked


@pytest.mark.parametrize(
    "known, left",
    [
        ((30, 40), []),
        ((0, 50), []),
        ((50, 60), [(30, 40)]),
        ((0, 30), [(30, 40)]),
        ((0, 35), [(35, 40)]),
        ((35, 40), [(30, 35)]),
        ((32, 34), [(30, 32), (34, 40)]),
    ],
)
def test_of_what_was_read_only_what_nobody_knows_of_is_compared_anew(
    known: tuple[int, int], left: list[tuple[int, int]]
) -> None:
    one = SkippedRecords(skips=True)
    one.add(state(known[0]), state(known[1]))
    one.asked(0)
    one.restore(read(30, 40))
    assert one.pending == bool(left)
    one.asked(0)
    found = [loss for loss in one.losses({"east": view(100)}, now(0)) if loss.handed_out is HandedOut.BEFORE_RESTART]
    assert [(loss.position, loss.position + (loss.offsets_max or 0)) for loss in found] == left


def test_what_this_process_has_read_without_skipping_is_not_compared() -> None:
    """Batches are done again after a crash, and now a task that misses something fails."""
    one = SkippedRecords(skips=False)
    one.add(state(30), state(40))
    one.restore(read(20, 40))
    one.asked(0)
    assert one.losses({"east": view(100)}, now(0)) == (
        Loss(KEYS[0], Cause.AGED_OUT, 20, 100, 10, HandedOut.BEFORE_RESTART),
    )


# Restarts


class Runs:
    """A query over two clusters, one process of it after the other. Tasks have skipped the first 7 records of `east`.

    `losses`: all that was declared.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.east, self.west = FakeKafka("east"), FakeKafka("west")
        for cluster in (self.east, self.west):
            cluster.create_topic("t")
            cluster.append("t", 0, 10)
        self.losses: list[Loss] = []
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
        before, self.end = self.end, self.source.plan(self.end)
        assert self.end is not before
        self.source.coordinator.kept(before.revision)
        self.source.coordinator.partitions(before, self.end)
        self.losses.extend(loss for loss in self.end.losses if loss not in before.losses)

    @property
    def read_from(self) -> tuple[int | None, int | None]:
        return self.end.splits[EAST].read_from, self.end.splits[WEST].read_from


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setattr(cluster_poller, "REFRESH_INTERVAL_S", 0.0)
    monkeypatch.setattr(cluster_poller, "REST_FACTOR", 0.0)
    monkeypatch.setattr(coordinator, "SIGHTING_INTERVAL_S", 0.01)
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


def test_a_batch_that_is_done_again_is_declared_once_beside_what_was_not_compared_before_it(runs: Runs) -> None:
    """`east` comes back with more records and goes again; the process dies before its batch is done."""
    runs.away()
    runs.batch()
    runs.start()
    before, source = runs.end, runs.source
    splits = {**before.splits, EAST: before.splits[EAST]._replace(position=15, read_from=0)}
    runs.east.append("t", 0, 5)
    runs.end = replace(before, splits=splits, revision=before.revision + 1)
    source.coordinator.partitions(before, runs.end)
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
    runs.source.coordinator.partitions(restored(before), runs.end)
    runs.east.delete_records("t", 0, 12)
    runs.away()
    runs.clock.now_s += 1
    after = runs.source.plan(runs.end)
    assert (after.splits[EAST].position, after.splits[EAST].read_from) == (15, 10)
    assert runs.source.plan(after) is after, "once"
    runs.end = after
    runs.start()
    runs.east.recover()
    runs.batch()
    assert runs.losses == [Loss(EAST, Cause.AGED_OUT, 10, 12, 2, HandedOut.BEFORE_RESTART)]


def test_what_lies_beyond_the_position_is_not_said_again_and_again() -> None:
    one = SkippedRecords(skips=True)
    one.add(state(20), state(30))
    assert one.is_unsaid(read(25, 30))
    assert not one.is_unsaid(read(20, 30))
    assert not one.is_unsaid(state(15))


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
