"""How many readers a batch has: as the option says, as in the checkpoint, or as many as the session has slots."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import pairwise

import pytest

from evensplit.core.batch.reader_count import AUTO, FEWER_AFTER_MS
from evensplit.core.model import SplitId
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.offset_strategies import Earliest
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import OptionError
from evensplit.explain.evenness import evenness
from evensplit.spark.driver.coordinator import Coordinator
from evensplit.spark.options.parse import parse_options
from evensplit.spark.poll import cluster_poller
from evensplit.spark.poll.scheduler import Scheduler
from evensplit.spark.slots.reader_number import ReaderNumber, asked_slots
from evensplit.spark.source import EvenSplitDataSource
from evensplit.spark.task.telling import Destination
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock

FRESH, KNOWN = EnumeratorState(), EnumeratorState(readers=3)
ONE = {"kafka.bootstrap.servers": "e:9092", "subscribe": "t"}


@pytest.mark.parametrize(
    "told, state, slots, expected",
    [(5, KNOWN, 9, 5), (None, KNOWN, 9, 3), (None, FRESH, 9, 2), (AUTO, KNOWN, 9, 9), (AUTO, FRESH, 9, 9),
     (AUTO, FRESH, 1, 1), (AUTO, KNOWN, 1, 3), (AUTO, FRESH, 0, 2), (AUTO, FRESH, None, 2), (AUTO, KNOWN, None, 3)],
)  # fmt: skip
def test_the_first_batch(told: int | None, state: EnumeratorState, slots: int | None, expected: int) -> None:
    assert ReaderNumber(told, 2, lambda: slots).of(state, 0) == expected


def test_without_anyone_to_ask_it_is_as_without_the_option() -> None:
    assert [ReaderNumber(AUTO, 2).of(state, 0) for state in (FRESH, KNOWN)] == [2, 3]
    to = Destination("host", 1, b"s" * 32)
    assert asked_slots(AUTO, None) is asked_slots(None, to) is asked_slots(4, to) is None
    assert asked_slots(AUTO, to) is not None


def test_silence_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="evensplit")
    answers: list[int | None] = [4, None, None, 6]
    one = ReaderNumber(AUTO, 2, lambda: answers.pop(0))
    assert [one.of(FRESH, 0) for _ in range(4)] == [4, 4, 4, 6]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "did not say how many tasks it runs at once; there are 4 readers until it does" in said[0]
    assert said[1] == "readers=auto: the session runs 6 tasks at once"


def test_auto_is_an_error_where_nobody_can_be_asked() -> None:
    source = EvenSplitDataSource({**ONE, "readers": "auto"})
    schema = source.schema()
    with pytest.raises(OptionError, match="readers is 'auto', and nobody can be asked how many tasks") as found:
        source.reader(schema)
    assert "evensplit.register(spark)" in str(found.value)
    refused = EvenSplitDataSource({**ONE, "readers": "AUTO"})
    reader = refused.streamReader(schema)
    with pytest.raises(OptionError, match="nobody can be asked"):
        reader.initialOffset()


def test_capacities_of_any_reader_can_be_given_where_their_number_follows_the_slots() -> None:
    given = {**ONE, "readers": "auto", "balance": "rate", "capacity": '{"0-1": 2, "7": 3}'}
    assert parse_options(given).settings.capacities == ((0, 2), (1, 2), (7, 3))
    with pytest.raises(OptionError, match="expected at most 1, since readers is 2"):
        parse_options({**given, "readers": "2"})


def owners(state: EnumeratorState) -> dict[SplitId, int | None]:
    return {key: split.owner for key, split in state.splits.items()}


def run(slots: Sequence[int | None], clock: Clock, partitions: int = 12) -> list[EnumeratorState]:
    """The ends of batches, one for each number of slots, half of `FEWER_AFTER_MS` apart; each reads something."""
    cluster = FakeKafka("default")
    cluster.create_topic("t", partitions)
    seen = list(slots)
    one = Coordinator(
        parse_options({**ONE, "readers": "auto"}),
        readers_default=2,
        starting_default=Earliest(),
        slots=lambda: seen.pop(0),
        connect=lambda _: cluster,
        scheduler=Scheduler(clock, clock),
    )
    states = [EnumeratorState()]
    for _ in slots:
        for partition in range(partitions):
            cluster.append("t", partition, 10)
        states.append(one.plan(states[-1], limited=False))
        clock.now_s += FEWER_AFTER_MS / 2000
    return states


@pytest.fixture(autouse=True)
def _polls_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_poller, "REFRESH_INTERVAL_S", 0.0)
    monkeypatch.setattr(cluster_poller, "REST_FACTOR", 0.0)


def test_readers_come_and_go_with_slots_and_the_fewest_splits_move(clock: Clock) -> None:
    states = run([2, 4, 8, 4, 4, 4, 12, 12, 1, 1, 1, 3], clock)
    assert [state.readers for state in states[1:]] == [2, 4, 8, 8, 8, 4, 12, 12, 12, 12, 1, 3]
    for before, after in pairwise(states):
        assert sorted(after.session.registrations) == list(range(after.readers))
        (proven,) = evenness(before, after)
        assert proven.even
        assert proven.certificate is not None
        assert proven.certificate.fewest_moves
        assert all(split.owner is not None and split.owner < after.readers for split in after.splits.values())


def test_a_moment_without_an_executor_moves_nothing(clock: Clock) -> None:
    states = run([4, 2, 4, None, 3, 4], clock)
    assert {state.readers for state in states[1:]} == {4}
    assert all(owners(state) == owners(states[1]) for state in states[2:])


def test_an_idle_query_stays_as_it_is(clock: Clock) -> None:
    cluster = FakeKafka("default")
    cluster.create_topic("t", 3)
    one = Coordinator(
        parse_options({**ONE, "readers": "auto"}),
        readers_default=2,
        starting_default=Earliest(),
        slots=lambda: 2,
        connect=lambda _: cluster,
        scheduler=Scheduler(clock, clock),
    )
    first = one.plan(EnumeratorState(), limited=False)
    assert one.plan(first, limited=False) is first
    assert decode(encode(first)).readers == 2
