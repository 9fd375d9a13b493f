"""What a broker answers without being asked is nobody's business, however long its name and whatever its error."""

from __future__ import annotations

import select
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evensplit._kernel import FetchedResponse
from evensplit.core.model import TopicPattern
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.admin.client import _OffsetLookup
from evensplit.kafka.admin.cluster_session import FAILURES_TOLD_MAX, Session, _joined
from evensplit.kafka.admin.epoch_lookup import EpochLookup
from evensplit.kafka.admin.groups import _OffsetCommit, _OffsetFetch
from evensplit.kafka.admin.protocol import TopicState, list_subscribed
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.fetch.leader import THROTTLE_MAX_S, Leader, wait_for_answers
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.wire.api import METADATA, TOPIC_BYTES_MAX, Api, metadata_bytes_max
from evensplit.kafka.wire.frames import Frame
from evensplit.kafka.wire.group_responses import CommitResult, CommittedOffset, GroupOffsets
from evensplit.kafka.wire.responses import (
    RIGHTS_UNKNOWN,
    ByTopic,
    EpochEnd,
    ListedOffset,
    Metadata,
    MetadataBroker,
    MetadataPartition,
    MetadataTopic,
    OfTopic,
)
from tests.support.client_options import understood
from tests.support.fetches import read_of

LONG = "x" * 1_000_000
REFUSED = 29
ASKED = ("t", 0)


@pytest.fixture
def session() -> Any:
    return SimpleNamespace(settings=understood({}), cluster="c", find_leaders=lambda *_: None, coordinators={})


def test_offsets(session: Any) -> None:
    lookup = _OffsetLookup(session, {ASKED: -1}, Deadline.after(5))
    lookup._take(ByTopic([OfTopic(LONG, [ListedOffset(0, REFUSED, -1, -1), ListedOffset(1, 0, 7, 0)])]))
    lookup._take(ByTopic([OfTopic("t", [ListedOffset(0, 0, 5, 2), ListedOffset(1, 0, 6, 2)])]))
    assert (lookup._found, lookup.epochs) == ({ASKED: 5}, {ASKED: 2})


def test_what_a_group_has_committed(session: Any) -> None:
    asking = _OffsetFetch(session, "g", [ASKED], Deadline.after(5))
    topics = [OfTopic(LONG, [CommittedOffset(0, 1, REFUSED)]), OfTopic("t", [CommittedOffset(0, 5, 0)])]
    assert asking._read(GroupOffsets(0, topics)) == {ASKED: 5}


def test_what_came_of_a_commit(session: Any) -> None:
    commit = _OffsetCommit(session, "g", {ASKED: 5}, Deadline.after(5))
    told = [OfTopic(LONG, [CommitResult(0, REFUSED)]), OfTopic("t", [CommitResult(0, 0)])]
    assert commit._read(ByTopic(told), Deadline.after(5)) == {}
    assert commit._pending == {}


def test_leader_epochs(session: Any) -> None:
    lookup = EpochLookup(session, {ASKED: 1}, {ASKED: 0}, {}, Deadline.after(5))
    told = ByTopic([OfTopic(LONG, [EpochEnd(REFUSED, 0, 0, 0)]), OfTopic("t", [EpochEnd(0, 0, 1, 5)])])
    lookup._receive(cast("Connection", SimpleNamespace(receive=lambda _: told)), Deadline.after(5))
    assert lookup._answered == {ASKED}


def metadata(*topics: str, broker: int = 1) -> Metadata:
    partition = MetadataPartition(0, 0, broker, 3)
    listed = [MetadataTopic(0, name, "id", False, [partition], RIGHTS_UNKNOWN) for name in topics]
    return Metadata([MetadataBroker(broker, f"b{broker}", 1, None)], "cluster", listed)


def test_topics_and_brokers_are_kept_as_long_as_they_are_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever answers could fill the memory of the driver otherwise, one answer after the other."""
    session, deadline = Session("c", understood({})), Deadline.after(5)
    answers = [metadata("t", f"other-{number}", broker=number) for number in range(3)]
    apis: list[Api[Any]] = []

    def request(api: Api[Any], *_: Any) -> Metadata:
        apis.append(api)
        return answers.pop(0)

    monkeypatch.setattr(session, "connection", lambda *_: SimpleNamespace(request=request))
    session._rests = {("gone", 1): (1e9, 2.0), ("b1", 1): (0.0, 2.0)}
    assert [topic.name for topic in session.metadata(["t"], deadline).topics] == ["t"]
    assert (list(session._leaders), list(session._epochs), list(session._topic_ids)) == (["t"], ["t"], ["t"])
    assert len(session._newest._topics) == 1
    assert session._rests == {}
    session.metadata(["other-1"], deadline)
    assert list(session._leaders) == ["t", "other-1"]
    session.metadata(None, deadline)
    assert list(session._leaders) == list(session._topic_ids) == ["t", "other-2"]
    bounds = [api.answer_bytes_max for api in apis]
    assert bounds == [2 * TOPIC_BYTES_MAX, 2 * TOPIC_BYTES_MAX, METADATA.answer_bytes_max]
    assert metadata_bytes_max(1_000_000) == METADATA.answer_bytes_max


def test_topics_that_kafka_would_not_have() -> None:
    names = ("t", LONG, "a/b", "a b", "")
    listed = [TopicState(name=name, topic_id="", internal=False, partitions=[0]) for name in names]
    found = list_subscribed(TopicPattern(""), "c", listed)
    assert [one.topic for one in found.partitions] == ["t"]
    assert len(found.incomplete) == len(names) - 1
    assert max(map(len, found.incomplete)) < 1_000


def test_why_brokers_could_not_be_asked_is_told_of_the_first_ones() -> None:
    failures = [ClusterUnreachable("c", f"b{number}: refused") for number in range(100_000)]
    told = _joined(failures)
    assert told.count("refused") == FAILURES_TOLD_MAX
    assert told.endswith("; and 99,980 more addresses")
    assert _joined(failures[:2]) == "b0: refused; b1: refused"


def test_a_quota_holds_nobody_back_for_days() -> None:
    leader = Leader("c", ("h", 1), Frame())
    leader.connection = cast("Any", SimpleNamespace(muted_until=0.0, fileno=lambda: 0, has_bytes=lambda: False))
    leader.version, leader.asked = 12, [read_of()]
    longest = SimpleNamespace(throttle_ms=2**31 - 1, partitions=[])
    assert leader.throttle(cast("FetchedResponse", longest), 100.0)
    assert leader.rests_until == 100.0 + THROTTLE_MAX_S
    waits: list[float] = []

    def wait(wait_ms: float) -> list[tuple[int, int]]:
        waits.append(wait_ms)
        return []

    poll = cast("select.poll", SimpleNamespace(register=lambda *_: None, poll=wait))
    assert wait_for_answers([leader], 2.0**40, poll) == []
    assert 0 < waits[0] < 2**31
