"""Leader epochs in the lane, without brokers: what is sent, what gives another log away, and who was asked."""

from __future__ import annotations

import base64
import uuid

import pytest

from evensplit.core.model import RangeEpochs
from evensplit.errors import DataLossError
from evensplit.kafka.admin.cluster_session import Leaders
from evensplit.kafka.fetch import response
from evensplit.kafka.fetch.request import PartitionRead, fetch_request
from evensplit.kafka.fetch.second_opinion import Search
from evensplit.kafka.wire import api
from evensplit.testing.messages import read_request
from tests.support.fetches import RESPONSE_BYTES, SETTINGS, header, read_of
from tests.unit.kafka.test_lane_answers import Came, take

A, B, C = ("a", 1), ("b", 1), ("c", 1)


def sent(read: PartitionRead, version: int = api.FETCH.highest) -> tuple[int, int]:
    """Current leader epoch and last fetched epoch in the request for it."""
    read.topic_id = "A" * 22
    request = fetch_request([read], SETTINGS, RESPONSE_BYTES, 250, version)
    # As it goes over the wire in that version.
    (one,) = read_request(api.FETCH, request, version, header=False).topics[0].partitions
    return one.current_leader_epoch, one.last_fetched_epoch


def test_what_is_sent_in_each_version() -> None:
    read = read_of(start=10, epochs=RangeEpochs(10, 3, 100, 5))
    read.leader_epoch = 6
    assert sent(read, 13) == sent(read, 12) == (6, 3)
    assert sent(read, 11)[0] == 6
    assert read.last_fetched_epoch == 3
    for version in (4, 8):
        assert fetch_request([read], SETTINGS, RESPONSE_BYTES, 250, version)


def test_topics_go_by_ids_from_version_13_on() -> None:
    reads = [read_of(0, topic="a"), read_of(1, topic="b"), read_of(2, topic="a")]
    ids = {name: uuid.uuid5(uuid.NAMESPACE_URL, name) for name in "ab"}
    for read in reads:
        read.topic_id = base64.urlsafe_b64encode(ids[read.split.topic].bytes).decode().rstrip("=")
    request = fetch_request(reads, SETTINGS, RESPONSE_BYTES, 250, 13)
    decoded = read_request(api.FETCH, request, 13, header=False).topics
    assert [(topic.topic_id, [one.partition for one in topic.partitions]) for topic in decoded] == [
        (ids["a"], [0, 2]),
        (ids["b"], [1]),
    ]
    # The answer names them in the same way, and a topic that is called like an id is none.
    came = [Came(0, records=header(0, 9), topic=reads[0].topic_id), Came(1, records=header(0, 9), topic="b")]
    found = take(reads, *came, by_id=True)
    assert [read.position for read in reads] == [10, 0, 0]
    assert found.starved == reads[1:]


@pytest.mark.parametrize(
    "start, known, expected",
    [
        (10, RangeEpochs(10, 3, 100, 5), 3),
        # Within the batch only what is the same before and behind all of it.
        (20, RangeEpochs(10, 3, 100, 5), -1),
        (20, RangeEpochs(10, 5, 100, 5), 5),
        (20, RangeEpochs(10, 5, 20, 5), 5),
        (10, RangeEpochs(10, -1, 100, -1), -1),
        (10, RangeEpochs(10, -1, 100, 5), -1),
        (5, RangeEpochs(10, 3, 100, 3), -1),
        (10, None, -1),
    ],
)
def test_the_first_epoch_that_is_sent(start: int, known: RangeEpochs | None, expected: int) -> None:
    assert read_of(start=start, epochs=known).last_fetched_epoch == expected


def test_the_epoch_of_the_last_batch_is_sent_where_the_next_one_begins_behind_it() -> None:
    read = read_of()
    take([read], Came(records=header(0, 9, epoch=2) + header(10, 9, epoch=4)))
    assert (read.position, read.last_fetched_epoch) == (20, 4)
    # Batches without one, as of old logs, tell nothing.
    take([read], Came(records=header(20, 9, epoch=-1)))
    assert (read.position, read.last_fetched_epoch) == (30, -1)
    take([read], Came(records=header(30, 9, epoch=5)))
    assert read.last_fetched_epoch == 5
    # What is behind a gap may have been written under another one.
    read.advance(60, 1.0)
    assert read.last_fetched_epoch == -1


def test_a_batch_behind_the_range_is_not_looked_at() -> None:
    read = read_of(end=15, epochs=RangeEpochs(0, -1, 15, 4))
    found = take([read], Came(records=header(0, 9, epoch=4) + header(20, 9, epoch=9)))
    assert (read.finished, found.moved, read.last_fetched_epoch) == (True, [], -1)


def test_what_comes_before_the_position_is_not_looked_at() -> None:
    read = read_of(start=10, epochs=RangeEpochs(10, 3, 100, 5))
    take([read], Came(records=header(0, 9, epoch=1) + header(10, 9, epoch=3)))
    assert (read.position, read.trouble) == (20, None)


KNOWN = RangeEpochs(0, 2, 50, 4)


@pytest.mark.parametrize("walked", [5_000, 1, 0])
@pytest.mark.parametrize(
    "records, offset",
    [
        pytest.param(header(0, 9, epoch=4) + header(10, 9, epoch=5) + header(20, 9, epoch=5), 10, id="later"),
        pytest.param(header(0, 9, epoch=4) + header(10, 9, epoch=3), 10, id="earlier than the one before"),
        pytest.param(header(0, 9, epoch=1), 0, id="earlier than what was read before"),
        pytest.param(header(0, 9, epoch=5), 0, id="later from the beginning"),
    ],
)
def test_batches_of_another_log(monkeypatch: pytest.MonkeyPatch, records: bytes, offset: int, walked: int) -> None:
    """What is before them is handed out, and nothing else; what no checksum covers has to say so twice."""
    monkeypatch.setattr(response, "BATCHES_WALKED_MAX", walked)
    read = read_of(epochs=KNOWN)
    found = take([read], Came(records=records))
    assert [span.end - span.begin for span in found.spans] == ([61] if offset else [])
    assert (found.moved, found.served, found.replaced) == ([read], [], [])
    assert isinstance(read.trouble, DataLossError)
    assert f"replaced the records from offset {offset} on" in read.trouble.detail
    read.advance(offset, 1.0)
    rest = records[61 if offset else 0 :]
    found = take([read], Came(records=rest))
    assert (found.spans, found.moved, found.replaced) == ([], [read], [])
    found = take([read], Came(records=rest))
    assert (found.spans, found.moved, found.replaced) == ([], [], [read])
    assert isinstance(read.trouble, DataLossError)


def test_a_byte_that_was_damaged_on_the_way_is_overcome() -> None:
    read = read_of(epochs=KNOWN)
    assert take([read], Came(records=header(0, 9, epoch=900))).moved == [read]
    take([read], Came(records=header(0, 9, epoch=4)))
    assert (read.position, read.trouble, read.replaced) == (10, None, False)


def test_later_epochs_are_right_behind_the_batch_and_where_the_last_one_is_not_known() -> None:
    for known in (RangeEpochs(0, 2, 10, 4), RangeEpochs(0, 2, 50, -1), None):
        read = read_of(epochs=known)
        take([read], Came(records=header(0, 9, epoch=4) + header(10, 9, epoch=7)))
        assert (read.position, read.trouble) == (20, None)


def test_a_leader_whose_log_parts_from_what_was_read() -> None:
    read = read_of(start=30)
    found = take([read], Came(diverging=(3, 20)))
    assert (found.moved, found.replaced, found.progressed) == ([read], [], False)
    assert "replaced the records from offset 20 on" in str(read.trouble)
    found = take([read], Came(diverging=(3, 20)))
    assert (found.moved, found.replaced) == ([], [read])


def test_a_follower_may_only_lag_behind() -> None:
    read = read_of(start=30)
    for _ in range(2):
        read.follows = True
        found = take([read], Came(diverging=(3, 20)))
        assert (found.moved, found.replaced, read.leader_only) == ([read], [], True)


@pytest.mark.parametrize("code", [3, 74, 75, 100, 103])
def test_leaders_and_ids_that_are_not_known_are_looked_for_anew(code: int) -> None:
    read = read_of()
    assert take([read], Came(error_code=code)).moved == [read]


def test_one_leaders_word_that_the_log_does_not_grow_is_not_enough() -> None:
    read = read_of()
    assert take([read], Came(high_watermark=5)).served == [read]
    assert take([read], Came(high_watermark=5)).moved == [read]


def told(by: tuple[str, int]) -> Leaders:
    return Leaders({}, {}, {}, {}, answered=by, brokers=[A, B])


def test_who_may_know_better() -> None:
    search = Search(1.0)
    search.hear(told(A), 1.0, denied=True)
    assert search.unheard() == [B]
    # A bootstrap server may be none of the brokers.
    search.hear(told(C), 1.1, denied=True)
    assert search.unheard() == [B]
    search.hear(told(B), 1.2, denied=False)
    search.hear(told(A), 1.3, denied=True)
    assert search.unheard() == [B]
    search.hear(told(B), 1.4, denied=True)
    assert search.unheard() == []
    # Where all of them know it, each has named its leader.
    search.hear(told(B), 1.5, denied=False)
    assert search.unheard() == []


def test_a_loss_is_not_sure_when_no_broker_was_heard_near_the_end_of_the_time() -> None:
    search = Search(1.0)
    for broker in (A, B):
        search.hear(told(broker), 2.4, denied=True)
    assert (search.unheard(), search.unsure(2.0), search.until_s(2.0)) == ([], [A, B], 5.0)
    search.hear(told(A), 2.5, denied=True)
    assert (search.unsure(2.0), search.until_s(2.0)) == ([], 3.0)


def test_for_how_long_each_broker_has_denied_a_partition() -> None:
    search = Search(1.0)

    def hear(broker: tuple[str, int], now_s: float, *, denied: bool = True, informed: bool = True) -> float:
        search.hear(told(broker), now_s, denied=denied, informed=informed)
        return search.denied_s()

    # One answer of each is a moment, however far apart they are.
    assert [hear(A, 1.0), hear(B, 6.0)] == [0, 0]
    assert [hear(A, 7.0), hear(B, 9.5)] == [0, 3.5]
    assert hear(A, 12.0) == 3.5
    # A broker that knows of no topic may have just started.
    assert hear(B, 13.0, informed=False) == 0
    assert [hear(B, 14.0), hear(B, 15.0)] == [0, 1]
    assert hear(A, 16.0, denied=False) == 0
    assert [hear(A, 17.0), hear(B, 17.5), hear(A, 18.0), hear(B, 19.0)] == [0, 0, 0, 1]


def test_a_partition_that_was_there_in_the_meantime_is_looked_for_anew() -> None:
    search = Search(1.0)
    for broker in (A, B):
        search.hear(told(broker), 3.5, denied=True)
    search.hear(told(A), 3.6, denied=False)
    for broker in (A, B):
        search.hear(told(broker), 3.7, denied=True)
    assert (search.begun_s, search.since_s) == (1.0, 3.7)
    assert (search.unheard(), search.unsure(2.0)) == ([], [A, B])
