"""The producer and brokers with faults: every record is in the log exactly once, and in order in its partition."""

from __future__ import annotations

import re
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evensplit.errors import RecordTooLarge, WriteError
from evensplit.kafka.produce.producer import Producer
from evensplit.kafka.produce.terms import Identity, Rows
from tests.support.produce_brokers import TOO_LARGE, Fate, ProduceCluster

PASSING = (2, 3, 5, 7, 9, 13, 14, 15, 16, 19, 20, 51, 56)
"""Codes after which another attempt may succeed; all that the table of codes has for a write, and a damaged batch."""

APPENDED = (7, 20)
"""Codes of batches that the leader has appended all the same."""


def rows(values: list[bytes], partitions: list[int] | None = None) -> Rows:
    numbers = None if partitions is None else pa.array(partitions, pa.int32())
    return Rows(None, pa.array(values, pa.binary()), None, numbers, None, None)


class Faulty:
    """Faults by chance, until `calm_us`; then all is well."""

    def __init__(self, cluster: ProduceCluster, rate: float, calm_us: int) -> None:
        self.cluster, self.random = cluster, cluster.random
        self.rate, self.until_us = rate, cluster.clock.now_us + calm_us
        for broker in cluster.brokers:
            broker.fate = self.fate
        cluster.clock.after_us(self.random.randint(1, 300_000), self.strike)

    def fate(self) -> Fate:
        random = self.random
        fate = Fate(delay_us=random.choice((200, 1000, 40_000)))
        if self.cluster.clock.now_us > self.until_us or random.random() > self.rate:
            return fate
        match random.randrange(6):
            case 0:
                fate.code = random.choice(PASSING)
            case 1:
                fate.code, fate.after = random.choice(APPENDED), True
            case 2:
                fate.silent = True
            case 3:
                fate.cut = True
            case 4:
                fate.throttle_ms = random.choice((1, 700))
            case _:
                # Longer than it is waited for: it is carried out when it was sent again already.
                fate.delay_us = random.choice((2_000_000, 4_000_000))
        return fate

    def strike(self) -> None:
        """A leader moves, or a broker is away for a moment."""
        random, clock = self.random, self.cluster.clock
        if clock.now_us > self.until_us:
            return
        if random.random() < 0.7:
            log = random.choice(self.cluster.logs)
            log.move(random.randrange(len(self.cluster.brokers)), cut=random.random() < 0.7)
        else:
            random.choice(self.cluster.brokers).go_down(random.choice((100_000, 2_000_000)))
        clock.after_us(random.randint(1, 900_000), self.strike)


@given(st.integers(0, 2**32), st.sampled_from((0.0, 0.1, 0.4)), st.integers(1, 5))
@settings(max_examples=60)
def test_each_record_once_and_in_order(seed: int, rate: float, in_flight_max: int) -> None:
    random = Random(seed)
    versions = [random.choice((3, 5, 7, 9, 11, 12, 13)) for _ in range(random.randint(1, 3))]
    cluster = ProduceCluster(versions, random.randint(1, 5), random)
    producer = cluster.producer(in_flight_max=in_flight_max, buffer_bytes_max=random.choice((2000, 100_000)))
    topic = producer.topic("orders")
    Faulty(cluster, rate, 8_000_000)
    expected: list[list[bytes]] = [[] for _ in cluster.logs]
    for call in range(random.randint(1, 4)):
        numbers = [random.randrange(len(cluster.logs)) for _ in range(random.choice((0, 1, 30, 300)))]
        values = [f"{call}-{at}".encode() * random.choice((1, 1, 9)) for at in range(len(numbers))]
        for number, value in zip(numbers, values, strict=True):
            expected[number].append(value)
        producer.write(rows(values, numbers), topic)
        cluster.clock.pass_us(random.choice((0, 100, 5_000_000)))
        if random.random() < 0.3:
            producer.flush()
            assert [log.values() for log in cluster.logs] == expected
    producer.flush()
    assert [log.values() for log in cluster.logs] == expected
    whole = {number: (len(found), 0, len(found) - 1) for number, found in enumerate(expected) if found}
    assert {one.partition: one[2:] for one in producer.written} == whole
    assert producer.records == sum(map(len, expected))
    assert producer.sequences == {("orders", number): len(found) for number, found in enumerate(expected) if found}
    producer.close()
    assert producer.sequences is None


@given(st.integers(0, 2**32))
@settings(max_examples=15)
def test_an_identity_that_is_kept_goes_on_where_it_was(seed: int) -> None:
    random = Random(seed)
    cluster = ProduceCluster([13, 9], 3, random)
    Faulty(cluster, 0.2, 8_000_000)
    sequences = None
    expected: list[list[bytes]] = [[], [], []]
    for task in range(3):
        producer = Producer(
            "east",
            cluster.settings,
            cluster.producing(),
            Identity(7, 0),
            cluster.pool,
            sequences=sequences,
        )
        numbers = [random.randrange(3) for _ in range(50)]
        for at, number in enumerate(numbers):
            expected[number].append(b"%d-%d" % (task, at))
        producer.write(rows([b"%d-%d" % (task, at) for at in range(50)], numbers), producer.topic("orders"))
        producer.flush()
        sequences = producer.sequences
        producer.close()
    assert [log.values() for log in cluster.logs] == expected


def test_first_batch_is_alone_until_it_is_acknowledged() -> None:
    """Of a producer that it does not know, a broker would take the second one if it refused the first for a moment."""
    cluster = ProduceCluster([13], 1)
    fates = iter([Fate(code=19)])
    cluster.brokers[0].fate = lambda: next(fates, Fate())
    producer = cluster.producer()
    values = [b"%04d" % at for at in range(500)]
    producer.write(rows(values, [0] * 500), producer.topic("orders"))
    producer.flush()
    assert cluster.logs[0].values() == values


def test_batch_that_failed_is_sent_alone_until_it_is_acknowledged() -> None:
    """Those behind it would only fail again."""
    cluster = ProduceCluster([13], 1)
    # One is acknowledged; of the next five the first is refused twice, and then each time the four that follow.
    fates = iter([Fate(), Fate(code=19), Fate(), Fate(), Fate(), Fate(), Fate(code=19)])
    cluster.brokers[0].fate = lambda: next(fates, Fate())
    producer = cluster.producer(batch_bytes_max=1)
    producer.write(rows([b"%d" % at for at in range(6)], [0] * 6), producer.topic("orders"))
    producer.flush()
    assert cluster.logs[0].values() == [b"%d" % at for at in range(6)]
    assert len(cluster.requests) == 1 + 5 + 1 + 5


def test_batch_is_not_left_behind_by_more_than_brokers_remember() -> None:
    """Two batches of five are in the log, and refused all the same; then the answer for the second one is lost."""
    cluster = ProduceCluster([13], 1)
    appended = Fate(code=20, after=True)
    fates = iter([Fate(), appended, Fate(), appended, Fate(), Fate(), Fate(), Fate(cut=True)])
    cluster.brokers[0].fate = lambda: next(fates, Fate())
    producer = cluster.producer(batch_bytes_max=1)
    values = [b"%d" % at for at in range(12)]
    producer.write(rows(values, [0] * 12), producer.topic("orders"))
    producer.flush()
    assert cluster.logs[0].values() == values


@pytest.mark.parametrize("version, asked", [(9, 2), (13, 1)])
def test_leader_that_the_former_one_names_is_believed(version: int, asked: int) -> None:
    """Brokers before version 10 of Produce do not say, so metadata is asked for."""
    cluster = ProduceCluster([version] * 2, 1)
    producer = cluster.producer()
    topic = producer.topic("orders")
    cluster.logs[0].move(1, cut=True)
    producer.write(rows([b"a"]), topic)
    producer.flush()
    assert cluster.logs[0].values() == [b"a"]
    assert [broker for broker, _, _ in cluster.requests] == [0, 1]
    assert cluster.metadata_asked == asked


def test_batches_of_several_partitions_share_requests() -> None:
    cluster = ProduceCluster([13], 4)
    producer = cluster.producer()
    producer.write(rows([b"a", b"b", b"c", b"d"], [0, 1, 2, 3]), producer.topic("orders"))
    producer.flush()
    assert cluster.requests == [(0, 13, [0, 1, 2, 3])]
    assert producer.bytes == sum(len(one.data) for log in cluster.logs for one in log.entries)


@pytest.mark.parametrize("implicit, highest", [(False, 11), (True, 13)])
def test_partitions_join_the_transaction_before_they_are_written_to(implicit: bool, highest: int) -> None:
    cluster = ProduceCluster([13], 3)
    producer = cluster.producer(Identity(7, 0, "mine", implicit))
    for _ in range(2):
        producer.write(rows([b"a", b"b"], [0, 2]), producer.topic("orders"))
        producer.flush()
    assert cluster.joined == ([] if implicit else [[("orders", 0), ("orders", 2)]])
    assert {version for _, version, _ in cluster.requests} == {highest}


def test_fatal_codes_are_told_at_once() -> None:
    cluster = ProduceCluster([13], 1)
    cluster.brokers[0].fate = lambda: Fate(code=47)
    producer = cluster.producer()
    producer.write(rows([b"a"]), producer.topic("orders"))
    with pytest.raises(WriteError, match=r"'east', topic 'orders', partition 0: .* INVALID_PRODUCER_EPOCH \(47\)"):
        producer.flush()
    assert len(cluster.requests) == 1
    with pytest.raises(WriteError, match="INVALID_PRODUCER_EPOCH"):
        producer.write(rows([b"b"]), 0)
    assert producer.sequences is None


def test_gap_that_nothing_explains_is_fatal() -> None:
    cluster = ProduceCluster([13], 1)
    producer = cluster.producer()
    topic = producer.topic("orders")
    producer.write(rows([b"a"]), topic)
    producer.flush()
    producer.write(rows([b"b"]), topic)
    producer.flush()
    cluster.logs[0].entries.pop()
    producer.write(rows([b"c"]), topic)
    with pytest.raises(WriteError, match=r"OUT_OF_ORDER_SEQUENCE_NUMBER .*lost what they had acknowledged"):
        producer.flush()


def test_time_for_a_batch_is_bounded_and_the_last_reason_is_told() -> None:
    cluster = ProduceCluster([13], 1)
    cluster.brokers[0].fate = lambda: Fate(code=19)
    producer = cluster.producer(delivery_timeout_ms=5000)
    producer.write(rows([b"a"]), producer.topic("orders"))
    begun_us = cluster.clock.now_us
    with pytest.raises(WriteError, match=r"1 record not acknowledged within 5000 ms .* NOT_ENOUGH_REPLICAS \(19\)"):
        producer.flush()
    assert 5_000_000 <= cluster.clock.now_us - begun_us < 6_000_000


def test_time_in_which_the_caller_does_something_else_does_not_count() -> None:
    cluster = ProduceCluster([13], 1)
    producer = cluster.producer(delivery_timeout_ms=5000, batch_bytes_max=1)
    producer.write(rows([b"a", b"b"]), producer.topic("orders"))
    cluster.clock.pass_us(3_600_000_000)
    producer.flush()
    assert cluster.logs[0].values() == [b"a", b"b"]
    assert len(cluster.requests) == 2


def test_broker_that_throttles_is_left_alone() -> None:
    """The broker fails the test if it is not. What was under way has the time that it takes, and that much more."""
    cluster = ProduceCluster([13], 1)
    fates = iter([Fate(), Fate(throttle_ms=20_000)])
    cluster.brokers[0].fate = lambda: next(fates, Fate())
    producer = cluster.producer(delivery_timeout_ms=5000, in_flight_max=1)
    values = [b"%04d" % at for at in range(300)]
    producer.write(rows(values, [0] * 300), producer.topic("orders"))
    producer.flush()
    assert cluster.logs[0].values() == values


def test_topic_that_does_not_exist() -> None:
    producer = ProduceCluster([13], 1).producer()
    with pytest.raises(
        WriteError, match=r"'east', topic 'odrers': UNKNOWN_TOPIC_OR_PARTITION \(3\): it does not exist"
    ):
        producer.topic("odrers")


def test_partition_that_is_gone_is_an_error_after_a_while() -> None:
    cluster = ProduceCluster([13], 1)
    cluster.brokers[0].fate = lambda: Fate(code=100)
    producer = cluster.producer()
    producer.write(rows([b"a"]), producer.topic("orders"))
    begun_us = cluster.clock.now_us
    with pytest.raises(WriteError, match=r"UNKNOWN_TOPIC_ID .*was deleted"):
        producer.flush()
    assert 20_000_000 <= cluster.clock.now_us - begun_us < 22_000_000


def test_memory_is_bounded() -> None:
    """As long as nothing is acknowledged, no more is taken."""
    cluster = ProduceCluster([13], 2)
    cluster.brokers[0].fate = lambda: Fate(code=19)
    producer = cluster.producer(buffer_bytes_max=4000, delivery_timeout_ms=2000)
    with pytest.raises(WriteError, match="NOT_ENOUGH_REPLICAS"):
        producer.write(rows([b"." * 100] * 2000), producer.topic("orders"))
    assert producer._sender.unacknowledged_bytes < 6000


@pytest.mark.parametrize("codec", ["none", "lz4", "gzip"])
def test_batches_are_no_longer_than_the_topic_allows(codec: str) -> None:
    """Whatever they compress to; and where the limit is asked for once, it is known to the next task."""
    cluster = ProduceCluster([13], 1)
    cluster.limit = 700
    expected: list[bytes] = []
    for _ in range(2):
        producer = cluster.producer(
            Identity(7, len(expected)), compression=codec, batch_bytes_max=5000, request_bytes_max=9000
        )
        values = [cluster.random.randbytes(90) if at > 50 else b"." * 90 for at in range(100)]
        expected += values
        producer.write(rows(values), producer.topic("orders"))
        producer.flush()
        cluster.logs[0].entries, told = [], cluster.logs[0].values()
        assert told == values
    assert cluster.limit_asked == 1


def test_record_that_is_longer_than_the_topic_allows_is_named() -> None:
    cluster = ProduceCluster([13], 1)
    cluster.limit = 700
    producer = cluster.producer(request_bytes_max=9000)
    keyed = Rows(pa.array([b"a", b"b"]), pa.array([b".", b"." * 900]), None, None, None, None)
    producer.write(keyed, producer.topic("orders"))
    with pytest.raises(RecordTooLarge, match=r"'orders', partition 0: a record with the key 'b' makes 9\d\d bytes"):
        producer.flush()


def test_limit_is_asked_for_again_once_a_batch_was_refused() -> None:
    cluster = ProduceCluster([13], 1)
    for limit in (2000, 200, 200):
        cluster.limit = limit
        producer = cluster.producer(batch_bytes_max=1500)
        producer.write(rows([b"." * 90] * 10), producer.topic("orders"))
        if (limit, cluster.limit_asked) == (200, 1):
            with pytest.raises(WriteError, match="MESSAGE_SIZE_TOO_LARGE"):
                producer.flush()
        else:
            producer.flush()
        cluster.logs[0].entries = []
    assert cluster.limit_asked == 2


def too_long(cluster: ProduceCluster) -> str:
    """What is said of a batch that is too long."""
    producer = cluster.producer()
    producer.write(rows([b"." * 90] * 10), producer.topic("orders"))
    with pytest.raises(WriteError) as caught:
        producer.flush()
    said = str(caught.value)
    assert re.search(rf"a record batch of 2 records .*\({TOO_LARGE}\)\. ", said)
    return said


def test_batch_that_is_too_long_where_the_limit_may_not_be_known() -> None:
    """That is kept for a while. Until a batch is refused: then the limit is asked for again."""
    cluster = ProduceCluster([13], 1)
    cluster.limit, cluster.limit_code = 200, 29
    for _ in range(2):
        cluster.producer().topic("orders")
        cluster.clock.pass_us(290_000_000)
    assert re.search(r"Set kafka\.batch\.size to less.* DescribeConfigs", too_long(cluster))
    assert cluster.limit_asked == 1
    cluster.producer().topic("orders")
    assert cluster.limit_asked == 2


@pytest.mark.parametrize("code, why", [(None, "b0:9092"), (3, r"UNKNOWN_TOPIC_OR_PARTITION \(3\)")])
def test_limit_that_was_not_answered_is_asked_for_again_after_a_while(code: int | None, why: str) -> None:
    """Not by each task: a broker that does not answer would cost each of them some seconds."""
    cluster = ProduceCluster([13], 1)
    cluster.limit, cluster.limit_code = 200, code
    assert re.search(rf"Set kafka\.batch\.size to less.* when they were asked none did: .*{why}", too_long(cluster))
    asked = cluster.limit_asked
    cluster.producer().topic("orders")
    again = cluster.limit_asked
    assert again > asked, "since a batch was refused"
    cluster.producer().topic("orders")
    assert cluster.limit_asked == again
    cluster.clock.pass_us(31_000_000)
    cluster.limit_code = 0
    producer = cluster.producer()
    producer.write(rows([b"." * 90] * 10), producer.topic("orders"))
    producer.flush()


def test_limit_that_was_lowered_is_said() -> None:
    cluster = ProduceCluster([13], 1)
    cluster.limit = 2000
    cluster.producer().topic("orders")
    cluster.limit = 200
    assert "It was 2,000 when it was asked for last" in too_long(cluster)
