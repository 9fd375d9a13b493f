"""Leader elections while a query runs, and while it is stopped: what records they cost is an error or is declared.

The brokers and their elections are real; the driver and its tasks are called as Spark calls them. An election is clean
if the new leader has all records that were acknowledged. One that is not cuts the log off: where it has grown past the
position again, or back to it, offsets alone do not tell, and leader epochs do (KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql.datasource import InputPartition

from evensplit.core.model import Cause, Loss
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import DataLossError
from evensplit.spark.batch_reader import EvenSplitReader
from evensplit.spark.task.partition import read_partition
from evensplit.testing import LocalKafka
from evensplit.testing.admin import requests
from tests.support.reading import Reading, options_of
from tests.support.records import Draft, produce
from tests.support.replicas import UNCLEAN, all_in_sync
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

BOTH = 50
"""So many records each topic has on both brokers."""

ONLY = 50
"""So many more broker 0 has alone."""

NEW = (0, 30, 50, 80)
"""So many records broker 1 writes in their place when it leads. The log then ends where it was cut off, before the
position 100, at it, and after it."""

AGAIN = 20
"""So many records broker 0 adds when it leads again."""

FATAL = [True, False]
CUT_OFF = (
    "offsets .* to 99 were to be read, but (an unclean leader election replaced the records from offset 50 on after "
    "the batch was planned|its log ends at offset 50 and did not grow: it was cut off by an unclean leader election)"
)
"""Where there is nothing yet in the place of what was cut off, it could still come, until the deadline."""

REPLACED = f"an unclean leader election replaced its records from offset {BOTH} on"


@pytest.fixture(autouse=True)
def _queries_end() -> None:
    """None is started by Spark, so there need not be a session."""


@pytest.fixture(scope="module")
def two() -> Iterator[LocalKafka]:
    """Two brokers that prefer to lose records to having no leader."""
    with LocalKafka(brokers=2, properties=UNCLEAN) as running:
        yield running


class Planned(NamedTuple):
    """A batch that was planned before the election and is read after it."""

    reading: Reading
    end: EnumeratorState


class Cut:
    """Topics whose records from offset 50 on only broker 0 had; broker 1 leads now, and has written others instead.

    All queries had read their topic to offset 100 before; but those `on_branch` only to 50, which both brokers have.
    By how many records broker 1 wrote, and whether a loss is fatal: `running`; `stopped`, whose drivers ended before
    the election; `on_branch`, twice, to be started again or not; and `planned`. `batches`: what batch queries are to
    read.
    """

    def __init__(self, kafka: LocalKafka) -> None:
        self.kafka = kafka
        create(kafka, map(topic_of, NEW))
        for new in NEW:
            put(kafka, new, "both", BOTH)

        def readings() -> dict[tuple[int, bool], Reading]:
            return {(new, fatal): Reading(kafka, topic_of(new), fatal=fatal) for new, fatal in product(NEW, FATAL)}

        self.running, self.stopped = readings(), readings()
        self.on_branch = {
            (new, fatal, restarted): Reading(kafka, topic_of(new), fatal=fatal)
            for new, fatal, restarted in product(NEW[1:], FATAL, FATAL)
        }
        for one in self.on_branch.values():
            read_to(one, BOTH)
        wait_for(lambda: all(all_in_sync(kafka, topic_of(new)) for new in NEW), what="both have all")
        kafka.kill(1)
        for new in NEW:
            put(kafka, new, "only", ONLY)
        for one in (*self.running.values(), *self.stopped.values()):
            read_to(one, BOTH + ONLY)
        self.planned = {key: Planned(reading, reading.plan()) for key, reading in readings().items()}
        readers = {new: EvenSplitReader(options_of(kafka, topic_of(new), fatal=True), 1) for new in NEW}
        self.batches = {new: list(reader.partitions()) for new, reader in readers.items()}

        kafka.kill(0)
        kafka.broker(1).start()
        self.lead(1)
        for new in NEW:
            put(kafka, new, "new", new)

    def lead(self, broker: int) -> None:
        """Wait until it leads all topics."""
        wait_for(lambda: all(leader_of(self.kafka, topic_of(new))[0] == broker for new in NEW), what="it leads")

    def close(self) -> None:
        planned = (one.reading for one in self.planned.values())
        for one in (*self.running.values(), *self.stopped.values(), *self.on_branch.values(), *planned):
            one.close()


@pytest.fixture(scope="module")
def cut(two: LocalKafka) -> Iterator[Cut]:
    """Where broker 1 leads."""
    made = Cut(two)
    yield made
    made.close()


@pytest.fixture(scope="module")
def back(cut: Cut) -> Iterator[Cut]:
    """Where broker 0 leads again, which never had what broker 1 wrote, and what queries have read."""
    for (new, _, restarted), reading in cut.on_branch.items():
        read_to(reading, BOTH + new)
        assert reading.rows == [*rows(0, "both", BOTH), *rows(BOTH, "new", new)]
        assert reading.losses == []
        if restarted:
            reading.restart()
    cut.kafka.kill(1)
    cut.kafka.broker(0).start()
    cut.lead(0)
    for new in NEW:
        put(cut.kafka, new, "again", AGAIN)
    yield cut
    cut.kafka.start()


def topic_of(new: int) -> str:
    return f"cut-{new}"


def create(kafka: LocalKafka, topics: Iterable[str]) -> None:
    """Topics of one partition, on both brokers and with broker 0 as the leader."""
    names = list(topics)
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    wanted = [NewTopic(name, num_partitions=1, replica_assignment=[[0, 1]]) for name in names]
    for done in client.create_topics(wanted).values():
        done.result(60)
    wait_for(lambda: all(leader_of(kafka, name)[0] == 0 for name in names), what="there is a leader")


def put(kafka: LocalKafka, new: int, tag: str, count: int) -> None:
    write(kafka, topic_of(new), tag, count)


def write(kafka: LocalKafka, topic: str, tag: str, count: int) -> None:
    drafts = [Draft(b"%s-%d" % (tag.encode(), n)) for n in range(count)]
    produce(kafka.bootstrap_servers, topic, drafts, linger_ms=0)


def rows(start: int, tag: str, count: int) -> list[tuple[int, str]]:
    """What a query has of records that were written at offset `start`."""
    return [(start + n, f"{tag}-{n}") for n in range(count)]


def leader_of(kafka: LocalKafka, topic: str) -> tuple[int, int]:
    """Node id (-1: there is none) and leader epoch, as a broker that runs has them."""
    partitions = requests.metadata(kafka.addresses()[0], [topic], timeout_s=60).topics[0].partitions
    return (int(partitions[0].leader_id), int(partitions[0].leader_epoch)) if partitions else (-1, -1)


def read_to(reading: Reading, end: int) -> None:
    """Look and read until the position is `end`."""

    def there() -> bool:
        reading.step()
        split = reading.state.splits.get(reading.split)
        return split is not None and split.position == end

    wait_for(there, what=f"offset {end}")


def look_until_it_fails(reading: Reading) -> str:
    """Look until there is an error; what it says."""
    before = list(reading.rows)
    with pytest.raises(DataLossError) as caught:
        wait_for(lambda: reading.step() != before, what="an error")
    assert reading.rows == before
    # It is so again for the driver that is started next.
    reading.restart()
    with pytest.raises(DataLossError):
        wait_for(lambda: reading.step() != before, what="an error")
    assert reading.rows == before
    assert reading.losses == []
    return str(caught.value)


def test_clean_elections_change_nothing(two: LocalKafka) -> None:
    """Whichever broker leads, whether it has written anything or not; also for a driver that starts in between."""
    topic = "clean"
    create(two, [topic])
    readings = {fatal: Reading(two, topic, fatal=fatal) for fatal in FATAL}
    batch = EvenSplitReader(options_of(two, topic, fatal=True), 1)
    expected: list[tuple[int, str]] = []

    def expect(tag: str, count: int) -> None:
        """Write some records: they are read, and nothing else."""
        write(two, topic, tag, count)
        expected.extend(rows(len(expected), tag, count))
        for one in readings.values():
            read_to(one, len(expected))
            assert one.rows == expected

    def expect_nothing(leader: int) -> None:
        """It leads, with the same records: all queries have heard of it, and go on as before."""
        wait_for(lambda: leader_of(two, topic)[0] == leader, what=f"broker {leader} leads")
        _, epoch = leader_of(two, topic)
        for one in readings.values():
            wait_for(lambda one=one: one.step() and one.heard() == epoch, what="an answer of its")  # type: ignore[misc]
            assert one.rows == expected

    def all_are_there() -> None:
        two.start()
        wait_for(lambda: all_in_sync(two, topic), what="both are in sync")

    expect("first", BOTH)
    planned = list(batch.partitions())
    all_are_there()

    two.broker(0).stop()
    expect_nothing(1)
    expect("second", 10)
    all_are_there()

    # Twice in a row without a record in between, and one driver sees neither.
    readings[False].restart()
    elect_preferred(two, topic)
    wait_for(lambda: leader_of(two, topic)[0] == 0, what="broker 0 leads")
    two.kill(0)
    expect_nothing(1)
    for one in readings.values():
        one.restart()
    expect_nothing(1)
    expect("third", 10)
    all_are_there()

    elect_preferred(two, topic)
    expect_nothing(0)
    expect("fourth", 10)
    assert all(one.losses == [] for one in readings.values())
    # A batch query goes on to the end of the log as it is when it is read.
    assert batch_rows(planned) == batch_rows(batch.partitions()) == expected
    for one in readings.values():
        one.close()


def elect_preferred(kafka: LocalKafka, topic: str) -> None:
    """Let broker 0 lead, which has all records."""
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    client.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(60)


def batch_rows(partitions: Iterable[InputPartition]) -> list[tuple[int, str]]:
    batches = [batch for partition in partitions for batch in read_partition(partition)]
    return [
        (offset, value.decode())
        for batch in batches
        for offset, value in zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True)
    ]


@pytest.mark.parametrize("new", NEW)
@pytest.mark.parametrize("restarted", [False, True], ids=["running", "stopped"])
def test_a_log_that_was_cut_off_and_written_anew(cut: Cut, new: int, restarted: bool) -> None:
    """Where it ends now does not matter, nor whether the driver has seen it before."""
    readings = cut.stopped if restarted else cut.running
    fatal, declaring = readings[new, True], readings[new, False]
    old = [*rows(0, "both", BOTH), *rows(BOTH, "only", ONLY)]
    assert fatal.rows == declaring.rows == old
    if restarted:
        fatal.restart()
        declaring.restart()
    error = look_until_it_fails(fatal)
    assert f"topic '{topic_of(new)}', partition 0: {REPLACED}, and position 100 had been read up to" in error
    assert "failOnDataLoss=false" in error
    read_to(declaring, BOTH + new)
    assert declaring.losses == [Loss(declaring.split, Cause.REPLACED, BOTH + ONLY, BOTH)]
    assert declaring.rows == [*old, *rows(BOTH, "new", new)]
    # It is declared once, also where the driver is another one.
    declaring.restart()
    _, epoch = leader_of(cut.kafka, topic_of(new))
    wait_for(lambda: declaring.step() and declaring.heard() == epoch, what="another look")
    assert len(declaring.losses) == 1
    assert declaring.rows == [*old, *rows(BOTH, "new", new)]


@pytest.mark.parametrize("new", NEW)
def test_a_log_is_cut_off_between_planning_and_reading(cut: Cut, new: int) -> None:
    """No record of the new log is read in the place of one of the old log."""
    (fatal, end), (declaring, declared_end) = cut.planned[new, True], cut.planned[new, False]
    both = rows(0, "both", BOTH)
    with pytest.raises(DataLossError, match=CUT_OFF):
        fatal.read(end)
    assert fatal.rows == both[: len(fatal.rows)]
    declaring.read(declared_end)
    assert declaring.rows == both
    read_to(declaring, BOTH + new)
    assert declaring.losses == [Loss(declaring.split, Cause.REPLACED, BOTH + ONLY, BOTH)]
    assert declaring.rows == [*both, *rows(BOTH, "new", new)]


@pytest.mark.parametrize("new", NEW)
def test_a_log_is_cut_off_before_a_batch_query_reads_it(cut: Cut, new: int) -> None:
    expected = CUT_OFF if new <= ONLY else CUT_OFF.replace("99", str(BOTH + new - 1))
    with pytest.raises(DataLossError, match=expected):
        batch_rows(cut.batches[new])


@pytest.mark.parametrize("new", NEW[1:])
@pytest.mark.parametrize("restarted", [False, True], ids=["running", "stopped"])
def test_the_old_leader_leads_again(back: Cut, new: int, restarted: bool) -> None:
    """What was read is gone, and what is there instead was there before: its epochs are older ones."""
    fatal, declaring = (back.on_branch[new, fatal, restarted] for fatal in FATAL)
    before = list(declaring.rows)
    error = look_until_it_fails(fatal)
    assert f"topic '{topic_of(new)}', partition 0: an unclean leader election replaced its records from" in error
    read_to(declaring, BOTH + ONLY + AGAIN)
    # A driver that has not seen where the other branch began knows only that the position is not on this one.
    begins = min(BOTH + new, BOTH + ONLY) if restarted else BOTH
    (loss,) = declaring.losses
    assert (loss.split, loss.cause, loss.position) == (declaring.split, Cause.REPLACED, BOTH + new)
    assert loss.found == begins
    now = [*rows(0, "both", BOTH), *rows(BOTH, "only", ONLY), *rows(BOTH + ONLY, "again", AGAIN)]
    assert declaring.rows == [*before, *now[begins:]]
